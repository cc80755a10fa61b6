"""What a process cost: CPU seconds (user and kernel apart) and memory, read from /proc (Linux)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MIB = 1024


@dataclass(frozen=True)
class CpuSeconds:
    """CPU time of a process since it started; precision 10 ms."""

    user: float
    kernel: float

    def __sub__(self, earlier: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.user - earlier.user, self.kernel - earlier.kernel)

    @property
    def total(self) -> float:
        """User and kernel time."""
        return self.user + self.kernel


def cpu_seconds(pid: int) -> CpuSeconds:
    """CPU time that process `pid` has used, all threads."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()  # the command name may hold blanks
    return CpuSeconds(int(fields[11]) / TICKS_PER_SECOND, int(fields[12]) / TICKS_PER_SECOND)


def resident_mib(pid: int) -> float:
    """Resident memory now."""
    return _status_kib(pid, "VmRSS") / MIB


def peak_resident_mib(pid: int) -> float:
    """Highest resident memory since the start or the last `reset_peak`."""
    return _status_kib(pid, "VmHWM") / MIB


def reset_peak(pid: int) -> None:
    """Let the peak be measured from now on."""
    with open(f"/proc/{pid}/clear_refs", "w") as control:
        control.write("5")


def free_mib() -> float:
    """Memory of the machine that holds nothing at all, not even page cache."""
    return _read_kib("/proc/meminfo", "MemFree") / MIB


def _status_kib(pid: int, name: str) -> int:
    return _read_kib(f"/proc/{pid}/status", name)


def _read_kib(path: str, name: str) -> int:
    with open(path) as lines:
        for line in lines:
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    raise KeyError(f"{path} has no {name}")


class TreeUsage:
    """CPU time and peak memory of a process and its children since this was made, as far as `sample` saw them.

    A child that came and went between two samples is counted once it has been waited for; its memory is not.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak_mib = 0.0
        reset_peak(pid)
        self._before = self._total()
        self.cpu_seconds = 0.0

    def sample(self) -> None:
        """Look at all processes now."""
        self.cpu_seconds = max(self.cpu_seconds, self._total() - self._before)
        resident = peak_resident_mib(self._pid) + sum(self._resident(child) for child in self._children())
        self.peak_mib = max(self.peak_mib, resident)

    def _total(self) -> float:
        return sum(self._cpu(pid) for pid in (self._pid, *self._children()))

    def _children(self) -> list[int]:
        found: list[int] = []
        for task in os.listdir(f"/proc/{self._pid}/task"):
            with suppress(FileNotFoundError), open(f"/proc/{self._pid}/task/{task}/children") as children:
                found += map(int, children.read().split())
        return found

    @staticmethod
    def _cpu(pid: int) -> float:
        """Of the process, and of those of its children that have ended."""
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
            return sum(map(int, fields[11:15])) / TICKS_PER_SECOND
        return 0.0

    @staticmethod
    def _resident(pid: int) -> float:
        with suppress(FileNotFoundError, ProcessLookupError, KeyError):
            return resident_mib(pid)
        return 0.0
