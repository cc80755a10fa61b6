"""The commits of offsets inside transactions (KIP-98), and the markers that decide about them.

Called by the handlers of TxnOffsetCommit and WriteTxnMarkers, on request handler threads. Takes the group's lock only,
and calls no callback under it.

A commit is appended as a batch of the producer's transaction. From then on its partitions are unstable, and no fetch
sees the offsets; the marker of the transaction, which the coordinator of transactions writes into the same partition of
`__consumer_offsets`, lets them count or drops them. A commit whose replication fails stays: its records are in the log,
where the marker will decide about them for the next coordinator, too.
Kafka: GroupCoordinator.handleTxnCommitOffsets, scheduleHandleTxnCompletion (3.9), OffsetMetadataManager (4.3).
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.group_table import EndedGroupTransaction
from barnabas.coordinator.group.offsets.offset_service import (
    CommitCallback,
    EncodedCommit,
    OffsetService,
    encode_commit,
)
from barnabas.coordinator.group.offsets.offset_terms import CommitTerms, TopicToCommit, count_of
from barnabas.coordinator.group.offsets_topic import OFFSET_ERRORS
from barnabas.coordinator.runtime.coordinator_log import StoredAppend
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition


class CommittingProducer(NamedTuple):
    """The producer whose transaction commits offsets."""

    producer_id: int
    producer_epoch: int


class TransactionalOffsetService:
    """The service of offsets that are committed in transactions. plain: counts them with the others."""

    def __init__(self, environment: GroupEnvironment, plain: OffsetService) -> None:
        self._environment = environment
        self._plain = plain

    def check(self, group_id: str) -> ErrorCode:
        """Return NONE if this broker coordinates the group now, or the error for the producer."""
        # The empty id is one of old consumers that only keep offsets; no producer could send it.
        return self._environment.partitions.check(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def place_of(self, group_id: str) -> TopicPartition:
        """Return the partition that the records of the group's offsets are in."""
        return TopicPartition(GROUP_METADATA_TOPIC, self._environment.partitions.partition_for(group_id))

    def commit_offsets(
        self,
        terms: CommitTerms,
        producer: CommittingProducer,
        topics: list[TopicToCommit],
        on_complete: CommitCallback,
    ) -> None:
        """Commit offsets in a transaction; call `on_complete` now or when the records are replicated.

        The caller holds no lock. An error of the group or of the producer (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
        FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, ...) is the error of every offset;
        OFFSET_METADATA_TOO_LARGE is one partition's.
        """
        environment = self._environment
        error = self.check(terms.group_id)
        if error is not ErrorCode.NONE:
            on_complete([error] * count_of(topics))
            return
        encoded = encode_commit(terms, topics, environment.clock.milliseconds(), environment.config.max_metadata_size)
        stored: StoredAppend | None = None
        try:
            table, is_member = environment.table, terms.generation >= 0
            with table.locked(terms.group_id) if is_member else table.locked_or_new(terms.group_id) as group:
                error = ErrorCode.ILLEGAL_GENERATION if group is None else _check_committer(group, terms)
                if group is not None and error is ErrorCode.NONE and encoded.records:
                    stored = self._append(group, producer, encoded)
        except ApiError as refused:
            error = refused.code
        if error is not ErrorCode.NONE:
            on_complete([error] * count_of(topics))
        elif stored is None:
            on_complete([ErrorCode.OFFSET_METADATA_TOO_LARGE] * len(encoded.too_large))
        else:
            stored.when_replicated(lambda code: self._answer(code, encoded, on_complete))

    def end_transaction(self, partition: int, ended: EndedGroupTransaction) -> None:
        """Let the offsets of a transaction count, or drop them: its marker is in this partition, with all replicas."""
        self._environment.open_transactions.end_transaction(partition, ended)

    def _append(self, group: Group, producer: CommittingProducer, encoded: EncodedCommit) -> StoredAppend:
        """Append the records, and keep the offsets until the marker comes. Under the group's lock."""
        transactions, producer_id = self._environment.open_transactions, producer.producer_id
        # Before the append, as a marker may follow at once: its thread finds the group here, and waits for its lock.
        transactions.begin(group.partition, producer_id, group.group_id)
        stored = self._environment.log.append_transactional(
            group.partition,
            encoded.records,
            OFFSET_ERRORS,
            producer_id=producer_id,
            producer_epoch=producer.producer_epoch,
        )
        if stored.position >= 0:
            group.offsets.put_transactional(producer_id, encoded.values, stored.position)
        elif not group.offsets.has_transaction(producer_id):
            transactions.forget(group.partition, producer_id, group.group_id)
        return stored

    def _answer(self, error: ErrorCode, encoded: EncodedCommit, on_complete: CommitCallback) -> None:
        if error is ErrorCode.NONE:
            self._plain.committed_count += len(encoded.records)
        on_complete(encoded.errors(error))


def _check_committer(group: Group, terms: CommitTerms) -> ErrorCode:
    """Return NONE if the producer's consumer may commit: what it does not name is not checked (KIP-447)."""
    error = group.membership.check_offset_commit(
        terms.member_id, terms.group_instance_id, terms.generation, is_transactional=True
    )
    # A producer knows no member epochs (KIP-848), but handles a fenced generation.
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
