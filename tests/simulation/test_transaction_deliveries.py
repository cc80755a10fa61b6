"""A transactional producer against a coordinator and brokers that fail at random: a transaction is whole, or nothing.

Real: accumulator, sender, sequence numbers, transaction manager, network client. Simulated: time, the network, two
nodes that lead the partitions and coordinate in turn. Requests are lost before or after they take effect, answered with
errors, or never; connections break. In each history:

- when the coordinator gets an EndTxn that commits, every record of the transaction has been acknowledged;
- a reader of committed records sees the records of the transactions whose commit succeeded: once each and in order;
- no record of an aborted transaction is read, whatever its future said;
- each record's future is done when its transaction has ended, and its callback has run exactly once;
- after any error but a fatal one, and none is fatal here, the producer's next transaction can be committed.

The cluster has no transaction.version, or version 2, or changes to version 2 at some time.
"""

from __future__ import annotations

import collections
from concurrent.futures import Future
from random import Random
from typing import Any, NamedTuple

import pytest

from barnabas.clients.errors import TransactionAbortable
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata, MetadataConfig
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.sequence_numbers import NO_IDENTITY, ProducerIdentity
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import ProducerRecord
from barnabas.clients.producer.sending.sender import Sender
from barnabas.clients.producer.transactions.transaction_manager import TransactionManager
from barnabas.clients.producer.transactions.transaction_requests import TransactionalSequences
from barnabas.clients.producer.transactions.transaction_states import CurrentTransaction, TransactionManagerState
from barnabas.clients.producer.transactions.transactional_request import EndTransaction
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import RecordBatch
from barnabas.rpc.connection_states import Node
from tests.simulation.breaking_connections import REQUEST_TIMEOUT_MS, BreakingConnections, network_client
from tests.simulation.delivery import Delivery
from tests.support.client_metadata import metadata_response
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import SentRequest, all_versions

PARTITIONS = 3
LAST_EPOCH = 2**15 - 1
E = ErrorCode
PRODUCE_ERRORS = (E.NOT_ENOUGH_REPLICAS, E.NOT_LEADER_OR_FOLLOWER, E.INVALID_RECORD, E.REQUEST_TIMED_OUT)
COORDINATOR_ERRORS = (E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS)


class Stored(NamedTuple):
    """A batch in a partition, or the end of a transaction (`commits` is not None)."""

    identity: ProducerIdentity
    sequence: int
    values: list[bytes]
    commits: bool | None = None


class Cluster:
    """What two nodes know: one coordinator's transaction, and the logs."""

    def __init__(self, chance: Random, history: History) -> None:
        self.chance = chance
        self.history = history
        self.fault_rate = chance.choice((0.0, 0.05, 0.2))
        self.leaders = [chance.randrange(2) for _ in range(PARTITIONS)]
        self.coordinator = chance.randrange(2)
        self.identity = ProducerIdentity(7, chance.choice((-1, LAST_EPOCH - 4)))
        self.upgrade_after = chance.choice((0, 0, 3, None))
        """The number of transactions until transaction.version is 2; None: never."""
        self.added: set[int] = set()
        self.previous = NO_IDENTITY
        """What the producer was before its epoch was raised last, for a request that is sent again."""
        self.ended: bool | None = None
        """How the last transaction of this epoch ended, for an EndTxn that is sent again."""
        self.previous_ends = 0
        """How many more requests find the previous transaction still ending."""
        self.logs: list[list[Stored]] = [[] for _ in range(PARTITIONS)]
        self.counts: collections.Counter[str] = collections.Counter()

    def fault(self, name: str) -> bool:
        happens = self.chance.random() < self.fault_rate
        self.counts[name] += happens
        return happens

    def answer(self, request: SentRequest) -> Message | None:
        body, node = request.body, int(request.connection_id)
        match request.header.api_key:
            case ApiKey.API_VERSIONS:
                return self._versions()
            case ApiKey.METADATA:
                return metadata_response({"t": self.leaders}, 2, epoch=1)
            case ApiKey.FIND_COORDINATOR:
                found = FindCoordinatorResponse.Coordinator(body.coordinator_keys[0], self.coordinator, "h", 1, 0, None)
                if self.fault("no coordinator"):
                    found = FindCoordinatorResponse.Coordinator("", -1, "", -1, int(E.COORDINATOR_NOT_AVAILABLE), None)
                return FindCoordinatorResponse(coordinators=[found])
            case ApiKey.PRODUCE:
                return self._produce(node, body, adds=request.header.api_version >= 12)
        if self.fault("coordinator moves"):
            self.coordinator = 1 - self.coordinator
        error = E.NONE if node == self.coordinator else E.NOT_COORDINATOR
        if not error and self.fault("coordinator error"):
            error = self.chance.choice(COORDINATOR_ERRORS)
        if not error and self._is_ending():
            error = E.CONCURRENT_TRANSACTIONS
        match request.header.api_key:
            case ApiKey.INIT_PRODUCER_ID:
                return self._init(body, error)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return self._add(body, error)
            case _:
                return self._end(body, error, raises=request.header.api_version >= 5)

    def _versions(self) -> ApiVersionsResponse:
        versions = all_versions(
            MetadataRequest,
            ProduceRequest,
            InitProducerIdRequest,
            FindCoordinatorRequest,
            AddPartitionsToTxnRequest,
            EndTxnRequest,
        )
        if self.upgrade_after is not None and self.history.outcomes.total() >= self.upgrade_after:
            versions.finalized_features = [ApiVersionsResponse.FinalizedFeatureKey("transaction.version", 2, 2)]
            versions.finalized_features_epoch = 1
        return versions

    def _is_ending(self) -> bool:
        self.previous_ends -= self.previous_ends > 0
        return self.previous_ends > 0

    def _raise_epoch(self) -> None:
        producer_id, epoch = self.identity
        is_last = epoch >= LAST_EPOCH - 1
        self.identity = ProducerIdentity(producer_id + 1, 0) if is_last else ProducerIdentity(producer_id, epoch + 1)
        self.counts["new producer id"] += is_last

    def _init(self, body: Any, error: ErrorCode) -> Message:
        if not error:
            assert not self.added, "a new epoch while a transaction is open"
            asked = ProducerIdentity(body.producer_id, body.producer_epoch)
            # A raise whose answer was lost is asked for again with the old epoch.
            if asked in (NO_IDENTITY, self.identity):
                self.previous = asked
                self._raise_epoch()
            assert asked == self.previous, "fenced itself"
            self.ended = None
        return InitProducerIdResponse(0, int(error), *self.identity)

    def _add(self, body: Any, error: ErrorCode) -> Message:
        indexes = body.v3_and_below_topics[0].partitions
        if not error:
            assert (body.v3_and_below_producer_id, body.v3_and_below_producer_epoch) == self.identity
            self.added |= set(indexes)
            self.ended = None
        results = [AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(index, int(error)) for index in indexes]
        topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult("t", results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    def _end(self, body: Any, error: ErrorCode, *, raises: bool) -> Message:
        if error:
            return EndTxnResponse(error_code=int(error))
        asked = ProducerIdentity(body.producer_id, body.producer_epoch)
        if raises and asked == self.previous != self.identity:
            assert not self.added
            assert self.ended is body.committed, "EndTxn is repeated otherwise"
            self.counts["end repeated"] += 1
            return EndTxnResponse(0, 0, *self.identity)
        assert asked == self.identity
        if self.added or (raises and not body.committed):
            self._complete(commits=body.committed, raises=raises)
        else:
            assert self.ended is body.committed, "EndTxn without a transaction"
        return EndTxnResponse(0, 0, *(self.identity if raises else NO_IDENTITY))

    def _complete(self, *, commits: bool, raises: bool) -> None:
        self.history.coordinator_ends(commits=commits)
        for index in self.added:
            self.logs[index].append(Stored(self.identity, -1, [], commits))
        self.added = set()
        self.ended = commits
        self.previous_ends = self.chance.choice((0, 0, 2, 4))
        if raises:
            self.previous = self.identity
            self._raise_epoch()
            self.counts["epoch raised by the end"] += 1

    def _produce(self, node: int, body: Any, *, adds: bool) -> Message:
        assert body.transactional_id == "tx"
        answers = []
        for data in body.topic_data[0].partition_data:
            error, offset = self._append(node, data.index, RecordBatch(bytes(data.records)), adds=adds)
            answers.append(
                ProduceResponse.PartitionProduceResponse(index=data.index, error_code=int(error), base_offset=offset)
            )
        return ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name="t", partition_responses=answers)])

    def _append(self, node: int, index: int, batch: RecordBatch, *, adds: bool) -> tuple[ErrorCode, int]:
        assert batch.is_transactional
        if self.leaders[index] != node:
            return E.NOT_LEADER_OR_FOLLOWER, -1
        if self.fault("error before append"):
            return self.chance.choice(PRODUCE_ERRORS), -1
        if (batch.producer_id, batch.producer_epoch) != self.identity:
            return E.INVALID_PRODUCER_EPOCH, -1
        if adds and index not in self.added:
            if self._is_ending():
                self.counts["batch waits for the previous end"] += 1
                return E.CONCURRENT_TRANSACTIONS, -1
            self.added.add(index)
            self.ended = None
        log = self.logs[index]
        batches = [stored for stored in log if stored.commits is None and stored.identity == self.identity]
        for position, stored in enumerate(batches[-5:]):
            if stored.sequence == batch.base_sequence:
                self.counts["duplicate"] += 1
                return E.NONE, position
        expected = batches[-1].sequence + len(batches[-1].values) if batches else 0
        if batch.base_sequence != expected:
            self.counts["out of order"] += 1
            return E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        assert index in self.added, "a batch outside of a transaction"
        log.append(Stored(self.identity, expected, [record.value or b"" for record in batch.records()]))
        if self.fault("error after append"):
            return E.REQUEST_TIMED_OUT, -1
        return E.NONE, len(log)

    def committed(self, index: int) -> list[bytes]:
        values: list[bytes] = []
        pending: list[bytes] = []
        for stored in self.logs[index]:
            if stored.commits is None:
                pending += stored.values
            else:
                values += pending if stored.commits else []
                pending = []
        return values


class FaultyNetwork(BreakingConnections):
    """Connections that carry requests and answers late, in order, and break."""

    def __init__(self, clock: MockClock, cluster: Cluster) -> None:
        super().__init__(clock, cluster.chance)
        self.cluster = cluster

    def handle(self, request: SentRequest) -> Message | None:
        return self.cluster.answer(request)

    def poll(self, timeout_ms: float) -> None:
        chance = self.chance
        for connection_id in list(self.channels):
            for request in [request for request in self.sent if request.connection_id == connection_id]:
                if chance.random() < 0.2:
                    break
                self.sent.remove(request)
                response = self.handle(request)
                if response is not None:
                    self.answers[connection_id].append((request, response))
            while self.answers[connection_id] and chance.random() < 0.8:
                self.answer(*self.answers[connection_id].pop(0))
            if chance.random() < self.cluster.fault_rate / 4:
                self.break_connection(connection_id)
        super().poll(timeout_ms)
        found = self.connected or self.disconnected or self.completed_sends or self.completed_receives
        self.clock.advance(1 if found or self.sent or any(self.answers.values()) else min(timeout_ms, 500))


class History:
    """One producer's transactions."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = Random(seed)
        self.clock = MockClock()
        self.cluster = Cluster(chance, self)
        self.network = FaultyNetwork(self.clock, self.cluster)
        config = ProducerConfig(
            transactional_id="tx",
            batch_size=chance.choice((0, 100, 200)),
            linger_ms=chance.choice((0, 0, 30, 200)),
            retries=chance.choice((1, 2**31 - 1)),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=chance.choice((400, 5_000)),
            retry_backoff_ms=5,
            retry_backoff_max_ms=50,
            max_in_flight_requests_per_connection=chance.choice((1, 5)),
        )
        metadata = ClusterMetadata([Node(-1, "boot", 1)], MetadataConfig(refresh_backoff_ms=5), chance)
        self.metadata = metadata
        self.client = network_client(self.network, metadata, config.max_in_flight_requests_per_connection)
        self.manager = TransactionManager("tx", 60_000)
        sequences = TransactionalSequences(self.manager)
        self.accumulator = RecordAccumulator(config, BufferPool(1 << 20), chance, sequences)
        self.sender = Sender(self.client, metadata, self.accumulator, config, sequences)
        metadata.add_topic("t", 0)
        self.transaction: list[Delivery] = []
        self.expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.number = 0

    def run(self) -> None:
        self._await(self.manager.begin_init())
        for _ in range(self.chance.randint(3, 12)):
            self._transact()
        self.cluster.fault_rate = 0.0
        for _ in range(3):
            self.outcomes["last"] += self._transact(aborts=False)
        assert self.outcomes["last"] >= 2, "the producer does not recover"
        for index in range(PARTITIONS):
            assert self.cluster.committed(index) == self.expected[index], index

    def coordinator_ends(self, *, commits: bool) -> None:
        if commits:
            for sent in self.transaction:
                assert sent.future.done(), f"EndTxn before {sent.value!r} was acknowledged"
                assert sent.future.exception() is None, f"EndTxn although {sent.value!r} has failed"

    def _transact(self, *, aborts: bool = True) -> bool:
        self.manager.begin_transaction()
        self.transaction = []
        try:
            for _ in range(self.chance.randint(0, 4)):
                self._send()
                for _ in range(self.chance.randint(0, 8)):
                    self.sender.run_once()
            if aborts and self.chance.random() < 0.25:
                self._abort()
                return False
            self._await(self.manager.begin_commit())
        except TransactionAbortable:
            self.outcomes["abortable"] += 1
            self.manager.acknowledge()
            self._abort()
            return False
        for sent in self.transaction:
            self.expected[sent.partition.partition].append(sent.value)
        self.outcomes["committed"] += 1
        self._check_futures()
        return True

    def _abort(self) -> None:
        self._await(self.manager.begin_abort())
        self.outcomes["aborted"] += 1
        self._check_futures()

    def _check_futures(self) -> None:
        assert self.manager.state is TransactionManagerState.READY
        assert not self.accumulator.has_incomplete()
        for sent in self.transaction:
            assert sent.future.done(), sent.value
            assert sent.callbacks == 1, sent.value

    def _send(self) -> None:
        for _ in range(self.chance.randint(1, 5)):
            self.manager.check_may_send()
            sent = Delivery(TopicPartition("t", self.chance.randrange(PARTITIONS)), b"%d" % self.number)
            record = ProducerRecord(1, None, sent.value, (), len(sent.value) + 32, sent.on_delivery)
            sent.future = self.accumulator.append(
                *sent.partition, record, self.metadata.cluster, max_block_ms=0, now=self.client.now_ms
            ).future
            self.number += 1
            self.transaction.append(sent)

    def _await(self, done: Future[None]) -> None:
        for _ in range(5_000):
            if done.done():
                self.manager.acknowledge()
                done.result()
                return
            self.sender.run_once()
        raise AssertionError(f"never ends: {self.manager.state}")


def run(seed: int) -> History:
    history = History(seed)
    try:
        history.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return history


@pytest.mark.parametrize("block", range(8))
def test_transactions(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_transactions(block: int) -> None:
    for seed in range(1_000 + block * 100, 1_100 + block * 100):
        run(seed)


def test_everything_happens() -> None:
    counts: collections.Counter[str] = collections.Counter()
    outcomes: collections.Counter[str] = collections.Counter()
    for seed in range(100, 180):
        history = run(seed)
        counts += history.cluster.counts + collections.Counter(disconnect=history.network.breaks)
        outcomes += history.outcomes
    assert min(outcomes[name] for name in ("committed", "aborted", "abortable")) > 50, outcomes
    names = (
        "duplicate",
        "out of order",
        "coordinator moves",
        "coordinator error",
        "disconnect",
        "error after append",
        "end repeated",
        "epoch raised by the end",
        "batch waits for the previous end",
        "new producer id",
    )
    assert min(counts[name] for name in names) > 2, counts


def _end_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordAccumulator, "has_incomplete", lambda _: False)


def _a_failed_batch_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionManager, "batch_failed", lambda *_, **__: None)


def _no_new_epoch_after_a_lost_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TransactionManager.batch_failed
    monkeypatch.setattr(
        TransactionManager, "batch_failed", lambda manager, cause, **_: real(manager, cause, was_numbered=False)
    )


def _the_epoch_that_an_end_raises_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndTransaction, "next_identity", lambda _: None)


def _a_batch_that_adds_its_partition_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CurrentTransaction, "register", lambda *_: None)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "plant",
    [
        _end_does_not_wait,
        _a_failed_batch_spoils_nothing,
        _no_new_epoch_after_a_lost_batch,
        _the_epoch_that_an_end_raises_is_ignored,
        _a_batch_that_adds_its_partition_begins_nothing,
    ],
)
def test_a_planted_defect_is_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError)):
        collections.deque(map(run, range(60)), maxlen=0)
