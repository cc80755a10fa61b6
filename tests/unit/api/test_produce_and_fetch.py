"""Produce and fetch from frame to frame; they leave no cycles behind, for the collector looks rarely."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.api.transaction_verification import TransactionVerification, VerificationMetrics
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.records.errors import CorruptRecord
from barnabas.storage.segment.index_file import CorruptIndex
from tests.support.broker_origins import broker_origin
from tests.support.fetch_sessions import fetch_sessions
from tests.support.mock_clock import MockClock
from tests.support.no_transaction_coordinator import BuiltVerifier, NoTransactionCoordinator
from tests.support.recording_channel import RecordingChannel, connection
from tests.support.simulated_files import SimulatedFile
from tests.unit.replica.replica_harness import Replicas
from tests.unit.storage.log_harness import batch


class Broker:
    """Produce and fetch, from frame to frame, without sockets."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        self.replicas.lead()
        self.replicas.announce("topic", 0, 0)
        verification = TransactionVerification(
            self.replicas.manager, BuiltVerifier(NoTransactionCoordinator()), VerificationMetrics(self.replicas.clock)
        )
        produce = ProduceApi(self.replicas.manager, self.replicas.metadata, None, verification)
        fetch = FetchApi(
            self.replicas.manager, self.replicas.metadata, fetch_sessions(), 1 << 20, MockClock(), None, broker_origin()
        )
        registry = Registry([*produce.handlers(), *fetch.handlers()])
        self.parser = RequestParser(registry)
        self.apis = Apis(self.replicas.actions, lambda: 1)
        self.channel = RecordingChannel()
        self.connection = connection()

    def handle(self, api_key: ApiKey, version: int, body: Message) -> None:
        frame = encode_request_header(api_key, version, 1, "tester") + b"".join(map(bytes, body.encode(version)))
        request = self.parser.parse(frame, self.connection, channel=self.channel, received_ns=1)
        self.apis.handle(request)

    def produce(self, acks: int = 1, records: bytes | None = None) -> None:
        partition = ProduceRequest.PartitionProduceData(0, records if records is not None else batch(3))
        topic = ProduceRequest.TopicProduceData(name="topic", partition_data=[partition])
        self.handle(ApiKey.PRODUCE, 9, ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]))

    def fetch(self, offset: int, max_wait_ms: int = 0) -> None:
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = FetchRequest.FetchTopic(topic="topic", partitions=[partition])
        self.handle(
            ApiKey.FETCH,
            12,
            FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[topic]),
        )

    def forget_answers(self) -> None:
        self.channel.frames.clear()
        self.channel.requests.clear()


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def garbage_of(run: Any, broker: Broker) -> int:
    run()  # what is made once and kept
    broker.forget_answers()
    gc.collect()
    for _ in range(50):
        run()
    broker.forget_answers()
    return gc.collect()


@pytest.mark.usefixtures("collector_off")
@pytest.mark.parametrize("acks", [1, 0, -1])
def test_a_produce_leaves_no_garbage(acks: int) -> None:
    broker = Broker()
    assert garbage_of(lambda: broker.produce(acks), broker) == 0


@pytest.mark.usefixtures("collector_off")
def test_a_fetch_leaves_no_garbage() -> None:
    broker = Broker()
    broker.produce()
    assert garbage_of(lambda: broker.fetch(0), broker) == 0


@pytest.mark.usefixtures("collector_off")
def test_a_fetch_that_waits_and_is_woken_leaves_no_garbage() -> None:
    broker = Broker()

    def wait_and_wake() -> None:
        broker.fetch(broker.replicas.partition().log.log_end_offset, max_wait_ms=500)
        answers = len(broker.channel.frames)
        broker.produce()
        assert len(broker.channel.frames) == answers + 2, "the produce's answer, and the fetch's"

    assert garbage_of(wait_and_wake, broker) == 0
    assert len(broker.replicas.timer) == 0


def test_the_answer_to_a_waiting_fetch_carries_what_woke_it() -> None:
    broker = Broker()
    broker.fetch(0, max_wait_ms=500)
    assert not broker.channel.frames
    broker.produce()
    answers = [broker.channel.answer(index) for index in range(2)]
    (fetched,) = [answer for answer in answers if hasattr(answer, "session_id")]
    partition = fetched.responses[0].partitions[0]
    assert (partition.error_code, partition.high_watermark) == (ErrorCode.NONE, 3)
    assert len(partition.records) == len(batch(3))


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch()[:16], ErrorCode.INVALID_RECORD),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\1" + batch()[17:], ErrorCode.INVALID_RECORD),
        (batch()[:16] + b"\3" + batch()[17:], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:8] + b"\0\0\0\5" + batch()[12:], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:8] + b"\xff\xff\xff\xff" + batch()[12:], ErrorCode.CORRUPT_MESSAGE),
        (batch(), ErrorCode.NONE),
    ],
)
def test_one_whole_batch_of_magic_2_per_partition(records: bytes, code: ErrorCode) -> None:
    broker = Broker()
    broker.produce(records=records)
    assert broker.channel.answer().responses[0].partition_responses[0].error_code == code


def test_an_error_of_acks_0_closes_the_connection() -> None:
    broker = Broker()
    broker.produce(acks=0)
    broker.produce(acks=0, records=b"")
    assert broker.channel.events == ["no_op", "close"]


def test_records_that_are_on_the_disk_only_are_read_by_a_handler_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that would wait for the disk while sending has other connections to serve."""
    on_disk: set[str] = set()
    monkeypatch.setattr(SimulatedFile, "is_cached", lambda *_: not on_disk)
    broker = Broker()
    for size in (1000, 200_000):
        broker.produce(records=batch(1, size=size))
    resumed: list[Any] = []
    monkeypatch.setattr(broker.channel, "resume", resumed.append)
    broker.fetch(1)
    assert (len(broker.channel.frames), len(resumed)) == (3, 0)
    on_disk.add("everything")
    broker.fetch(1)
    assert (len(broker.channel.frames), len(resumed)) == (3, 1)
    resumed[0]()
    assert broker.channel.frames[3] == broker.channel.frames[2]


@pytest.mark.interpreted
def test_damage_on_disk_is_the_partitions_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.produce()
    for raised, code in (
        (CorruptRecord("damaged"), ErrorCode.CORRUPT_MESSAGE),
        (CorruptIndex("damaged"), ErrorCode.CORRUPT_MESSAGE),
        (RuntimeError("a defect"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ):

        def fail(*_: object, error: Exception = raised, **__: object) -> None:
            raise error

        monkeypatch.setattr("barnabas.storage.log.local_log.LocalLog.read", fail)
        broker.fetch(0)
        assert broker.channel.answer().responses[0].partitions[0].error_code == code
