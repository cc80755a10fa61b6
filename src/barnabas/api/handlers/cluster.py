"""DescribeCluster: v0-2 (KIP-700). UnregisterBroker: v0.

Brief. UnregisterBroker is for brokers that a KRaft controller remembers. A registration in the store ends with the
session of its broker, so the request is refused, in Kafka's words.

DescribeCluster v1: endpoint type (KIP-919); only brokers have endpoints here.
DescribeCluster v2: fenced brokers (KIP-1073); none are listed, as in ZooKeeper mode.

Kafka: KafkaApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse, MetadataSupport.requireRaftOrThrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.api.authorize import NOT_REQUESTED, Authorizer, authorized_cluster_operations
from barnabas.api.brief import BRIEF
from barnabas.api.request import Handler, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse, UnregisterBrokerRequest

BROKER_ENDPOINTS: Final = 1
CONTROLLER_ENDPOINTS: Final = 2
NO_CONTROLLER: Final = -1


class ClusterApi:
    """Describes brokers, controller and cluster id, as this broker knows them."""

    def __init__(self, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.DESCRIBE_CLUSTER, self.describe_cluster, brief=BRIEF),
            Handler(ApiKey.UNREGISTER_BROKER, self.unregister_broker, brief=BRIEF),
        )

    def describe_cluster(self, request: Request[DescribeClusterRequest]) -> None:
        """List the brokers that can be reached through the request's listener.

        Raises ApiError: MISMATCHED_ENDPOINT_TYPE for controllers, UNSUPPORTED_ENDPOINT_TYPE for an unknown type.
        """
        endpoints = request.body.endpoint_type
        if endpoints == CONTROLLER_ENDPOINTS:
            raise ApiError(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            )
        if endpoints != BROKER_ENDPOINTS:
            raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoints}")
        image = self._metadata.image
        brokers = [
            DescribeClusterResponse.DescribeClusterBroker(broker_id=broker.id, host=host, port=port, rack=broker.rack)
            for broker, host, port in image.reachable_brokers(request.connection.listener_name)
        ]
        # A controller that the client cannot reach by its listener is as good as none.
        reachable = any(broker.broker_id == image.controller_id for broker in brokers)
        request.respond(
            DescribeClusterResponse(
                error_code=ErrorCode.NONE,
                cluster_id=image.cluster_id or "",
                controller_id=image.controller_id if reachable else NO_CONTROLLER,
                brokers=brokers,
                cluster_authorized_operations=self._operations(request),
            )
        )

    def _operations(self, request: Request[DescribeClusterRequest]) -> int:
        if not request.body.include_cluster_authorized_operations:
            return NOT_REQUESTED
        return authorized_cluster_operations(self._authorizer, request)

    def unregister_broker(self, request: Request[UnregisterBrokerRequest]) -> None:
        """Refuse. Raises ApiError: UNSUPPORTED_VERSION."""
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Should always be forwarded to the Active Controller when using a Raft-based metadata quorum: "
            "UNREGISTER_BROKER",
        )
