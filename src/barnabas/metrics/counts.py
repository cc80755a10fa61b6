"""A row of counters for the hot path, such as the buckets of a histogram: `row[i] += 1` counts.

Each row is made and counted by one thread; any thread may read it through `listed`, a moment late at worst. No lock.
The compiled build takes this module from `native/`, where a row is an array of machine integers
(decisions/0009-compiled-build.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from barnabas.metrics.histogram import INDEX as BUCKET_BYTES

Counts: TypeAlias = list[int]

INDEX: Final = BUCKET_BYTES
"""The bucket of each number below `histogram.INDEXED`: `row[INDEX[number]] += 1` counts a number in a histogram."""


def counts_of(numbers: Iterable[int]) -> Counts:
    """Return a row that begins with these numbers."""
    return list(numbers)


def listed(counts: Counts) -> list[int]:
    """Return the numbers of a row as they are now."""
    return list(counts)
