"""A produce that turns out to be much work is done by a handler thread, once, and its frame is kept until then."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas.api.apis import Apis
from barnabas.api.brief import AT_ONCE_BATCHES
from barnabas.api.handlers.classic_groups import ClassicGroupsApi
from barnabas.api.handlers.find_coordinator import FindCoordinatorApi
from barnabas.api.handlers.list_offsets import ListOffsetsApi
from barnabas.api.handlers.offsets import OffsetsApi
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.large_requests import Line
from barnabas.api.registry import HandlerFamily, Registry
from barnabas.api.request_parser import RequestParser
from barnabas.api.transaction_verification import TransactionVerification, VerificationMetrics
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.classic_groups import LeaveGroupRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.records import compression
from barnabas.records.compression import XERIAL_HEADER, Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE, LOG_OVERHEAD
from barnabas.records.v2.walk import Record
from barnabas.replica.requests.replica_appender import ReplicaAppender
from barnabas.storage.validation.validator import AT_ONCE_BYTES, AT_ONCE_COMPRESSED_BYTES, AT_ONCE_PIECES
from tests.support.classic_coordinator import ClassicCoordinator
from tests.support.no_transaction_coordinator import BuiltVerifier, NoTransactionCoordinator
from tests.support.recording_channel import RecordingChannel, connection
from tests.support.stored_batches import changed
from tests.unit.coordinator.group.offset_harness import GroupBroker
from tests.unit.replica.replica_harness import Replicas
from tests.unit.storage.log_harness import Broker, batch, log_config


class WaitingChannel(RecordingChannel):
    """Keeps continuations until the test runs them."""

    def __init__(self) -> None:
        super().__init__()
        self.continuations: list[Callable[[], None]] = []

    def resume(self, continuation: Callable[[], None]) -> None:
        self.continuations.append(continuation)

    def run_all(self) -> None:
        """Run the continuations, and those that they lead to, in their order."""
        for continuation in self.continuations:
            continuation()


def stamped(produced: bytes) -> bytes:
    """The batch with the bit of LogAppendTime set."""
    return changed(produced, attributes=produced[ATTRIBUTES_POSITION + 1] | 8)


MANY = 5000
LARGE_BYTES = 64 * 1024


@pytest.mark.parametrize(
    ("settings", "produced", "is_long"),
    [
        ({}, batch(MANY), True),
        ({}, batch(MANY, size=1, key=None), True),
        ({"record_validation": "framing"}, batch(MANY), False),
        ({"record_validation": "full"}, batch(MANY), True),
        ({"record_validation": "full"}, batch(100, size=LARGE_BYTES // 50), False),
        ({"cleanup_policy": "compact"}, batch(MANY), True),
        ({"compression_type": "gzip"}, batch(100, size=LARGE_BYTES // 50), True),
        ({"compression_type": "gzip"}, batch(100), False),
        ({}, batch(3, codec=Codec.ZSTD), False),
        ({"compression_type": "zstd"}, batch(3, codec=Codec.ZSTD), False),
        ({"compression_type": "gzip"}, batch(3, codec=Codec.ZSTD), True),
        ({"cleanup_policy": "compact"}, batch(3, codec=Codec.ZSTD), False),
        *[({"record_validation": "full"}, batch(3, codec=codec), False) for codec in Codec],
        *[({"record_validation": "full"}, batch(1, size=AT_ONCE_BYTES, codec=codec), True) for codec in Codec if codec],
        *[
            ({"record_validation": "framing"}, batch(1, size=AT_ONCE_BYTES, codec=codec), False)
            for codec in Codec
            if codec
        ],
        ({"message_timestamp_type": "LogAppendTime", "record_validation": "framing"}, batch(MANY), False),
        # The client says that the log has stamped it, which makes a look at all records necessary.
        ({"record_validation": "framing"}, stamped(batch(1, size=AT_ONCE_BYTES, codec=Codec.ZSTD)), True),
    ],
)
def test_much_work_is_left_to_a_handler(settings: dict[str, str], produced: bytes, is_long: bool) -> None:
    replicas = Replicas(Broker(config=log_config(**settings)))
    replicas.lead()
    replicas.announce("topic", 0, 0)
    registry = Registry(produce_api(replicas).handlers())
    channel, released = WaitingChannel(), []
    data = ProduceRequest.TopicProduceData(
        name="topic", partition_data=[ProduceRequest.PartitionProduceData(0, produced)]
    )
    body = ProduceRequest(None, 1, 1000, [data])
    frame = encode_request_header(ApiKey.PRODUCE, 9, 1, "tester") + b"".join(map(bytes, body.encode(9)))
    request = RequestParser(registry).parse(
        frame, connection(), channel=channel, received_ns=1, release=lambda: released.append(True)
    )
    Apis(replicas.actions, lambda: 1).handle(request)
    assert len(channel.continuations) == is_long
    if is_long:
        assert (channel.frames, released, replicas.partition().log.log_end_offset) == ([], [], 0)
        channel.run_all()
    assert channel.answer().responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert (len(released), len(channel.frames), bool(channel.continuations)) == (1, 1, is_long)
    assert replicas.partition().log.log_end_offset > 0


def with_body(codec: Codec, stored: bytes, **fields: int) -> bytes:
    """A batch of one record, whose header is right, and whose records are `stored`."""
    produced = batch()[:HEADER_SIZE] + stored
    produced = changed(produced, length=len(produced) - LOG_OVERHEAD, attributes=int(codec))
    return changed(produced, fix_crc=False, **fields)


MEMBER = gzip.compress(b"")
BLOCK = b"\x00\x00\x00\x01\x00"
SMALL = [
    with_body(Codec.GZIP, MEMBER * 500),
    with_body(Codec.SNAPPY, XERIAL_HEADER + BLOCK * 3000),
]
LARGE = [
    with_body(Codec.GZIP, MEMBER * 5000),
    with_body(Codec.SNAPPY, XERIAL_HEADER + BLOCK * 20_000),
    with_body(Codec.LZ4, b"\x04\x22\x4d\x18\x60\x40\x82" + b"\x01\x00\x00\x00\x00" * 20_000 + bytes(4)),
    with_body(Codec.ZSTD, b"\x50\x2a\x4d\x18" + bytes(100_000)),
]
REFUSED_FIRST = [
    (with_body(Codec.GZIP, MEMBER * 500, crc=1), ErrorCode.CORRUPT_MESSAGE),
    (with_body(Codec.GZIP, MEMBER * 60_000), ErrorCode.MESSAGE_TOO_LARGE),
    (with_body(Codec.SNAPPY, XERIAL_HEADER + BLOCK * 3000, crc=1), ErrorCode.CORRUPT_MESSAGE),
]


class Decompressions:
    """The bytes that were given to the codecs, and the members and blocks that they were given in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pieces = self.given = 0
        member, block = zlib.decompressobj, compression._decompress_snappy_block
        grow, plain = compression._decompress_growing, compression._decompress_plain_lz4

        def counted_member(*arguments: Any) -> Any:
            self.pieces += 1
            return member(*arguments)

        def counted_block(stored: Any, limit: int) -> bytes:
            self.pieces += 1
            return block(stored, limit)

        def counted_frames(into: Any, stored: Any, limit: int) -> bytes:
            self.given += len(stored)
            return grow(into, stored, limit)

        def counted_lz4(stored: Any, limit: int) -> bytes | None:
            self.given += len(stored)
            return plain(stored, limit)

        monkeypatch.setattr(zlib, "decompressobj", counted_member)
        monkeypatch.setattr(compression, "_decompress_snappy_block", counted_block)
        monkeypatch.setattr(compression, "_decompress_growing", counted_frames)
        monkeypatch.setattr(compression, "_decompress_plain_lz4", counted_lz4)


@pytest.mark.interpreted
@pytest.mark.parametrize("produced", [*SMALL, *LARGE])
def test_a_network_thread_decompresses_few_pieces(produced: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB of 50,000 empty members of gzip made every client of the thread wait 11 s."""
    counted = Decompressions(monkeypatch)
    replicas, channel = produce_into({}, [produced])
    assert len(channel.continuations) == 1, "not handed over"
    assert counted.pieces <= AT_ONCE_PIECES
    assert counted.given <= AT_ONCE_COMPRESSED_BYTES
    channel.run_all()
    assert answered(channel) == [ErrorCode.INVALID_RECORD]
    assert replicas.partition().log.log_end_offset == 0


@pytest.mark.interpreted
@pytest.mark.parametrize(("produced", "code"), REFUSED_FIRST)
def test_size_and_checksum_come_before_decompression(
    produced: bytes, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Decompressions(monkeypatch)
    _, channel = produce_into({}, [produced])
    for continuation in channel.continuations:
        continuation()
    assert answered(channel) == [code]
    assert (counted.pieces, counted.given) == (0, 0)


@pytest.mark.parametrize(
    ("settings", "produced", "is_long"),
    [
        ({}, [batch()] * AT_ONCE_BATCHES, False),
        ({}, [batch()] * (AT_ONCE_BATCHES + 1), True),
        ({}, [batch(1, size=AT_ONCE_BYTES // 2)] * 2, True),
        ({"flush_messages": 1}, [batch()], True),
        ({"flush_messages": 1000}, [batch(), batch()], True),
        # Two batches that decompress to 600 KB each.
        ({}, [batch(1, size=600_000, codec=Codec.ZSTD)], False),
        ({}, [batch(1, size=600_000, codec=Codec.ZSTD)] * 2, True),
        ({"max_message_bytes": 4 * AT_ONCE_BYTES}, [batch(1, size=AT_ONCE_BYTES)], True),
    ],
)
def test_what_a_whole_request_costs_decides(settings: dict[str, Any], produced: list[bytes], is_long: bool) -> None:
    """2,000 tiny batches took 0.3 s, 200 fsyncs 2.8 s, 95 MB 0.4 s: every client of the network thread waited."""
    replicas, channel = produce_into(settings, produced)
    assert len(channel.continuations) == is_long
    if is_long:
        assert replicas.partition().log.log_end_offset == 0, "nothing may be appended before the hand-over"
        channel.run_all()
    assert answered(channel) == [ErrorCode.NONE] * len(produced)


def test_produces_of_large_records_wait_for_each_other_on_no_thread() -> None:
    """Eight of 7 KB that hold 256 MB each took all request handlers, and memory for all of them."""
    large = batch(1, size=2 * AT_ONCE_BYTES, codec=Codec.ZSTD)
    replicas = Replicas(Broker(config=log_config()))
    replicas.lead()
    replicas.announce("topic", 0, 0)
    registry = Registry(produce_api(replicas).handlers())
    apis = Apis(replicas.actions, lambda: 1)
    channels = [WaitingChannel() for _ in range(4)]
    for channel in channels:
        apis.handle(produce_request(registry, channel, [large]))
        (handed_over,) = channel.continuations
        handed_over()
    # Each has left its handler's thread; the first alone has been given the place.
    assert [len(channel.continuations) for channel in channels] == [2, 1, 1, 1]
    assert replicas.partition().log.log_end_offset == 0
    channels[1].is_abandoned = True
    for number, ends in ((0, 1), (2, 2), (3, 3)):
        channels[number].continuations[1]()
        assert replicas.partition().log.log_end_offset == ends
    assert [len(channel.frames) for channel in channels] == [1, 0, 1, 1]
    assert [len(channel.continuations) for channel in channels] == [2, 1, 2, 2]
    # The place is free again.
    apis.handle(produce_request(registry, channels[0], [large]))
    channels[0].run_all()
    assert replicas.partition().log.log_end_offset == 4


@pytest.mark.interpreted
def test_the_bodies_of_a_whole_request_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 batches of 130 bytes that hold 1 MB each were all decompressed before the first one was appended."""
    kept: list[int] = []
    count = 3 * AT_ONCE_BATCHES
    _, channel = produce_into({}, [batch(1, size=100_000, codec=Codec.ZSTD)] * count)
    append = ReplicaAppender.append_records

    def watched(appender: Any, entries: Any, **how: Any) -> None:
        kept.append(sum(entry.body is not None for entry in entries))
        append(appender, entries, **how)

    monkeypatch.setattr(ReplicaAppender, "append_records", watched)
    channel.run_all()
    assert answered(channel) == [ErrorCode.NONE] * count
    assert kept == [AT_ONCE_BATCHES]


def test_the_line_forgets_clients_that_have_left() -> None:
    batches = Line()
    registry = Registry(produce_api(Replicas()).handlers())
    channels = [WaitingChannel() for _ in range(4)]
    requests = [produce_request(registry, channel, [batch()]) for channel in channels]
    handled: list[Any] = []
    for request in requests[:3]:
        batches.queue(request, handled.append)
    channels[1].is_abandoned = True
    batches.queue(requests[3], handled.append)
    assert channels[1].events == ["close"], "dropped as soon as another one comes"
    for number in (0, 2, 3):
        channels[number].run_all()
    assert handled == [requests[0], requests[2], requests[3]]
    assert batches.holder is None


COMPRESSED_MESSAGE = encode_message_set(1, [Record(0, 1, None, random.Random(0).randbytes(5000))], Codec.GZIP)
MANY_MESSAGES = encode_message_set(1, [Record(number, 1, None, b"") for number in range(4000)])


@pytest.mark.parametrize(("old", "count"), [(COMPRESSED_MESSAGE, 1), (MANY_MESSAGES, 4000)], ids=["large", "many"])
def test_old_messages_that_may_be_large_or_many_wait_there_too(old: bytes, count: int) -> None:
    replicas = Replicas(Broker(config=log_config()))
    replicas.lead()
    replicas.announce("topic", 0, 0)
    registry = Registry(produce_api(replicas).handlers())
    apis = Apis(replicas.actions, lambda: 1)
    channels = [WaitingChannel(), WaitingChannel()]
    for channel in channels:
        apis.handle(produce_request(registry, channel, [old], version=2))
    assert [len(channel.continuations) for channel in channels] == [1, 0]
    channels[0].continuations[0]()
    channels[1].run_all()
    assert [answered(channel) for channel in channels] == [[ErrorCode.NONE]] * 2
    assert replicas.partition().log.log_end_offset == 2 * count


def produce_into(settings: dict[str, Any], produced: list[bytes]) -> tuple[Replicas, WaitingChannel]:
    """Send the batches to partitions 0, 1, ... of a topic in one request; what follows waits in the channel."""
    replicas = Replicas(Broker(config=log_config(**settings)))
    for partition in range(len(produced)):
        replicas.lead("topic", partition)
        replicas.announce("topic", partition, 0)
    channel = WaitingChannel()
    request = produce_request(Registry(produce_api(replicas).handlers()), channel, produced)
    if request.brief:
        Apis(replicas.actions, lambda: 1).handle(request)
    else:
        channel.resume(lambda: Apis(replicas.actions, lambda: 1).handle(request))
    return replicas, channel


def produce_api(replicas: Replicas) -> ProduceApi:
    return ProduceApi(
        replicas.manager,
        replicas.metadata,
        None,
        TransactionVerification(
            replicas.manager, BuiltVerifier(NoTransactionCoordinator()), VerificationMetrics(replicas.clock)
        ),
    )


def produce_request(registry: Registry, channel: WaitingChannel, produced: list[bytes], version: int = 9) -> Any:
    """The request that sends batches to partitions 0, 1, ... of the topic."""
    partitions = [ProduceRequest.PartitionProduceData(number, records) for number, records in enumerate(produced)]
    body = ProduceRequest(None, 1, 1000, [ProduceRequest.TopicProduceData(name="topic", partition_data=partitions)])
    frame = encode_request_header(ApiKey.PRODUCE, version, 1, "t") + b"".join(map(bytes, body.encode(version)))
    return RequestParser(registry).parse(frame, connection(), channel=channel, received_ns=1)


def answered(channel: WaitingChannel) -> list[ErrorCode]:
    """The error of each partition."""
    return [ErrorCode(part.error_code) for part in channel.answer().responses[0].partition_responses]


def test_an_old_version_is_never_brief() -> None:
    replicas = Replicas()
    registry = Registry(produce_api(replicas).handlers())
    for version, brief in ((2, False), (3, True)):
        body = ProduceRequest(None, 1, 1000, [])
        frame = encode_request_header(ApiKey.PRODUCE, version, 1, "t") + b"".join(map(bytes, body.encode(version)))
        request = RequestParser(registry).parse(frame, connection(), channel=WaitingChannel(), received_ns=1)
        assert request.brief is brief


@pytest.mark.parametrize(("partitions", "brief"), [(100, True), (100_000, False)])
def test_a_request_for_very_many_partitions_is_not_brief(partitions: int, brief: bool) -> None:
    """It would hold up every connection of the network thread for seconds."""
    replicas = Replicas()
    api = ListOffsetsApi(replicas.manager, replicas.clock, None)
    registry = Registry(api.handlers())
    asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=number) for number in range(partitions)]
    body = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic("topic", asked)])
    frame = encode_request_header(ApiKey.LIST_OFFSETS, 4, 1, "tester") + b"".join(map(bytes, body.encode(4)))
    request = RequestParser(registry).parse(frame, connection(), channel=WaitingChannel(), received_ns=1)
    assert request.brief is brief


@pytest.mark.parametrize(("timestamp", "is_long"), [(-1, False), (-2, False), (-3, True), (-4, False), (0, True)])
def test_a_look_up_by_time_is_left_to_a_handler(timestamp: int, is_long: bool) -> None:
    """It decompresses a batch: one of 200 KB held up the network thread for a second."""
    replicas = Replicas()
    replicas.lead()
    api = ListOffsetsApi(replicas.manager, replicas.clock, None)
    registry = Registry(api.handlers())
    asked = ListOffsetsRequest.ListOffsetsPartition(timestamp=timestamp)
    body = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic("topic", [asked])])
    frame = encode_request_header(ApiKey.LIST_OFFSETS, 8, 1, "tester") + b"".join(map(bytes, body.encode(8)))
    channel = WaitingChannel()
    request = RequestParser(registry).parse(frame, connection(), channel=channel, received_ns=1)
    Apis(replicas.actions, lambda: 1).handle(request)
    assert (len(channel.continuations), len(channel.frames)) == (int(is_long), int(not is_long))
    for continuation in channel.continuations:
        continuation()
    assert channel.answer().topics[0].partitions[0].error_code == ErrorCode.NONE


_nobody = cast("Any", None)
# A compiled class takes no other object, not even one that is never asked.
_offsets = OffsetsApi(GroupBroker(lead=False).offsets, _nobody, MetadataCache(0), None)
_coordinators = FindCoordinatorApi(_nobody, _nobody, _nobody, _nobody, _nobody, None)
_members = ClassicGroupsApi(ClassicCoordinator().service, None)
_CommitTopic, _CommitPartition = (
    OffsetCommitRequest.OffsetCommitRequestTopic,
    OffsetCommitRequest.OffsetCommitRequestPartition,
)
_FetchGroup, _FetchTopics = OffsetFetchRequest.OffsetFetchRequestGroup, OffsetFetchRequest.OffsetFetchRequestTopics


@pytest.mark.parametrize(
    ("family", "version", "body"),
    [
        (
            _offsets,
            8,
            OffsetCommitRequest("group", topics=[_CommitTopic("topic", partitions=[_CommitPartition()] * 400)]),
        ),
        (
            _offsets,
            8,
            OffsetFetchRequest(groups=[_FetchGroup("group", topics=[_FetchTopics("t", partition_indexes=[1] * 1900)])]),
        ),
        (
            _offsets,
            8,
            OffsetFetchRequest(groups=[_FetchGroup(str(number), topics=[]) for number in range(1000)]),
        ),
        (
            _coordinators,
            4,
            FindCoordinatorRequest(coordinator_keys=["group"] * 1000),
        ),
        (
            _members,
            4,
            LeaveGroupRequest("group", members=[LeaveGroupRequest.MemberIdentity("member")] * 600),
        ),
    ],
)
def test_a_short_request_of_groups_may_be_much_work(family: HandlerFamily, version: int, body: Message) -> None:
    """Each of these took 2 to 8 ms, and every connection of the network thread waited."""
    frame = encode_request_header(body.api_key, version, 1, "tester") + b"".join(map(bytes, body.encode(version)))
    channel = WaitingChannel()
    request = RequestParser(Registry(family.handlers())).parse(frame, connection(), channel=channel, received_ns=1)
    assert request.brief, "else this shows nothing"
    Apis(Replicas().actions, lambda: 1).handle(request)
    assert (len(channel.continuations), channel.frames) == (1, [])
