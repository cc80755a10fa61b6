"""The one owner of signals in the command line: a signal that Python handles is never left waiting.

Used by `main` for all commands but `serve`, and by those that stop in their own order; called on the main thread. One
daemon thread, `signals`, waits on a pipe and owns nothing else.

Python runs the handler of a signal on the main thread, between two instructions. The kernel may deliver the signal to
any thread. Delivered to the main thread, it interrupts the call that this thread waits in, and the handler runs.
Delivered to another one, it leaves only a flag: a main thread that waits in `read`, for a lock or for a socket sees the
flag when that wait ends, which may be never. So the thread `signals` passes it on:

    any thread       the kernel delivers SIGTERM; Python's C code sets the flag, and writes 15 into the pipe
    `signals`        reads 15, sends `_NUDGE` to the main thread, and again until that has handled it
    main thread      the nudge interrupts its wait; it runs the handlers of all flags: SIGTERM's, then the nudge's

The nudge is repeated because one that comes between the main thread's last look at the flags and its wait is lost too.
It is handled after SIGTERM, SIGINT and SIGHUP, since handlers run in the order of the numbers: once it is handled, they
are.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

_NUDGE = signal.SIGURG
"""A signal with a higher number than those of a stop, which neither the kernel nor anything here sends otherwise."""
_REPEAT_SECONDS = 0.05
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class _Watch:
    """The pipe that Python writes the numbers of arriving signals to, and the thread that nudges the main thread."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._handled = 0
        """How often the main thread has handled the nudge. Written there only; a late look costs one nudge more."""
        self._read_fd, write_fd = os.pipe()
        os.set_blocking(write_fd, False)
        signal.signal(_NUDGE, self._note)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        # A child of a fork has no such thread, and its signals are not for this process.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        threading.Thread(target=self._run, name="signals", daemon=True).start()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._handled += 1

    def _run(self) -> None:
        while True:
            if any(number != _NUDGE for number in os.read(self._read_fd, 512)):
                self._nudge()

    def _nudge(self) -> None:
        handled = self._handled
        while self._handled == handled:
            signal.pthread_kill(self._main, _NUDGE)
            time.sleep(_REPEAT_SECONDS)


_watch: _Watch | None = None


def watch_signals() -> None:
    """Have each signal interrupt the main thread's wait, whichever thread it was delivered to. Idempotent."""
    global _watch  # noqa: PLW0603 - signals belong to the process
    if _watch is None:
        _watch = _Watch()


def on_first(numbers: Collection[int], stop: Callable[[int], None]) -> dict[int, object]:
    """Call `stop(number)` at the first of these signals, and let a second one end the process at once.

    `stop` runs between two instructions of the main thread, so it must not take a lock that this thread may hold.
    Returns the handlers before.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        # Set back before `stop` runs, so that a second signal ends a process whose stop hangs.
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)
        stop(number)

    watch_signals()
    return {number: signal.signal(number, handle) for number in numbers}


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGHUP, as `on_first` does, while the block runs."""
    before = on_first(_STOP_SIGNALS, lambda _number: stop())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
