"""The fetched records that wait for the user, in the order of their arrival.

Filled by the Fetcher, emptied by `Consumer.poll`; owned by the consumer's thread; no lock. A partition may have two
answers here: the one that is read, and one that was fetched ahead and begins where the first ends. Kafka: FetchBuffer,
FetchCollector.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from barnabas.clients.consumer.consumer_record import ConsumerRecord
from barnabas.clients.consumer.deserializers import Deserializers
from barnabas.clients.consumer.fetch.completed_fetch import CompletedFetch
from barnabas.clients.consumer.fetch.fetch_metrics import FetchMetrics
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.errors import CorruptRecord


class BufferedRecords(NamedTuple):
    """The unread records of a partition: their size as they were received, and the answer that has the last ones."""

    unread_bytes: int
    last: CompletedFetch


class Taken(NamedTuple):
    """The offset behind what was taken from one completed fetch, and the error of the record there, or None."""

    next_offset: int
    error: Exception | None


class Taker(Protocol):
    """The reader of completed fetches for one call of the user."""

    @property
    def is_full(self) -> bool:
        """Whether it has as much as the user wants."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing yet."""
        ...

    def take(self, fetch: CompletedFetch) -> Taken:
        """Read a fetch to its end, to an error, or until this is full."""
        ...


class FetchBuffer:
    """The completed fetches of one consumer."""

    def __init__(self, subscriptions: SubscriptionState, deserializers: Deserializers, metrics: FetchMetrics) -> None:
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._deserializers = deserializers
        self._completed: deque[CompletedFetch] = deque()

    def add(self, fetch: CompletedFetch) -> None:
        """Add the records of an answer, behind all others."""
        self._completed.append(fetch)

    def drop(self, topic_partition: TopicPartition | None = None) -> None:
        """Drop the records of a partition, and of all that are no longer assigned."""
        kept: deque[CompletedFetch] = deque()
        for fetch in self._completed:
            if fetch.topic_partition in self._subscriptions.partitions and fetch.topic_partition != topic_partition:
                kept.append(fetch)
            else:
                fetch.close()
        self._completed = kept

    def by_partition(self) -> dict[TopicPartition, BufferedRecords]:
        """Return what is buffered of each partition."""
        found: dict[TopicPartition, BufferedRecords] = {}
        for fetch in self._completed:
            before = found.get(fetch.topic_partition)
            unread_bytes = fetch.unread_bytes if before is None else before.unread_bytes + fetch.unread_bytes
            found[fetch.topic_partition] = BufferedRecords(unread_bytes, fetch)
        return found

    def next_fetch_offset(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset behind the buffered records, or else the position; None without a position."""
        for fetch in reversed(self._completed):
            if fetch.topic_partition == topic_partition:
                return fetch.end_offset
        state = self._subscriptions.partitions.get(topic_partition)
        return None if state is None else state.offset

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Return up to `limit` records, and move the positions behind them.

        Raises CorruptRecord, ApiError, RecordDeserializationError.
        """
        taker = _RecordTaker(limit, self._deserializers)
        self.drain(taker)
        return taker.records

    def drain(self, taker: Taker) -> None:
        """Let the taker read the completed fetches until it is full, and move the positions behind what it has.

        Raises the error that the taker met, if it has nothing else: CorruptRecord, ApiError,
        RecordDeserializationError.
        """
        held_back = []
        held_partitions = set()
        completed = self._completed
        error = None
        while completed and error is None and not taker.is_full:
            fetch = completed[0]
            state = self._subscriptions.partitions.get(fetch.topic_partition)
            # Records that were fetched ahead, behind others that stay.
            if fetch.topic_partition in held_partitions:
                held_back.append(completed.popleft())
                continue
            # These records were fetched before a seek, or before the partition was assigned to another member.
            if state is None or state.offset != fetch.next_offset:
                completed.popleft().close()
                continue
            # Records of a paused partition stay: after `resume` they need no second fetch (KAFKA-7548). Those of a
            # partition whose new leader may have another log stay until its position is checked.
            if state.paused or state.revoked or state.is_validating:
                held_back.append(completed.popleft())
                held_partitions.add(fetch.topic_partition)
                continue
            next_offset, error = taker.take(fetch)
            # Without records, the epoch of the last ones stays.
            if state.offset != next_offset:
                state.advance(next_offset, fetch.last_epoch)
                self._metrics.advanced(fetch.topic_partition, state)
            if error is not None or not taker.is_full:
                completed.popleft().close()
        completed.extendleft(reversed(held_back))
        # The position stays at the bad record. Good ones are returned first: the next poll fetches the bad one again
        # and raises, unless the caller seeks on.
        if error is not None and taker.is_empty:
            raise error


class _RecordTaker:
    """The records of one poll."""

    __slots__ = ("_deserializers", "_limit", "records")

    def __init__(self, limit: int, deserializers: Deserializers) -> None:
        self._limit = limit
        self._deserializers = deserializers
        self.records: list[ConsumerRecord] = []

    @property
    def is_full(self) -> bool:
        return len(self.records) >= self._limit

    @property
    def is_empty(self) -> bool:
        return not self.records

    def take(self, fetch: CompletedFetch) -> Taken:
        error: Exception | None = None
        try:
            records: list[ConsumerRecord] = fetch.take(self._limit - len(self.records))
        except (CorruptRecord, ApiError) as bad:
            return Taken(fetch.next_offset, bad)
        next_offset = fetch.next_offset
        if self._deserializers:
            records, failure = self._deserializers.apply(records)
            if failure is not None:
                next_offset, error = failure.offset, failure
        # Nearly always one fetch has all records that are wanted: no copy.
        if self.records:
            self.records += records
        else:
            self.records = records
        return Taken(next_offset, error)
