"""Long frames and frames of many elements: decoded beside the network threads, few at a time, within their memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.brief import (
    BRIEF,
    BRIEF_LIMIT_BYTES,
    DECODED_PER_BYTE,
    FEW_ELEMENTS,
    HEAVY_BYTES,
    HUGE_BYTES,
    LOGIN_FRAME_BYTES,
    MAX_FRAME_BYTES,
    MOST_ELEMENTS,
    MOST_TAGGED_FIELDS,
    Brief,
)
from barnabas.api.large_requests import Undecoded
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec_runtime import DECODED_PER_BYTE_OF_CONTROLLER
from barnabas.protocol.decoder_source import DecoderBound
from barnabas.protocol.errors import DecodeError, InvalidRequest, ManyElements
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, UpdateMetadataRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import OffsetCommitRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.purgatory.action_queue import ActionQueue
from tests.support.recording_channel import RecordingChannel, connection
from tests.wire.random_messages import all_versions

PARTITIONS_OF_AN_ORDINARY_CLIENT = 10_000
FIRST_VARINT_OF_FIVE_BYTES = b"\xff\xff\xff\xff\x07"


class WaitingChannel(RecordingChannel):
    """Keeps what a request handler thread is to run, until the test runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.continuations: list[Callable[[], None]] = []

    def resume(self, continuation: Callable[[], None]) -> None:
        self.continuations.append(continuation)


class Broker:
    """One API behind the parser; `handled` has the requests that its handler got. They are answered when told to."""

    def __init__(self, api_key: ApiKey = ApiKey.DESCRIBE_GROUPS, brief: Brief = BRIEF) -> None:
        self.handled: list[Request[Any]] = []
        self.while_handling: Callable[[], None] = lambda: None
        self.apis = Apis(ActionQueue(), lambda: 1)
        registry = Registry([Handler(api_key, self._handle, brief=brief)])
        self.parser = RequestParser(registry)

    def receive(self, message: Message, version: int, channel: RecordingChannel | None = None) -> Request[Any]:
        return self.parser.parse(
            frame(message, version), connection(), channel=channel or RecordingChannel(), received_ns=1
        )

    def _handle(self, request: Request[Any]) -> None:
        self.handled.append(request)
        self.while_handling()
        if isinstance(request.body, DescribeGroupsRequest):
            request.respond(DescribeGroupsResponse())


def frame(message: Message, version: int) -> bytes:
    header = encode_request_header(message.api_key, version, 1, "tester")
    return header + b"".join(map(bytes, message.encode(version)))


def groups(count: int, name: str = "") -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=[name] * count)


# -- which frames a network thread decodes


@pytest.mark.parametrize(
    ("names", "is_decoded"), [(3, True), (BRIEF_LIMIT_BYTES // 2 - 100, True), (BRIEF_LIMIT_BYTES // 2, False)]
)
def test_a_long_frame_is_left_to_a_handler_thread(names: int, is_decoded: bool) -> None:
    broker = Broker()
    request = broker.receive(groups(names), 0)
    assert isinstance(request.body, DescribeGroupsRequest) is is_decoded
    assert isinstance(request.body, Undecoded) is not is_decoded
    assert request.brief is is_decoded
    broker.apis.handle(request)
    assert [handled.body.groups for handled in broker.handled] == [[""] * names]
    assert request.channel.answer() == DescribeGroupsResponse()  # type: ignore[attr-defined]


def produce(topics: int, partitions: int, records: bytes | None = None) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(number, records) for number in range(partitions)]
    return ProduceRequest(None, 1, 1000, [ProduceRequest.TopicProduceData(name="t", partition_data=data)] * topics)


@pytest.mark.parametrize(
    ("body", "is_decoded"),
    [
        (produce(1, 1, bytes(BRIEF_LIMIT_BYTES * 4)), True),
        (produce(1, FEW_ELEMENTS - 1), True),
        (produce(1, FEW_ELEMENTS), False),
        (produce(20, FEW_ELEMENTS // 20), False),
        (produce(FEW_ELEMENTS + 1, 0), False),
    ],
)
def test_a_produce_is_decoded_at_once_by_its_elements_and_not_its_bytes(body: ProduceRequest, is_decoded: bool) -> None:
    broker = Broker(ApiKey.PRODUCE, Brief(since=3, limit_bytes=MAX_FRAME_BYTES))
    request = broker.receive(body, 9)
    assert isinstance(request.body, Undecoded) is not is_decoded
    broker.apis.handle(request)
    assert [len(topic.partition_data) for topic in broker.handled[0].body.topic_data] == [
        len(topic.partition_data) for topic in body.topic_data
    ]


def test_the_elements_are_counted_before_they_are_made() -> None:
    """A count of a thousand million in a frame of 40 bytes reads nothing but the count."""
    data = frame(ProduceRequest(None, 1, 1000, []), 9)[:-2] + FIRST_VARINT_OF_FIVE_BYTES
    decode = ProduceRequest.decoders.bounded(DecoderBound.FEW)[9]
    with pytest.raises(ManyElements):
        decode(data, len(encode_request_header(ApiKey.PRODUCE, 9, 1, "tester")))


# -- tagged fields


def with_tagged_fields(data: bytes, count: int) -> bytes:
    """The frame, whose last byte says that there are no tagged fields, with `count` empty ones."""
    varint = bytes([count & 127 | 128, count >> 7]) if count > 127 else bytes([count])
    return data[:-1] + varint + b"\x70\0" * count


@pytest.mark.parametrize(("count", "is_request"), [(MOST_TAGGED_FIELDS, True), (MOST_TAGGED_FIELDS + 1, False)])
@pytest.mark.parametrize(
    ("message", "version"),
    [(groups(1), 5), (FetchRequest(), 13)],  # one without tagged fields of its own, one with several
    ids=["none is known", "some are known"],
)
def test_a_body_has_few_tagged_fields(message: Message, version: int, count: int, is_request: bool) -> None:
    parser = Broker(message.api_key).parser
    data = with_tagged_fields(frame(message, version), count)
    if is_request:
        parser.parse(data, connection(), channel=RecordingChannel(), received_ns=1)
        return
    with pytest.raises(InvalidRequest, match=f"{count} tagged fields"):
        parser.parse(data, connection(), channel=RecordingChannel(), received_ns=1)


@pytest.mark.parametrize(("count", "is_request"), [(MOST_TAGGED_FIELDS, True), (MOST_TAGGED_FIELDS + 1, False)])
def test_a_header_has_few_tagged_fields(count: int, is_request: bool) -> None:
    header = with_tagged_fields(encode_request_header(ApiKey.DESCRIBE_GROUPS, 5, 1, "tester"), count)
    data = header + b"".join(map(bytes, groups(1).encode(5)))
    parser = Broker().parser
    if is_request:
        assert parser.parse(data, connection(), channel=RecordingChannel(), received_ns=1).body == groups(1)
        return
    with pytest.raises(InvalidRequest, match=f"unreadable request header.*{count} tagged fields"):
        parser.parse(data, connection(), channel=RecordingChannel(), received_ns=1)


def test_versions_are_asked_for_in_a_short_frame() -> None:
    data = encode_request_header(ApiKey.API_VERSIONS, 3, 1, "tester") + bytes(LOGIN_FRAME_BYTES)
    with pytest.raises(InvalidRequest, match=f"ApiVersions of {len(data)} bytes.*at most {LOGIN_FRAME_BYTES}"):
        Broker(ApiKey.API_VERSIONS).parser.parse(data, connection(), channel=RecordingChannel(), received_ns=1)


# -- the bounds of a handler thread


def array_requests() -> Iterator[tuple[str, type[Message], int, list[str]]]:
    """Every array of the newest version of every request: its name, and the fields that lead to it."""
    newest = dict(all_versions(requests_only=True))
    for message, version in newest.items():
        for path in _paths(message, version):
            yield f"{message.__name__}.{'.'.join(path)}", message, version, path


def _paths(struct: Any, version: int) -> Iterator[list[str]]:
    for field in struct.field_schemas():
        if field.is_present(version) and not field.is_tagged(version):
            if field.is_array:
                yield [field.name]
            if field.struct is not None:
                yield from ([field.name, *path] for path in _paths(field.struct, version))


def _fill(struct: Any, path: list[str], count: int) -> Any:
    """Give the array at the end of a path `count` elements with no more content than they need."""
    made = struct()
    field = next(each for each in struct.field_schemas() if each.name == path[0])
    if len(path) > 1:
        inner = _fill(field.struct, path[1:], count)
        setattr(made, path[0], [inner] if field.is_array else inner)
    elif field.struct is not None:
        setattr(made, path[0], [field.struct()] * count)
    else:
        element = {"string": "", "bytes": b"", "uuid": bytes(range(16))}.get(field.wire_type.kafka_name, 100)
        setattr(made, path[0], [element] * count)
    return made


SAMPLED = (
    "DescribeGroupsRequest.groups",
    "FetchRequest.topics.partitions",
    "ListOffsetsRequest.topics",
    "LeaderAndIsrRequest.topic_states.partition_states",
    "ProduceRequest.topic_data.partition_data",
    "OffsetFetchRequest.groups.topics.partition_indexes",
    "ConsumerGroupHeartbeatRequest.topic_partitions",
)


@pytest.mark.parametrize(
    ("message", "version", "path"),
    [
        pytest.param(*each[1:], id=each[0], marks=[] if each[0] in SAMPLED else pytest.mark.slow)
        for each in array_requests()
    ],
)
def test_a_decoded_request_takes_ten_times_its_frame_at_most(
    message: type[Message], version: int, path: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(map(bytes, _fill(message, path, 5_000).encode(version)))
    decode = message.decoders.bounded(DecoderBound.MEMORY)[version]
    # So that few elements, which are quickly decoded, are as many as a large frame has.
    freely_bytes = 50_000
    monkeypatch.setitem(decode.__globals__, "DECODED_FREELY_BYTES", freely_bytes)
    factor = DECODED_PER_BYTE_OF_CONTROLLER if message in (LeaderAndIsrRequest, UpdateMetadataRequest) else None
    tracemalloc.start()
    # Many kinds of elements without content are refused.
    with suppress(DecodeError):
        decode(data, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= (factor or DECODED_PER_BYTE) * len(data) + freely_bytes * 1.1


def leader_and_isr(count: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState
    states = [state(partition_index=n, leader=1, isr=[1], replicas=[1]) for n in range(count)]
    return LeaderAndIsrRequest(
        topic_states=[LeaderAndIsrRequest.LeaderAndIsrTopicState("topic", partition_states=states)]
    )


def update_metadata(count: int) -> UpdateMetadataRequest:
    state = UpdateMetadataRequest.UpdateMetadataPartitionState
    states = [state(partition_index=n, leader=1, isr=[1], replicas=[1]) for n in range(count)]
    return UpdateMetadataRequest(
        topic_states=[UpdateMetadataRequest.UpdateMetadataTopicState("topic", partition_states=states)]
    )


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (
            lambda count: ListOffsetsRequest(
                topics=[
                    ListOffsetsRequest.ListOffsetsTopic(
                        "topic", [ListOffsetsRequest.ListOffsetsPartition(n, 5, -1) for n in range(count)]
                    )
                ]
            ),
            7,
        ),
        (
            lambda count: OffsetCommitRequest(
                "group",
                topics=[
                    OffsetCommitRequest.OffsetCommitRequestTopic(
                        name="topic",
                        partitions=[
                            OffsetCommitRequest.OffsetCommitRequestPartition(n, 1 << 40, 5, committed_metadata="")
                            for n in range(count)
                        ],
                    )
                ],
            ),
            8,
        ),
        (
            lambda count: FetchRequest(
                topics=[
                    FetchRequest.FetchTopic(
                        "topic", partitions=[FetchRequest.FetchPartition(n, 5, 1 << 40) for n in range(count)]
                    )
                ]
            ),
            12,
        ),
        (lambda count: groups(count, "a-group-of-mine"), 5),
        (lambda count: groups(count, "a-group-of-mine"), 0),
        (lambda count: produce(1, count, bytes(70)), 9),
        (leader_and_isr, 6),
        (update_metadata, 7),
    ],
    ids=[
        "list-offsets",
        "commit",
        "fetch",
        "groups",
        "groups-v0",
        "produce",
        "leader-and-isr",
        "update-metadata",
    ],
)
def test_an_ordinary_client_of_very_many_partitions_is_served(make: Callable[[int], Message], version: int) -> None:
    body = make(4 * PARTITIONS_OF_AN_ORDINARY_CLIENT)
    data = b"".join(map(bytes, body.encode(version)))
    assert type(body).decoders.bounded(DecoderBound.MEMORY)[version](data, 0)[1] == len(data)


def test_an_array_has_a_million_elements_at_most() -> None:
    decode = DescribeGroupsRequest.decoders.bounded(DecoderBound.MEMORY)[0]
    for count, is_good in ((MOST_ELEMENTS, True), (MOST_ELEMENTS + 1, False)):
        data = b"".join(map(bytes, groups(count).encode(0)))
        if is_good:
            assert len(decode(data, 0)[0].groups) == count
        else:
            with pytest.raises(DecodeError, match=f"field groups has {count} elements, and at most {MOST_ELEMENTS}"):
                decode(data, 0)


def test_a_request_that_is_refused_on_a_handler_thread_loses_its_connection() -> None:
    broker = Broker()
    data = frame(groups(BRIEF_LIMIT_BYTES), 0)[:-1]
    channel = RecordingChannel()
    request = broker.parser.parse(data, connection(), channel=channel, received_ns=1)
    broker.apis.handle(request)
    assert (channel.events, broker.handled) == (["close"], [])
    assert isinstance(request.body, DescribeGroupsRequest)  # metrics look at the body


# -- heavy requests


def large(broker: Broker, least_bytes: int, channel: RecordingChannel, release: Any = None) -> Request[Any]:
    data = frame(groups(least_bytes // 20, "n" * 20), 5)
    request = broker.parser.parse(data, connection(), channel=channel, received_ns=1, release=release)
    assert least_bytes < request.request_size < 2 * least_bytes
    return request


def test_heavy_requests_are_handled_one_at_a_time_in_their_order() -> None:
    broker = Broker()
    channels = [WaitingChannel() for _ in range(4)]
    requests = [large(broker, HEAVY_BYTES, channel) for channel in channels]

    def arrive() -> None:
        """The others arrive on other handler threads while the first is handled."""
        broker.while_handling = lambda: None
        for request in requests[1:3]:
            broker.apis.handle(request)
        assert len(broker.handled) == 1

    broker.while_handling = arrive
    broker.apis.handle(requests[0])
    # The second has the place now, though no handler thread has taken it up: the last one goes behind the third.
    broker.apis.handle(requests[3])
    assert [(len(each.frames), len(each.continuations)) for each in channels] == [(1, 0), (0, 1), (0, 0), (0, 0)]
    channels[1].continuations[0]()
    assert [(len(each.frames), len(each.continuations)) for each in channels] == [(1, 0), (1, 1), (0, 1), (0, 0)]
    channels[2].continuations[0]()
    channels[3].continuations[0]()
    assert [len(each.frames) for each in channels] == [1, 1, 1, 1]
    broker.apis.handle(large(broker, HEAVY_BYTES, again := RecordingChannel()))
    assert len(again.frames) == 1


def test_neither_a_short_nor_a_heavy_request_waits_for_a_huge_one() -> None:
    broker = Broker()
    huge, waiting, heavy, short = (WaitingChannel() for _ in range(4))

    def arrive() -> None:
        broker.while_handling = lambda: None
        broker.apis.handle(large(broker, HUGE_BYTES, waiting))
        broker.apis.handle(large(broker, HEAVY_BYTES, heavy))
        broker.apis.handle(large(broker, BRIEF_LIMIT_BYTES, short))
        assert [len(channel.frames) for channel in (huge, waiting, heavy, short)] == [0, 0, 1, 1]

    broker.while_handling = arrive
    broker.apis.handle(large(broker, HUGE_BYTES, huge))
    assert [len(channel.frames) for channel in (huge, waiting, heavy, short)] == [1, 0, 1, 1]
    assert len(waiting.continuations) == 1


def test_a_request_in_the_line_whose_client_has_left_is_dropped_with_its_frame() -> None:
    broker = Broker()
    channels = [WaitingChannel() for _ in range(4)]
    released: list[int] = []
    requests = [
        large(broker, HEAVY_BYTES, channel, partial(released.append, number)) for number, channel in enumerate(channels)
    ]

    def arrive() -> None:
        broker.while_handling = lambda: None
        broker.apis.handle(requests[1])
        channels[1].is_abandoned = True
        broker.apis.handle(requests[2])
        assert released == [1]
        channels[2].is_abandoned = True

    broker.while_handling = arrive
    broker.apis.handle(requests[0])
    assert released == [1, 2, 0]
    assert [channel.events for channel in channels[:3]] == [["send"], ["close"], ["close"]]
    broker.apis.handle(requests[3])
    assert len(channels[3].frames) == 1
