"""The fetched records that wait for the user, in the order of their arrival.

Filled by the Fetcher, emptied by `Consumer.poll`; owned by the consumer's thread; no lock. A partition may have two
answers here: the one that is read, and one that was fetched ahead and begins where the first ends. Kafka: FetchBuffer,
FetchCollector.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

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


class TakenRecords(NamedTuple):
    """Records of one completed fetch, the offset behind them, and the error of the record at that offset, or None."""

    records: list[ConsumerRecord]
    next_offset: int
    error: Exception | None


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
        records: list[ConsumerRecord] = []
        held_back = []
        completed = self._completed
        while completed and len(records) < limit:
            fetch = completed[0]
            state = self._subscriptions.partitions.get(fetch.topic_partition)
            # These records were fetched before a seek, or before the partition was assigned to another member.
            if state is None or state.offset != fetch.next_offset:
                completed.popleft().close()
                continue
            # Records of a paused partition stay: after `resume` they need no second fetch (KAFKA-7548). Those of a
            # partition whose new leader may have another log stay until its position is checked.
            if state.paused or state.revoked or state.is_validating:
                held_back.append(completed.popleft())
                continue
            taken = self._take_from(fetch, limit - len(records))
            # Without records, the epoch of the last ones stays.
            if state.offset != taken.next_offset:
                state.advance(taken.next_offset, fetch.last_epoch)
                self._metrics.advanced(fetch.topic_partition, state)
            if records:
                records += taken.records
            else:
                records = taken.records
            if taken.error is not None or len(records) < limit:
                completed.popleft().close()
            if taken.error is not None:
                # The position stays at the bad record. Good ones are returned first: the next poll fetches the bad one
                # again and raises, unless the caller seeks on.
                completed.extendleft(reversed(held_back))
                if records:
                    return records
                raise taken.error
        completed.extendleft(reversed(held_back))
        return records

    def _take_from(self, fetch: CompletedFetch, limit: int) -> TakenRecords:
        try:
            records = fetch.take(limit)
        except (CorruptRecord, ApiError) as error:
            return TakenRecords([], fetch.next_offset, error)
        if not self._deserializers:
            return TakenRecords(records, fetch.next_offset, None)
        made, failure = self._deserializers.apply(records)
        return TakenRecords(made, fetch.next_offset if failure is None else failure.offset, failure)
