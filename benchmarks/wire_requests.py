"""Requests as bytes, encoded once, and just as much of the answers as a load generator must look at.

Produce v9, Fetch v12, Metadata v4, CreateTopics v2, and version 0 of InitProducerId and IncrementalAlterConfigs: what
Apache Kafka 3.9, Apache Kafka 4 and ours all speak. By hand and not by our codec, so that the generator measures the
broker and not the client.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import crc32c

Buffer = bytes | bytearray | memoryview

CLIENT_ID = b"load-generator"
PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
CREATE_TOPICS, INIT_PRODUCER_ID, INCREMENTAL_ALTER_CONFIGS = 19, 22, 44
COORDINATOR_LOAD_IN_PROGRESS = 14
BATCH_HEADER_SIZE = 61
TIMEOUT_SECONDS = 60


class BadAnswer(Exception):
    """The broker answered with an error code."""


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """The zigzag form, as records use it."""
    return unsigned_varint((value << 1) ^ (value >> 63))


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def batch_of_count(count: int, value_bytes: int) -> bytes:
    """A batch of `count` records without keys, each with `value_bytes` of noise."""
    noise = os.urandom(value_bytes * 2)
    records = bytearray()
    for index in range(count):
        start = index % value_bytes
        body = b"\0\0" + varint(index) + varint(-1) + varint(value_bytes) + noise[start : start + value_bytes] + b"\0"
        records += varint(len(body)) + body
    now_ms = int(time.time() * 1000)
    after_crc = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    after_length = struct.pack(">ibI", 0, 2, crc32c.crc32c(after_crc)) + after_crc
    return struct.pack(">qi", 0, len(after_length)) + after_length


def batch_of_size(batch_bytes: int, value_bytes: int) -> tuple[bytes, int]:
    """The largest batch of at most `batch_bytes`, and its number of records."""
    count = max(1, (batch_bytes - BATCH_HEADER_SIZE) // (value_bytes + 12))
    while len(batch := batch_of_count(count, value_bytes)) <= batch_bytes:
        count += 1
    return (batch_of_count(count - 1, value_bytes), count - 1) if count > 1 else (batch, 1)


def _frame(api_key: int, version: int, body: bytes, flexible: bool) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, len(CLIENT_ID)) + CLIENT_ID + (b"\0" if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def _compact(text: str) -> bytes:
    return unsigned_varint(len(text) + 1) + text.encode()


def produce_frame(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    """Produce v9 of one batch, size prefix included."""
    partitions = b"\2" + struct.pack(">i", partition) + unsigned_varint(len(batch) + 1) + batch + b"\0"
    body = b"\0" + struct.pack(">hi", acks, 30_000) + b"\2" + _compact(topic) + partitions + b"\0\0"
    return _frame(PRODUCE, 9, body, flexible=True)


def fetch_frame(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Fetch v12 of one partition, outside a session, waiting up to 500 ms for one byte."""
    place = struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes)
    limits = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    body = limits + b"\2" + _compact(topic) + b"\2" + place + b"\0\0" + b"\1" + b"\1" + b"\0"
    return _frame(FETCH, 12, body, flexible=True)


class FetchPlace(NamedTuple):
    """A partition of one topic, and where to read."""

    partition: int
    offset: int
    max_bytes: int = 1 << 20


EPOCH_AT = 4 + 10 + len(CLIENT_ID) + 1 + 21
"""Where the epoch lies in what `session_fetch_frame` gives: behind size, header and the limits before it."""


def session_fetch_frame(
    topic: str, places: Sequence[FetchPlace], session_id: int, epoch: int, max_wait_ms: int = 0
) -> bytes:
    """Fetch v12 of these partitions, in the session of that id (KIP-227), or wanting one: id 0 and epoch 0."""
    limits = struct.pack(">iiiibii", -1, max_wait_ms, 1, 50 << 20, 0, session_id, epoch)
    topics = b"\1"
    if places:
        named = b"".join(
            struct.pack(">iiqiqi", each.partition, -1, each.offset, -1, -1, each.max_bytes) + b"\0" for each in places
        )
        topics = b"\2" + _compact(topic) + unsigned_varint(len(places) + 1) + named + b"\0"
    return _frame(FETCH, 12, limits + topics + b"\1" + b"\1" + b"\0", flexible=True)


def session_of_fetch_answer(answer: Buffer) -> int:
    """The session of a Fetch v12 answer, 0 for none. Raises for an error of the whole answer."""
    error, session_id = struct.unpack_from(">hi", answer, 9)
    if error:
        raise BadAnswer(f"fetch: error {error}")
    return int(session_id)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def create_topics_frame(topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> bytes:
    """CreateTopics v2 of one topic, replication factor 1."""
    pairs = b"".join(_string(name) + _string(value) for name, value in (settings or {}).items())
    body = struct.pack(">i", 1) + _string(topic) + struct.pack(">ihi", partitions, 1, 0)
    body += struct.pack(">i", len(settings or {})) + pairs + struct.pack(">i?", 120_000, False)
    return _frame(CREATE_TOPICS, 2, body, flexible=False)


def check_create_topics_answer(answer: Buffer) -> None:
    """Raise unless the one topic of a CreateTopics v2 answer has no error."""
    (name_length,) = struct.unpack_from(">h", answer, 12)
    (error,) = struct.unpack_from(">h", answer, 14 + name_length)
    if error:
        raise BadAnswer(f"create topics: error {error}")


def set_topic_setting_frame(topic: str, name: str, value: str) -> bytes:
    """IncrementalAlterConfigs v0 that sets one setting of one topic."""
    setting = _string(name) + b"\0" + _string(value)
    body = struct.pack(">ib", 1, 2) + _string(topic) + struct.pack(">i", 1) + setting + b"\0"
    return _frame(INCREMENTAL_ALTER_CONFIGS, 0, body, flexible=False)


def check_set_topic_setting_answer(answer: Buffer) -> None:
    """Raise unless the one resource of an IncrementalAlterConfigs v0 answer has no error."""
    (error,) = struct.unpack_from(">h", answer, 12)
    if error:
        raise BadAnswer(f"alter configs: error {error}")


class ProducerId(NamedTuple):
    """What an idempotent producer writes into its batches."""

    number: int
    epoch: int


def init_producer_id_frame() -> bytes:
    """InitProducerId v0 without a transactional id."""
    return _frame(INIT_PRODUCER_ID, 0, struct.pack(">hi", -1, 60_000), flexible=False)


def producer_id_of(answer: Buffer) -> ProducerId | None:
    """The id that an InitProducerId v0 answer gives; None when the broker has none at hand yet."""
    error, number, epoch = struct.unpack_from(">hqh", answer, 8)
    if error == COORDINATOR_LOAD_IN_PROGRESS:
        return None
    if error:
        raise BadAnswer(f"init producer id: error {error}")
    return ProducerId(number, epoch)


def metadata_frame(topic: str | None) -> bytes:
    """Metadata v4 of one topic, which is not created; None: of no topic (brokers only)."""
    names = struct.pack(">i", 0)
    if topic is not None:
        names = struct.pack(">ih", 1, len(topic)) + topic.encode()
    return _frame(METADATA, 4, names + b"\0", flexible=False)


def list_offsets_frame(topic: str, partition: int, timestamp: int) -> bytes:
    """ListOffsets v7 of one partition, as a consumer that seeks sends it; -1: the latest, -2: the earliest offset."""
    place = struct.pack(">iiq", partition, -1, timestamp) + b"\0"
    body = struct.pack(">ib", -1, 0) + b"\2" + _compact(topic) + b"\2" + place + b"\0\0"
    return _frame(LIST_OFFSETS, 7, body, flexible=True)


def offset_of_list_offsets_answer(answer: Buffer) -> int:
    """The offset of the one partition of a ListOffsets v7 answer (without its size prefix). Raises for an error."""
    name_length, position = read_unsigned_varint(answer, 10)
    _, error, _, offset = struct.unpack_from(">ihqq", answer, position + name_length - 1 + 1)
    if error:
        raise BadAnswer(f"list offsets: error {error}")
    return int(offset)


def metadata_of_all_frame() -> bytes:
    """Metadata v4 of all topics."""
    return _frame(METADATA, 4, struct.pack(">i", -1) + b"\0", flexible=False)


def check_produce_answer(answer: Buffer) -> None:
    """Raise unless the one partition of a Produce v9 answer (without its size prefix) has no error."""
    name_length, position = read_unsigned_varint(answer, 6)
    position += name_length - 1 + 1
    _, error, _ = struct.unpack_from(">ihq", answer, position)
    if error:
        raise BadAnswer(f"produce: error {error}")


class FetchedRange(NamedTuple):
    """Where the records lie in a Fetch answer."""

    start: int
    end: int


def records_of_fetch_answer(answer: Buffer) -> FetchedRange:
    """The records of the one partition of a Fetch v12 answer (without its size prefix)."""
    error, _, _ = struct.unpack_from(">hib", answer, 9)
    name_length, position = read_unsigned_varint(answer, 16)
    position += name_length - 1 + 1
    _, partition_error = struct.unpack_from(">ih", answer, position)
    if error or partition_error:
        raise BadAnswer(f"fetch: error {error}, of the partition {partition_error}")
    aborted, position = read_unsigned_varint(answer, position + 30)
    for _ in range(aborted - 1):
        position += 17
    size, start = read_unsigned_varint(answer, position + 4)
    return FetchedRange(start, start + max(size - 1, 0))


def next_offset(answer: Buffer, fetched: FetchedRange) -> int | None:
    """The offset after the last whole batch of a Fetch answer; None when there is none."""
    position, found = fetched.start, None
    while position + BATCH_HEADER_SIZE <= fetched.end:
        base, length = struct.unpack_from(">qi", answer, position)
        if position + 12 + length > fetched.end:
            break
        (delta,) = struct.unpack_from(">i", answer, position + 23)
        found = base + delta + 1
        position += 12 + length
    return found


def leader_count(answer: Buffer) -> tuple[int, int]:
    """Of a Metadata v4 answer for at most one topic: (brokers, partitions that have a leader)."""
    (brokers,) = struct.unpack_from(">i", answer, 8)
    position = 12
    for _ in range(brokers):
        (length,) = struct.unpack_from(">h", answer, position + 4)
        position += 6 + length + 4
        (rack_length,) = struct.unpack_from(">h", answer, position)
        position += 2 + max(rack_length, 0)
    (cluster_length,) = struct.unpack_from(">h", answer, position)
    position += 2 + max(cluster_length, 0) + 4
    (topics,) = struct.unpack_from(">i", answer, position)
    if topics == 0:
        return brokers, 0
    error, name_length = struct.unpack_from(">hh", answer, position + 4)
    position += 8 + name_length + 1
    (partitions,) = struct.unpack_from(">i", answer, position)
    position += 4
    led = 0
    for _ in range(partitions):
        partition_error, _, leader, replicas = struct.unpack_from(">hiii", answer, position)
        position += 14 + 4 * replicas
        (in_sync,) = struct.unpack_from(">i", answer, position)
        position += 4 + 4 * in_sync
        led += partition_error == 0 and leader >= 0
    return brokers, 0 if error else led


class Connection:
    """A blocking connection that reads whole answers, into one buffer that is used again."""

    def __init__(self, host: str, port: int, buffer_bytes: int = 1 << 16) -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(buffer_bytes)

    def call(self, frame: Buffer) -> memoryview:
        """Send a request, wait for its answer; valid until the next call."""
        self.socket.sendall(frame)
        return self.read_answer()

    def read_answer(self) -> memoryview:
        """The next answer without its size prefix; valid until the next one is read."""
        head = self._read(memoryview(bytearray(4)))
        size = int.from_bytes(head, "big")
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        return self._read(memoryview(self._buffer)[:size])

    def _read(self, view: memoryview) -> memoryview:
        filled = 0
        while filled < len(view):
            try:
                received = self.socket.recv_into(view[filled:])
            except ConnectionResetError:  # closed with bytes of ours unread
                received = 0
            if not received:
                raise BadAnswer("the broker closed the connection")
            filled += received
        return view

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Create the topic unless it is there, and return when every partition has a leader."""
        if self._leaders(topic, partitions):
            return
        check_create_topics_answer(self.call(create_topics_frame(topic, partitions, settings)))
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self._leaders(topic, partitions):
            if time.monotonic() > deadline:
                raise BadAnswer(f"no leader for {topic}")
            time.sleep(0.02)

    def producer_id(self) -> ProducerId:
        """A new producer id."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (given := producer_id_of(self.call(init_producer_id_frame()))) is None:
            if time.monotonic() > deadline:
                raise BadAnswer("no producer id")
            time.sleep(0.02)
        return given

    def _leaders(self, topic: str, partitions: int) -> bool:
        return leader_count(self.call(metadata_frame(topic)))[1] >= partitions

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
