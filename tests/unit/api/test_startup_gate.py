"""The startup gate: the controller passes, all others wait with their frames and are answered once it opens."""

from __future__ import annotations

from typing import Any

from barnabas.api.apis import Apis
from barnabas.api.brief import BRIEF
from barnabas.api.gates import StartupGate
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext, Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.protocol.messages.message import Message
from barnabas.purgatory.action_queue import ActionQueue
from tests.support.recording_channel import RecordingChannel

CONTEXT = ConnectionContext("127.0.0.1:9092-127.0.0.1:50000-0", "127.0.0.1", "PLAINTEXT", "PLAINTEXT")


class Broker:
    """Two APIs behind a gate, and what became of the frames."""

    def __init__(self) -> None:
        self.channel = RecordingChannel()
        self.released: list[str] = []
        self.now_ns = 1
        registry = Registry(
            [
                Handler(ApiKey.API_VERSIONS, lambda r: r.respond(ApiVersionsResponse()), brief=BRIEF),
                Handler(ApiKey.UPDATE_METADATA, lambda r: r.respond(UpdateMetadataResponse())),
            ]
        )
        self.parser = RequestParser(registry)
        self.apis = Apis(ActionQueue(), lambda: self.now_ns)
        self.gate = StartupGate(self.parser, registry, self.apis.handle_moved)

    def parse(self, message: Message, version: int, name: str) -> Request[Any]:
        header = encode_request_header(message.api_key, version, 1, "client")
        frame = b"".join([header, *(bytes(piece) for piece in message.encode(version))])
        return self.parser.parse(
            frame, CONTEXT, channel=self.channel, received_ns=1, release=lambda: self.released.append(name)
        )

    def receive(self, message: Message, version: int, name: str) -> None:
        self.apis.handle(self.parse(message, version, name))


def test_the_controller_passes_and_everybody_else_waits_for_the_gate() -> None:
    broker = Broker()
    broker.receive(ApiVersionsRequest(), 0, "client")
    assert (broker.channel.events, broker.released) == ([], [])
    broker.receive(UpdateMetadataRequest(), 8, "controller")
    assert (broker.channel.events, broker.released) == (["send"], ["controller"])
    late = broker.parse(ApiVersionsRequest(), 0, "late")
    assert late.brief
    broker.gate.open()
    assert (broker.channel.events, broker.released) == (["send"] * 2, ["controller", "client"])
    broker.apis.handle(late)  # parsed before the gate opened, handled after
    assert (broker.channel.events, broker.released) == (["send"] * 3, ["controller", "client", "late"])


def test_an_open_gate_leaves_nothing_behind() -> None:
    broker = Broker()
    handler = broker.parse(UpdateMetadataRequest(), 8, "before").handler
    broker.gate.open()
    assert broker.parse(UpdateMetadataRequest(), 8, "after").handler is handler
    assert broker.parse(ApiVersionsRequest(), 0, "after").handler.handle != broker.gate.hold
    unknown = broker.parse(ApiVersionsRequest(), 4, "after")
    assert unknown.api_version == 4


def test_an_api_versions_of_tomorrow_is_answered_as_such_after_the_wait() -> None:
    broker = Broker()
    header = encode_request_header(ApiKey.API_VERSIONS, 4, 1, "client")
    frame = bytearray(header)
    frame[2:4] = (99).to_bytes(2, "big")
    request = broker.parser.parse(bytes(frame) + b"\0" * 8, CONTEXT, channel=broker.channel, received_ns=1)
    broker.apis.handle(request)
    broker.gate.open()
    (answered,) = broker.channel.requests
    assert (answered.api_version, answered.header.api_version) == (99, 0)


def test_who_waits_for_the_gate_is_not_charged_for_the_time() -> None:
    """The request quota counts from when a handler takes the request."""
    broker = Broker()
    broker.receive(ApiVersionsRequest(), 0, "client")
    broker.now_ns = 5_000
    broker.gate.open()
    (answered,) = broker.channel.requests
    assert answered.dequeued_ns == answered.local_complete_ns == 5_000


def test_who_waits_can_be_turned_away_and_the_gate_opens_for_the_others() -> None:
    broker = Broker()
    broker.receive(ApiVersionsRequest(), 0, "first")
    assert broker.gate.disconnect_waiting() == 1
    assert (broker.channel.events, broker.released) == (["close"], ["first"])
    broker.receive(ApiVersionsRequest(), 0, "second")
    broker.gate.open()
    assert broker.gate.disconnect_waiting() == 0
    assert (broker.channel.events, broker.released) == (["close", "send"], ["first", "second"])
