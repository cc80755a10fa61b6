"""OffsetForLeaderEpoch: v0-4 (KIP-101, KIP-320): where a leader epoch ends in the leader's log.

Brief: a look-up in memory. Followers ask to find where their logs diverge from the leader's, consumers to see whether
what they read was truncated. A sender that may do CLUSTER_ACTION may ask for every topic, others for those they may
describe.

v1: the epoch that was found.
v2: current leader epoch, to fence the sender.
v3: the follower's id (-2: a consumer).
v4: flexible.

Kafka: KafkaApis.handleOffsetForLeaderEpochRequest, ReplicaManager.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, permitted
from barnabas.api.brief import BRIEF
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from barnabas.replica.epoch_end_offset import EpochEndOffset
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.security.acl.acl_codes import AclOperation, ResourceType

FIRST_FOLLOWER_ID = 0
TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
PartitionResult = OffsetForLeaderEpochResponse.EpochEndOffset


class OffsetForLeaderEpochApi:
    """Looks the ends of leader epochs up."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer | None) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.OFFSET_FOR_LEADER_EPOCH, self.offset_for_leader_epoch, brief=BRIEF),)

    def offset_for_leader_epoch(self, request: Request[OffsetForLeaderEpochRequest]) -> None:
        """Answer every partition on its own."""
        body = request.body
        allowed = self._allowed(request)
        # Before v3 the id is the default, -2: a follower of an old release is then served as a consumer.
        from_follower = body.replica_id >= FIRST_FOLLOWER_ID
        request.respond(
            OffsetForLeaderEpochResponse(
                topics=[
                    TopicResult(
                        topic.topic,
                        [
                            self._result(topic.topic, asked, from_follower=from_follower)
                            if topic.topic in allowed
                            else _result(asked.partition, EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                            for asked in topic.partitions
                        ],
                    )
                    for topic in body.topics
                ]
            )
        )

    def _allowed(self, request: Request[OffsetForLeaderEpochRequest]) -> AbstractSet[str]:
        names = frozenset(topic.topic for topic in request.body.topics)
        # Followers have this one permission instead of one for each topic.
        if is_allowed(self._authorizer, request, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return names
        return permitted(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)

    def _result(
        self, topic: str, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition, *, from_follower: bool
    ) -> PartitionResult:
        found = self._replicas.last_offset_for_leader_epoch(
            topic,
            asked.partition,
            current_leader_epoch=asked.current_leader_epoch,
            leader_epoch=asked.leader_epoch,
            from_follower=from_follower,
        )
        return _result(asked.partition, found)


def _result(partition: int, found: EpochEndOffset) -> PartitionResult:
    return PartitionResult(
        error_code=found.error, partition=partition, leader_epoch=found.leader_epoch, end_offset=found.end_offset
    )
