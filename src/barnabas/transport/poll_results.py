"""The reports of a Selector about its channels, besides received frames. Each poll empties these collections.

Filled by the Selector's parts, also between two polls, and read by the layer above; all on the Selector's thread. No
lock. Kafka: Selector (its collections connected, disconnected and completedSends).
"""

from __future__ import annotations

from barnabas.transport.channel_state import ChannelState
from barnabas.transport.kafka_channel import KafkaChannel


class PollResults:
    """The collections that the Selector shows as its own attributes."""

    __slots__ = ("completed_sends", "connected", "disconnected", "muted_readable")

    def __init__(self) -> None:
        self.connected: list[str] = []
        self.disconnected: dict[str, ChannelState] = {}
        self.completed_sends: list[KafkaChannel] = []
        self.muted_readable: list[KafkaChannel] = []
