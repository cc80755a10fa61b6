"""A hierarchical timing wheel: O(1) insert and cancel for any number of timeouts.

Called by `purgatory.timer.SystemTimer` only: inserts come from any thread, advances from the timer thread, and
`SystemTimer` holds one lock around both, which also guards the entries of the buckets.

A wheel of `wheel_size` buckets covers `tick_ms * wheel_size` milliseconds from its current time. An entry beyond that
goes to an overflow wheel, made when first needed, whose tick is the whole interval of this wheel. When a bucket of a
coarse wheel expires, its entries are inserted again and land in a finer wheel. With a tick of 1 ms and 20 buckets:

    wheel   tick     covers           an entry due in 450 ms
    1       1 ms     20 ms            beyond
    2       20 ms    400 ms           beyond
    3       400 ms   8,000 ms         bucket of 400-799; at 400 ms it moves down
    2                                 50 ms left: bucket of 440-459; at 440 ms it moves down
    1                                 10 ms left: bucket of 450; at 450 ms it runs

A timeout of 30 seconds therefore costs a handful of dict operations in all, and none while it waits.
Kafka: org.apache.kafka.server.util.timer.TimingWheel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64


class TimerEntry:
    """One scheduled task, its expiration (milliseconds), and the bucket that holds it (None: not in the wheel)."""

    __slots__ = ("bucket", "expiration_ms", "task")

    def __init__(self, task: Callable[[], None], expiration_ms: i64) -> None:
        self.task = task
        self.expiration_ms: i64 = expiration_ms
        self.bucket: Bucket | None = None


class Bucket:
    """The entries that expire within one tick of one wheel. The dict is a set in order of insertion."""

    __slots__ = ("entries", "expiration_ms")

    def __init__(self) -> None:
        self.entries: dict[TimerEntry, None] = {}
        self.expiration_ms: i64 = -1

    def take_all(self) -> list[TimerEntry]:
        """Empty the bucket, and return its entries in order of insertion."""
        entries = list(self.entries)
        self.entries.clear()
        for entry in entries:
            entry.bucket = None
        self.expiration_ms = -1
        return entries

    def __lt__(self, other: Bucket) -> bool:
        # For the timer's heap only: buckets of two wheels may expire in the same millisecond, in either order.
        return id(self) < id(other)


class TimingWheel:
    """One wheel of the hierarchy.

    `on_new_expiration(expiration_ms, bucket)` is called whenever a bucket gets a new expiration, so that the timer can
    sleep until exactly then: an idle wheel costs nothing.
    """

    __slots__ = (
        "_buckets",
        "_current_ms",
        "_interval_ms",
        "_on_new_expiration",
        "_overflow",
        "_tick_ms",
        "_wheel_size",
    )

    def __init__(
        self, tick_ms: i64, wheel_size: i64, start_ms: i64, on_new_expiration: Callable[[int, Bucket], None]
    ) -> None:
        self._tick_ms: i64 = tick_ms
        self._wheel_size: i64 = wheel_size
        self._interval_ms: i64 = tick_ms * wheel_size
        self._current_ms: i64 = start_ms - start_ms % tick_ms
        self._buckets = [Bucket() for _ in range(wheel_size)]
        self._overflow: TimingWheel | None = None
        self._on_new_expiration = on_new_expiration

    def add(self, entry: TimerEntry) -> bool:
        """Place `entry`. Return False when it has expired already: the caller must run it."""
        expiration_ms = entry.expiration_ms
        if expiration_ms < self._current_ms + self._tick_ms:
            return False
        # A loop where Kafka calls `add` of the overflow wheel: most waits go three wheels up.
        wheel = self
        while expiration_ms >= wheel._current_ms + wheel._interval_ms:
            overflow = wheel._overflow
            wheel = wheel._add_overflow() if overflow is None else overflow
        wheel.place(entry)
        return True

    def place(self, entry: TimerEntry) -> None:
        """Put an entry into its bucket of this wheel, whose interval holds its expiration."""
        tick_ms = self._tick_ms
        virtual_id = entry.expiration_ms // tick_ms
        bucket = self._buckets[virtual_id % self._wheel_size]
        # The entry knows its bucket, so that a cancel is one deletion.
        bucket.entries[entry] = None
        entry.bucket = bucket
        bucket_expiration_ms = virtual_id * tick_ms
        # The first entry of this round: the later ones find the bucket in the timer's heap.
        if bucket.expiration_ms != bucket_expiration_ms:
            bucket.expiration_ms = bucket_expiration_ms
            self._on_new_expiration(bucket_expiration_ms, bucket)

    def _add_overflow(self) -> TimingWheel:
        self._overflow = TimingWheel(self._interval_ms, self._wheel_size, self._current_ms, self._on_new_expiration)
        return self._overflow

    def advance(self, now_ms: i64) -> None:
        """Move the wheel's current time forward to `now_ms`, rounded down to its tick."""
        if now_ms >= self._current_ms + self._tick_ms:
            self._current_ms = now_ms - now_ms % self._tick_ms
            if self._overflow is not None:
                self._overflow.advance(self._current_ms)
