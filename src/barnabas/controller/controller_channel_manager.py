"""The channels from the controller to the live brokers, each a connection and a queue of requests.

Owned by the controller's thread, so no lock. The channel factory that `broker` gives the controller makes the channels
(NetworkBrokerChannel); tests use other implementations. Kafka: kafka.controller.ControllerChannelManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from barnabas.controller.controller_events import BrokerReachabilityChange
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from barnabas.zk.znodes.broker_zk_data import BrokerInfo

OnLeaderAndIsrResponse = Callable[[LeaderAndIsrResponse], None]
OnUpdateMetadataResponse = Callable[[UpdateMetadataResponse], None]
OnStopReplicaResponse = Callable[[StopReplicaResponse], None]
OnReachabilityChange = Callable[[bool], None]
"""Called with False when the broker's address refuses connections, and with True when it accepts them again."""


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
        """Stop sending, and drop the queued requests."""


ChannelFactory = Callable[[BrokerInfo], BrokerChannel]


class ControllerChannelManager:
    """The channels by broker id, which exist only while this broker is the controller."""

    def __init__(self, channel_factory: ChannelFactory, put_event: Callable[[BrokerReachabilityChange], None]) -> None:
        self._channel_factory = channel_factory
        self._put_event = put_event
        self._channels: dict[int, BrokerChannel] = {}
        self._unanswered: dict[int, int] = {}

    def startup(self, brokers: Mapping[int, BrokerInfo], broker_epochs: Mapping[int, int]) -> None:
        """Open a channel to each broker. Both are by broker id."""
        for broker_id, broker in brokers.items():
            self.add_broker(broker, broker_epochs[broker_id])

    def shutdown(self) -> None:
        """Close all channels, and drop the requests in their queues."""
        for broker_id in list(self._channels):
            self.remove_broker(broker_id)

    def add_broker(self, broker: BrokerInfo, broker_epoch: int) -> None:
        """Open a channel to the broker that registered with this epoch, unless there is a channel."""
        if broker.id not in self._channels:
            channel = self._channel_factory(broker)
            self._channels[broker.id] = channel
            self._unanswered[broker.id] = 0
            channel.start(
                lambda is_reachable: self._put_event(BrokerReachabilityChange(broker.id, broker_epoch, is_reachable))
            )

    def remove_broker(self, broker_id: int) -> None:
        """Close the channel to a broker."""
        channel = self._channels.pop(broker_id, None)
        self._unanswered.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def channel(self, broker_id: int) -> BrokerChannel | None:
        """Return the channel to a broker, or None."""
        return self._channels.get(broker_id)

    def sent(self, broker_id: int) -> None:
        """Count a request whose answer comes back as an event (LeaderAndIsr, UpdateMetadata)."""
        self._unanswered[broker_id] += 1

    def answered(self, broker_id: int) -> None:
        """Count such an answer. An answer that came through an earlier channel is not counted."""
        if self._unanswered.get(broker_id, 0) > 0:
            self._unanswered[broker_id] -= 1

    def is_idle(self, broker_id: int) -> bool:
        """Return whether a broker has answered every counted request."""
        return self._unanswered.get(broker_id, 0) == 0
