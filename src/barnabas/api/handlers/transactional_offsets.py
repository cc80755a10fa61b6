"""TxnOffsetCommit: v0-5: a producer's transaction commits the offsets of its consumer's group.

Not brief: the coordinator of the transaction may have to be asked first. The offsets count when the marker of the
transaction arrives in the group's partition of `__consumer_offsets` (`api.handlers.transaction_markers`).

v2: leader epochs; COORDINATOR_LOAD_IN_PROGRESS.
v3: flexible; generation and member, so that a zombie is fenced by its group (KIP-447).
v4: TRANSACTION_ABORTABLE (KIP-890).
v5: the commit adds the group's partition to the transaction (KIP-890).

Kafka: KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinator.handleTxnCommitOffsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.api.authorize import Authorizer, is_allowed, permitted
from barnabas.api.request import Handler, Request
from barnabas.api.transaction_verification import (
    TransactionalProducer,
    TransactionalWrite,
    TransactionVerification,
    VerificationErrors,
    VerificationQuestion,
    VerificationTerms,
)
from barnabas.coordinator.group.offsets.offset_terms import CommitTerms, TopicToCommit, count_of
from barnabas.coordinator.group.offsets.transactional import CommittingProducer, TransactionalOffsetService
from barnabas.coordinator.group.offsets_topic import commit_error
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.offsets import OffsetCommitRequestPartition
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.records.record_batch import NO_SEQUENCE
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

LOADING_SINCE: Final = 2
"""The first version whose clients understand COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
ABORTABLE_SINCE: Final = 4
ADDS_PARTITION_SINCE: Final = 5

Errors = dict[str, dict[int, ErrorCode]]
"""By topic and partition."""
TopicResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
PartitionResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


class _Sorted(NamedTuple):
    """The errors of the partitions that are refused at once, and the offsets of all others."""

    errors: Errors
    offsets: list[TopicToCommit]


class TransactionalOffsetsApi:
    """Commits the offsets of a consumer group as part of a producer's transaction."""

    def __init__(
        self,
        offsets: TransactionalOffsetService,
        verification: TransactionVerification,
        metadata: MetadataCache,
        authorizer: Authorizer | None,
    ) -> None:
        self._offsets = offsets
        self._verification = verification
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.TXN_OFFSET_COMMIT, self.txn_offset_commit),)

    def txn_offset_commit(self, request: Request[TxnOffsetCommitRequest]) -> None:
        """Commit the offsets that the client may commit, once the transaction is verified.

        Raises ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED.
        """
        body = request.body
        self._check_permissions(request)
        errors, offsets = self._sorted_offsets(request)

        def answer_all(code: ErrorCode) -> None:
            answer([code] * count_of(offsets))

        def answer(codes: Sequence[ErrorCode]) -> None:
            result = iter(codes)
            for topic in offsets:
                for each in topic.partitions:
                    errors[topic.topic][each.partition_index] = next(result)
            request.respond(_response(errors, request.api_version))

        if not offsets:
            answer(())
            return
        code = self._offsets.check(body.group_id)
        if code is not ErrorCode.NONE:
            answer_all(code)
            return
        place = self._offsets.place_of(body.group_id)

        def verified(refused: VerificationErrors) -> None:
            code = refused.get(place)
            if code is not None:
                answer_all(commit_error(code))
                return
            terms = CommitTerms(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
            committing = CommittingProducer(body.producer_id, body.producer_epoch)
            self._offsets.commit_offsets(terms, committing, offsets, request.deferred(answer))

        producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
        question = VerificationQuestion(
            producer,
            [TransactionalWrite(place, NO_SEQUENCE)],
            VerificationTerms(
                tells_abortable=request.api_version >= ABORTABLE_SINCE,
                adds=request.api_version >= ADDS_PARTITION_SINCE,
            ),
        )
        self._verification.verify(request, question, verified)

    def _check_permissions(self, request: Request[TxnOffsetCommitRequest]) -> None:
        """Check the transactional id, and the group. Raises ApiError of the first that the client may not use."""
        body, authorizer = request.body, self._authorizer
        write, read = AclOperation.WRITE, AclOperation.READ
        if not is_allowed(authorizer, request, write, ResourceType.TRANSACTIONAL_ID, body.transactional_id):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not is_allowed(authorizer, request, read, ResourceType.GROUP, body.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _sorted_offsets(self, request: Request[TxnOffsetCommitRequest]) -> _Sorted:
        """Return the errors of the partitions that are refused at once, and the offsets of all others."""
        body = request.body
        names = [topic.name for topic in body.topics]
        readable = permitted(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, names)
        topics = self._metadata.image.topics
        errors: Errors = {}
        offsets: dict[str, dict[int, OffsetCommitRequestPartition]] = {}
        for topic in body.topics:
            known = topics.get(topic.name)
            of_topic = errors.setdefault(topic.name, {})
            for partition in topic.partitions:
                index = partition.partition_index
                if topic.name not in readable:
                    of_topic[index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif known is None or known.partition(index) is None:
                    of_topic[index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    # Of a partition that is named twice, the last offset counts, as in Kafka's map.
                    offsets.setdefault(topic.name, {})[index] = OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        committed_metadata=partition.committed_metadata,
                    )
        return _Sorted(errors, [TopicToCommit(topic, list(each.values())) for topic, each in offsets.items()])


def _response(errors: Errors, version: int) -> TxnOffsetCommitResponse:
    if version < LOADING_SINCE:
        for of_topic in errors.values():
            for index, code in of_topic.items():
                if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    of_topic[index] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(
        topics=[
            TopicResponse(topic, [PartitionResponse(index, code) for index, code in of_topic.items()])
            for topic, of_topic in errors.items()
        ]
    )
