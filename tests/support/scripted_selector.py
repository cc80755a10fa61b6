"""A Selector without sockets: a test says what each poll finds, and reads what was sent. Clients are tested on it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.protocol.headers import RequestHeader, parse_request_header, response_frame
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.transport.channel.authenticator import AuthenticationFailed, Authenticator, ChannelBuilder
from barnabas.transport.channel.kafka_channel import ChannelState
from barnabas.transport.channel.open_channels import IdleExpiry, OpenChannels, SelectorCounters
from barnabas.transport.poller import SelectorsPoller
from tests.support.mock_clock import MockClock


class ScriptedChannel:
    """A channel whose answers a test queues."""

    release: Callable[[], None] | None = None

    def __init__(self, connection_id: str) -> None:
        self.connection_id = connection_id
        self.frames: list[bytes] = []
        self.reader = self

    def take_receive(self) -> bytes | None:
        return self.frames.pop(0) if self.frames else None


class SentRequest:
    """A request as the node at the other end would see it."""

    channel: ScriptedChannel | None = None
    """The connection over which the request came."""

    def __init__(self, connection_id: str, frame: Iterable[Any]) -> None:
        data = b"".join(bytes(piece) for piece in frame)
        assert struct.unpack_from(">i", data)[0] == len(data) - 4
        self.connection_id = connection_id
        self.header: RequestHeader
        self.header, position = parse_request_header(data[4:])
        self.body: Any = request_class(self.header.api_key).decode(data[4:], self.header.api_version, position)[0]


class ScriptedSelector:
    """Connects at once and sends at once, unless told otherwise; `poll` lets the mock clock pass when idle."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        poller = SelectorsPoller()
        poller.close()
        self.counters = SelectorCounters(OpenChannels(poller, IdleExpiry(-1)))
        """Those of a Selector without channels: a test may count up what it needs."""
        self.connects = True
        """False leaves connections hanging until `finish_connect`."""
        self.sends = True
        self.attempts: list[tuple[str, tuple[str, int]]] = []
        self.buffer_sizes: list[tuple[int, int]] = []
        """The sizes of the send and the receive buffer of each attempt."""
        self.sent: list[SentRequest] = []
        """Requests that no test has looked at yet."""
        self.channels: dict[str, ScriptedChannel] = {}
        self.connected: list[str] = []
        self.disconnected: dict[str, ChannelState] = {}
        self.completed_receives: list[ScriptedChannel] = []
        self.completed_sends: list[ScriptedChannel] = []
        self.connect_errors: dict[str, OSError | AuthenticationFailed] = {}
        self.closed: list[str] = []
        self.authenticators: dict[str, Authenticator] = {}
        """By connection id; a connection without SASL needs none."""
        self.reauthenticating: set[str] = set()
        self.last_timeout_ms = -1.0
        self._next_connected: list[str] = []
        self._next_disconnected: dict[str, ChannelState] = {}
        self._next_sends: list[ScriptedChannel] = []
        self.refused: set[str] = set()
        """Connection ids whose connect raises."""
        self.responder: Callable[[SentRequest], Message | None] | None = None
        """Answers requests by itself; those it returns None for stay in `sent`."""
        self.passes_time = False
        """Whether a poll that finds nothing lets the clock advance by its timeout, so that waiting loops end."""

    def connect(
        self,
        connection_id: str,
        address: tuple[str, int],
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        build: ChannelBuilder | None = None,
    ) -> None:
        self.attempts.append((connection_id, address))
        self.buffer_sizes.append((send_buffer_bytes, receive_buffer_bytes))
        if connection_id in self.refused:
            raise OSError("refused")
        assert connection_id not in self.channels
        self.channels[connection_id] = ScriptedChannel(connection_id)
        if self.connects:
            self._next_connected.append(connection_id)

    def finish_connect(self, connection_id: str) -> None:
        self._next_connected.append(connection_id)

    def send(self, connection_id: str, frame: Iterable[Any]) -> None:
        self.send_at_once(connection_id, frame)
        if self.sends:
            self._next_sends.append(self.channels[connection_id])

    def send_at_once(self, connection_id: str, frame: Iterable[Any]) -> None:
        request = SentRequest(connection_id, frame)
        request.channel = self.channels[connection_id]
        self.sent.append(request)

    def poll(self, timeout_ms: float) -> None:
        self.last_timeout_ms = timeout_ms
        if self.responder is not None:
            self._respond(self.responder)
        self.connected, self._next_connected = self._next_connected, []
        self.disconnected, self._next_disconnected = self._next_disconnected, {}
        self.completed_sends, self._next_sends = self._next_sends, []
        self.completed_receives = [channel for channel in self.channels.values() if channel.frames]
        for connection_id in self.disconnected:
            self.channels.pop(connection_id, None)
        found = self.connected or self.disconnected or self.completed_sends or self.completed_receives
        if self.passes_time and not found:
            self.clock.advance(timeout_ms)

    def _respond(self, responder: Callable[[SentRequest], Message | None]) -> None:
        kept = []
        for request in self.sent:
            # A request whose connection was lost is not answered over the next one.
            is_open = self.channels.get(request.connection_id) is request.channel
            response = responder(request) if is_open else None
            if response is None:
                kept.append(request)
            else:
                self.answer(request, response)
        self.sent = kept

    def close(self, connection_id: str) -> None:
        self.closed.append(connection_id)
        self.channels.pop(connection_id, None)

    def close_all(self) -> None:
        for connection_id in list(self.channels):
            self.close(connection_id)

    def is_channel_ready(self, connection_id: str) -> bool:
        return connection_id in self.channels and connection_id not in self.reauthenticating

    def authenticator(self, connection_id: str) -> Authenticator | None:
        return self.authenticators.get(connection_id)

    def reauthenticate(self, connection_id: str, authenticator: Authenticator) -> None:
        self.authenticators[connection_id] = authenticator
        self.reauthenticating.add(connection_id)

    def finish_reauthentication(self, connection_id: str) -> None:
        self.reauthenticating.remove(connection_id)
        self._next_connected.append(connection_id)

    def wakeup(self) -> None:
        """Nobody sleeps."""

    # -- the other end

    def take(self) -> SentRequest:
        """The oldest request that was sent."""
        return self.sent.pop(0)

    def answer(self, request: SentRequest, response: Message, version: int | None = None) -> None:
        """Let the next poll receive `response`."""
        pieces, _ = response_frame(request.header, response, version)
        self.channels[request.connection_id].frames.append(b"".join(bytes(piece) for piece in pieces)[4:])

    def answer_raw(self, connection_id: str, frame: bytes) -> None:
        self.channels[connection_id].frames.append(frame)

    def take_connect_error(self, connection_id: str) -> OSError | AuthenticationFailed | None:
        return self.connect_errors.pop(connection_id, None)

    def disconnect(self, connection_id: str, state: ChannelState = ChannelState.READY) -> None:
        """Let the next poll report a lost connection."""
        self._next_disconnected[connection_id] = state


def all_versions(*message_classes: type[Message]) -> ApiVersionsResponse:
    """An ApiVersions answer that supports all versions of these, and ApiVersions."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(int(cls.api_key), cls.min_version, cls.max_version)
            for cls in message_classes
        ]
        + [ApiVersionsResponse.ApiVersion(18, 0, 4)]
    )
