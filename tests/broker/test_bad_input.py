"""Bytes that no client should send. Each has a defined answer: an error code, or the end of that one connection with
one line in the log. Other connections and the log on the disk are left alone.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import crc32c
import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.records.compression import Codec
from tests.support.raw_client import M, RawClient, make_batch, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, Server

VALUES = [b"first", b"second", b"third"]
COUNT_AT, LAST_DELTA_AT, ATTRIBUTES_AT, CRC_AT, MAGIC_AT, LENGTH_AT = 57, 23, 21, 17, 16, 8


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(api_key: int, version: int, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, 4) + b"test" + (b"\0" if flexible else b"")


FLEXIBLE_PRODUCE = _header(ApiKey.PRODUCE, 9, flexible=True) + b"\0" + struct.pack(">hi", 1, 1000)
CLOSING = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100d1010000cd0303") + bytes(200),
    "length of 4 GiB": struct.pack(">I", 0xFFFFFFFF) + b"x" * 100,
    "length of 2 GiB": struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
    "length above the limit": struct.pack(">i", 104857601) + b"x" * 100,
    "negative length": struct.pack(">i", -2) + b"x" * 100,
    "no bytes in the frame": _frame(b""),
    "half a header": _frame(b"\0\3\0"),
    "noise": _frame(random.Random(1).randbytes(300)),
    "unknown API key": _frame(_header(9999, 0) + bytes(20)),
    "negative API key": _frame(_header(-1, 0) + bytes(20)),
    "unsupported version of Produce": _frame(_header(ApiKey.PRODUCE, 99) + bytes(20)),
    "unsupported version of Metadata": _frame(_header(ApiKey.METADATA, 99) + bytes(20)),
    "negative version": _frame(_header(ApiKey.METADATA, -1) + bytes(20)),
    "client id beyond the frame": _frame(struct.pack(">hhih", ApiKey.METADATA, 1, 1, 30000) + b"test"),
    "body missing": _frame(_header(ApiKey.PRODUCE, 7)),
    "body cut": _frame(_header(ApiKey.METADATA, 1) + struct.pack(">ih", 1, 10) + b"topi"),
    "array of 2^31 elements": _frame(_header(ApiKey.METADATA, 1) + struct.pack(">i", 0x7FFFFFFF)),
    "compact array of 2^32 elements": _frame(FLEXIBLE_PRODUCE + b"\xff\xff\xff\xff\x0f"),
    "varint without an end": _frame(FLEXIBLE_PRODUCE + b"\xff" * 20),
    "name of negative length": _frame(_header(ApiKey.METADATA, 1) + struct.pack(">ih", 1, -2) + bytes(10)),
    "records beyond the frame": _frame(FLEXIBLE_PRODUCE + b"\2\2t\2" + bytes(4) + b"\xff\xff\xff\x7f" + b"records"),
}


@pytest.fixture
def bystander(server: Server, topic: str) -> Iterator[RawClient]:
    """Another connection, and a topic of three records: afterwards both must be as they were, and usable."""
    with RawClient(server) as connected:
        connected.create_topic(topic)
        connected.produce_values(topic, *VALUES)
        before = record_bytes(connected.fetch(topic, 0))
        yield connected
        assert record_bytes(connected.fetch(topic, 0)) == before
        assert connected.produce_values(topic, b"fourth") == len(VALUES)


class LogLines:
    """The lines a broker logs from now on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._start = len(server.log_text())

    def wait_for_one(self) -> str:
        """The one line; more than one (a traceback, say) fails."""
        deadline = time.monotonic() + 60
        while not self._complaints():
            assert time.monotonic() < deadline, "nothing was logged"
            time.sleep(0.01)
        time.sleep(0.05)  # whatever else would come with it
        lines = self._complaints()
        assert len(lines) == 1, lines
        return lines[0]

    def _complaints(self) -> list[str]:
        """All but INFO: a thread writes the lines, so one about the topic that was made before may come now."""
        lines = self._server.log_text()[self._start :].splitlines()
        return [line for line in lines if " INFO [" not in line]


@pytest.mark.parametrize("bad", [pytest.param(value, id=name) for name, value in CLOSING.items()])
def test_the_connection_is_closed(server: Server, bystander: RawClient, bad: bytes) -> None:
    log = LogLines(server)
    with RawClient(server) as client:
        client.socket.sendall(bad)
        assert client.is_closed_by_broker()
    if not AGAINST_KAFKA:
        line = log.wait_for_one()
        assert "127.0.0.1:" in line, "the line names the connection"
    assert bystander.supported_versions()


def test_names_that_are_not_utf8_are_read_with_replacements(server: Server, client: RawClient, topic: str) -> None:
    """As Java reads them: the client id of every request, a topic, a group, the metadata of a commit."""
    client.create_topic(topic)

    def call(request: Message, version: int, answer: type[M]) -> M:
        """Send a request in which each `~~` is two bytes that begin no character."""
        frame = client.encode(request, version, 9)
        body = frame[4:].replace(b"raw-client", b"raw-\xed\xa0\x80ent").replace(b"~~", b"\xff\xfe")
        client.socket.sendall(_frame(body))
        return client.receive(answer, version, 9)

    (created,) = call(
        CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("a~~b", 1, 1)], 10_000), 5, CreateTopicsResponse
    ).topics
    assert (created.name, created.error_code) == ("a\ufffd\ufffdb", ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 5, committed_metadata="m~~")
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(topic, partitions=[partition])]
    deadline = time.monotonic() + 60
    while True:  # the first commit of all makes the topic of offsets
        committed = call(OffsetCommitRequest(f"{topic}-~~", topics=topics), 2, OffsetCommitResponse)
        code = committed.topics[0].partitions[0].error_code
        if code not in (
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ):
            break
        client.call(FindCoordinatorRequest(f"{topic}-\ufffd\ufffd"), 0, FindCoordinatorResponse)
        assert time.monotonic() < deadline
    assert code == ErrorCode.NONE
    fetched = client.call(OffsetFetchRequest(f"{topic}-\ufffd\ufffd", None), 5, OffsetFetchResponse)
    assert fetched.topics[0].partitions[0].metadata == "m\ufffd\ufffd"


@pytest.mark.parametrize("name", ["unknown API key", "body cut", "length of 2 GiB"])
def test_requests_before_a_bad_one_are_answered(server: Server, bystander: RawClient, topic: str, name: str) -> None:
    with RawClient(server) as client:
        client.create_topic(f"{topic}-own")
        good = client.encode(ApiVersionsRequest(), 0, 5)
        client.socket.sendall(good * 3 + CLOSING[name] + good)
        for _ in range(3):
            assert client.receive_frame()
        assert client.is_closed_by_broker()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 20, 70, 200])
@pytest.mark.parametrize("how", ["close", "half close", "reset"])
def test_truncated_frame(server: Server, bystander: RawClient, topic: str, size: int, how: str) -> None:
    """A client that goes away in the middle of a request: nothing of it happens."""
    client = RawClient(server)
    frame = client.encode(client.produce_request(topic, make_batch([bytes(300)]), 9, acks=1), 9)
    client.socket.sendall(frame[:size])
    if how == "half close":
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed_by_broker()
    elif how == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert bystander.end_offset(topic) == len(VALUES)


@pytest.mark.skipif(AGAINST_KAFKA, reason="reads this broker's log")
def test_connections_that_are_reset_at_once_leave_no_line(server: Server, client: RawClient) -> None:
    """A load balancer's health check, every few seconds from each of its nodes."""
    log = len(server.log_text())
    for sent in (b"", b"\0", client.encode(ApiVersionsRequest(), 0)) * 20:
        passing = RawClient(server)
        passing.socket.sendall(sent)
        passing.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        passing.close()
    assert client.supported_versions()
    with RawClient(server) as last:  # accepted after the others
        assert last.supported_versions()
    assert [line for line in server.log_text()[log:].splitlines() if " INFO [" not in line] == []


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka 3.9 runs out of memory and never recovers")
def test_a_length_prefix_allocates_nothing(own_server: Server) -> None:
    """A hundred connections that announce 100 MB each and send a little: memory follows what came."""
    own_server.start()
    idle = _resident_bytes(own_server)
    connections = [RawClient(own_server) for _ in range(100)]
    for each in connections:
        each.socket.sendall(struct.pack(">i", 100_000_000) + bytes(1000))
    with RawClient(own_server) as client:
        assert client.supported_versions()
    assert _resident_bytes(own_server) - idle < 200_000_000
    for each in connections:
        each.close()


def _resident_bytes(server: Server) -> int:
    with open(f"/proc/{server.pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def _changed(batch: bytes, position: int, layout: str, value: int, *, sealed: bool = True) -> bytes:
    """`batch` with one field overwritten, and with a CRC that fits unless not `sealed`."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    if sealed:
        struct.pack_into(">I", changed, CRC_AT, crc32c.crc32c(bytes(changed[ATTRIBUTES_AT:])))
    return bytes(changed)


def _with_count(batch: bytes, count: int) -> bytes:
    return _changed(_changed(batch, COUNT_AT, ">i", count), LAST_DELTA_AT, ">i", count - 1)


GOOD = make_batch(VALUES)
SIZE_OF_BODY = len(GOOD) - 12
REFUSED = {
    "wrong CRC": (_changed(GOOD, CRC_AT, ">I", 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "bit flipped in a record": (_changed(GOOD, 70, ">B", 0xFF, sealed=False), ErrorCode.CORRUPT_MESSAGE),
    "count above the offsets": (_changed(GOOD, COUNT_AT, ">i", 4), ErrorCode.INVALID_RECORD),
    "count below the offsets": (_changed(GOOD, COUNT_AT, ">i", 2), ErrorCode.INVALID_RECORD),
    "no records in the header": (_changed(GOOD, COUNT_AT, ">i", 0), ErrorCode.INVALID_RECORD),
    "negative count": (_changed(GOOD, COUNT_AT, ">i", -1), ErrorCode.INVALID_RECORD),
    "offsets beyond the count": (_changed(GOOD, LAST_DELTA_AT, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD),
    "negative last offset": (_changed(GOOD, LAST_DELTA_AT, ">i", -2), ErrorCode.INVALID_RECORD),
    "fewer records than the header says": (_with_count(GOOD, 5), ErrorCode.INVALID_RECORD),
    "more records than the header says": (_with_count(GOOD, 2), ErrorCode.INVALID_RECORD),
    "far fewer records": (_with_count(GOOD, 2**31 - 1), ErrorCode.INVALID_RECORD),
    "length of a record beyond the batch": (_changed(GOOD, 61, ">B", 0x7E), ErrorCode.INVALID_RECORD),
    "negative length of a record": (_changed(GOOD, 61, ">B", 0x01), ErrorCode.INVALID_RECORD),
    "control batch": (_changed(GOOD, ATTRIBUTES_AT, ">h", 0x20), ErrorCode.INVALID_RECORD),
    "length too small": (_changed(GOOD, LENGTH_AT, ">i", 10), ErrorCode.CORRUPT_MESSAGE),
    "negative length": (_changed(GOOD, LENGTH_AT, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    "length beyond the records": (_changed(GOOD, LENGTH_AT, ">i", SIZE_OF_BODY + 1), ErrorCode.INVALID_RECORD),
    "cut in the records": (GOOD[:-1], ErrorCode.INVALID_RECORD),
    "cut in the header": (GOOD[:40], ErrorCode.INVALID_RECORD),
    "cut in the first bytes": (GOOD[:5], ErrorCode.INVALID_RECORD),
    "unknown magic": (_changed(GOOD, MAGIC_AT, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    "negative magic": (_changed(GOOD, MAGIC_AT, ">b", -1), ErrorCode.CORRUPT_MESSAGE),
}
if not AGAINST_KAFKA:  # which answers these with an internal error
    REFUSED["length of 2 GiB"] = (_changed(GOOD, LENGTH_AT, ">i", 2**31 - 1), ErrorCode.INVALID_RECORD)
    REFUSED["unknown codec"] = (_changed(GOOD, ATTRIBUTES_AT, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@pytest.mark.parametrize(("records", "code"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
def test_the_batch_is_refused(
    server: Server, bystander: RawClient, topic: str, records: bytes, code: ErrorCode
) -> None:
    log = len(server.log_text())
    with RawClient(server) as client:
        result = client.produce(topic, records)
        assert (result.error_code, result.base_offset) == (code, -1)
        assert client.end_offset(topic) == len(VALUES)
    if not AGAINST_KAFKA:
        assert "Traceback" not in server.log_text()[log:]


def test_rubbish_behind_a_batch_is_cut_off(server: Server, client: RawClient, topic: str) -> None:
    """As Kafka does: what is no whole batch is not stored."""
    client.create_topic(topic)
    for offset in (0, len(VALUES)):
        assert client.produce(topic, GOOD + b"rubbish").base_offset == offset
    (segment,) = (server.data_dir / f"{topic}-0").glob("*.log")
    assert segment.stat().st_size == 2 * len(GOOD)


COMPRESSED_LIE = {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}
if AGAINST_KAFKA:  # bytes that don't decompress are an unexpected error there
    COMPRESSED_LIE.add(ErrorCode.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("lie", ["fewer", "more", "rot"])
def test_compressed_records_that_do_not_fit_their_header(
    server: Server, bystander: RawClient, topic: str, codec: Codec, lie: str
) -> None:
    """One such batch would keep every consumer from what lies behind it."""
    good = make_batch(VALUES, codec)
    lies = {"fewer": _with_count(good, 4), "more": _with_count(good, 2), "rot": _rot(good)}
    with RawClient(server) as client:
        result = client.produce(topic, lies[lie])
        assert result.error_code in COMPRESSED_LIE
        assert client.end_offset(topic) == len(VALUES)


def _rot(batch: bytes) -> bytes:
    """Compressed bytes overwritten, sealed anew."""
    return _changed(batch, 66, ">q", 0x0102030405060708)
