"""Order on one connection, and frames cut in every way that TCP may cut them."""

from __future__ import annotations

import random
import struct

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceResponse
from tests.support.raw_client import RawClient, make_batch, only_partition
from tests.support.server_fixtures import Server


def test_answers_come_in_the_order_of_the_requests(client: RawClient, topic: str) -> None:
    """Requests that run at once and such that don't, all sent before the first answer is read."""
    client.create_topic(topic)
    produce = client.produce_request(topic, make_batch([b"value"]), 9, acks=1)
    produce_to_all = client.produce_request(topic, make_batch([b"value"]), 9, acks=-1)
    fetch = client.fetch_request(topic, 0)
    kinds: list[tuple[Message, int, type[Message]]] = [
        (produce, 9, ProduceResponse),
        (MetadataRequest(None), 9, MetadataResponse),
        (fetch, 12, FetchResponse),
        (ApiVersionsRequest("raw-client", "1"), 3, ApiVersionsResponse),
        (produce_to_all, 9, ProduceResponse),
    ]
    frames = [client.encode(kinds[i % 5][0], kinds[i % 5][1], i) for i in range(500)]
    client.socket.sendall(b"".join(frames))
    offset = 0
    for number in range(500):
        answer = client.receive(kinds[number % 5][2], kinds[number % 5][1], number)
        if isinstance(answer, ProduceResponse):
            (result,) = answer.responses[0].partition_responses
            assert (result.error_code, result.base_offset) == (ErrorCode.NONE, offset)
            offset += 1
    assert client.end_offset(topic) == offset == 200


def test_unacknowledged_requests_keep_their_place(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    frames = [
        client.encode(client.produce_request(topic, make_batch([b"%d" % number]), 9, acks=number % 2), 9, number)
        for number in range(200)
    ]
    client.socket.sendall(b"".join(frames))
    for number in range(1, 200, 2):
        answer = client.receive(ProduceResponse, 9, number)
        assert answer.responses[0].partition_responses[0].base_offset == number


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "in one segment"])
def test_a_request_behind_a_fetch_ends_its_wait(client: RawClient, topic: str, *, at_once: bool) -> None:
    """In order, and without the ten minutes that the fetch would wait: Kafka's connector of Spark asks like this."""
    client.create_topic(topic)
    fetch = client.encode(client.fetch_request(topic, 0, max_wait_ms=600_000), 12, 1)
    end = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = ListOffsetsRequest(-1, 0, [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[end])])
    behind = client.encode(asked, 7, 2)
    for piece in [fetch + behind] if at_once else [fetch, behind]:
        client.socket.sendall(piece)
    nothing = only_partition(client.receive(FetchResponse, 12, 1))
    assert (nothing.error_code, nothing.high_watermark, nothing.records) == (ErrorCode.NONE, 0, b"")
    (found,) = client.receive(ListOffsetsResponse, 7, 2).topics[0].partitions
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)


def test_a_waiting_fetch_holds_back_no_other_connection(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    waiting = client.send(client.fetch_request(topic, 0, max_wait_ms=600_000), 12)
    with RawClient(server) as other:
        assert other.supported_versions()
        other.produce_values(topic, b"woken")
    assert only_partition(client.receive(FetchResponse, 12, waiting)).records


@pytest.mark.parametrize("largest_piece", [1, 3, 1000])
def test_frames_in_pieces(client: RawClient, topic: str, largest_piece: int) -> None:
    client.create_topic(topic)
    chance = random.Random(largest_piece)
    frames = [
        client.encode(client.produce_request(topic, make_batch([b"v" * chance.randrange(300)]), 9, acks=1), 9, number)
        for number in range(20)
    ]
    stream, position = b"".join(frames), 0
    while position < len(stream):
        size = chance.randint(1, largest_piece)
        client.socket.sendall(stream[position : position + size])
        position += size
    for number in range(20):
        answer = client.receive(ProduceResponse, 9, number)
        assert answer.responses[0].partition_responses[0].base_offset == number


def test_large_and_small_frames_in_one_stream(client: RawClient, topic: str) -> None:
    """Frames on both sides of the size from which buffers are recycled, each beginning in the tail of another."""
    client.create_topic(topic)
    sizes = [10, 200_000, 65_000, 65_536, 10, 10, 900_000, 66_000, 1, 300_000] * 3
    frames = [
        client.encode(client.produce_request(topic, make_batch([bytes([n]) * size]), 9, acks=1), 9, n)
        for n, size in enumerate(sizes)
    ]
    client.socket.sendall(b"".join(frames))
    for number in range(len(sizes)):
        result = client.receive(ProduceResponse, 9, number).responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, number)


def test_many_connections(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    connections = [RawClient(server) for _ in range(100)]
    for _ in range(5):
        sent = [each.send(each.produce_request(topic, make_batch([b"value"]), 9, acks=-1), 9) for each in connections]
        answers = [each.receive(ProduceResponse, 9, sent[n]) for n, each in enumerate(connections)]
        assert all(answer.responses[0].partition_responses[0].error_code == 0 for answer in answers)
    for each in connections:
        each.close()
    assert client.end_offset(topic) == 500


def test_client_that_never_reads(server: Server, client: RawClient, topic: str) -> None:
    """Its answers pile up in its own connection only; the broker must stop reading from it, not grow."""
    client.create_topic(topic)
    client.produce_values(topic, bytes(500_000))
    with RawClient(server, receive_buffer_bytes=8192) as deaf:
        frame = deaf.encode(deaf.fetch_request(topic, 0), 12)
        deaf.socket.sendall(frame * 1000)
        for _ in range(20):
            assert client.supported_versions()
        (size,) = struct.unpack(">i", deaf.socket.recv(4))
        assert size > 500_000
