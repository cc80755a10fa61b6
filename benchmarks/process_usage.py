"""What a process cost: CPU seconds (user and kernel apart) and memory, read from /proc (Linux)."""

from __future__ import annotations

import os
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
