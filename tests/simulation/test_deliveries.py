"""The producer's sender against brokers that fail at random: records are delivered once and in order, or they fail.

Real: accumulator, sender, sequence numbers, network client, and the broker's log with its producer state, on a
simulated disk. Simulated: time, the network, two nodes that lead the partitions in turn. Requests are lost before or
after the append, answered with errors before or after it, or never; connections break; leaders change and cut off what
was not acknowledged; the broker is killed. After each history:

- each record's future is done, and its callback has run, exactly once;
- each acknowledged record is in the log, where its metadata says;
- no record is in the log twice, and the records of a partition are in the order in which they were sent (failed records
  too, if they were stored);
- all memory is back in the pool;
- once the faults are over, new records arrive, and before they expire.

A producer that is not idempotent may store a record twice and out of order: there only the rest holds.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from barnabas.clients.errors import BufferExhausted
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata, MetadataConfig
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.deliveries import Deliveries
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.clients.producer.batches.sequence_numbers import PartitionSequences, SequenceNumbers
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import ProducerRecord, RecordMetadata
from barnabas.clients.producer.sending.sender import Sender
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import RecordBatch
from barnabas.rpc.connection_states import Node
from tests.simulation.breaking_connections import (
    RECONNECT_BACKOFF_MAX_MS,
    RECONNECT_BACKOFF_MS,
    REQUEST_TIMEOUT_MS,
    BreakingConnections,
    network_client,
)
from tests.simulation.delivery import Delivery
from tests.support.client_metadata import metadata_response
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import SentRequest, all_versions
from tests.unit.storage.log_harness import NOW, Broker, log_config, read_all

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
NODES = 2
BEFORE_APPEND = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
)
AFTER_APPEND = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
LOG_CONFIG = log_config(segment_bytes=100_000)


class Nodes:
    """Two nodes with one log for each partition: what is stored is replicated, what is acknowledged is committed."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.broker = Broker(config=LOG_CONFIG)
        self.leaders = [chance.randrange(NODES) for _ in PARTITIONS]
        self.epoch = 0
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.fault_rate = chance.choice((0.02, 0.1, 0.3))
        self.most_records = chance.choice((2, 5, 1_000))
        """Batches with more records are too large."""
        self.producer_ids = 0
        self.counts: collections.Counter[str] = collections.Counter()

    def answer(self, request: SentRequest) -> Message | None:
        """The answer, None when the node never gives one."""
        if request.header.api_key == ApiKey.API_VERSIONS:
            return all_versions(MetadataRequest, ProduceRequest, InitProducerIdRequest)
        if request.header.api_key == ApiKey.METADATA:
            return metadata_response({"t": self.leaders}, NODES, epoch=self.epoch)
        if request.header.api_key == ApiKey.INIT_PRODUCER_ID:
            return self._producer_id()
        answers = [
            self._produce(int(request.connection_id), data.index, bytes(data.records))
            for data in request.body.topic_data[0].partition_data
        ]
        if self._fault("silence"):
            return None
        return ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name="t", partition_responses=answers)])

    def _producer_id(self) -> InitProducerIdResponse:
        if self._fault("no producer id"):
            return InitProducerIdResponse(error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        self.producer_ids += 1
        # An epoch just below the last one, so that histories go through its end as well.
        return InitProducerIdResponse(
            producer_id=100 + self.producer_ids, producer_epoch=self.chance.choice((0, 32_766, 32_767))
        )

    def _produce(self, node_id: int, index: int, records: bytes) -> ProduceResponse.PartitionProduceResponse:
        partition = PARTITIONS[index]
        error, offset = ErrorCode.NONE, -1
        if self.leaders[index] != node_id:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif RecordBatch(records).count > self.most_records:
            error = ErrorCode.MESSAGE_TOO_LARGE
        elif self._fault("error before append"):
            error = self.chance.choice(BEFORE_APPEND)
        else:
            try:
                appended = self.broker.log(partition).append_as_leader(records, 0)
            except ApiError as refused:
                error = refused.code
                self.counts[error.name] += 1
            else:
                self.counts["duplicate"] += appended.is_duplicate
                offset = appended.first_offset
                if self._fault("error after append"):
                    error = self.chance.choice(AFTER_APPEND)
                else:
                    self.committed[partition] = max(self.committed[partition], appended.last_offset + 1)
        return ProduceResponse.PartitionProduceResponse(index=index, error_code=int(error), base_offset=offset)

    def _fault(self, name: str) -> bool:
        happens = self.chance.random() < self.fault_rate
        self.counts[name] += happens
        return happens

    def change_leader(self) -> None:
        """The other node takes over, and cuts off a part of what was not acknowledged."""
        index = self.chance.randrange(len(PARTITIONS))
        self.leaders[index] = 1 - self.leaders[index]
        self.epoch += 1
        log = self.broker.log(PARTITIONS[index])
        log.truncate_to(self.chance.randint(self.committed[PARTITIONS[index]], log.log_end_offset))

    def restart(self) -> None:
        """Kill the broker; its logs are recovered with the state of their producers."""
        self.broker.kill()


class FaultyNetwork(BreakingConnections):
    """Connections that carry requests and answers late, in order, and break."""

    def __init__(self, clock: MockClock, nodes: Nodes, chance: Random) -> None:
        super().__init__(clock, chance)
        self.nodes = nodes
        self.calm = False
        self.silent: set[str] = set()
        """Connections on which the node will never answer again."""

    def handle(self, request: SentRequest) -> Message | None:
        return self.nodes.answer(request)

    def poll(self, timeout_ms: float) -> None:
        for connection_id in list(self.channels):
            self._process(connection_id)
            answers = self.answers[connection_id]
            while answers and (self.calm or self.chance.random() < 0.7):
                self.answer(*answers.pop(0))
            if not self.calm and self.chance.random() < self.nodes.fault_rate / 4:
                self.break_connection(connection_id)
        super().poll(timeout_ms)
        found = self.connected or self.disconnected or self.completed_sends or self.completed_receives
        if self.calm and not found and not self.sent:
            # As a real poll does: a sender that sleeps on work it could do is late, and its records expire.
            self.clock.advance(timeout_ms)
        else:
            self.clock.advance(min(timeout_ms, self.chance.choice((0, 1, 1 if self.calm else 20))))

    def _process(self, connection_id: str) -> None:
        """Let the node handle the connection's requests, in order, but perhaps not all of them yet."""
        if connection_id in self.silent:
            return
        for request in [request for request in self.sent if request.connection_id == connection_id]:
            if not self.calm and self.chance.random() < 0.3:
                return
            self.sent.remove(request)
            response = self.nodes.answer(request)
            if response is not None:
                self.answers[connection_id].append((request, response))
            else:
                self.silent.add(connection_id)
                return

    def _lose(self, connection_id: str) -> None:
        super()._lose(connection_id)
        self.silent.discard(connection_id)


def _is_none_or_too_large(error: BaseException | None) -> bool:
    return error is None or (isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE)


class DeliveryHistory:
    """One producer's life."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.clock = MockClock()
        self.nodes = Nodes(chance)
        self.network = FaultyNetwork(self.clock, self.nodes, chance)
        self.config = ProducerConfig(
            batch_size=chance.choice((0, 100, 200)),
            linger_ms=chance.choice((0, 0, 30)),
            buffer_memory=chance.choice((600, 4_000)),
            compression_type=chance.choice(("none", "none", "gzip")),
            retries=chance.choice((2, 2**31 - 1)),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=chance.choice((300, 2_000)),
            retry_backoff_ms=chance.choice((5, 50)),
            retry_backoff_max_ms=100,
            reconnect_backoff_ms=RECONNECT_BACKOFF_MS,
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
            max_in_flight_requests_per_connection=chance.choice((1, 2, 5, 5)),
            enable_idempotence=chance.random() < 0.85,
        )
        self.metadata = ClusterMetadata([Node(-1, "boot", 1)], MetadataConfig(refresh_backoff_ms=5), chance)
        self.client = network_client(self.network, self.metadata, self.config.max_in_flight_requests_per_connection)
        self.pool = BufferPool(self.config.buffer_memory)
        self.sequences = SequenceNumbers() if self.config.is_idempotent else None
        self.accumulator = RecordAccumulator(self.config, self.pool, chance, self.sequences)
        self.sender = Sender(self.client, self.metadata, self.accumulator, self.config, self.sequences)
        self.metadata.add_topic("t", 0)
        self.deliveries: list[Delivery] = []

    def run(self) -> None:
        steps: tuple[Callable[[], None], ...] = (
            *(self.send,) * 5,
            *(self.turn,) * 20,
            self.wait,
            self.nodes.change_leader,
        )
        for _ in range(self.chance.randint(40, 250)):
            self.chance.choice(steps)()
            if self.chance.random() < 0.005:
                self.nodes.restart()
        if self.chance.random() < 0.9:
            self._deliver_the_rest()
        else:
            self.sender.force_close()
            self.sender.run()
        self.check()

    # -- steps

    def send(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            delivery = Delivery(self.chance.choice(PARTITIONS), b"%d" % len(self.deliveries))
            record = ProducerRecord(NOW, None, delivery.value, (), len(delivery.value) + 32, delivery.on_delivery)
            try:
                delivery.future = self.accumulator.append(
                    *delivery.partition, record, self.metadata.cluster, max_block_ms=0, now=self.client.now_ms
                ).future
            except BufferExhausted:
                return
            self.deliveries.append(delivery)

    def turn(self) -> None:
        self.sender.run_once()

    def wait(self) -> None:
        self.clock.advance(self.chance.choice((10, 10, 10, 100, 500)))

    def _deliver_the_rest(self) -> None:
        self.nodes.fault_rate = 0.0
        self.network.calm = True
        self._flush()
        # Whatever has happened before, the producer goes on.
        count = len(self.deliveries)
        while len(self.deliveries) < count + 8:
            self.send()
            self._flush()
        errors = [delivery.future.exception() for delivery in self.deliveries[count:]]
        # Two retries may be used up before new metadata come: that is a failure, but no stall. So is a batch too large
        # for a node, after a node that has fallen silent before did not answer it: such a batch is not split.
        assert self.config.retries == 2 or all(_is_none_or_too_large(error) for error in errors), errors

    def _flush(self) -> None:
        self.accumulator.begin_flush()
        for _ in range(3_000):
            if not self.accumulator.has_incomplete():
                self.accumulator.await_flush()
                return
            self.turn()
        raise AssertionError("some batches never end")

    # -- what was found

    def check(self) -> None:
        for delivery in self.deliveries:
            assert delivery.future.done(), delivery.value
            assert delivery.callbacks == 1, delivery.value
        assert self.pool.available_bytes == self.pool.total_bytes
        assert not self.accumulator.has_incomplete()
        for partition in PARTITIONS:
            self._check_partition(partition)

    def _check_partition(self, partition: TopicPartition) -> None:
        stored = {
            record.offset: record.value
            for batch in read_all(self.nodes.broker.log(partition))
            for record in RecordBatch(batch).records()
        }
        for delivery in self.deliveries:
            if delivery.partition == partition and delivery.future.exception() is None:
                assert stored.get(delivery.future.result().offset) == delivery.value
        if self.config.is_idempotent:
            numbers = [int(value or b"") for value in stored.values()]
            assert numbers == sorted(set(numbers)), f"stored twice, or out of order: {numbers}"


def run(seed: int) -> DeliveryHistory:
    history = DeliveryHistory(seed)
    try:
        history.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return history


@pytest.mark.parametrize("block", range(10))
def test_deliveries(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_many_deliveries(block: int) -> None:
    for seed in range(1_000 + block * 200, 1_200 + block * 200):
        run(seed)


def test_every_fault_happens_and_most_records_arrive() -> None:
    counts: collections.Counter[str] = collections.Counter()
    arrived = sent = epochs = 0
    for seed in range(200, 260):
        history = run(seed)
        counts += history.nodes.counts + collections.Counter(disconnect=history.network.breaks)
        sent += len(history.deliveries)
        arrived += sum(delivery.future.exception() is None for delivery in history.deliveries)
        epochs += history.sequences is not None and history.sequences.identity.epoch not in (0, 32_766, 32_767, -1)
    assert min(counts[name] for name in ("silence", "disconnect", "duplicate", "OUT_OF_ORDER_SEQUENCE_NUMBER")) > 10
    assert min(counts[name] for name in ("error before append", "error after append", "no producer id")) > 10
    assert arrived > sent / 2
    assert epochs > 5


# -- defects that must be found


def _renumber_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch rises while batches are in flight, and without a refusal."""
    monkeypatch.setattr(
        PartitionSequences, "must_restart", property(lambda partition: partition.is_refused or partition.has_gap)
    )


def _renumber_each_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry takes the next numbers instead of those that it had."""
    real = SequenceNumbers.may_send

    def may_send(sequences: SequenceNumbers, batch: ProducerBatch) -> bool:
        allowed = real(sequences, batch)
        if allowed and batch.has_sequence:
            sequences.failed(batch, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            sequences.restart_partitions()
            sequences.number(batch)
        return allowed

    monkeypatch.setattr(SequenceNumbers, "may_send", may_send)


def _keep_memory_of_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that was sent once, and failed, keeps its memory."""
    real = RecordAccumulator.finished
    monkeypatch.setattr(
        RecordAccumulator,
        "finished",
        lambda accumulator, batch: None if batch.attempts == 1 else real(accumulator, batch),
    )


def _end_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer after the expiry ends the batch again."""

    def succeed(deliveries: Deliveries, *args: Any) -> bool:
        for delivery in kept.get(id(deliveries), ()):
            if delivery.callback is not None:
                delivery.callback(RecordMetadata("t", 0, 0, 0), None)
        return bool(real_succeed(deliveries, *args))

    def fail(deliveries: Deliveries, *args: Any) -> bool:
        kept[id(deliveries)] = list(deliveries._deliveries)
        return bool(real_fail(deliveries, *args))

    kept: dict[int, Any] = {}
    real_succeed, real_fail = Deliveries.succeed, Deliveries.fail
    monkeypatch.setattr(Deliveries, "succeed", succeed)
    monkeypatch.setattr(Deliveries, "fail", fail)


def _new_overtakes_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a batch that was given up, new batches go on under a new epoch while older ones wait for their retry."""
    monkeypatch.setattr(PartitionSequences, "takes_new", lambda partition, identity: True)


def _run_many() -> None:
    for seed in range(400):
        run(seed)


@pytest.mark.parametrize(
    "plant", [_renumber_at_once, _renumber_each_retry, _keep_memory_of_expired, _end_twice, _new_overtakes_retry]
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        _run_many()
