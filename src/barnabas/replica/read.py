"""The fetch path below the handlers: read local logs, then answer at once or wait for enough bytes.

`ReplicaReader` is part of ReplicaManager's facade; it runs on handler and processor threads, and on whichever thread
completes a waiting fetch. It owns no lock. Kafka: ReplicaManager.fetchMessages, readFromLog, fetchOffset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.partition import Partition
from barnabas.replica.partition_fetch import FetchTerms, PartitionFetch

logger = logging.getLogger(__name__)

FetchCallback = Callable[[Sequence[PartitionFetch]], None]


class ReplicaReader:
    """Reads the partitions of one request and decides whether it waits.

    partition_or_error: finds a partition this broker hosts, or raises the ApiError that says why it cannot.
    """

    def __init__(
        self,
        partition_or_error: Callable[[str, int], Partition],
        fetch_purgatory: DelayedOperationPurgatory[DelayedFetch],
    ) -> None:
        self._partition_or_error = partition_or_error
        self._fetch_purgatory = fetch_purgatory

    def fetch_records(self, terms: FetchTerms, fetches: Sequence[PartitionFetch], on_complete: FetchCallback) -> None:
        """Read, and call `on_complete(fetches)` once: now, or when `min_bytes` are there or `max_wait_ms` is over.

        It answers at once when the client will not wait, asks for nothing, there are bytes enough, or a partition
        has an error (article-facts and Kafka's fetchMessages).
        """
        size = self._read_from_logs(terms, fetches)
        if (
            size >= terms.min_bytes
            or terms.max_wait_ms <= 0
            or not fetches
            or any(fetch.error is not ErrorCode.NONE for fetch in fetches)
        ):
            on_complete(fetches)
            return
        starts = [fetch.read_from for fetch in fetches if fetch.read_from is not None]
        for fetch in fetches:
            fetch.release()

        def read_and_answer() -> None:
            self._read_from_logs(terms, fetches)
            on_complete(fetches)

        operation = DelayedFetch(terms, fetches, starts, self._partition_or_error, read_and_answer)
        keys = [TopicPartition(fetch.topic, fetch.partition) for fetch in fetches]
        self._fetch_purgatory.try_complete_else_watch(operation, keys)

    def _read_from_logs(self, terms: FetchTerms, fetches: Sequence[PartitionFetch]) -> int:
        """Fill every entry; returns the bytes read. The first batch found is returned whole, whatever the limits."""
        left = terms.max_bytes
        min_one_message = not terms.hard_max_bytes
        total = 0
        for fetch in fetches:
            size = self._read_partition(terms, fetch, min(fetch.max_bytes, left), min_one_message=min_one_message)
            if size:
                min_one_message = False
                total += size
                left = max(0, left - size)
        return total

    def _read_partition(
        self, terms: FetchTerms, fetch: PartitionFetch, max_bytes: int, *, min_one_message: bool
    ) -> int:
        try:
            partition = self._partition_or_error(fetch.topic, fetch.partition)
            if fetch.topic_id and partition.topic_id != fetch.topic_id:
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
            log = partition.log
            fetch.log_start_offset = log.log_start_offset
            fetch.high_watermark = log.high_watermark
            fetch.last_stable_offset = log.last_stable_offset
            data = partition.read_records(
                fetch.fetch_offset,
                max_bytes,
                terms.isolation,
                current_leader_epoch=fetch.current_leader_epoch,
                min_one_message=min_one_message,
            )
        except ApiError as error:
            fetch.fail(error)
            return 0
        except Exception:
            logger.exception("reading %s-%d at %d failed", fetch.topic, fetch.partition, fetch.fetch_offset)
            fetch.fail(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return 0
        fetch.error = ErrorCode.NONE
        if data.first_entry_incomplete and not terms.hard_max_bytes:
            # A part of a batch is of no use to anybody but the old versions, which learn from it that it is too large.
            data.release()
        else:
            fetch.records = data.records
        fetch.read_from = data.fetch_offset
        fetch.aborted_transactions = data.aborted_transactions
        return len(fetch.records)
