"""The buckets of every histogram: the bucket of a number, in one look-up, and the numbers of a bucket.

The tables are made at import and immutable since, so no lock. Every counter reads them (hot path: `INDEX[value]` while
`value < INDEXED`, else `bucket_of(value)`), and so does `Distribution`. Numbers are whole and not negative; durations
are counted in units of 1,024 ns (`nanoseconds >> DURATION_SHIFT`), since a shift is cheaper than a division.

Up to 15 each number has a bucket of its own; from there on every power of two is cut into eight. A bucket's middle is
therefore at most 1/16 (6.25 %) off what fell into it, at any size. Example: 100 lies in 96..103, the fifth eighth of
64..127; its middle is 99.5. Kafka: ExponentiallyDecayingSample of com.yammer.metrics, which costs a lock, a random
number and a tree per value.
"""

from __future__ import annotations

from typing import Final

DURATION_SHIFT: Final = 10
DURATION_UNIT_MS: Final = (1 << DURATION_SHIFT) / 1e6
INDEXED: Final = 1 << 16
"""Numbers below this are looked up: durations of up to 67 ms, frames of up to 64 KiB."""
_MOST_BITS: Final = 33
_LARGEST: Final = (1 << _MOST_BITS) - 1  # 2.4 hours; 8 GiB. Larger numbers count as this one
_CUTS: Final = 8
_EXACT_BITS: Final = 4


def bucket_of(number: int) -> int:
    """Return the bucket of any number; below zero (a clock that went back) counts as zero."""
    if number < _CUTS:
        return max(number, 0)
    number = min(number, _LARGEST)
    extra_bits = number.bit_length() - _EXACT_BITS
    if extra_bits <= 0:
        return number
    return extra_bits * _CUTS + (number >> extra_bits)


BUCKETS: Final = bucket_of(_LARGEST) + 1


def lowest_of(bucket: int) -> int:
    """Return the smallest number of a bucket."""
    if bucket < 2 * _CUTS:
        return bucket
    extra_bits = bucket // _CUTS - 1
    return (bucket - extra_bits * _CUTS) << extra_bits


LOWEST: Final = tuple(map(lowest_of, range(BUCKETS)))
HIGHEST: Final = (*(lowest - 1 for lowest in LOWEST[1:]), _LARGEST)
MIDDLE: Final = tuple((lowest + highest) / 2 for lowest, highest in zip(LOWEST, HIGHEST, strict=True))
# Bucket by bucket: asking `bucket_of` for each of 65,536 numbers would be a tenth of the CPU time of a broker's start.
INDEX: Final = b"".join(
    bytes((bucket,)) * (HIGHEST[bucket] - LOWEST[bucket] + 1) for bucket in range(bucket_of(INDEXED - 1) + 1)
)
