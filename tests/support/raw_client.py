"""A blocking client of one connection that speaks any version of any API: what behaviour tests drive a broker with.

Built on our protocol messages (proven against other codecs in tests/wire) and on nothing of our clients. The calls
under "Shorthand" build the usual one-partition requests.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import (
    decode_response_header,
    encode_request_header,
    response_header_version,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.testing import BrokerProcess
from tests.support.server_process import ServerProcess

M = TypeVar("M", bound=Message)
SECONDS = int(os.environ.get("BARNABAS_TEST_SECONDS", "30"))
CLIENT_ID = "raw-client"
PRODUCE_BY_TOPIC_ID, FETCH_BY_TOPIC_ID = 13, 13


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


def make_batch(
    values: Iterable[bytes],
    codec: Codec = Codec.NONE,
    timestamp_ms: int | None = None,
    **fields: Any,
) -> bytes:
    """A record batch of these values; `fields` go to RecordBatchBuilder."""
    builder = RecordBatchBuilder(codec, **fields)
    stamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    for value in values:
        builder.append(stamp, None, value)
    return builder.build()


class RawClient:
    """One connection. Not for use by two threads at once."""

    def __init__(
        self,
        server: ServerProcess | BrokerProcess,
        *,
        receive_buffer_bytes: int | None = None,
        address: tuple[str, int] | None = None,
        own_address: str | None = None,
        client_id: str = CLIENT_ID,
    ) -> None:
        """`address`: of another listener of the server. `own_address`: an IP address to come from."""
        host, port = address or (server.host, server.port)
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if own_address is not None:
            self.socket.bind((own_address, 0))
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(SECONDS)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._client_id = client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def encode(self, request: Message, version: int, correlation_id: int = 0) -> bytes:
        """The frame of a request, size prefix included."""
        header = encode_request_header(request.api_key, version, correlation_id, self._client_id)
        frame = b"".join([header, *(bytes(piece) for piece in request.encode(version))])
        return struct.pack(">i", len(frame)) + frame

    def send(self, request: Message, version: int) -> int:
        """Send a request without waiting; its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.socket.sendall(self.encode(request, version, correlation_id))
        return correlation_id

    def receive_frame(self) -> bytes:
        """The next frame from the broker, without its size prefix. Raises ConnectionClosed."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def receive(self, answer: type[M], version: int, correlation_id: int) -> M:
        """The next answer, which must be the one to `correlation_id`, and must fill its frame exactly."""
        frame = self.receive_frame()
        found, offset = decode_response_header(frame, response_header_version(answer.api_key, version))
        assert found == correlation_id, f"answer to {found}, expected the one to {correlation_id}"
        message, end = answer.decode(frame, version, offset)
        assert end == len(frame), f"{len(frame) - end} bytes behind the answer"
        return message

    def call(self, request: Message, version: int, answer: type[M]) -> M:
        """Send a request and wait for its answer."""
        return self.receive(answer, version, self.send(request, version))

    def is_closed_by_broker(self) -> bool:
        """Whether the broker closes the connection without sending anything more; waits for one of both."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_silent(self) -> bool:
        """Whether neither an answer nor the end of the connection has come."""
        self.socket.setblocking(False)
        try:
            self.socket.recv(1)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(SECONDS)
        return False

    def _receive_exactly(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            try:
                part = self.socket.recv(min(left, 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise ConnectionClosed(f"{left} of {size} bytes did not come")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    # Shorthand

    def supported_versions(self) -> dict[int, tuple[int, int]]:
        """API key -> lowest and highest version."""
        answer = self.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert answer.error_code == ErrorCode.NONE
        return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until all its partitions are led."""
        settings = [CreateTopicsRequest.CreatableTopicConfig(*item) for item in (configs or {}).items()]
        new = CreateTopicsRequest.CreatableTopic(name, partitions, 1, [], settings)
        (result,) = self.call(CreateTopicsRequest([new]), 4, CreateTopicsResponse).topics
        assert result.error_code == ErrorCode.NONE, result
        self.wait_for_leaders(name, partitions)

    def metadata(self, name: str, version: int = 9, *, create: bool = False) -> MetadataResponse.MetadataResponseTopic:
        """Metadata of one topic."""
        request = MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)], create)
        (topic,) = self.call(request, version, MetadataResponse).topics
        return topic

    def wait_for_leaders(self, name: str, partitions: int) -> None:
        """Ask for the topic's metadata until every partition has a leader."""
        deadline = time.monotonic() + SECONDS
        while True:
            topic = self.metadata(name)
            if len(topic.partitions) == partitions and all(each.error_code == 0 for each in topic.partitions):
                return
            assert time.monotonic() < deadline, topic
            time.sleep(0.02)

    def await_transaction_coordinator(self, transactional_id: str) -> None:
        """Ask for the coordinator of a transactional id until it answers for the id; an id is not made thereby."""
        deadline = time.monotonic() + SECONDS
        while True:
            found = self.call(FindCoordinatorRequest(transactional_id, 1), 2, FindCoordinatorResponse)
            asked = AddOffsetsToTxnRequest(transactional_id, 0, 0, "g")
            # A partition may have a leader that has not loaded it.
            if found.error_code == ErrorCode.NONE and self.call(asked, 1, AddOffsetsToTxnResponse).error_code not in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.02)

    def topic_id(self, name: str) -> bytes:
        """The id of an existing topic."""
        topic = self.metadata(name, 10)
        assert topic.topic_id != ZERO_UUID, topic
        return topic.topic_id

    def produce_request(self, topic: str, records: Any, version: int, acks: int, partition: int = 0) -> ProduceRequest:
        """A request of one partition."""
        data = ProduceRequest.TopicProduceData(name=topic, partition_data=[])
        if version >= PRODUCE_BY_TOPIC_ID:
            data.topic_id = self.topic_id(topic)
        data.partition_data.append(ProduceRequest.PartitionProduceData(partition, records))
        return ProduceRequest(None, acks, SECONDS * 1000, [data])

    def produce(
        self, topic: str, records: bytes | None, version: int = 9, acks: int = -1, partition: int = 0
    ) -> ProduceResponse.PartitionProduceResponse:
        """Produce to one partition; its answer."""
        request = self.produce_request(topic, records, version, acks, partition)
        (answered,) = self.call(request, version, ProduceResponse).responses
        (result,) = answered.partition_responses
        assert result.index == partition
        return result

    def produce_values(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Produce one batch of these values; its base offset."""
        result = self.produce(topic, make_batch(values), partition=partition)
        assert result.error_code == ErrorCode.NONE, result
        return result.base_offset

    def fetch_request(
        self,
        topic: str,
        offset: int,
        version: int = 12,
        *,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        partition_max_bytes: int = 1 << 20,
    ) -> FetchRequest:
        """A request of one partition, outside any session."""
        place = FetchRequest.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes
        )
        wanted = FetchRequest.FetchTopic(topic=topic, partitions=[place])
        if version >= FETCH_BY_TOPIC_ID:
            wanted.topic_id = self.topic_id(topic)
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[wanted])

    def fetch(self, topic: str, offset: int, version: int = 12, **limits: int) -> FetchResponse.PartitionData:
        """Fetch from one partition; its answer."""
        answer = self.call(self.fetch_request(topic, offset, version, **limits), version, FetchResponse)
        return only_partition(answer)

    def list_offset(
        self, topic: str, timestamp: int, version: int = 5, partition: int = 0
    ) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
        """ListOffsets of one partition."""
        place = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        wanted = ListOffsetsRequest.ListOffsetsTopic(topic, [place])
        (answered,) = self.call(ListOffsetsRequest(-1, 0, [wanted]), version, ListOffsetsResponse).topics
        (result,) = answered.partitions
        return result

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset after the last record."""
        result = self.list_offset(topic, -1, partition=partition)
        assert result.error_code == ErrorCode.NONE, result
        return result.offset


def record_bytes(partition: FetchResponse.PartitionData) -> bytes:
    """The batches of a Fetch answer's partition; none is none."""
    return b"" if partition.records is None else bytes(partition.records)


def only_partition(answer: FetchResponse) -> FetchResponse.PartitionData:
    """The one partition of a Fetch answer without a top-level error."""
    assert answer.error_code == ErrorCode.NONE
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition
