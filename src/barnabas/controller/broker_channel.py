"""The connection of the controller to a broker, as a Protocol.

The channel factory that `broker` gives the controller makes one per live broker (NetworkBrokerChannel). The
controller's thread calls it; answers come on the channel's own thread. Tests use other implementations.

Kafka: kafka.controller.ControllerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

OnLeaderAndIsrResponse = Callable[[LeaderAndIsrResponse], None]
OnUpdateMetadataResponse = Callable[[UpdateMetadataResponse], None]
OnStopReplicaResponse = Callable[[StopReplicaResponse], None]
OnReachabilityChange = Callable[[bool], None]
"""Told False when nothing listens at the broker's address any more, and True when it does again."""


class BrokerChannel(Protocol):
    """A queue of requests to one broker. The calls return at once.

    `on_response` is called later, on any thread, or never if the channel is closed before.
    """

    def start(self, on_reachability_change: OnReachabilityChange) -> None:
        """Begin to send, and to look after the connection."""

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        """Send the leaders of partitions that the broker hosts."""

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        """Send the metadata of the cluster."""

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        """Have replicas stopped, some of them deleted."""

    def close(self) -> None:
        """Send no more, and drop the queued requests."""
