"""A row of counters for the hot path, native: a count is a load, an addition and a store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from librt.vecs import vec

from barnabas.metrics.histogram import INDEX as BUCKET_BYTES

if TYPE_CHECKING:
    from mypy_extensions import i64

Counts: TypeAlias = "vec[i64]"

INDEX: Final = vec[i64](list(BUCKET_BYTES))


def counts_of(numbers: Iterable[int]) -> vec[i64]:
    """Return a row that begins with these numbers."""
    return vec[i64](list(numbers))


def listed(counts: vec[i64]) -> list[int]:
    """Return the numbers of a row as they are now."""
    return [count for count in counts]  # noqa: C416 - of an array of machine integers
