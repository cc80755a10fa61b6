"""A scripted broker that a producer talks to over a real socket, and the trace of what it was sent.

It answers ApiVersions, Metadata and InitProducerId like a broker with one topic, and Produce by its script. A group of
the script is answered when all its requests have arrived, at once and in their order, so that the number of requests in
flight does not depend on the machine. Requests behind the script succeed.

A thread for each connection reads and answers; `_lock` guards all state. A trace is a list of JSON values:

    ["before", [...]]                 the requests before the first Produce. Two threads of a producer cause them, so
                                      they are sorted, and each counts once;
                                      Metadata requests that come later, or name no topic, are left out
    ["init", producer id, epoch]
    ["produce", acks, timeout, batches]   batches by partition: [partition, producer id, epoch, sequence, codec, values]
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, Self

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import RequestHeader, parse_request_header, response_frame
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.records.record_batch import batches

Answer = ErrorCode | Literal["disconnect"]
OK = ErrorCode.NONE
TOPIC = "t"
FIRST_PRODUCER_ID = 1000
_VERSIONS = {
    ApiKey.PRODUCE: (3, 12),
    ApiKey.METADATA: (4, 12),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.INIT_PRODUCER_ID: (0, 4),
}
"""Up to the last Produce that names its topic: an id would be the same everywhere, and says less."""


class TracedBroker:
    """Node 0, the only one of its cluster, with a topic of so many partitions. A context manager."""

    def __init__(self, partitions: int, answers: Sequence[Sequence[Answer]]) -> None:
        self._partitions = partitions
        self._groups = [list(group) for group in answers]
        self._held: list[tuple[socket.socket, RequestHeader, ProduceRequest]] = []
        self._ends = [0] * partitions
        self._next_producer_id = FIRST_PRODUCER_ID
        self._before: list[Any] = []
        self._after: list[Any] = []
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def bootstrap_servers(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def whole_trace(self) -> list[Any]:
        """What it was sent by a producer that is closed.

        A producer that awaits no answer (acks=0) may be closed before its last request is read: waits for the end of
        each connection.
        """
        for thread in self._threads[1:]:
            thread.join(10)
            assert not thread.is_alive(), "a connection of the closed producer is still open"
        with self._lock:
            return [["before", sorted(self._before, key=str)], *self._after]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        # A shutdown wakes the thread that accepts; a close alone does not.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._connections:
            _hang_up(connection)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as incoming:
            while len(size := incoming.read(4)) == 4:
                frame = incoming.read(struct.unpack(">i", size)[0])
                header, offset = parse_request_header(frame)
                with self._lock:
                    self._handle(connection, header, frame, offset)

    # -- requests, under the lock

    def _handle(self, connection: socket.socket, header: RequestHeader, frame: bytes, offset: int) -> None:
        version = header.api_version
        if header.api_key == ApiKey.API_VERSIONS:
            keys = [ApiVersionsResponse.ApiVersion(key, *versions) for key, versions in _VERSIONS.items()]
            _send(connection, header, ApiVersionsResponse(api_keys=keys))
        elif header.api_key == ApiKey.METADATA:
            wanted, _ = MetadataRequest.decode(frame, version, offset)
            topics = [topic.name for topic in wanted.topics or ()]
            # A producer's thread that is faster than its user asks before it knows a topic.
            if topics:
                self._note(["metadata", topics, wanted.allow_auto_topic_creation])
            _send(connection, header, self._metadata(topics))
        elif header.api_key == ApiKey.INIT_PRODUCER_ID:
            init, _ = InitProducerIdRequest.decode(frame, version, offset)
            self._note(["init", init.producer_id, init.producer_epoch])
            _send(connection, header, self._producer_id(init))
        else:
            produce, _ = ProduceRequest.decode(frame, version, offset)
            self._after.append(["produce", produce.acks, produce.timeout_ms, _batches(produce)])
            self._hold(connection, header, produce)

    def _note(self, entry: list[Any]) -> None:
        if self._after:
            # How often a producer looks for new metadata, and when, depends on the time that it takes for all else.
            if entry[0] != "metadata":
                self._after.append(entry)
        elif entry not in self._before:
            self._before.append(entry)

    def _metadata(self, topics: list[str | None]) -> MetadataResponse:
        host, port = self._server.getsockname()
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=index, leader_id=0, leader_epoch=0, replica_nodes=[0], isr_nodes=[0]
            )
            for index in range(self._partitions)
        ]
        return MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(0, host, port)],
            cluster_id="traced",
            controller_id=0,
            topics=[
                MetadataResponse.MetadataResponseTopic(name=name, topic_id=b"\1" * 16, partitions=partitions)
                for name in topics
            ],
        )

    def _producer_id(self, wanted: InitProducerIdRequest) -> InitProducerIdResponse:
        """A new producer id, or the next epoch of the one that the request names (KIP-360)."""
        if wanted.producer_id >= 0:
            return InitProducerIdResponse(producer_id=wanted.producer_id, producer_epoch=wanted.producer_epoch + 1)
        self._next_producer_id += 1
        return InitProducerIdResponse(producer_id=self._next_producer_id - 1, producer_epoch=0)

    # -- answers to Produce, under the lock

    def _hold(self, connection: socket.socket, header: RequestHeader, produce: ProduceRequest) -> None:
        self._held.append((connection, header, produce))
        group = self._groups[0] if self._groups else [OK]
        if len(self._held) < len(group):
            return
        held, self._held = self._held, []
        self._groups = self._groups[1:]
        for (held_connection, held_header, held_produce), answer in zip(held, group, strict=True):
            if answer == "disconnect":
                _hang_up(held_connection)
            elif held_produce.acks != 0:
                _send(held_connection, held_header, self._produced(held_produce, answer))
            else:
                self._produced(held_produce, answer)

    def _produced(self, produce: ProduceRequest, error: ErrorCode) -> ProduceResponse:
        topics = []
        for topic in produce.topic_data:
            partitions = []
            for each in topic.partition_data:
                base = self._ends[each.index] if error is OK else -1
                if error is OK:
                    self._ends[each.index] += sum(batch.count for batch in batches(each.records or b""))
                # A broker forgets a producer when it deletes what the producer has sent.
                start = self._ends[each.index] if error is ErrorCode.UNKNOWN_PRODUCER_ID else 0
                partitions.append(
                    ProduceResponse.PartitionProduceResponse(
                        index=each.index, error_code=int(error), base_offset=base, log_start_offset=start
                    )
                )
            topics.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return ProduceResponse(responses=topics)


def _batches(produce: ProduceRequest) -> list[Any]:
    found = []
    for topic in produce.topic_data:
        for each in topic.partition_data:
            for batch in batches(each.records or b""):
                values = [bytes(record.value or b"").decode()[:8] for record in batch.records()]
                identity = [batch.producer_id, batch.producer_epoch, batch.base_sequence]
                found.append([each.index, *identity, batch.codec.name.lower(), values])
    return sorted(found)


def _send(connection: socket.socket, header: RequestHeader, response: Message) -> None:
    pieces, _ = response_frame(header, response)
    connection.sendall(b"".join(map(bytes, pieces)))


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
