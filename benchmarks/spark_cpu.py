"""The CPU time of a Spark session that this process has started: its JVM and all Python workers.

Used by the Spark benchmarks on their main thread; no state.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from benchmarks.process_usage import TICKS_PER_SECOND


def cpu_of_children(excluded: Collection[int]) -> float:
    """Return the CPU seconds of this process's descendants, without those of the `excluded` processes (brokers)."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(fields[1])
            spent[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    return sum(ticks for pid, ticks in spent.items() if pid not in excluded and _descends(pid, excluded, parents))


def _descends(pid: int, excluded: Collection[int], parents: Mapping[int, int]) -> bool:
    ancestor = os.getpid()
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor or pid in excluded:
            return pid == ancestor
    return False
