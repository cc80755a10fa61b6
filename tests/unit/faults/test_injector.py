"""What the hook does to a request, without a network: every action before and after, and the marks of its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.brief import BRIEF, NeedsHandlerThread
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.faults.fault_layer import BrokerParts, FaultInjector
from barnabas.faults.fault_plan import Action, BlackHole, Delay, Drop, Error, Kill, fault_plan
from barnabas.faults.fault_table import Counts, FaultTable, InstalledFault
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.classic_groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import SystemTimer
from barnabas.records.file_records import FileRecords
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel, connection

TOPIC_ID = b"0123456789abcdef"
FENCED = ErrorCode.FENCED_INSTANCE_ID


class CountedFile:
    """A file that knows how many hold it."""

    def __init__(self) -> None:
        self.holders = 1

    def release(self) -> None:
        self.holders -= 1


class Broker:
    """Three APIs behind the hook: one that answers, one that waits until it is let go, one that answers never."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.channel = RecordingChannel()
        self.timer = SystemTimer(self.clock, lambda task: task())
        self.table = FaultTable()
        self.counts: dict[int, Counts] = {}
        self.handled: list[ApiKey] = []
        self.released: list[ApiKey] = []
        self.waiting: list[Request[Any]] = []
        self.killed: list[str] = []
        self.file = CountedFile()
        self.registry = Registry(
            [
                Handler(ApiKey.HEARTBEAT, self._heartbeat, brief=BRIEF),
                Handler(ApiKey.METADATA, self._wait),
                Handler(ApiKey.FETCH, self._fetch),
            ]
        )
        self.apis = Apis(ActionQueue(), self.clock.nanoseconds)
        broker = BrokerParts(self.timer, self.apis.handle_moved, lambda: {TOPIC_ID: "orders"}, own_client_id="0")
        self.injector = FaultInjector(self.registry, self.table, broker, lambda: self.killed.append("kill"))
        self.parser = RequestParser(self.injector.intercepted())

    def add(self, action: Action, **which: Any) -> None:
        self.table.install([InstalledFault(1, fault_plan(action, **which))])

    def receive(self, message: Message, version: int = 4, client_id: str | None = "app") -> None:
        header = encode_request_header(message.api_key, version, 1, client_id)
        frame = b"".join([header, *(bytes(piece) for piece in message.encode(version))])

        def release() -> None:
            self.released.append(ApiKey(message.api_key))

        request = self.parser.parse(frame, connection(), channel=self.channel, received_ns=1, release=release)
        self.apis.handle(request)

    @property
    def hits(self) -> int:
        self.counts |= self.table.take_changes()
        return self.counts.get(1, Counts()).hits

    def _heartbeat(self, request: Request[Any]) -> None:
        if request.brief and request.body.group_id == "large":
            raise NeedsHandlerThread
        self.handled.append(ApiKey.HEARTBEAT)
        request.respond(HeartbeatResponse())

    def _wait(self, request: Request[Any]) -> None:
        self.handled.append(ApiKey.METADATA)
        self.waiting.append(request)

    def _fetch(self, request: Request[Any]) -> None:
        self.handled.append(ApiKey.FETCH)
        request.channel.send(request, [b"header", FileRecords(self.file, 0, 0)])  # type: ignore[arg-type]


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_without_a_fault_nothing_differs(broker: Broker) -> None:
    broker.receive(HeartbeatRequest("group"))
    assert (broker.handled, broker.channel.events, broker.released) == (
        [ApiKey.HEARTBEAT],
        ["send"],
        [ApiKey.HEARTBEAT],
    )
    (answered,) = broker.channel.requests
    assert answered.handler is broker.registry.handlers[ApiKey.HEARTBEAT]


def test_the_lines_of_the_table_have_the_marks_of_the_real_ones(broker: Broker) -> None:
    for ours in broker.injector.intercepted():
        real = broker.registry.handlers[ours.api_key]
        for mark in ("min_version", "max_version", "brief_from", "brief_bytes", "error_answer"):
            assert getattr(ours, mark) == getattr(real, mark)


def test_a_request_that_moves_to_another_thread_counts_once(broker: Broker) -> None:
    broker.add(Delay(1), api="Fetch")
    broker.add(Error(FENCED), api="Metadata")
    broker.table.install([InstalledFault(7, fault_plan(Drop("after"), api="Heartbeat"))])
    broker.receive(HeartbeatRequest("large"))
    assert broker.table.take_changes() == {7: Counts(1, 1)}
    assert (broker.handled, broker.channel.events) == ([ApiKey.HEARTBEAT], ["close"])


def test_error_before(broker: Broker) -> None:
    broker.add(Error(FENCED))
    broker.receive(HeartbeatRequest("group"))
    assert (broker.handled, broker.channel.answer().error_code) == ([], FENCED)
    assert broker.released == [ApiKey.HEARTBEAT]


def test_error_after(broker: Broker) -> None:
    broker.add(Error(FENCED, "after"))
    broker.receive(HeartbeatRequest("group"))
    assert (broker.handled, broker.channel.events) == ([ApiKey.HEARTBEAT], ["send"])
    assert broker.channel.answer().error_code == broker.channel.requests[0].response.error_code == FENCED  # type: ignore[union-attr]


def test_drop(broker: Broker) -> None:
    broker.add(Drop(), api="Heartbeat")
    broker.receive(HeartbeatRequest("group"))
    assert (broker.handled, broker.channel.events, broker.released) == ([], ["close"], [ApiKey.HEARTBEAT])


def test_drop_after_a_wait(broker: Broker) -> None:
    broker.add(Drop("after"), api="Metadata")
    broker.receive(MetadataRequest(None))
    assert (broker.handled, broker.channel.events, broker.hits) == ([ApiKey.METADATA], [], 1)
    broker.waiting[0].respond(MetadataResponse())
    assert broker.channel.events == ["close"]


@pytest.mark.parametrize("action", [Drop("after"), Error(FENCED, "after")])
def test_a_lost_answer_gives_its_files_back(broker: Broker, action: Action) -> None:
    broker.add(action, api="Fetch")
    broker.receive(FetchRequest())
    assert broker.file.holders == 0


def test_delay_before_keeps_the_frame_until_the_request_is_handled(broker: Broker) -> None:
    broker.add(Delay(500))
    broker.receive(HeartbeatRequest("group"))
    broker.clock.advance(499)
    broker.timer.advance()
    assert (broker.handled, broker.channel.events, broker.released) == ([], [], [])
    broker.clock.advance(1)
    broker.timer.advance()
    assert (broker.handled, broker.channel.events, broker.released) == (
        [ApiKey.HEARTBEAT],
        ["send"],
        [ApiKey.HEARTBEAT],
    )
    assert broker.hits == 1


def test_delay_after(broker: Broker) -> None:
    broker.add(Delay(500, "after"))
    broker.receive(HeartbeatRequest("group"))
    assert (broker.handled, broker.channel.events, broker.released) == ([ApiKey.HEARTBEAT], [], [ApiKey.HEARTBEAT])
    broker.clock.advance(500)
    broker.timer.advance()
    assert (broker.channel.events, broker.channel.answer().error_code) == (["send"], 0)


@pytest.mark.parametrize(("action", "handled"), [(BlackHole(), []), (BlackHole("after"), [ApiKey.HEARTBEAT])])
def test_black_hole_until_the_broker_stops(broker: Broker, action: Action, handled: list[ApiKey]) -> None:
    broker.add(action)
    broker.receive(HeartbeatRequest("group"))
    assert (broker.handled, broker.channel.events, broker.released) == (handled, [], [ApiKey.HEARTBEAT])
    broker.injector.stop()
    assert broker.channel.events == ["close"]


def test_a_delay_that_the_stop_interrupts_ends_in_a_closed_connection(broker: Broker) -> None:
    broker.add(Delay(500))
    broker.receive(HeartbeatRequest("group"))
    broker.injector.stop()
    broker.clock.advance(500)
    broker.timer.advance()
    assert (broker.handled, broker.channel.events, broker.released) == ([], ["close"], [ApiKey.HEARTBEAT])
    broker.receive(HeartbeatRequest("group"))
    assert broker.channel.events == ["close", "close"]


@pytest.mark.parametrize(("action", "handled"), [(Kill(), []), (Kill("after"), [ApiKey.HEARTBEAT])])
def test_kill(broker: Broker, action: Action, handled: list[ApiKey]) -> None:
    broker.add(action)
    broker.receive(HeartbeatRequest("group"))
    assert (broker.killed, broker.handled, broker.channel.events) == (["kill"], handled, [])


def test_topics_by_name_and_by_id(broker: Broker) -> None:
    broker.add(Drop(), topic="orders")
    broker.receive(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="other")]))
    broker.receive(FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=b"f" * 16)]), 13)
    assert broker.hits == 0
    broker.receive(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="orders")]))
    broker.receive(FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=TOPIC_ID)]), 13)
    assert broker.hits == 2


def test_the_requests_of_the_broker_to_itself_are_spared(broker: Broker) -> None:
    broker.add(BlackHole())
    broker.receive(HeartbeatRequest("group"), client_id="0")
    assert (broker.hits, broker.channel.events) == (0, ["send"])
    broker.receive(HeartbeatRequest("group"), client_id=None)
    assert (broker.hits, broker.channel.events) == (1, ["send"])


@pytest.mark.parametrize("end", [Request.no_response, Request.close_connection])
def test_a_request_without_an_answer_is_hit_at_its_end(broker: Broker, end: Callable[[Request[Any]], None]) -> None:
    broker.add(Delay(5, "after"), api="Metadata")
    broker.receive(MetadataRequest(None))
    end(broker.waiting[0])
    assert broker.channel.events == []
    broker.clock.advance(5)
    broker.timer.advance()
    assert broker.channel.events == ["no_op" if end is Request.no_response else "close"]
