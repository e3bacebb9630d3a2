"""Who reads an agent's stdout: `piweb-io`, or for a moment a thread that waits for an answer.

A thread that sleeps until piweb-io has read its answer is woken by a thread that had to be woken
itself, on another CPU: on an idle machine a command takes 110 µs that way, and 45 µs if the caller
reads the answer. So piweb-io lends the stdout of an agent whose answers are waited for.

An interrupt may end the borrower anywhere, so that nothing depends on how it leaves. What it has
read is kept until all of it was taken in, and piweb-io, which nobody interrupts, looks every
`LEND_TIME` whether something is left over, or nobody borrows any more; then it takes the stdout
back. What is left over is taken in again. That does no harm to what a borrower may take in, states
and answers: the ones are known by their revision, the others by their id.

A finalizer or a signal handler may interrupt the borrower and wait for an answer itself, on the
same thread, so that the borrower does not go on before it has that. The loan ends then: the
borrower finds that there is nothing to read from, and what it has read is left over.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..wire.lines import LineSplitter
from ..wire.spin import SpinWait
from .pump import READABLE, Pump, Timer

if TYPE_CHECKING:
    from .waiter import Waiter

__all__ = ["LEND_TIME", "READ_SIZE", "Borrowing", "Stdout"]

READ_SIZE = 65536  # larger reads are slower for small lines and no faster for large ones

# Seconds between two looks of piweb-io, and the longest that one thread reads here. What comes
# unasked after the last command waits for two looks at most.
LEND_TIME = 0.005
_PATIENCE = LEND_TIME * 1000
_SIZES = (READ_SIZE,)

TakeLines: TypeAlias = Callable[[list[bytes]], None]
TakeChunk: TypeAlias = Callable[[bytes], None]


class Borrowing(Protocol):
    """What is done with lines that were not, or perhaps not, read by piweb-io."""

    def may_lend(self) -> bool:
        """Whether nobody waits for something that piweb-io has to read."""

    def take_answers(self, lines: list[bytes], wanted: object) -> tuple[bool, bool]:
        """Take in what may be, on a borrower's thread.

        Returns whether what that waits for was answered, and whether this was all: if not, there
        is something that only piweb-io may take in, and it takes all the lines again.
        """

    def take_again(self, lines: list[bytes]) -> None:
        """Take in, on piweb-io, lines of which some may have been taken in before."""

    def tell(self) -> None:
        """Tell, on piweb-io, of what borrowers have taken in; every `LEND_TIME`, and at the end.

        A borrower does not tell: what listens is not made for interrupts, and to wake piweb-io for
        each command would cost half of what reading here saves.
        """


class _Loan:
    """A stdout that may be borrowed, by one thread at a time."""

    __slots__ = ("busy", "chunks", "fds", "owner")

    def __init__(self, fds: list[int], chunks: deque[bytes]) -> None:
        # The owner's lock is held around the other and tells whose that is, which piweb-io, for
        # its part, takes without waiting. A `with` lets go whatever happens; `acquire` and
        # `release` would not.
        self.owner = threading.RLock()
        self.busy = threading.Lock()
        self.fds = fds  # the one to read from; none once the loan has ended
        self.chunks = chunks

    @property
    def is_interrupted(self) -> bool:
        """Whether this very thread is the one that reads, below what it does now."""
        # As threading.Condition asks its lock; nothing public tells.
        return self.busy.locked() and self.owner._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001


class Stdout:
    """One agent's stdout, cut into lines. `read_here` and `claim` are for any
    thread, the rest for `piweb-io`.

    Args:
        on_lines: Takes in the lines of one read, on piweb-io.
        borrowing: Takes in what a borrower reads; None: nothing is lent.
        on_oversize: Gets the head and the size of a line over the limit.
        on_end: Called when the stream has ended.
    """

    def __init__(
        self,
        pump: Pump,
        on_lines: TakeLines,
        borrowing: Borrowing | None,
        on_oversize: Callable[[bytes, int], None],
        on_end: Callable[[], None],
    ) -> None:
        self._pump = pump
        self._on_lines = on_lines
        self._borrowing = borrowing
        self._on_end = on_end
        self._splitter = LineSplitter(on_oversize=on_oversize)
        self._feed = self._splitter.feed
        self.fd = -1
        self._loan: _Loan | None = None
        self._wait = SpinWait()
        self._wished = False  # somebody waits, and would have read
        self._borrowed = False  # since piweb-io looked
        self._claimed = False  # somebody waits for piweb-io to read

    @property
    def is_lent(self) -> bool:
        return self._loan is not None

    def open(self, fd: int) -> None:
        self.fd = fd
        self._pump.watch(fd, READABLE, self._on_ready)

    def close(self) -> None:
        if self.fd >= 0:
            self._pump.unwatch(self.fd)
            os.close(self.fd)
            self.fd = -1

    def flush(self) -> bytes | None:
        """The end of the stream: a last line without its end, if there is one, once."""
        return self._splitter.flush()

    def drain(self, most: int, tell: Callable[[TakeChunk, bytes], None]) -> None:
        """Take in what is there now, at most about so many bytes, each time through `tell`."""
        for _ in range(most // READ_SIZE if self.fd >= 0 else 0):
            try:
                chunk = os.read(self.fd, READ_SIZE)
            except BlockingIOError:
                return
            if not chunk:
                return
            tell(self._take, chunk)

    def _on_ready(self, _mask: int) -> None:
        try:
            chunk = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return
        if chunk:  # as in `_take`; this is the hot path
            lines = self._feed(chunk)
            if lines:
                self._on_lines(lines)
            if self._wished:
                self._lend()
        else:
            self._on_end()

    def _take(self, chunk: bytes) -> None:
        lines = self._feed(chunk)
        if lines:
            self._on_lines(lines)

    # -- lending ----------------------------------------------------------------------------

    def _lend(self) -> None:
        self._wished = False
        assert self._borrowing is not None
        if self.fd < 0 or not self._splitter.is_empty or not self._borrowing.may_lend():
            return
        self._pump.unwatch(self.fd)
        self._borrowed = True
        self._claimed = False
        self._loan = _Loan([self.fd], deque())
        _keeper.add(self, self._pump)

    def recall(self) -> bool:
        """Take it back, if it is lent. False: somebody reads just now, and will have stopped in
        `LEND_TIME`."""
        loan = self._loan
        if loan is None:
            return True
        if not loan.busy.acquire(blocking=False):
            return False
        self._loan = None
        loan.busy.release()
        _keeper.discard(self)
        assert self._borrowing is not None
        try:
            self._borrowing.tell()
            if loan.chunks:
                self._borrowing.take_again(self._feed(b"".join(loan.chunks)))
        finally:
            self._pump.watch(self.fd, READABLE, self._on_ready)
        return True

    def claim(self) -> None:
        """Have piweb-io read soon: somebody waits in another way than by reading here."""
        loan = self._loan
        if loan is not None:
            if loan.is_interrupted:
                loan.fds.clear()
                self._loan = _Loan(loan.fds, loan.chunks)
            self._claimed = True
            self._pump.call_soon(self._recall_soon)

    def _recall_soon(self) -> None:
        self.recall()  # or, if somebody reads, at the next look

    def look(self) -> None:
        """Every `LEND_TIME` while it is lent: is that still of use?"""
        assert self._borrowing is not None
        self._borrowing.tell()
        loan = self._loan
        left_over = loan is not None and loan.chunks and not loan.busy.locked()
        if self._borrowed and not self._claimed and not left_over:
            self._borrowed = False
        else:
            self.recall()

    def read_here(self, waiter: Waiter, wanted: object) -> bool:
        """Read on this thread until `wanted` has its answer, if that is possible and is soon.

        True: it has it, and nobody has woken or will wake `waiter`. False: it has been settled by
        another thread, or will be; in either case that one wakes.
        """
        loan = self._loan
        if loan is None:
            self._wished = self._borrowing is not None
            return False
        if loan.busy.locked():
            if loan.is_interrupted:
                self.claim()
            self._claimed = True
            return False
        with loan.owner, loan.busy:
            if self._loan is not loan or loan.chunks or not loan.fds:
                self._claimed = True
                return False
            self._borrowed = True
            answered = self._read_until(loan, waiter, wanted)
            keep = answered and not self._claimed and not loan.chunks
        if not keep:
            self._pump.call_soon(self._recall_soon)
        return answered

    def _read_until(self, loan: _Loan, waiter: Waiter, wanted: object) -> bool:
        fd, fds, chunks = self.fd, loan.fds, loan.chunks
        assert self._borrowing is not None
        take_answers = self._borrowing.take_answers
        deadline = 0.0
        poll = waiter.poll_with(fd)
        wait = self._wait
        while ready := wait(poll, _PATIENCE):
            if ready[0][0] != fd:
                return False  # woken
            try:
                # Whether to read, the reading and the keeping are one step of the interpreter: an
                # interrupt comes before or after it.
                chunks.extend(map(os.read, fds, _SIZES))
            except BlockingIOError:
                continue
            if not fds:
                return False  # the loan has ended
            chunk = chunks[-1]
            if chunk.endswith(b"\n"):
                lines = (chunk if len(chunks) == 1 else b"".join(chunks)).split(b"\n")
                lines.pop()
                answered, is_all = take_answers(lines, wanted)
                if is_all:
                    chunks.clear()
                if answered or not is_all:
                    return answered
            elif not chunk:
                return False  # its end, which piweb-io meets as well
            now = monotonic()
            if not deadline:
                deadline = now + LEND_TIME
            elif now > deadline:
                return False
        return False

    def forget(self) -> None:
        """In a forked copy of the kernel: it is not ours."""
        self._loan = None
        self.fd = -1
        _keeper.forget()


class _Keeper:
    """Looks after all that is lent, with one timer. On `piweb-io`."""

    def __init__(self) -> None:
        self._lent: set[Stdout] = set()
        self._timer: Timer | None = None
        self._pump: Pump | None = None

    def add(self, stdout: Stdout, pump: Pump) -> None:
        self._lent.add(stdout)
        if self._timer is None:
            self._pump = pump
            self._timer = pump.call_later(LEND_TIME, self._look)

    def discard(self, stdout: Stdout) -> None:
        self._lent.discard(stdout)
        if not self._lent and self._timer is not None:
            self._timer.cancel()  # piweb-io lives as long as its last timer
            self._timer = None

    def _look(self) -> None:
        assert self._pump is not None
        # First of all: what goes wrong with one of them must not cost the others.
        self._timer = self._pump.call_later(LEND_TIME, self._look)
        for stdout in list(self._lent):
            stdout.look()

    def forget(self) -> None:
        self._lent.clear()
        self._timer = None


_keeper = _Keeper()
