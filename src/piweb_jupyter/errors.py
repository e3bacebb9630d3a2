"""Every exception this package raises on purpose.

PiwebError
├── ProtocolError          a line that is no frame of the protocol
├── SourceError            what `%piweb` was given is no agent
├── AgentNotTrusted        the user has not allowed this source to run
├── AgentLaunchError       the process could not be started
├── AgentStartError        it started, and never became ready
├── AgentExitedError       it is gone; what was asked cannot be answered
├── AgentBusyError         it has stopped reading; the queue to it is full
├── SessionNotFoundError   no session of that name
├── SessionConflictError   the name is taken by another source or other options
├── NestedWaitError        a finalizer or signal handler waits in the middle of ours
├── RequestError           the agent refused a conversation command
├── TurnError              a turn ended in an error
├── SurfaceCommandError    a surface command did not succeed
├── StateValueError        a state or result that JSON cannot carry
└── AgentDefinitionError   an agent's own code is not a valid agent
"""

from __future__ import annotations

__all__ = [
    "AgentBusyError",
    "AgentDefinitionError",
    "AgentExitedError",
    "AgentLaunchError",
    "AgentNotTrusted",
    "AgentStartError",
    "NestedWaitError",
    "PiwebError",
    "ProtocolError",
    "RequestError",
    "SessionConflictError",
    "SessionNotFoundError",
    "SourceError",
    "StateValueError",
    "SurfaceCommandError",
    "TurnError",
]

# Enough of a bad line to recognise it, never enough to flood a log.
_LINE_HEAD = 200


class PiwebError(Exception):
    """Base class of every error this package raises on purpose."""


class ProtocolError(PiwebError):
    """A line is not a frame of the protocol."""

    def __init__(self, reason: str, line: bytes) -> None:
        head = line[:_LINE_HEAD].decode("utf-8", "replace")
        super().__init__(f"{reason}: {head!r}")
        self.reason = reason
        self.line = line


class SourceError(PiwebError):
    """What was given as a source is not an agent; the message names the next action."""


class AgentNotTrusted(PiwebError):  # noqa: N818 - a decision of the user's, not a fault
    """The source may not run until the user allows it."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(message)
        self.source = source


class AgentLaunchError(PiwebError):
    """The agent process could not be started."""


class AgentStartError(PiwebError):
    """The agent process started and never became ready.

    `code` is pi-web's: `ready-frame-missing` or `exit-before-ready`.
    """

    def __init__(self, code: str, message: str, stderr_tail: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.stderr_tail = stderr_tail
        if stderr_tail:
            self.add_note(f"last lines of its stderr:\n{stderr_tail}")


class AgentExitedError(PiwebError):
    """The agent process is gone; whatever was asked of it cannot be answered."""

    def __init__(
        self, returncode: int | None, stderr_tail: str = "", message: str | None = None
    ) -> None:
        super().__init__(message or describe_exit(returncode))
        self.returncode = returncode
        self.stderr_tail = stderr_tail
        if stderr_tail:
            self.add_note(f"last lines of its stderr:\n{stderr_tail}")


class AgentBusyError(PiwebError):
    """The agent has stopped reading its input and the queue to it is full."""


class SessionNotFoundError(PiwebError):
    """No session has that name."""


class SessionConflictError(PiwebError):
    """The name belongs to a session with another source or other options."""


class NestedWaitError(PiwebError):
    """A finalizer or a signal handler waits for an agent, and has interrupted what it waits for."""

    def __init__(self) -> None:
        super().__init__(
            "this code (a finalizer or a signal handler) has interrupted piweb-jupyter itself, so "
            "that it cannot wait here; what it has asked for goes on: use `submit`, and wait later"
        )


class RequestError(PiwebError):
    """The agent refused a conversation command, with pi's own words."""

    def __init__(self, command: str, message: str) -> None:
        super().__init__(message)
        self.command = command


class TurnError(PiwebError):
    """A turn ended in an error of the model, the provider or the agent."""


class SurfaceCommandError(PiwebError):
    """A surface command did not succeed. `code` is stable and meant for programs.

    Authors raise it in a handler; a cell that calls `surface.run` catches it. Codes of the
    framework: `unknown_action`, `surface_not_registered`, `dispatch_failed`, `invalid_args`,
    `stale`, `cancelled`, `unserializable`, `TIMEOUT`, `unavailable`.
    """

    def __init__(
        self, code: str, message: str, *, details: dict[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details or {}


class StateValueError(PiwebError, ValueError):
    """A state or a result holds something that JSON cannot carry; the message names where."""


class AgentDefinitionError(PiwebError):
    """An agent's own code does not define a valid agent."""


def describe_exit(returncode: int | None) -> str:
    """One phrase for an exit code: `agent exited with code 7`, `agent was killed by SIGKILL`."""
    if returncode is None:
        return "the agent is not running"
    if returncode < 0:
        import signal

        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        return f"the agent was killed by {name}"
    return f"the agent exited with code {returncode}"
