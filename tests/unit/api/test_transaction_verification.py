"""Produce asks the coordinator before a transaction writes to a partition, from frame to frame."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.handlers.produce import ProduceApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.api.transaction_verification import (
    WAIT_MS,
    TransactionVerification,
    VerificationErrors,
    VerificationMetrics,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import RecordBatch
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_environment import LogManagerConfig
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.replica.replica_harness import Replicas
from tests.unit.storage.log_harness import NOW, produced, read_all
from tests.unit.storage.log_harness import Broker as StoredLogs

Callback = Callable[[VerificationErrors], None]
OK = ErrorCode.NONE


class Coordinator:
    """Remembers questions; answers at once with `refusals`, unless `answers_at_once` is False."""

    def __init__(self) -> None:
        self.adds: list[bool] = []
        self.asked: list[tuple[str, int, int, list[TopicPartition]]] = []
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.answers_at_once = True
        self.waiting: list[Callback] = []

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        callback: Callback,
        *,
        adds: bool,
    ) -> None:
        self.adds.append(adds)
        self.asked.append((transactional_id, producer_id, producer_epoch, list(partitions)))
        if self.answers_at_once:
            callback(self.refusals)
        else:
            self.waiting.append(callback)


class LateVerifier:
    """Builds the coordinator when it is called."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.built: Coordinator | None = None

    def __call__(self) -> Coordinator:
        self.built = self._coordinator
        return self.built


class Broker:
    """Broker 0 leads two partitions."""

    def __init__(self, *, verifies: bool = True) -> None:
        self.replicas = Replicas(StoredLogs(manager_config=LogManagerConfig(verifies_transactions=verifies)))
        for partition in (0, 1):
            self.replicas.lead(partition=partition)
            self.replicas.announce("topic", partition, 0)
        self.coordinator = Coordinator()
        self.metrics = VerificationMetrics(self.replicas.clock)
        self.verifier = LateVerifier(self.coordinator)
        self.verifier()
        verification = TransactionVerification(self.replicas.manager, self.verifier, self.metrics)
        produce = ProduceApi(self.replicas.manager, self.replicas.metadata, None, verification)
        self._parser = RequestParser(Registry(produce.handlers()))
        self._apis = Apis(self.replicas.actions, lambda: 1)
        self.channel = RecordingChannel()

    def send(self, batches: dict[int, bytes], transactional_id: str | None = "t", version: int = 9) -> None:
        """Send batches by partition; the frame's bytes are overwritten when the handler has returned."""
        partitions = [ProduceRequest.PartitionProduceData(index, data) for index, data in batches.items()]
        body = ProduceRequest(transactional_id, -1, 1000, [ProduceRequest.TopicProduceData("topic", b"", partitions)])
        encoded = b"".join(map(bytes, body.encode(version)))
        frame = bytearray(encode_request_header(body.api_key, version, 1, "me") + encoded)
        self._apis.handle(self._parser.parse(frame, connection(), channel=self.channel, received_ns=1))
        frame[:] = bytes(len(frame))

    def results(self) -> dict[int, tuple[int, int]]:
        """By partition: error and base offset."""
        (topic,) = self.channel.answer().responses
        return {each.index: (each.error_code, each.base_offset) for each in topic.partition_responses}

    def produce(self, sequence: int, *, epoch: int = 0, partition: int = 0) -> tuple[int, int]:
        self.send({partition: produced(7, sequence, epoch=epoch, transactional=True)})
        return self.results()[partition]

    def log(self, partition: int = 0) -> Any:
        return self.replicas.partition("topic", partition).log

    def mark(self, *, abort: bool = False, epoch: int = 0) -> None:
        marker = EndTransactionMarker(abort, 0, NOW).batch(7, epoch)
        self.log().append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)


PLACES = [TopicPartition("topic", partition) for partition in (0, 1)]


def test_only_the_first_batch_of_a_transaction_is_asked_for() -> None:
    broker = Broker()
    assert [broker.produce(0), broker.produce(1), broker.produce(0, partition=1)] == [(OK, 0), (OK, 1), (OK, 0)]
    assert broker.coordinator.asked == [("t", 7, 0, [PLACES[0]]), ("t", 7, 0, [PLACES[1]])]
    broker.mark()
    assert broker.produce(2) == (OK, 3)
    assert len(broker.coordinator.asked) == 3


def test_a_batch_of_version_12_adds_its_partition() -> None:
    broker = Broker(verifies=False)
    for version in (11, 12):
        broker.send({version % 2: produced(7, 0, transactional=True)}, version=version)
    assert broker.results() == {0: (OK, 0)}
    assert (broker.coordinator.asked, broker.coordinator.adds) == ([("t", 7, 0, [PLACES[0]])], [True])


def test_a_batch_of_version_12_waits_for_the_end_of_the_transaction_before() -> None:
    broker = Broker()
    early = {PLACES[0]: ErrorCode.CONCURRENT_TRANSACTIONS}
    broker.coordinator.answers_at_once = False
    broker.send({0: produced(7, 0, transactional=True)}, version=12)
    broker.coordinator.waiting.pop()({})
    assert broker.results() == {0: (OK, 0)}
    broker.send({0: produced(7, 0, epoch=1, transactional=True)}, version=12)
    # The marker ends the verification that was begun before it. The next question begins another.
    broker.mark(epoch=1)
    broker.coordinator.waiting.pop()(early)
    assert len(broker.channel.frames) == 1
    broker.coordinator.waiting.pop()({})
    assert broker.results() == {0: (OK, 2)}
    broker.mark(epoch=2)
    broker.send({0: produced(7, 0, epoch=2, transactional=True)}, version=12)
    broker.replicas.clock.advance(WAIT_MS - 1)
    broker.coordinator.waiting.pop()(early)
    broker.replicas.clock.advance(1)
    broker.coordinator.waiting.pop()(early)
    assert broker.results() == {0: (ErrorCode.CONCURRENT_TRANSACTIONS, -1)}
    assert broker.metrics.failures.count == 1


@pytest.mark.parametrize("passed_ms", [0, WAIT_MS])
def test_a_marker_that_overtakes_the_question_has_it_asked_again(passed_ms: int) -> None:
    """The coordinator is asked after the marker has ended the verification, and says yes to the next transaction."""
    broker = Broker()
    broker.coordinator.answers_at_once = False
    broker.send({0: produced(7, 0, epoch=1, transactional=True)}, version=12)
    broker.mark(epoch=1)
    broker.replicas.clock.advance(passed_ms)
    broker.coordinator.waiting.pop()({})
    if passed_ms == WAIT_MS:
        assert broker.results() == {0: (ErrorCode.CONCURRENT_TRANSACTIONS, -1)}, "the producer sends the batch again"
    else:
        assert not broker.channel.frames
        broker.coordinator.waiting.pop()({})
        assert broker.results() == {0: (OK, 1)}


def test_a_late_answer_finds_the_transaction_open() -> None:
    """Two batches of one transaction share a verification; the first one that is appended ends it."""
    broker = Broker()
    broker.coordinator.answers_at_once = False
    for sequence in (0, 1):
        broker.send({0: produced(7, sequence, transactional=True)}, version=12)
    first, second = broker.coordinator.waiting
    first({})
    assert broker.results() == {0: (OK, 0)}
    broker.replicas.clock.advance(WAIT_MS)
    second({})
    assert broker.results() == {0: (OK, 1)}


def test_a_batch_outside_of_transactions_is_not_asked_for() -> None:
    broker = Broker()
    broker.send({0: produced(7, 0)}, transactional_id=None)
    broker.send({0: produced(7, 1)})
    assert broker.results() == {0: (OK, 1)}
    assert broker.coordinator.asked == []


@pytest.mark.parametrize(
    ("said", "told", "text"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING, None),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS, "CONCURRENT_TRANSACTIONS"),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS, "NOT_COORDINATOR"),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS, "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
)
def test_a_refused_partition_fails_alone(said: ErrorCode, told: ErrorCode, text: str | None) -> None:
    broker = Broker()
    broker.coordinator.refusals = {PLACES[0]: said}
    broker.send({partition: produced(7, 0, transactional=True) for partition in (0, 1)})
    assert broker.results() == {0: (told, -1), 1: (OK, 0)}
    message = broker.channel.answer().responses[0].partition_responses[0].error_message
    if text is not None:
        assert text in message
    assert (broker.log().log_end_offset, broker.log().last_stable_offset) == (0, 0)
    assert (broker.metrics.failures.count, sum(broker.metrics.times_ms.counts)) == (1, 1)
    broker.coordinator.refusals = {}
    assert broker.produce(0) == (OK, 0)
    assert (broker.metrics.failures.count, sum(broker.metrics.times_ms.counts)) == (1, 2)


def test_newer_producers_are_told_to_abort() -> None:
    broker = Broker()
    broker.coordinator.refusals = {PLACES[0]: ErrorCode.TRANSACTION_ABORTABLE}
    broker.send({0: produced(7, 0, transactional=True)}, version=11)
    assert broker.results() == {0: (ErrorCode.TRANSACTION_ABORTABLE, -1)}


def test_an_answer_that_comes_later_goes_on_with_the_records_of_then() -> None:
    broker = Broker()
    broker.coordinator.answers_at_once = False
    data = produced(7, 0, 3, transactional=True)
    waiting = broker.replicas.fetch(PartitionFetch("topic", 0, 0, 1 << 20), max_wait_ms=10_000)
    broker.send({0: data})
    assert not broker.channel.frames
    (callback,) = broker.coordinator.waiting
    thread = threading.Thread(target=callback, args=({},))
    thread.start()
    thread.join()
    assert broker.results() == {0: (OK, 0)}
    (stored,) = read_all(broker.log())
    assert list(RecordBatch(stored).records()) == list(RecordBatch(data).records())
    assert waiting, "a fetch that waited has been completed by the thread that went on"


def test_an_answer_on_the_thread_of_a_later_request_counts_as_late() -> None:
    broker = Broker()
    broker.coordinator.answers_at_once = False
    broker.send({0: produced(7, 0, transactional=True)})
    resumed: list[Callable[[], None]] = []
    broker.channel.resume = resumed.append  # type: ignore[assignment,method-assign]
    broker.coordinator.waiting[0]({})
    assert not broker.channel.frames
    resumed[0]()
    assert broker.results() == {0: (OK, 0)}


def test_a_transaction_that_ends_while_the_coordinator_is_asked_gets_no_record() -> None:
    broker = Broker()
    broker.coordinator.answers_at_once = False
    broker.send({0: produced(7, 0, transactional=True)})
    broker.mark(abort=True)
    broker.coordinator.waiting[0]({})
    assert broker.results() == {0: (ErrorCode.INVALID_TXN_STATE, -1)}
    assert (broker.log().log_end_offset, broker.log().bounds.first_unstable) == (1, None)


def test_partitions_elsewhere_are_not_asked_for() -> None:
    broker = Broker()
    broker.replicas.announce("topic", 5, 1)
    broker.send({5: produced(7, 0, transactional=True)})
    assert broker.results() == {5: (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)}
    assert broker.coordinator.asked == []


def test_the_setting_switches_the_question_off() -> None:
    broker = Broker(verifies=False)
    assert broker.produce(0) == (OK, 0)
    assert broker.coordinator.asked == []
    broker.replicas.broker.manager.reconfigure(LogManagerConfig(verifies_transactions=True))
    assert broker.produce(1) == (OK, 1), "its transaction is open"
    broker.mark()
    assert broker.produce(2) == (OK, 3)
    assert len(broker.coordinator.asked) == 1


def test_a_coordinator_that_is_not_there_yet_is_built_on_a_handlers_thread() -> None:
    broker = Broker()
    broker.verifier.built = None
    resumed: list[Callable[[], None]] = []
    broker.channel.resume = resumed.append  # type: ignore[assignment,method-assign]
    broker.send({0: produced(7, 0, transactional=True)})
    assert broker.verifier.built is None
    assert broker.coordinator.asked == []
    assert not broker.channel.frames
    resumed[0]()
    assert broker.results() == {0: (OK, 0)}
    assert broker.coordinator.asked == [("t", 7, 0, [PLACES[0]])]
