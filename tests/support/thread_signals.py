"""Signals to one thread of another process, as the kernel may choose any thread for a signal to the process."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

from tests.support.waiting import wait_until

_libc = ctypes.CDLL(None, use_errno=True)


def other_threads(process_id: int) -> list[int]:
    """Return the ids of all threads of a process but its main one, the oldest first."""
    return sorted(int(each.name) for each in Path(f"/proc/{process_id}/task").iterdir() if each.name != str(process_id))


def await_rest(process_id: int) -> None:
    """Wait until the main thread of a process waits in a call of the kernel's."""
    status = Path(f"/proc/{process_id}/task/{process_id}/status")
    wait_until(lambda: "State:\tS" in status.read_text(), seconds=30)


def signal_thread(process_id: int, thread_id: int, number: signal.Signals) -> None:
    """Deliver a signal to this thread. Raises OSError when there is none."""
    if _libc.tgkill(process_id, thread_id, int(number)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
