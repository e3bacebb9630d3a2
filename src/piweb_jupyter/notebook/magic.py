"""`%piweb` and `%%piweb`: what a person types to start, show, ask, stop and look after agents."""

from __future__ import annotations

import builtins
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from traitlets import Bool, Unicode, observe

from ..errors import AgentExitedError, AgentStartError, PiwebError, SourceError
from ..sources.programs import Programs
from . import report
from .expand import expand
from .options import SUBCOMMANDS, Parsed, UsageError, describe_nearest, parse_cell_line, parse_line
from .sessions import Defaults, Sessions, resolve
from .show import can_hear, find_audience, find_kernel, replace_soon, show_chat, show_session

if TYPE_CHECKING:
    from ..host.session import AgentSession
    from ..host.turn import Turn
    from ..sources.spec import LaunchSpec
    from .show import Audience

__all__ = ["PiwebMagics"]

# An agent that cannot start says so sooner than this, and the cell should fail with it; one that
# takes longer goes on by itself, and its view tells.
_START_PATIENCE = 5.0

# Enough for an agent that answers at all.
_GLANCE = 2.0

_LOG_LINES = 100

_HERE = Path(__file__).resolve().parent
_STARTER = _HERE / "starter"
_DEMO = _HERE.parent / "demo"


@magics_class
class PiwebMagics(Magics):
    """The defaults of `%piweb`; each can be set with `%config PiwebMagics.<name> = …`."""

    model = Unicode("", help="The model where a line names none; empty: the agent's own.").tag(
        config=True
    )
    trust = Unicode(
        "ask", help="May a source run? ask, always, never, or module:name of a policy of yours."
    ).tag(config=True)
    python = Unicode("", help="The Python that runs agents; empty: this kernel's own.").tag(
        config=True
    )
    node = Unicode("", help="Node; empty: PIWEB_NODE, this environment's, or PATH's.").tag(
        config=True
    )
    pi = Unicode("", help="pi; empty: PIWEB_PI, PATH's, or one in node_modules.").tag(config=True)
    runner = Unicode("", help="pi-web's runner-bootstrap.mjs; empty: PIWEB_RUNNER.").tag(
        config=True
    )
    display = Bool(True, help="Show a session when %piweb starts it or attaches to it.").tag(
        config=True
    )
    wait = Bool(False, help="Return only when the agent is ready.").tag(config=True)

    def __init__(self, shell: Any, sessions: Sessions) -> None:
        self._sessions = sessions
        self._shell = shell
        super().__init__(shell)
        sessions.ask = _ask
        self._note_defaults()

    @observe("model", "trust", "python", "node", "pi", "runner")
    def _note_defaults(self, _: object = None) -> None:
        programs = Programs(self.python, self.node, self.pi, self.runner)
        self._sessions.defaults = Defaults(programs, self.model, self.trust)

    @no_var_expand
    @line_cell_magic
    def piweb(self, line: str, cell: str | None = None) -> Any:
        with _one_clear_line():
            if cell is not None:
                return self._prompt(parse_cell_line(line), cell)
            parsed = parse_line(line)
            if parsed.has("help"):
                return report.describe_help(parsed.subcommand)
            if parsed.subcommand is None:
                return self._open(parsed)
            handler: Callable[[Parsed], Any] = getattr(self, f"_do_{parsed.subcommand}")
            return handler(parsed)

    # ------------------------------------------------------------ starting and showing

    def _open(self, parsed: Parsed) -> Any:
        if not parsed.operand and parsed.get("cmd") is None:
            # `%piweb` and `%piweb -n NAME`: the session that is there.
            if not parsed.get("name") and not self._sessions.names:
                return report.describe_help()
            return self._do_show(Parsed("show", parsed.get("name") or "", {}, parsed.switches))
        return self._start(self._resolve(parsed), parsed)

    def _resolve(self, parsed: Parsed) -> LaunchSpec:
        source = self._expand(parsed.operand) or None
        cmd = parsed.get("cmd")
        if source is not None and cmd is None and not _looks_like_path(source):
            if source in self._sessions.names:
                raise UsageError(f"{source!r} is a session, not a path: %piweb show {source}")
            if near := describe_nearest(source, [*SUBCOMMANDS, *self._sessions.names]):
                raise UsageError(
                    f"there is no directory {source!r} here, and no such subcommand{near}"
                )
        return resolve(
            source,
            model=parsed.get("model"),
            cmd=None if cmd is None else self._expand(cmd),
            defaults=self._sessions.defaults,
        )

    def _start(self, wanted: LaunchSpec, parsed: Parsed) -> Any:
        opened = self._sessions.open(
            wanted,
            name=parsed.get("name"),
            replace=parsed.has("replace"),
            trusted=parsed.has("trust"),
        )
        session = opened.session
        if opened.attached and (changes := session.look_for_changes()):
            _write(
                f"{', '.join(changes)} changed since the agent was started; "
                f"%piweb restart {session.name} runs the new code\n"
            )
        return self._present(session, parsed)

    def _present(self, session: AgentSession, parsed: Parsed) -> Any:
        """Show a session, and fail with it if it fails at once."""
        shows = self.display and not parsed.has("no-display")
        if shows and self._has_views:
            show_session(session)
        if self.wait or parsed.has("wait"):
            session.wait_ready()
        else:
            with suppress(TimeoutError):  # it goes on; its view, or `%piweb status`, tells
                session.wait_ready(_START_PATIENCE)
        return report.describe_started(session) if shows and not self._has_views else None

    @property
    def _has_views(self) -> bool:
        return find_kernel(self._shell) is not None

    def _do_show(self, parsed: Parsed) -> Any:
        session = self._find(parsed)
        self._sessions.select(session)
        if self._has_views and not parsed.has("no-display"):
            show_session(session)
            return None
        return report.describe_started(session)

    def _do_demo(self, parsed: Parsed) -> Any:
        wanted = resolve(
            _DEMO, model=parsed.get("model"), cmd=None, defaults=self._sessions.defaults
        )
        return self._start(wanted, parsed)

    # ------------------------------------------------------------ talking

    def _prompt(self, parsed: Parsed, cell: str) -> Turn | report.Report:
        if parsed.has("help"):
            return report.describe_help()
        text = expand(cell, self._shell.user_ns).strip()
        if not text:
            raise UsageError("the prompt is empty; write it below the line with %%piweb")
        if parsed.operand or parsed.get("cmd") is not None:
            opened = self._sessions.open(
                self._resolve(parsed),
                name=parsed.get("name"),
                replace=parsed.has("replace"),
                trusted=parsed.has("trust"),
            )
            session = opened.session
        else:
            session = self._sessions.find(parsed.get("name"))
            self._sessions.select(session)
        silent = parsed.has("no-display") or not self.display
        try:
            turn = self._follow(session, text, silent=silent)
        except KeyboardInterrupt as exc:
            _render_as(exc, [f"KeyboardInterrupt: the turn was stopped; {session.name} lives on"])
            raise
        turn.check()
        return turn

    def _follow(self, session: AgentSession, text: str, *, silent: bool) -> Turn:
        from .stream import follow_turn

        kernel = find_kernel(self._shell)
        if kernel is None:
            _write(f"{session.name}:\n")
            write = None if silent else _write
            return follow_turn(session, text, audience=lambda: "ask", ask=_ask, write=write)

        def audience() -> Audience:
            return find_audience(kernel)

        if silent or audience() == "nobody":
            return follow_turn(session, text, audience=audience, ask=_ask, write=None)
        if can_hear(kernel):
            show_chat(session)
            turn = follow_turn(session, text, audience=audience, ask=_ask, write=None)
        else:
            # A page that is shown the chat now would have to ask for it, and wait for this cell.
            turn = follow_turn(session, text, audience=audience, ask=_ask, write=sys.stdout.write)
        replace_soon()
        return turn

    # ------------------------------------------------------------ looking after

    def _do_list(self, parsed: Parsed) -> report.Report:
        sessions = [self._sessions.find(name) for name in self._sessions.names]
        return report.describe_sessions(sessions, self._sessions.current)

    def _do_status(self, parsed: Parsed) -> report.Report:
        session = self._find(parsed)
        _learn_model(session)
        return report.describe_session(session)

    def _do_logs(self, parsed: Parsed) -> report.Report:
        count = parsed.get("lines") or str(_LOG_LINES)
        if not count.isdecimal() or int(count) == 0:
            raise UsageError(f"--lines needs a number, not {count!r}")
        return report.describe_logs(self._find(parsed), int(count))

    def _do_stop(self, parsed: Parsed) -> report.Report:
        forget = parsed.has("forget")
        if parsed.has("all"):
            if parsed.operand:
                raise UsageError("--all means all; leave the name out")
            sessions = [self._sessions.find(name) for name in self._sessions.names]
        else:
            sessions = [self._find(parsed)]
        for session in sessions:
            if not forget:
                session.stop_soon()
        if forget:
            self._sessions.forget_all(sessions)
        else:
            for session in sessions:
                session.stop()
        done = "forgotten" if forget else "stopped"
        return report.Report([f"{session.name}: {done}" for session in sessions] or ["nothing ran"])

    def _do_restart(self, parsed: Parsed) -> None:
        session = self._find(parsed)
        self._sessions.select(session)
        session.restart()
        session.wait_ready()

    def _do_new(self, parsed: Parsed) -> report.Report:
        if not parsed.operand:
            raise UsageError("name the new directory: %piweb new ./my_agent")
        directory = Path(self._expand(parsed.operand)).expanduser()
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise SourceError(f"{directory} is there and not empty; choose another name")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for file in sorted(_STARTER.glob("*.py")):
                shutil.copyfile(file, directory / file.name)
        except OSError as exc:
            raise SourceError(f"cannot write {directory}: {exc.strerror}") from None
        shown = report.show_path(directory.resolve())
        quoted = f'"{shown}"' if " " in shown else shown
        return report.Report([f"{shown}/agent.py is written; start it: %piweb {quoted}"])

    def _do_doctor(self, parsed: Parsed) -> report.Report:
        from .doctor import examine, report_findings

        return report_findings(examine(self._sessions, self._shell, self._expand(parsed.operand)))

    def _do_version(self, parsed: Parsed) -> report.Report:
        return report.describe_versions()

    def _do_help(self, parsed: Parsed) -> report.Report:
        if parsed.operand and parsed.operand not in SUBCOMMANDS:
            near = describe_nearest(parsed.operand, SUBCOMMANDS)
            raise UsageError(f"there is no subcommand {parsed.operand!r}{near}")
        return report.describe_help(parsed.operand or None)

    def _find(self, parsed: Parsed) -> AgentSession:
        return self._sessions.find(self._expand(parsed.operand) or None)

    def _expand(self, word: str) -> str:
        return expand(word, self._shell.user_ns)


PiwebMagics.piweb.__doc__ = "Agents in this notebook.\n\n" + str(report.describe_help())


def _ask(question: str) -> str:
    # Looked up now: ipykernel puts its own `input` there while a cell runs.
    return builtins.input(question)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _looks_like_path(source: str) -> bool:
    return any(mark in source for mark in "/\\.~") or Path(source).exists()


def _learn_model(session: AgentSession) -> None:
    """An agent that has just become ready may not have said yet which model it has."""
    if session.lifecycle == "ready" and not session.model:
        with suppress(PiwebError):
            session.request("get_state", _GLANCE)


@contextmanager
def _one_clear_line() -> Iterator[None]:
    """Our own errors are shown as what they say: the way to them through our code helps nobody."""
    try:
        yield
    except PiwebError as exc:
        _render_as(exc, _describe(exc))
        raise


def _render_as(error: BaseException, lines: list[str]) -> None:
    """Have IPython show these lines for the error, and no traceback."""
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


def _describe(error: PiwebError) -> list[str]:
    lines = [f"{type(error).__name__}: {error}"]
    # The agent's own last words are about the user's code.
    if isinstance(error, AgentStartError | AgentExitedError) and error.stderr_tail:
        lines += ["", *error.stderr_tail.splitlines()]
    return lines
