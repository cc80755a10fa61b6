"""The search for hanging transactions: open in a partition, and unknown to every coordinator.

Called by `barnabas transactions find-hanging` on the main thread; no state. A transaction that its coordinator still
knows for the partition gets its marker in time, however old it is. Any other one stays open until an operator aborts
it: the last stable offset of its partition stands still, and readers of committed records with it.
Kafka: TransactionsCommand.FindHangingTransactionsCommand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from barnabas.clients.admin import Admin, ProducerState
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

_PARTITIONS_PER_REQUEST: Final = 500


class HangingSearch(NamedTuple):
    """The partitions to search: those of a topic, one of them, or those with a replica on a broker.

    older_than_ms: the age of the last batch of a transaction, from which on it is a candidate.
    """

    topic: str | None
    partition: int | None
    broker_id: int | None
    older_than_ms: int


class HangingTransaction(NamedTuple):
    """An open transaction of a producer in one partition. age_ms: since its last batch."""

    topic_partition: TopicPartition
    producer: ProducerState
    age_ms: int


def find_hanging(admin: Admin, search: HangingSearch, now_ms: int) -> list[HangingTransaction]:
    """Return the hanging transactions, sorted by partition and producer id. Raises ApiError, ClientTimeout."""
    partitions = list(_partitions_to_search(admin, search))
    candidates = list(_old_transactions(admin, search, partitions, now_ms))
    if not candidates:
        return []
    expected = _partitions_by_producer(admin, {each.producer.producer_id for each in candidates})
    return sorted(
        each for each in candidates if each.topic_partition not in expected.get(each.producer.producer_id, ())
    )


def _partitions_to_search(admin: Admin, search: HangingSearch) -> Iterator[TopicPartition]:
    if search.topic is not None and search.partition is not None:
        yield TopicPartition(search.topic, search.partition)
        return
    topics = admin.list_topics(include_internal=True) if search.topic is None else [search.topic]
    for name, description in admin.describe_topics(topics).items():
        for info in description.partitions:
            if search.broker_id is None or search.broker_id in info.replicas:
                yield TopicPartition(name, info.partition)


def _old_transactions(
    admin: Admin, search: HangingSearch, partitions: Iterable[TopicPartition], now_ms: int
) -> Iterator[HangingTransaction]:
    for some in _slices(partitions):
        for key, producers in admin.describe_producers(some, broker_id=search.broker_id).items():
            for producer in producers:
                age_ms = now_ms - producer.last_timestamp_ms
                if producer.current_transaction_start_offset >= 0 and age_ms > search.older_than_ms:
                    yield HangingTransaction(key, producer, age_ms)


def _slices(partitions: Iterable[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """Yield the partitions in parts: one request about all partitions of a broker would be too much for it."""
    remaining = iter(partitions)
    while some := list(islice(remaining, _PARTITIONS_PER_REQUEST)):
        yield some


def _partitions_by_producer(admin: Admin, producer_ids: set[int]) -> dict[int, tuple[TopicPartition, ...]]:
    """Return the partitions whose markers coordinators will write, by producer id; unknown ids are left out."""
    found = {}
    for listed in admin.list_transactions(producer_ids=sorted(producer_ids)):
        try:
            described = admin.describe_transactions([listed.transactional_id])[listed.transactional_id]
        except ApiError as error:
            # The id has expired since it was listed.
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            continue
        found[listed.producer_id] = described.partitions
    return found
