"""DescribeLogDirs: v0-5 (KIP-113): the replicas of each log directory, and their sizes.

Not brief: the file systems are asked for their space.

v2: flexible.
v3: a top-level error.
v4: total and usable bytes (KIP-827).
v5: cordoned directories (KIP-1066), of which there are none here.

Kafka: KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.log_dir_descriptions import LogDirDescription
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.security.acl.acl_codes import AclOperation, ResourceType


class LogDirsApi:
    """Describes log directories."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer | None) -> None:
        self._replicas = replicas
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.DESCRIBE_LOG_DIRS, self.describe_log_dirs),)

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
