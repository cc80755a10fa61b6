"""Replicas and their log directories (KIP-113, KIP-827).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: AlterReplicaLogDirsRequest, DescribeLogDirsRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int16, Int32, Int64, field


# v0: KIP-113; v2: flexible.
class AlterReplicaLogDirsRequest(MessageSpec, api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = field("0+")

    class AlterReplicaLogDir(StructSpec):
        path: str = field("0+")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = field("0+")

    class AlterReplicaLogDirTopic(StructSpec):
        name: str = field("0+")
        partitions: list[Int32] = field("0+")


class AlterReplicaLogDirsResponse(MessageSpec, api=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = field("0+")

    class AlterReplicaLogDirTopicResult(StructSpec):
        topic_name: str = field("0+")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = field("0+")

    class AlterReplicaLogDirPartitionResult(StructSpec):
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")


# v2: flexible; v3: a top-level error; v4: total and usable bytes of the volume (KIP-827).
# v5: directories that take no new replicas (KIP-1066).
class DescribeLogDirsRequest(MessageSpec, api=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = field("0+", nullable="0+")

    class DescribableLogDirTopic(StructSpec):
        topic: str = field("0+")
        partitions: list[Int32] = field("0+")


class DescribeLogDirsResponse(MessageSpec, api=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = field("0+")

    class DescribeLogDirsResult(StructSpec):
        error_code: Int16 = field("0+")
        log_dir: str = field("0+")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = field("0+")
        total_bytes: Int64 = field("4+", ignorable=True, default=-1)
        usable_bytes: Int64 = field("4+", ignorable=True, default=-1)
        is_cordoned: bool = field("5+", ignorable=True)

    class DescribeLogDirsTopic(StructSpec):
        name: str = field("0+")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = field("0+")

    class DescribeLogDirsPartition(StructSpec):
        partition_index: Int32 = field("0+")
        partition_size: Int64 = field("0+")
        # For a replica on its way to another directory, how far it is behind the current one.
        offset_lag: Int64 = field("0+")
        is_future_key: bool = field("0+")
