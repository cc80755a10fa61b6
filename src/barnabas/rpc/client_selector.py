"""What a NetworkClient uses of `transport.Selector`, so that tests can script it. Owned by the client's thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from barnabas.transport.channel_state import ChannelState
from barnabas.transport.frame_reader import Frame


class ReceivingChannel(Protocol):
    """What the client uses of a KafkaChannel."""

    @property
    def connection_id(self) -> str:
        """The id it was connected with."""

    @property
    def reader(self) -> Any:
        """Its `release` gives the buffer of the last large frame back."""

    def take_receive(self) -> Frame | None:
        """The next whole frame that is here."""


class ClientSelector(Protocol):
    """What the client uses of a `transport.Selector`; tests script it."""

    @property
    def connected(self) -> Iterable[str]:
        """Connections ready since the last poll."""

    @property
    def disconnected(self) -> Mapping[str, ChannelState]:
        """Connections lost since the last poll."""

    @property
    def completed_receives(self) -> Iterable[Any]:
        """Channels with whole frames (ReceivingChannel)."""

    @property
    def completed_sends(self) -> Iterable[Any]:
        """Channels that have nothing left to send (ReceivingChannel)."""

    def take_connect_error(self, connection_id: str) -> OSError | None:
        """Return why a connection in `disconnected` could not be made, and forget it."""

    def connect(
        self,
        connection_id: str,
        address: tuple[str, int],
        send_buffer_bytes: int = ...,
        receive_buffer_bytes: int = ...,
    ) -> None:
        """Begin to connect."""

    def send(self, connection_id: str, frame: Iterable[Any]) -> None:
        """Queue a frame."""

    def poll(self, timeout_ms: float) -> None:
        """Do what can be done."""

    def close(self, connection_id: str) -> None:
        """Close a connection without reporting it."""

    def close_all(self) -> None:
        """Close everything."""

    def is_channel_ready(self, connection_id: str) -> bool:
        """Connected and authenticated."""

    def wakeup(self) -> None:
        """Make poll return; from any thread."""
