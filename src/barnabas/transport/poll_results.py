"""What a Selector reports of its channels besides received frames. Emptied by each poll, never replaced.

Filled by the Selector's parts, also between two polls, and read by the layer above; all on the Selector's thread. No
lock. Kafka: the collections connected, disconnected and completedSends of Selector.
"""

from __future__ import annotations

from barnabas.transport.channel_state import ChannelState
from barnabas.transport.kafka_channel import KafkaChannel


class PollResults:
    """The collections that the Selector shows as its own attributes."""

    __slots__ = ("completed_sends", "connect_errors", "connected", "disconnected")

    def __init__(self) -> None:
        self.connected: list[str] = []
        self.disconnected: dict[str, ChannelState] = {}
        self.completed_sends: list[KafkaChannel] = []
        self.connect_errors: dict[str, OSError] = {}
        """Why connecting failed, by connection id. Kept until it is taken, so that no poll has to empty it."""
