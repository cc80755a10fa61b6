"""Log directories (KIP-113). DescribeLogDirs: v0-5. AlterReplicaLogDirs: v0-2.

DescribeLogDirs lists the replicas of each directory, and their sizes. AlterReplicaLogDirs has replicas moved into
another directory of this broker, and is answered when the moves have begun; DescribeLogDirs shows how far they are.
Not brief: the file systems are asked for their space, and directories are made.

DescribeLogDirs v2: flexible.
DescribeLogDirs v3: a top-level error.
DescribeLogDirs v4: total and usable bytes (KIP-827).
DescribeLogDirs v5: cordoned directories (KIP-1066), of which there are none here.
AlterReplicaLogDirs v2: flexible.

Kafka: KafkaApis.handleDescribeLogDirsRequest, handleAlterReplicaLogDirsRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.log_dir_descriptions import LogDirDescription
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.security.acl.acl_codes import AclOperation, ResourceType


class LogDirsApi:
    """Describes log directories, and has replicas moved between them."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer | None) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_LOG_DIRS, self.describe_log_dirs),
            Handler(ApiKey.ALTER_REPLICA_LOG_DIRS, self.alter_replica_log_dirs, error_answer=_refused_moves),
        )

    def describe_log_dirs(self, request: Request[DescribeLogDirsRequest]) -> None:
        """List every directory, with those of the wanted replicas (null: all) that lie in it.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED; before v3 there is no room for it, and the answer is empty.
        """
        if not is_allowed(self._authorizer, request, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        topics = request.body.topics
        wanted = None
        # An empty list asks for no replica: the directories are still described.
        if topics is not None:
            wanted = frozenset(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)
        described = self._replicas.describe_log_dirs(wanted)
        request.respond(DescribeLogDirsResponse(results=[_result(directory) for directory in described]))

    def alter_replica_log_dirs(self, request: Request[AlterReplicaLogDirsRequest]) -> None:
        """Begin the moves, or give them up where a replica is to stay; answer with the error of each partition.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, which is the answer for each partition.
        """
        wanted = _wanted_dirs(request.body)
        if not is_allowed(self._authorizer, request, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        request.respond(_moves_answer(self._replicas.orders.alter_log_dirs(wanted)))


def _wanted_dirs(request: AlterReplicaLogDirsRequest) -> dict[TopicPartition, str]:
    """Return the directory of each partition; of one that is named twice, the last."""
    return {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _moves_answer(errors: Mapping[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = {}
    for key, error in errors.items():
        if key.topic not in topics:
            topics[key.topic] = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(key.topic)
        topics[key.topic].partitions.append(
            AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(key.partition, error)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _refused_moves(request: Request[AlterReplicaLogDirsRequest], error: ApiError) -> AlterReplicaLogDirsResponse:
    """Say the error of every partition: the answer has no other place for it."""
    return _moves_answer(dict.fromkeys(_wanted_dirs(request.body), error.code))


def _result(directory: LogDirDescription) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
    for replica in directory.replicas:
        name = replica.topic_partition.topic
        if name not in topics:
            topics[name] = DescribeLogDirsResponse.DescribeLogDirsTopic(name)
        topics[name].partitions.append(
            DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=replica.topic_partition.partition,
                partition_size=replica.size,
                offset_lag=replica.offset_lag,
                is_future_key=replica.is_future,
            )
        )
    return DescribeLogDirsResponse.DescribeLogDirsResult(
        error_code=directory.error,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )
