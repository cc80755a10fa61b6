"""The part of `transport.Selector` that NetworkClient and PeerConnection use, as a Protocol: tests can script it.

Owned by the client's thread; no lock. Kafka: Selectable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from barnabas.runtime.clock import Clock
from barnabas.transport.channel.authenticator import AuthenticationFailed, Authenticator, ChannelBuilder
from barnabas.transport.channel.kafka_channel import ChannelState
from barnabas.transport.channel.open_channels import SelectorCounters


class ClientSelector(Protocol):
    """The part of a `transport.Selector` that the client uses."""

    @property
    def counters(self) -> SelectorCounters:
        """The totals since the start. Any thread may read them."""

    @property
    def connected(self) -> Iterable[str]:
        """The connections that became ready in the last poll."""

    @property
    def disconnected(self) -> Mapping[str, ChannelState]:
        """The connections that were lost in the last poll."""

    @property
    def completed_receives(self) -> Iterable[Any]:
        """The channels (KafkaChannel) with whole frames."""

    @property
    def completed_sends(self) -> Iterable[Any]:
        """The channels (KafkaChannel) that have nothing left to send."""

    def take_connect_error(self, connection_id: str) -> OSError | AuthenticationFailed | None:
        """Return why a connection in `disconnected` could not be made, and forget it."""

    def connect(
        self,
        connection_id: str,
        address: tuple[str, int],
        send_buffer_bytes: int = ...,
        receive_buffer_bytes: int = ...,
        build: ChannelBuilder | None = ...,
    ) -> None:
        """Begin to connect. build: makes the channel; None: a plaintext one."""

    def authenticator(self, connection_id: str) -> Authenticator | None:
        """Return the authenticator of an open connection; None if there is no such connection."""

    def reauthenticate(self, connection_id: str, authenticator: Authenticator) -> None:
        """Log in again on a connection that waits for no answer; a later poll reports it in `connected` again."""

    def send(self, connection_id: str, frame: Iterable[Any]) -> None:
        """Queue a frame."""

    def send_at_once(self, connection_id: str, frame: Iterable[Any]) -> None:
        """Send a frame, as much as there is room for; the next polls send the rest."""

    def poll(self, timeout_ms: float) -> None:
        """Wait for at most `timeout_ms`, and do the I/O that is possible."""

    def close(self, connection_id: str) -> None:
        """Close a connection without reporting it."""

    def close_all(self) -> None:
        """Close every connection."""

    def is_channel_ready(self, connection_id: str) -> bool:
        """Return whether a channel is connected and authenticated."""

    def wakeup(self) -> None:
        """Make `poll` return. Any thread may call this."""


class SelectorFactory(Protocol):
    """A function that makes the selector of one client: `transport.Selector`, or a scripted one in tests."""

    def __call__(self, clock: Clock, *, max_idle_ms: float) -> ClientSelector:
        """Return a new selector, which closes connections that are idle for `max_idle_ms`; below zero, none."""
