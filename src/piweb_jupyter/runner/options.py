"""The runner's command line, which is pi-web's runner's; read without argparse, to start fast."""

from __future__ import annotations

from .report import say

__all__ = ["Options", "UsageError"]

_USAGE = "python -m piweb_jupyter.runner --agent PATH [--model M] [--cwd DIR] [--session-id ID]"

# What pi-web's host also passes; it means nothing here.
_PASSED_OVER = frozenset({"--agent-dir", "--source-meta"})
_SWITCHES = frozenset({"--no-skills", "--no-extensions"})


class UsageError(Exception):
    """The command line is wrong."""


class Options:
    """What the command line says."""

    def __init__(self) -> None:
        self.agent = ""
        self.model: str | None = None
        self.cwd = ""
        self.session_id: str | None = None

    @classmethod
    def parse(cls, argv: list[str]) -> Options:
        """Read the arguments, `--name value` or `--name=value`; unknown ones are only noted.

        Raises:
            UsageError: If `--agent` is missing, or an option has no value.
        """
        options = cls()
        waiting = list(reversed(argv))
        while waiting:
            word = waiting.pop()
            name, equals, value = word.partition("=")
            if name in _SWITCHES:
                continue
            if name not in _NAMES and name not in _PASSED_OVER:
                say(f"unknown argument {word!r} was passed over; usage: {_USAGE}")
                continue
            if not equals:
                if not waiting:
                    raise UsageError(f"{name} needs a value; usage: {_USAGE}")
                value = waiting.pop()
            if name in _NAMES:
                setattr(options, _NAMES[name], value)
        if not options.agent:
            raise UsageError(f"--agent is missing; usage: {_USAGE}")
        return options


_NAMES = {
    "--agent": "agent",
    "--model": "model",
    "--cwd": "cwd",
    "--session-id": "session_id",
}
