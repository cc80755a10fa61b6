"""Reads, changes and deletes the committed offsets of groups.

Part of `Admin`. Kafka: ListConsumerGroupOffsetsHandler, AlterConsumerGroupOffsetsHandler,
DeleteConsumerGroupOffsetsHandler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import error_in, raise_error
from barnabas.clients.values import OffsetAndMetadata
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.topic_partition import TopicPartition, by_topic

# OffsetFetch v2 is the first that can ask for all topics (KIP-88). Up to v7 it asks for one group, as this call does;
# v7 added `require_stable` (KIP-447).
_FETCH_ALL_TOPICS_SINCE = 2
_ONE_GROUP_UNTIL = 7
_REQUIRE_STABLE_SINCE = 7
# OffsetCommit v10 names topics by their ids (KIP-848). v0 and v1 are gone from Kafka 4 (KIP-896).
_COMMIT_BY_NAME_UNTIL = 9
_COMMIT_SINCE = 2


class AdminGroupOffsets(AdminPart):
    """The methods of `Admin` about the committed offsets of groups."""

    def list_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets for these partitions, or for all. Partitions without one are left out.

        With `require_stable`, wait until no open transaction may change the offsets. Raises ApiError.
        """
        topics = None
        if partitions is not None:
            topics = [
                OffsetFetchRequest.OffsetFetchRequestTopic(topic, indexes)
                for topic, indexes in by_topic(partitions).items()
            ]

        answer = self._calls.ask_coordinator(
            group_id,
            OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable),
            OffsetFetchResponse,
            lambda answer: [
                answer.error_code,
                *(each.error_code for topic in answer.topics for each in topic.partitions),
            ],
            (_REQUIRE_STABLE_SINCE if require_stable else _FETCH_ALL_TOPICS_SINCE, _ONE_GROUP_UNTIL),
        )
        raise_error(answer.error_code, None, f"Group: {group_id}")
        committed = {}
        for topic in answer.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                raise_error(each.error_code, None, f"Partition: {place}")
                # -1 stands for "no offset committed".
                if each.committed_offset >= 0:
                    committed[place] = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
        return committed

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, ApiError | None]:
        """Commit offsets for a group. Returns each partition's error, or None.

        While the group has members, the error is UNKNOWN_MEMBER_ID.
        """
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                topic, partitions=[_committed(index, offsets[TopicPartition(topic, index)]) for index in indexes]
            )
            for topic, indexes in by_topic(offsets).items()
        ]

        # Without a member and a generation: coordinators accept such a commit only while the group has no members.
        answer = self._calls.ask_coordinator(
            group_id,
            OffsetCommitRequest(group_id=group_id, topics=topics),
            OffsetCommitResponse,
            lambda answer: [each.error_code for topic in answer.topics for each in topic.partitions],
            (_COMMIT_SINCE, _COMMIT_BY_NAME_UNTIL),
        )
        return {
            TopicPartition(topic.name, each.partition_index): error_in(
                each.error_code, None, f"Partition: {topic.name}-{each.partition_index}"
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    def delete_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """Delete a group's committed offsets for partitions of topics that its members do not subscribe to.

        Returns each partition's error, or None. Raises ApiError when no offset was deleted at all.
        """
        topics = [
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                topic, [OffsetDeleteRequest.OffsetDeleteRequestPartition(index) for index in indexes]
            )
            for topic, indexes in by_topic(partitions).items()
        ]

        answer = self._calls.ask_coordinator(
            group_id,
            OffsetDeleteRequest(group_id=group_id, topics=topics),
            OffsetDeleteResponse,
            lambda answer: (answer.error_code,),
        )
        raise_error(answer.error_code, None, f"Group: {group_id}")
        return {
            TopicPartition(topic.name, each.partition_index): error_in(
                each.error_code, None, f"Partition: {topic.name}-{each.partition_index}"
            )
            for topic in answer.topics
            for each in topic.partitions
        }


def _committed(index: int, wanted: OffsetAndMetadata | int) -> OffsetCommitRequest.OffsetCommitRequestPartition:
    new = OffsetAndMetadata(wanted) if isinstance(wanted, int) else wanted
    return OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=new.offset,
        committed_leader_epoch=new.leader_epoch,
        committed_metadata=new.metadata,
    )
