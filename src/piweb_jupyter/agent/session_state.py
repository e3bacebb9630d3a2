"""The state that agent and views share beside the surfaces: small values under names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..errors import StateValueError
from ..wire.json import JSON
from ..wire.surface import domain_of

__all__ = ["SessionState", "StateSeam", "get_session_state", "install_state"]


class StateSeam(Protocol):
    """What the runner puts behind `SessionState`."""

    def get(self, key: str) -> JSON: ...
    def set(self, key: str, value: JSON) -> None: ...
    def delete(self, key: str) -> bool: ...
    def snapshot(self) -> Mapping[str, JSON]: ...


class SessionState:
    """The shared state. Safe from any thread, and harmless outside an agent: nothing is kept then.

    A view may write here too (preferences, by convention `<name>.<preference>`); what it wrote is
    what `get` returns from then on. `surface:…` belongs to the surfaces.
    """

    __slots__ = ()

    @property
    def available(self) -> bool:
        """Is there an agent running in this process?"""
        return bool(_installed)

    def get(self, key: str) -> JSON:
        """A copy of the value, or None."""
        return _installed[0].get(key) if _installed else None

    def set(self, key: str, value: JSON) -> None:
        """Set a value and tell every view.

        Raises:
            StateValueError: If JSON cannot carry the value, or the key is a surface's.
        """
        _refuse_surfaces(key)
        if _installed:
            _installed[0].set(key, value)

    def delete(self, key: str) -> bool:
        """Remove a value and tell every view. Was there one?"""
        _refuse_surfaces(key)
        return _installed[0].delete(key) if _installed else False

    def snapshot(self) -> dict[str, JSON]:
        """A copy of everything, the surfaces' states included."""
        return dict(_installed[0].snapshot()) if _installed else {}


_installed: list[StateSeam] = []
_session_state = SessionState()


def get_session_state() -> SessionState:
    """The shared state of the agent that this code runs in."""
    return _session_state


def install_state(seam: StateSeam) -> None:
    """Called by the runner, once per process."""
    _installed[:] = [seam]


def _refuse_surfaces(key: str) -> None:
    if type(key) is not str or not key:
        raise StateValueError(f"a key of the session state is a non-empty string, not {key!r}")
    if domain_of(key) is not None:
        raise StateValueError(f"{key!r} belongs to a surface; change it with ctx.set_state")
