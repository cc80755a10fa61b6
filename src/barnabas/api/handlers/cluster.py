"""DescribeCluster: v0-2 (KIP-700).

Brief. v1: endpoint type (KIP-919): only brokers have endpoints here. v2: fenced brokers (KIP-1073): none are listed,
as in ZooKeeper mode.

Kafka: KafkaApis.handleDescribeCluster.
"""

from __future__ import annotations

from barnabas.api.authorize import CLUSTER_OPERATIONS, NOT_REQUESTED
from barnabas.api.request import Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse

BROKER_ENDPOINTS = 1


class DescribeClusterApi:
    """Brokers, controller and cluster id, as this broker knows them."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def describe_cluster(self, request: Request[DescribeClusterRequest]) -> None:
        """List the brokers that can be reached through the listener the request came by."""
        if request.api_version >= 1 and request.body.endpoint_type != BROKER_ENDPOINTS:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = f"Unsupported endpoint type {request.body.endpoint_type}: only brokers (1) are described here."
            request.respond(self.error(request, code, message))
            return
        image = self._metadata.image
        asked = request.body.include_cluster_authorized_operations
        brokers = [
            DescribeClusterResponse.DescribeClusterBroker(broker_id=broker.id, host=host, port=port, rack=broker.rack)
            for broker, host, port in image.reachable_brokers(request.connection.listener_name)
        ]
        request.respond(
            DescribeClusterResponse(
                error_code=ErrorCode.NONE,
                cluster_id=image.cluster_id or "",
                controller_id=image.controller_id,
                brokers=brokers,
                cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_REQUESTED,
            )
        )

    @staticmethod
    def error(
        request: Request[DescribeClusterRequest], code: ErrorCode, message: str | None
    ) -> DescribeClusterResponse:
        """A top-level error."""
        return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", brokers=[])
