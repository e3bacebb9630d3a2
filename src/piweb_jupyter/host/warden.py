"""The warden: a tiny process per kernel that leaves nothing of an agent behind.

Run as a file (`python -I -S warden.py KERNEL_PID TOKEN`) in a session of its own, with a pipe
from the kernel on stdin. Standard library only, and nothing of this package: it must start fast
and go on when the kernel, its environment or its disk is gone.

What it is told, one line each:

    agent MARKER PID    an agent runs; PID leads its session and process group
    sweep MARKER        the host has sent SIGTERM to that group: end the agent's other descendants,
                        and whatever is alive 2 s later
    bye                 no agent is left; finish the sweeps and end

When the kernel is gone without a `bye` (stdin ends, or its pidfd says so: a forked copy of the
kernel may hold the pipe open), everything with the kernel's token is ended: 0.5 s to leave by
itself, SIGTERM, 2 s, SIGKILL. The grace is short because agents have had SIGTERM already (their
parent death signal) and because jupyter_client kills a kernel that takes 5 s to shut down.

Descendants are found in `/proc`: by the marker in their environment (it survives `setsid`), by the
agent's session (it survives `env -i`), and by descent from one of those. Signals go through
pidfds, so that a number that has found another owner is never hit. Without `/proc` (macOS) only
the agents' own process groups are reached; there, stdin's end and the host's ladder do the rest.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

GRACE = 0.5
TERM_TIMEOUT = 2.0
# How often, and how long, to look again for what SIGKILL has not ended yet (a fork storm, a
# process in an uninterruptible call).
LOOK_INTERVAL = 0.1
KILL_TIMEOUT = 3.0
# Where pidfds are missing, ask for the kernel and for signalled processes this often.
POLL_INTERVAL = 0.5


class Entry:
    """A live process as `/proc` shows it."""

    __slots__ = ("agents", "group", "kernels", "parent", "pid", "session", "start")

    def __init__(self, pid: int, stat: bytes, environ: bytes) -> None:
        fields = _fields(stat)
        self.pid = pid
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = fields[_START]
        # A kernel started by an agent's tool adds its own to what it inherits: outer/inner.
        self.agents = _value(environ, b"PIWEB_AGENT")
        self.kernels = _value(environ, b"PIWEB_KERNEL")


# Of the fields of a `stat` after the name: when it started, which no later owner of its number
# shares.
_START = 19


def _fields(stat: bytes) -> list[bytes]:
    return stat[stat.rindex(b")") + 2 :].split()


def start_of(pid: int) -> bytes:
    """When the process started, in the system's words; empty if there is none."""
    stat = _read(f"/proc/{pid}/stat")
    return _fields(stat)[_START] if stat else b""


def _value(environ: bytes, name: bytes) -> list[bytes]:
    for pair in environ.split(b"\0") if name in environ else ():
        if pair.startswith(name + b"="):
            return pair[len(name) + 1 :].split(b"/")
    return []


def read_table(but: tuple[int, ...]) -> dict[int, Entry]:
    """Every process that is alive (a zombie is not), but for `but`."""
    table: dict[int, Entry] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return table
    for name in names:
        if not name.isdigit() or int(name) in but:
            continue
        stat = _read(f"/proc/{name}/stat")
        if stat and _fields(stat)[0] not in (b"Z", b"X"):
            table[int(name)] = Entry(int(name), stat, _read(f"/proc/{name}/environ"))
    return table


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:  # it has ended, or it belongs to somebody else
        return b""


class Sweep:
    """Ends a set of processes: SIGTERM, 2 s, SIGKILL, until none is found."""

    def __init__(
        self, name: bytes, leaders: dict[int, bytes], *, kernel_gone: bool, now: float
    ) -> None:
        self.name = name
        self.leaders = leaders
        self.kernel_gone = kernel_gone
        self.signal = signal.SIGTERM
        self.due = now + GRACE if kernel_gone else now
        self.change = self.due + TERM_TIMEOUT
        self.give_up = self.change + KILL_TIMEOUT
        # Whoever was found stays found: a parent that dies first may have been the only trace.
        self.known: set[tuple[int, bytes]] = set()
        self.signalled: set[tuple[int, bytes]] = set()
        self.watched: dict[int, int] = {}
        # A process shows no environment for a moment of its exec. At the kernel's end nobody comes
        # back to look, so one empty look is not believed.
        self.looks = 2 if kernel_gone else 1
        self.done = False

    def round(self, table: dict[int, Entry], now: float) -> None:
        """Signal what is there and has not had this signal; say when to look again."""
        if self.signal == signal.SIGTERM and now >= self.change:
            self.signal = signal.SIGKILL
            self.signalled.clear()
        self.unwatch()
        targets = self._targets(table)
        if not table and self.kernel_gone:  # no /proc
            self._signal_groups()
            self.done = self.signal == signal.SIGKILL
        elif not targets:
            self.looks -= 1
            self.done = self.looks == 0
        for entry in targets:
            key = (entry.pid, entry.start)
            if key not in self.signalled and not self._is_hosts(entry, table):
                self.signalled.add(key)
                send_signal(entry, self.signal)
            self._watch(entry)
        if self.signal == signal.SIGTERM and (self.watched or not table):
            self.due = self.change
        else:
            self.due = now + LOOK_INTERVAL
        self.done = self.done or now >= self.give_up

    def unwatch(self) -> None:
        for pidfd in self.watched:
            os.close(pidfd)
        self.watched.clear()

    def _targets(self, table: dict[int, Entry]) -> list[Entry]:
        found = {
            pid
            for pid, entry in table.items()
            if (pid, entry.start) in self.known or self._is_marked(entry, table)
        }
        grown = True
        while grown:  # by descent; a table is small and three rounds are many
            more = {e.pid for e in table.values() if e.parent in found and e.pid not in found}
            grown = bool(more)
            found |= more
        targets = [table[pid] for pid in found]
        self.known = {(entry.pid, entry.start) for entry in targets}
        return targets

    def _is_marked(self, entry: Entry, table: dict[int, Entry]) -> bool:
        if self.name in (entry.kernels if self.kernel_gone else entry.agents):
            return True
        if entry.session not in self.leaders:
            return False
        # The leader's number may have found a new owner after the agent's end, with a session of
        # its own.
        leader = table.get(entry.session)
        return leader is None or leader.start == self.leaders[entry.session]

    def _is_hosts(self, entry: Entry, table: dict[int, Entry]) -> bool:
        """The host itself sends SIGTERM to the agent's group; twice could mean "now!" to it."""
        return (
            self.signal == signal.SIGTERM
            and not self.kernel_gone
            and entry.group in self.leaders
            and entry.group in table
        )

    def _watch(self, entry: Entry) -> None:
        try:
            self.watched[os.pidfd_open(entry.pid)] = entry.pid
        except (AttributeError, OSError):
            pass

    def _signal_groups(self) -> None:
        for leader in self.leaders:
            try:
                os.killpg(leader, self.signal)
            except OSError:
                pass


def send_signal(entry: Entry, number: int) -> None:
    """Signal this very process, not whoever has its number by now."""
    try:
        pidfd = os.pidfd_open(entry.pid)
    except AttributeError:
        pidfd = -1
    except OSError:
        return
    try:
        if start_of(entry.pid) == entry.start:
            if pidfd >= 0:
                signal.pidfd_send_signal(pidfd, number)
            else:
                os.kill(entry.pid, number)
    except OSError:
        pass
    finally:
        if pidfd >= 0:
            os.close(pidfd)


class Warden:
    """The loop: the kernel's lines, the kernel's end, and the sweeps under way."""

    def __init__(self, kernel: int, token: bytes) -> None:
        self.kernel = kernel
        self.token = token
        self.agents: dict[bytes, tuple[int, bytes]] = {}
        self.sweeps: list[Sweep] = []
        self.rest = b""
        self.ending = False
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)
        self.pidfd = -1
        try:
            self.pidfd = os.pidfd_open(kernel)
        except (AttributeError, OSError):
            pass
        else:
            self.poll.register(self.pidfd, select.POLLIN)

    def run(self) -> None:
        """Until there is nothing left to guard."""
        while not self.ending or self.sweeps:
            ready = self._wait()
            now = time.monotonic()
            if not self.ending:
                if self.pidfd in ready or os.getppid() != self.kernel:
                    self._kernel_gone(now)
                elif 0 in ready:
                    self._hear(now)
            for sweep in self.sweeps:
                for pidfd in ready.intersection(sweep.watched):
                    self.poll.unregister(pidfd)
                    os.close(pidfd)
                    del sweep.watched[pidfd]
                    if not sweep.watched:
                        sweep.due = now
            due = [sweep for sweep in self.sweeps if sweep.due <= now]
            if due:
                table = read_table((os.getpid(), self.kernel))
                for sweep in due:
                    for pidfd in sweep.watched:
                        self.poll.unregister(pidfd)
                    sweep.round(table, now)
                    for pidfd in sweep.watched:
                        self.poll.register(pidfd, select.POLLIN)
                for sweep in self.sweeps:
                    if sweep.done and self.agents.get(sweep.name, (0,))[0] not in table:
                        self.agents.pop(sweep.name, None)
                self.sweeps = [sweep for sweep in self.sweeps if not sweep.done]

    def _wait(self) -> set[int]:
        timeout = None
        if self.sweeps:
            timeout = max(0.0, min(sweep.due for sweep in self.sweeps) - time.monotonic())
        if self.pidfd < 0:
            timeout = POLL_INTERVAL if timeout is None else min(timeout, POLL_INTERVAL)
        return {fd for fd, _ in self.poll.poll(None if timeout is None else timeout * 1000 + 1)}

    def _hear(self, now: float) -> None:
        chunk = os.read(0, 65536)
        if not chunk:
            self._kernel_gone(now)
            return
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            match line.split(b" "):
                case [b"agent", marker, pid]:
                    self.agents[marker] = (int(pid), start_of(int(pid)))
                case [b"sweep", marker]:
                    if all(sweep.name != marker for sweep in self.sweeps):
                        leaders = dict([self.agents[marker]] if marker in self.agents else [])
                        self.sweeps.append(Sweep(marker, leaders, kernel_gone=False, now=now))
                case [b"bye"]:
                    self._stop_listening()

    def _kernel_gone(self, now: float) -> None:
        self._stop_listening()
        leaders = dict(self.agents.values())
        self.sweeps.append(Sweep(self.token, leaders, kernel_gone=True, now=now))

    def _stop_listening(self) -> None:
        self.ending = True
        self.poll.unregister(0)
        if self.pidfd >= 0:
            self.poll.unregister(self.pidfd)


def main() -> None:
    # It ends by itself, in bounded time; what ends the kernel's surroundings must not end it first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Warden(int(sys.argv[1]), os.fsencode(sys.argv[2])).run()


if __name__ == "__main__":
    main()
