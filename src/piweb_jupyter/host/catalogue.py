"""Which surfaces an agent has, by its own word: declared, listed as commands, or shown as state."""

from __future__ import annotations

from ..wire.json import JSON
from ..wire.rpc import Response
from ..wire.surface import SurfaceSpec, domain_of
from .mirror import StateMirror

__all__ = ["Catalogue"]


class Catalogue:
    """The surfaces of one session, over its agent's lives.

    Our own agents declare their surfaces; pi-web's only list a command `surface:<domain>` each; and
    any agent's snapshot speaks for itself. Written on `piweb-io`, read from any thread: what is
    held is replaced, never changed in place.
    """

    def __init__(self, mirror: StateMirror) -> None:
        self._mirror = mirror
        self._epoch = 0
        self._specs: dict[str, tuple[int, SurfaceSpec]] = {}
        self._listed: frozenset[str] = frozenset()
        self.commands: tuple[dict[str, JSON], ...] = ()

    def begin_epoch(self, epoch: int) -> None:
        """Another agent life: nothing is known of it yet, what was declared is not forgotten."""
        self._epoch = epoch
        self._listed = frozenset()
        self.commands = ()

    def declare(self, spec: SurfaceSpec) -> None:
        self._specs = {**self._specs, spec.domain: (self._epoch, spec)}

    def list_commands(self, response: Response) -> None:
        """Take the answer to `get_commands`."""
        data = response.data
        entries = data.get("commands") if type(data) is dict else None
        if type(entries) is not list:
            return
        self.commands = tuple(entry for entry in entries if type(entry) is dict)
        names = [entry.get("name") for entry in self.commands]
        self._listed = frozenset(
            domain for name in names if type(name) is str and (domain := domain_of(name))
        )

    def drop_stale(self) -> None:
        """Forget the declarations that the present agent has not made."""
        live = self.live()
        self._specs = {domain: held for domain, held in self._specs.items() if domain in live}

    def live(self) -> set[str]:
        """The surfaces of the present agent."""
        epoch = self._epoch
        live = {domain for domain, (since, _) in self._specs.items() if since == epoch}
        live |= {
            domain
            for held in self._mirror.held()
            if held.epoch == epoch and not held.stale and (domain := domain_of(held.key))
        }
        return live | self._listed

    def spec(self, domain: str) -> SurfaceSpec | None:
        held = self._specs.get(domain)
        return None if held is None else held[1]

    def names(self) -> tuple[str, ...]:
        """Every surface there is or was, in order of appearance."""
        shown = [domain for held in self._mirror.held() if (domain := domain_of(held.key))]
        return tuple(dict.fromkeys([*self._specs, *shown, *sorted(self._listed)]))
