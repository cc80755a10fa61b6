"""The processes of a Spark session that this process has started: memory and CPU by what they are.

Used by the Spark benchmarks; `PeakMemory` has a thread of its own, which alone writes what it has seen. No lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.process_usage import cpu_seconds, peak_resident_mib, reset_peak, resident_mib

JVM, WORKER, DRIVER_PYTHON, BROKER = "JVM", "Python worker", "Python beside the driver", "broker"
ROLES = (JVM, WORKER, DRIVER_PYTHON, BROKER)
_SAMPLE_SECONDS = 0.1
# Not the shell and the launcher that start the JVM.
_JVM_SIGNS = ("/bin/java -cp ", " org.apache.spark.deploy.SparkSubmit ")
_WORKER_SIGN = "pyspark.daemon pyspark.worker"
_GONE = (FileNotFoundError, ProcessLookupError, KeyError, PermissionError)


class RoleProcess(NamedTuple):
    """A process that runs."""

    role: str
    pid: int


def session_processes(parent: int, broker_pid: int) -> Iterator[RoleProcess]:
    """Yield the broker, and the processes of Spark's below `parent`."""
    yield RoleProcess(BROKER, broker_pid)
    waiting = [parent]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            # A process may end while it is looked at.
            with suppress(*_GONE):
                for child in map(int, task.read_text().split()):
                    waiting.append(child)
                    command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if all(sign in command for sign in _JVM_SIGNS):
                        yield RoleProcess(JVM, child)
                    elif _WORKER_SIGN in command:
                        yield RoleProcess(WORKER, child)
                    elif "pyspark" in command and "/bin/java" not in command and child != broker_pid:
                        yield RoleProcess(DRIVER_PYTHON, child)


def memory_by_role(parent: int, broker_pid: int) -> dict[str, float]:
    """Return the resident MiB of the largest process of each role, now."""
    found: dict[str, float] = {}
    for process in session_processes(parent, broker_pid):
        with suppress(*_GONE):
            found[process.role] = max(found.get(process.role, 0.0), resident_mib(process.pid))
    return found


def cpu_by_role(parent: int, broker_pid: int) -> dict[str, float]:
    """Return the CPU seconds of the processes of each role that run now."""
    found: dict[str, float] = {}
    for process in session_processes(parent, broker_pid):
        with suppress(*_GONE):
            found[process.role] = found.get(process.role, 0.0) + cpu_seconds(process.pid).total
    return found


class PeakMemory:
    """The highest resident MiB of any one process of each role, while the context is open."""

    def __init__(self, parent: int, broker_pid: int) -> None:
        self._places = (parent, broker_pid)
        self._peaks: dict[str, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    @property
    def by_role(self) -> Mapping[str, float]:
        """What was seen. To be asked when the context is closed."""
        return self._peaks

    def __enter__(self) -> Self:
        for process in session_processes(*self._places):
            with suppress(*_GONE):
                reset_peak(process.pid)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(_SAMPLE_SECONDS)
            for process in session_processes(*self._places):
                with suppress(*_GONE):
                    peak = peak_resident_mib(process.pid)
                    self._peaks[process.role] = max(self._peaks.get(process.role, 0.0), peak)
