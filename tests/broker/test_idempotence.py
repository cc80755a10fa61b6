"""Idempotent producers by raw protocol: duplicates, gaps, epochs; what is remembered over stops and kills."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.records.compression import Codec
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server

STAMP = 1_700_000_000_000


def take_producer_id(client: RawClient) -> int:
    """Kafka may say that it is still getting its first block of ids."""
    while True:
        answer = client.call(InitProducerIdRequest(None, 60_000), 4, InitProducerIdResponse)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert answer.error_code == ErrorCode.NONE
            return answer.producer_id


class Producer:
    """Sends batches of two records; says the error and the base offset of each answer."""

    def __init__(self, client: RawClient, topic: str, producer_id: int | None = None) -> None:
        self.client = client
        self.topic = topic
        self.producer_id = take_producer_id(client) if producer_id is None else producer_id

        self.stamp = int(time.time() * 1000)  # a producer that seems idle for a day is forgotten at a start

    def send(self, sequence: int, epoch: int = 0, codec: Codec = Codec.NONE, count: int = 2) -> tuple[ErrorCode, int]:
        values = [b"%d" % (sequence + number) for number in range(count)]
        producer: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        result = self.client.produce(self.topic, make_batch(values, codec, self.stamp + sequence, **producer))
        return ErrorCode(result.error_code), result.base_offset


OK = ErrorCode.NONE
OUT_OF_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_duplicate_is_answered_as_the_first_time(client: RawClient, topic: str, codec: Codec) -> None:
    client.create_topic(topic)
    producer = Producer(client, topic)
    for sequence in range(0, 12, 2):
        assert producer.send(sequence, codec=codec) == (OK, sequence)
    for sequence in range(2, 12, 2):
        assert producer.send(sequence, codec=codec) == (OK, sequence)
    assert producer.send(0, codec=codec) == OUT_OF_ORDER  # older than the last five
    assert client.end_offset(topic) == 12


def test_gaps_and_overlaps_are_refused(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    producer = Producer(client, topic)
    assert producer.send(0) == (OK, 0)
    assert producer.send(3) == OUT_OF_ORDER
    assert producer.send(1) == OUT_OF_ORDER
    assert producer.send(0, count=1) == OUT_OF_ORDER
    assert producer.send(2) == (OK, 2)
    assert client.end_offset(topic) == 4


def test_a_new_producer_may_begin_anywhere(client: RawClient, topic: str) -> None:
    """Its records may have been deleted; UNKNOWN_PRODUCER_ID is no answer of today's brokers."""
    client.create_topic(topic)
    producer = Producer(client, topic)
    assert producer.send(41) == (OK, 0)
    assert producer.send(43) == (OK, 2)
    assert producer.send(2**31 - 1, 1) == OUT_OF_ORDER


def test_epochs_fence(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    producer = Producer(client, topic)
    assert producer.send(0) == (OK, 0)
    assert producer.send(2, epoch=1) == OUT_OF_ORDER  # a new epoch begins at 0
    assert producer.send(0, epoch=1) == (OK, 2)
    assert producer.send(2, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert producer.send(0, epoch=1) == (OK, 2)


def test_sequence_numbers_wrap_around(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    producer = Producer(client, topic)
    last = 2**31 - 1
    assert producer.send(last - 1) == (OK, 0)
    assert producer.send(0) == (OK, 2)
    assert producer.send(last - 1) == (OK, 0)
    assert producer.send(3) == OUT_OF_ORDER


def test_a_duplicate_tells_the_time_of_the_batch(client: RawClient, topic: str) -> None:
    """As Kafka does, although the topic keeps the producer's time."""
    client.create_topic(topic)
    fields: dict[str, Any] = {"producer_id": take_producer_id(client), "producer_epoch": 0, "base_sequence": 0}
    answers = [client.produce(topic, make_batch([b"value"], timestamp_ms=STAMP, **fields)) for _ in range(2)]
    assert [answer.log_append_time_ms for answer in answers] == [-1, STAMP]
    assert [answer.base_offset for answer in answers] == [0, 0]


def test_a_transaction_that_its_coordinator_does_not_know_is_not_written(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    client.await_transaction_coordinator(topic)
    fields: dict[str, Any] = {"producer_id": take_producer_id(client), "producer_epoch": 0, "base_sequence": 0}
    request = client.produce_request(topic, make_batch([b"value"], is_transactional=True, **fields), 9, -1)
    request.transactional_id = topic
    (result,) = client.call(request, 9, ProduceResponse).responses[0].partition_responses
    assert result.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client.end_offset(topic) == 0


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out")
@pytest.mark.parametrize("own_server", MODES, indirect=True)
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_sequences_hold_over_restarts(own_server: Server, topic: str, how: str) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        client.create_topic(topic, configs={"segment.bytes": "2000"})
        first, second = Producer(client, topic), Producer(client, topic)
        for number in range(60):
            producer = (first, second)[number % 2]
            assert producer.send(number // 2 * 2) == (OK, number * 2)
    getattr(own_server, how)()
    own_server.start()
    with RawClient(own_server) as client:
        for before, base_offset in ((first, 116), (second, 118)):
            producer = Producer(client, topic, before.producer_id)
            assert producer.send(58) == (OK, base_offset)
            assert producer.send(62) == OUT_OF_ORDER
            assert producer.send(60)[0] == OK
        assert client.end_offset(topic) == 124
