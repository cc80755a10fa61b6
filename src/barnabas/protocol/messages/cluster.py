"""DescribeCluster: v0-2 (KIP-700, KIP-919, KIP-1073), and UnregisterBroker: v0.

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: DescribeClusterRequest, UnregisterBrokerRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, field


# v1: whether brokers (1) or controllers (2) are asked for (KIP-919); v2: fenced brokers (KIP-1073).
class DescribeClusterRequest(MessageSpec, api=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = field("0+")
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+")


class DescribeClusterResponse(MessageSpec, api=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: str = field("0+")
    controller_id: Int32 = field("0+", default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = field("0+")
    cluster_authorized_operations: Int32 = field("0+", default=-2147483648)

    class DescribeClusterBroker(StructSpec):
        broker_id: Int32 = field("0+")
        host: str = field("0+")
        port: Int32 = field("0+")
        rack: str | None = field("0+", nullable="0+", default=None)
        is_fenced: bool = field("2+")


class UnregisterBrokerRequest(MessageSpec, api=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    broker_id: Int32 = field("0+")


class UnregisterBrokerResponse(MessageSpec, api=ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
