"""Committed offsets of groups. OffsetCommit: v0-10. OffsetFetch: v0-10. OffsetDelete: v0.

Commit and fetch are brief: a commit is one append to the local log. v0 is not: its offsets are in the store.

OffsetCommit v1: timestamp, generation and member.
OffsetCommit v2: retention, up to v4.
OffsetCommit v6: leader epoch.
OffsetCommit v7: static members.
OffsetCommit v8: flexible.
OffsetCommit v9: member epochs (KIP-848).
OffsetCommit v10: topic ids.
OffsetFetch v2: all topics; an error of the whole.
OffsetFetch v5: leader epochs.
OffsetFetch v6: flexible.
OffsetFetch v7: require_stable (KIP-447).
OffsetFetch v8: several groups (KIP-709).
OffsetFetch v9: member epochs.
OffsetFetch v10: topic ids.

Kafka: KafkaApis.handleOffsetCommitRequest, handleOffsetFetchRequest, handleOffsetDeleteRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from barnabas.api.authorize import Authorizer, is_allowed, permitted
from barnabas.api.brief import COMMITTED_OFFSET_US, FETCHED_GROUP_US, FETCHED_OFFSET_US, Brief, check_cost, check_costs
from barnabas.api.request import Handler, Request
from barnabas.coordinator.group.offsets.offset_service import OffsetService
from barnabas.coordinator.group.offsets.offset_terms import (
    CommitTerms,
    FetchedOffset,
    FetchedOffsets,
    OffsetFetchTerms,
    TopicToCommit,
)
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import TopicMetadata
from barnabas.metadata.old_consumer_offsets import OldConsumerOffsets
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

_committed_partition: Final = OffsetCommitResponsePartition

_NONE: Final = ErrorCode.NONE
BY_TOPIC_ID_SINCE: Final = 10
MISSING_GROUPS_SINCE: Final = 9
SEVERAL_GROUPS_SINCE: Final = 8
GROUP_ERROR_SINCE: Final = 2
TIMES_IN: Final = 1
"""The version in which the client names the time of each commit."""
STORE_VERSION: Final = 0
"""The last version whose offsets are in the store: to read or write them may block."""
NO_OFFSET: Final = -1


class OffsetsApi:
    """Commits, fetches and deletes offsets of groups."""

    def __init__(
        self,
        offsets: OffsetService,
        old_offsets: OldConsumerOffsets,
        metadata: MetadataCache,
        authorizer: Authorizer | None,
    ) -> None:
        self._offsets = offsets
        self._old_offsets = old_offsets
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.OFFSET_COMMIT, self.offset_commit, brief=Brief(since=STORE_VERSION + 1)),
            Handler(
                ApiKey.OFFSET_FETCH,
                self.offset_fetch,
                error_answer=_fetch_error_answer,
                brief=Brief(since=STORE_VERSION + 1),
            ),
            Handler(ApiKey.OFFSET_DELETE, self.offset_delete),
        )

    # -- commit

    def offset_commit(self, request: Request[OffsetCommitRequest]) -> None:
        """Commit the offsets that the client may commit. Raises ApiError: GROUP_AUTHORIZATION_FAILED."""
        body = request.body
        if request.brief:
            check_cost(sum([len(topic.partitions) for topic in body.topics]) * COMMITTED_OFFSET_US)
        if self._authorizer is not None and not is_allowed(
            self._authorizer, request, AclOperation.READ, ResourceType.GROUP, body.group_id
        ):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        answer = _CommitAnswer(request)
        # Permissions are for names in every version, so ids are resolved before anything is checked.
        image = self._metadata.image
        names = image.topic_names if request.api_version >= BY_TOPIC_ID_SINCE else None
        readable = None if self._authorizer is None else self._readable_topics(request, names)
        topics = image.topics
        for topic in body.topics:
            name = topic.name if names is None else names.get(topic.topic_id)
            error = _commit_refusal(name, readable)
            known = None if name is None else topics.get(name)
            if error is _NONE and known is not None:
                answer.ask(topic, known)
            else:
                answer.refuse(topic, topic.partitions, error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not answer.offsets:
            answer.committed([])
        elif request.api_version == 0:
            answer.committed(self._commit_to_store(body.group_id, answer.offsets))
        else:
            terms = CommitTerms(
                body.group_id,
                body.member_id,
                body.group_instance_id,
                body.generation_id_or_member_epoch,
                body.retention_time_ms,
                request.api_version >= MISSING_GROUPS_SINCE,
                request.api_version == TIMES_IN,
            )
            errors = self._offsets.commit_offsets(terms, answer.offsets, answer.committed_later)
            if errors is not None:
                answer.committed(errors)

    def _commit_to_store(self, group_id: str, topics: Sequence[TopicToCommit]) -> list[ErrorCode]:
        # One write to the store for each partition, which is why v0 is not brief.
        return [
            self._old_offsets.commit(
                group_id,
                TopicPartition(topic.topic, each.partition_index),
                each.committed_offset,
                each.committed_metadata or "",
            )
            for topic in topics
            for each in topic.partitions
        ]

    def _readable_topics(
        self, request: Request[OffsetCommitRequest], names: Mapping[bytes, str] | None
    ) -> AbstractSet[str]:
        """Return those of the topics that the client may read. names: by topic id, where the request has ids."""
        topics = request.body.topics
        known = [topic.name if names is None else names.get(topic.topic_id) for topic in topics]
        return permitted(
            self._authorizer,
            request,
            AclOperation.READ,
            ResourceType.TOPIC,
            [name for name in known if name is not None],
        )

    # -- fetch

    def offset_fetch(self, request: Request[OffsetFetchRequest]) -> None:
        """Answer with the committed offsets of each group; topics that the client may not describe are left out.

        Raises NeedsHandlerThread when there are very many.
        """
        groups = _groups_asked_for(request)
        if request.brief:
            check_costs(map(self._fetch_cost_us, groups))
        elif len(groups) > 1:
            groups = _whole_groups_once(groups)
        answers = [self._fetch_group(request, group) for group in groups]
        request.respond(_fetch_response(request, answers))

    def _fetch_cost_us(self, group: OffsetFetchRequestGroup) -> int:
        """Return what it costs to answer for one group, in microseconds."""
        # All offsets of the group: the request is short, and its answer may be of any size.
        if group.topics is None:
            offsets = self._offsets.offset_count(group.group_id)
        else:
            offsets = sum([len(topic.partition_indexes) for topic in group.topics])
        return FETCHED_GROUP_US + offsets * FETCHED_OFFSET_US

    def _fetch_group(
        self, request: Request[OffsetFetchRequest], group: OffsetFetchRequestGroup
    ) -> OffsetFetchResponseGroup:
        authorizer, describe = self._authorizer, AclOperation.DESCRIBE
        if not is_allowed(authorizer, request, describe, ResourceType.GROUP, group.group_id):
            return OffsetFetchResponseGroup(
                group_id=group.group_id, topics=[], error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
        image = self._metadata.image
        by_id = request.api_version >= BY_TOPIC_ID_SINCE
        refused: list[OffsetFetchResponseTopics] = []
        asked: list[tuple[str, Sequence[int]]] | None = None
        if group.topics is not None:
            asked = []
            named = [(image.topic_names.get(topic.topic_id) if by_id else topic.name, topic) for topic in group.topics]
            seen = permitted(authorizer, request, describe, ResourceType.TOPIC, [name for name, _ in named if name])
            for name, topic in named:
                if name is None:
                    refused.append(_refused_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                elif name not in seen and authorizer is not None:
                    refused.append(_refused_topic(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                else:
                    asked.append((name, topic.partition_indexes))
        if request.api_version == 0:
            found = self._fetch_from_store(group.group_id, asked or ())
        else:
            found = self._offsets.fetch_offsets(
                OffsetFetchTerms(
                    group.group_id, asked, request.body.require_stable, group.member_id, group.member_epoch
                )
            )
        if found.error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=found.error)
        topics = self._fetched_topics(request, found, by_id=by_id)
        if asked is None and authorizer is not None:
            names = [topic for topic, _ in found.topics]
            seen = permitted(authorizer, request, describe, ResourceType.TOPIC, names, log_if_denied=False)
            # Left out and not refused: the client named none of them.
            topics = [topic for topic in topics if topic.name in seen]
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics + refused, error_code=ErrorCode.NONE)

    def _fetch_from_store(self, group_id: str, asked: Sequence[tuple[str, Sequence[int]]]) -> FetchedOffsets:
        """Return the offsets that an old consumer committed to the store.

        An offset that was not committed is an error: v0 cannot say it in another way.
        """
        image = self._metadata.image
        found = []
        for topic, partitions in asked:
            offsets = []
            for number in partitions:
                partition = TopicPartition(topic, number)
                known = image.partition(partition) is not None
                offset = self._old_offsets.fetch(group_id, partition) if known else None
                if offset is None:
                    offsets.append(FetchedOffset(number, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                else:
                    offsets.append(FetchedOffset(number, offset))
            found.append((topic, offsets))
        return FetchedOffsets(ErrorCode.NONE, found)

    def _fetched_topics(
        self, request: Request[OffsetFetchRequest], found: FetchedOffsets, *, by_id: bool
    ) -> list[OffsetFetchResponseTopics]:
        """Convert to the version's layout; with topic ids, without the topics that no longer have one."""
        topics = self._metadata.image.topics
        answers = []
        for name, offsets in found.topics:
            topic_id = ZERO_UUID
            if by_id:
                known = topics.get(name)
                if known is None:
                    continue
                topic_id = known.topic_id
            answers.append(
                OffsetFetchResponseTopics(
                    name=name, topic_id=topic_id, partitions=[_fetched_partition(offset) for offset in offsets]
                )
            )
        return answers

    # -- delete

    def offset_delete(self, request: Request[OffsetDeleteRequest]) -> None:
        """Delete the offsets of partitions whose topics no member reads (KIP-496).

        Raises ApiError: GROUP_AUTHORIZATION_FAILED.
        """
        body = request.body
        if not is_allowed(self._authorizer, request, AclOperation.DELETE, ResourceType.GROUP, body.group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        names = [topic.name for topic in body.topics]
        readable = permitted(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, names)
        topics = self._metadata.image.topics
        answers: dict[tuple[str, int], ErrorCode] = {}
        for topic in body.topics:
            known = topics.get(topic.name)
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                if topic.name not in readable:
                    answers[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif known is None or known.partition(partition.partition_index) is None:
                    answers[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    answers[key] = ErrorCode.NONE
        # The order of the request: `delete_offsets` answers by position.
        deleted = [key for key, error in answers.items() if error is ErrorCode.NONE]

        def on_deleted(error: ErrorCode, errors: Sequence[ErrorCode]) -> None:
            if error is not ErrorCode.NONE:
                request.fail(ApiError(error))
                return
            answers.update(zip(deleted, errors, strict=True))
            request.respond(_delete_response(answers))

        self._offsets.delete_offsets(body.group_id, deleted, request.deferred(on_deleted))


class _CommitAnswer:
    """The answer to an OffsetCommit in the making.

    offsets: those to commit. The other partitions are refused with an error at once.
    """

    __slots__ = ("_asked", "_refused", "_request", "offsets")

    def __init__(self, request: Request[OffsetCommitRequest]) -> None:
        self._request = request
        self._refused: list[OffsetCommitResponseTopic] = []
        self._asked: list[OffsetCommitRequestTopic] = []
        """Of each of `offsets`."""
        self.offsets: list[TopicToCommit] = []

    def ask(self, topic: OffsetCommitRequestTopic, known: TopicMetadata) -> None:
        """Have the offsets of a topic committed; those of partitions that do not exist are refused."""
        partitions, count = topic.partitions, known.count_without_gaps
        doubtful = [each for each in partitions if not 0 <= each.partition_index < count]
        if doubtful:
            unknown = [each for each in doubtful if known.partition(each.partition_index) is None]
            self.refuse(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            refused = {each.partition_index for each in unknown}
            partitions = [each for each in partitions if each.partition_index not in refused]
        if partitions:
            self._asked.append(topic)
            self.offsets.append(TopicToCommit(known.name, partitions))

    def refuse(
        self, topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error: ErrorCode
    ) -> None:
        """Answer with an error for these partitions of a topic."""
        if partitions:
            answers = [_committed_partition(each.partition_index, error) for each in partitions]
            self._refused.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))

    def committed_later(self, errors: list[ErrorCode]) -> None:
        """Send the answer, as `committed` does, on a thread that does not know the request."""
        self._request.deferred(self.committed)(errors)

    def committed(self, errors: list[ErrorCode]) -> None:
        """Send the answer, once the errors of `offsets` are known, in their order."""
        answers: list[OffsetCommitResponseTopic] = []
        number = 0
        for position, asked in enumerate(self.offsets):
            topic, of_partitions = self._asked[position], []
            for each in asked.partitions:
                of_partitions.append(_committed_partition(each.partition_index, errors[number]))
                number += 1
            answers.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, of_partitions))
        if self._refused:
            answers = _merged(self._refused, answers) if answers else self._refused
        self._request.respond(OffsetCommitResponse(topics=answers))


def _commit_refusal(name: str | None, readable: AbstractSet[str] | None) -> ErrorCode:
    """Return why nothing of a topic is committed, or NONE. (Whether a partition exists is checked for each.)"""
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if readable is not None and name not in readable:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _merged(
    refused: list[OffsetCommitResponseTopic], asked: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Return one answer for each topic, refused ones first, in Kafka's order."""
    # Called only if a partition was refused: to merge costs as much as to make the answer.
    by_topic: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in [*refused, *asked]:
        known = by_topic.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(by_topic.values())


def _groups_asked_for(request: Request[OffsetFetchRequest]) -> Sequence[OffsetFetchRequestGroup]:
    """Return the groups in the layout of v8 and later."""
    body = request.body
    if request.api_version >= SEVERAL_GROUPS_SINCE:
        return body.groups
    topics = body.topics
    return [
        OffsetFetchRequestGroup(
            group_id=body.group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics
            ],
        )
    ]


def _whole_groups_once(groups: Sequence[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Leave out repeated questions for all offsets of a group: a few bytes could ask for ten thousand each time."""
    whole: set[str] = set()
    kept = []
    for group in groups:
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole.add(group.group_id)
        kept.append(group)
    return kept


def _fetch_error_answer(request: Request[OffsetFetchRequest], error: ApiError) -> OffsetFetchResponse:
    """Say the error of every group; before v2, which has no field for it, say it of every partition."""
    groups = [
        OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.code)
        for group in _groups_asked_for(request)
    ]
    return _fetch_response(request, groups)


def _refused_topic(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


def _fetched_partition(found: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=found.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=found.error,
    )


def _fetch_response(
    request: Request[OffsetFetchRequest], groups: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    """Return the answer in the layout of the request's version."""
    if request.api_version >= SEVERAL_GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    group = groups[0]
    topics = group.topics
    if group.error_code != ErrorCode.NONE and request.api_version < GROUP_ERROR_SINCE:
        error = ErrorCode(group.error_code)
        topics = [_refused_topic(topic, error) for asked in _groups_asked_for(request) for topic in asked.topics or ()]
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


def _delete_response(answers: dict[tuple[str, int], ErrorCode]) -> OffsetDeleteResponse:
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    for (name, partition), error in answers.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetDeleteResponseTopic(name=name, partitions=[])
        topic.partitions.append(OffsetDeleteResponsePartition(partition_index=partition, error_code=error))
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=list(topics.values()))
