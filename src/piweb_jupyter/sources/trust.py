"""May this source run? One decision before the first start, made by a policy.

Running a source is the decision: an agent and the views it ships have all the rights of the user.
A policy is any callable `(spec, ask) -> bool`; the three that come with us are `ask` (a person
answers), `always` and `never`. What a person said `always` to is kept by resolved path in the
user's state directory, never in the project, so that a project cannot vouch for itself.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias

from ..errors import AgentNotTrusted, SourceError
from .spec import LaunchSpec

__all__ = [
    "Ask",
    "AskPolicy",
    "TrustPolicy",
    "TrustStore",
    "apply_trust",
    "find_policy",
    "find_state_directory",
]

# Shows the text, returns what the person typed. `input` is one. Where there is no person it
# raises NotImplementedError (as IPython's StdinNotImplementedError is) or EOFError.
Ask: TypeAlias = Callable[[str], str]

_PACKAGE = Path(__file__).resolve().parent.parent


class TrustPolicy(Protocol):
    """Decides whether a source may run; may ask a person.

    Raises:
        AgentNotTrusted: If nobody could be asked; says what to do.
    """

    def __call__(self, spec: LaunchSpec, ask: Ask, /) -> bool: ...


def apply_trust(spec: LaunchSpec, policy: TrustPolicy, ask: Ask, *, given: bool) -> LaunchSpec:
    """The launch as the decision allows it. `given`: the user allowed it beforehand (`--trust`).

    To pi the decision is about the directory's own `.pi` resources: pi itself is a program the
    user installed, so after a no it starts without them.

    Raises:
        AgentNotTrusted: If the answer is no.
    """
    if policy is never:
        given = False  # whoever set it meant it, whatever a notebook's line says
    allowed = given or policy(spec, ask)
    if spec.kind == "pi":
        return spec.with_argument("--approve" if allowed else "--no-approve")
    if not allowed:
        raise AgentNotTrusted(
            spec.trust_key,
            f"{spec.trust_key} was not allowed to run"
            + (
                ": PIWEB_TRUST or %config PiwebMagics.trust says never"
                if policy is never
                else "; run the cell again to answer anew"
            ),
        )
    if spec.kind == "pi-web":
        return replace(spec, env={**spec.env, "PI_WEB_TRUST_PROJECT": "1"})
    return spec


def find_policy(configured: TrustPolicy | str, environ: Mapping[str, str]) -> TrustPolicy:
    """The policy in force: `PIWEB_TRUST`, else the configured one.

    A text is `ask`, `always`, `never`, or `module:name` of a policy of your own.

    Raises:
        SourceError: If the text names no policy.
    """
    named = environ.get("PIWEB_TRUST") or configured
    if not isinstance(named, str):
        return named
    match named.strip().lower():
        case "ask":
            return _ask
        case "always":
            return always
        case "never":
            return never
    module, colon, name = named.strip().partition(":")
    if not colon:
        raise SourceError(f"there is no trust policy {named!r}; it is ask, always or never")
    from importlib import import_module

    try:
        policy = getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise SourceError(f"the trust policy {named!r} cannot be imported: {exc}") from exc
    if not callable(policy):
        raise SourceError(f"the trust policy {named!r} is not callable")
    found: TrustPolicy = policy
    return found


def always(spec: LaunchSpec, ask: Ask, /) -> bool:
    """Everything runs."""
    return True


def never(spec: LaunchSpec, ask: Ask, /) -> bool:
    """Nothing runs."""
    return False


class AskPolicy:
    """Asks once per source and kernel; `always` is kept for other kernels too."""

    def __init__(self, store: TrustStore | None = None) -> None:
        self._store = store
        self._allowed: set[str] = set()

    def __call__(self, spec: LaunchSpec, ask: Ask, /) -> bool:
        key = spec.trust_key
        # The store is looked up each time: PIWEB_STATE_DIR may have been set since.
        store = self._store or TrustStore()
        if key in self._allowed or _is_ours(spec) or store.is_trusted(key):
            return True
        try:
            answer = ask(describe_question(spec)).strip().lower()
        except (NotImplementedError, EOFError):
            raise AgentNotTrusted(
                key,
                f"{key} may not run yet, and nobody is here to ask: allow it with --trust on the "
                "line, or set PIWEB_TRUST=always in the environment",
            ) from None
        if answer not in ("y", "yes", "a", "always"):
            return False
        self._allowed.add(key)
        if answer in ("a", "always"):
            try:
                store.trust(key)
            except OSError as exc:
                warnings.warn(f"cannot remember this answer: {exc}", stacklevel=2)
        return True


_ask = AskPolicy()


def describe_question(spec: LaunchSpec) -> str:
    """What a person is asked before a source runs for the first time."""
    if spec.kind == "pi":
        return (
            f"May pi load the extensions, skills and settings of {spec.path}/.pi?\n"
            "They run with all your rights. Without them (N) pi starts all the same.\n"
            "[y]es, [N]o, [always]: "
        )
    return (
        f"May the agent {spec.trust_key} run?\n"
        "Its code and tools run with all your rights on this machine, its views in this page.\n"
        "[y]es, [N]o, [always]: "
    )


def _is_ours(spec: LaunchSpec) -> bool:
    """The demo agent is part of the package, which runs already."""
    return spec.kind == "python" and spec.path.is_relative_to(_PACKAGE)


class TrustStore:
    """The sources a person said `always` to: `trust.json` in the user's state directory."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or find_state_directory() / "trust.json"

    def is_trusted(self, key: str) -> bool:
        return self._read().get(key) is True

    def trust(self, key: str) -> None:
        """Remember a source. The file is replaced as a whole, so a reader never sees half of it.

        Raises:
            OSError: If it cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _Lock(self.path.with_suffix(".lock")):
            text = json.dumps({**self._read(), key: True}, indent=2, sort_keys=True) + "\n"
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".trust-")
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(name, self.path)
            except BaseException:
                os.unlink(name)
                raise

    def _read(self) -> dict[str, object]:
        # A file that cannot be read allows nothing; the next `always` replaces it.
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def __repr__(self) -> str:
        return f"<TrustStore {self.path}>"


class _Lock:
    """Two kernels that learn of a source at once must not forget each other's."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._file = open(self._path, "w", encoding="utf-8")
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def find_state_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Where this user's own state is kept: $PIWEB_STATE_DIR, else the platform's place for it."""
    environ = os.environ if environ is None else environ
    if named := environ.get("PIWEB_STATE_DIR"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA")
        home = Path(base) if base else Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Application Support"
    else:
        base = environ.get("XDG_STATE_HOME", "")
        # The standard says that a relative path in it is to be ignored.
        home = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return home / "piweb-jupyter"
