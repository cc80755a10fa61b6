"""The process dies before, within and after every kind of write that a transaction makes; then it starts again.

Real: the handlers, both coordinators, the dispatch of markers, replicas, logs (`tests.support.transactional_broker`).
Seeded clients run transactions over several partitions and groups, with aborts, successors that fence them, zombies,
repeated requests and timeouts. Kinds of writes: the coordinator's log, markers, entries of aborted transactions,
batches of producers, offsets of groups.

What is demanded after the process died (kill -9: the page cache stays), and after power failures where every append is
flushed (`flush.messages=1`):

- each transaction is whole or absent, in all partitions and groups; what EndTxn has answered is carried out;
- what a reader of committed records has read stays, in the same order, and nothing comes twice;
- no producer id and epoch is handed out twice, and a fenced producer ends no transaction;
- when open transactions have ended or timed out, the last stable offset is at the end of each log, no offset is
  pending, and each transactional id can begin, write and commit.

After power failures without flushes, Kafka promises nothing of what replicas do not have, and less is demanded: the
broker starts; readers get values that were written, none twice; what the coordinator has forgotten can be found and
aborted as an operator does (KIP-664); then the last stable offset is at the end, and new transactional ids begin, write
and commit whole transactions.

All of it is demanded of producers of transaction.version 2 (KIP-890), too.
"""

from __future__ import annotations

import collections
import enum
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from barnabas.coordinator.group.group_loading import PartitionReplay
from barnabas.coordinator.group.offsets.offset_terms import OffsetFetchTerms
from barnabas.coordinator.transaction.marker_dispatch import MarkerDispatch, MarkerRequest
from barnabas.coordinator.transaction.transaction_loading import TransactionLoading
from barnabas.coordinator.transaction.transaction_metadata import COMPLETE
from barnabas.coordinator.transaction.transaction_service import TransactionService
from barnabas.metadata.metadata_image import MetadataImage
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from barnabas.protocol.topic_partition import TopicPartition, by_topic
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.storage.producers import rebuilt_producers
from tests.support.simulated_files import Moment, PowerOff, SimulatedFiles
from tests.support.transactional_broker import (
    DATA_PLACES,
    GROUP_PLACES,
    StoredTopics,
    TransactionalBroker,
    committed_values,
)

IDS = ("t0", "t1", "t2")
GROUPS = ("g", "h")
STEPS = 45
BLOCK = 20
"""The histories of one test."""
PATIENCE = 40
"""How often a request is repeated before its client is said to wait for ever."""
SHORT_MS, LONG_MS = 1_000, 60_000
E = ErrorCode
RETRIED = frozenset(
    {
        E.CONCURRENT_TRANSACTIONS,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_ENOUGH_REPLICAS,
    }
)
FENCING = frozenset(
    {
        E.PRODUCER_FENCED,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.INVALID_TXN_STATE,
        E.TRANSACTION_ABORTABLE,
    }
)
"""Told to a producer that was fenced, or whose transaction has timed out."""
_CONTROL = 0x20


class Loss(enum.Enum):
    """What the end of the process loses: nothing, or what was not flushed, where each append is flushed or none."""

    KILL = "kill"
    FLUSHED = "power, each append flushed"
    UNFLUSHED = "power, nothing flushed"


class WriteKind(enum.Enum):
    """The writes beside which the process dies."""

    COORDINATOR = "coordinator"
    MARKER = "marker"
    ABORTED = "aborted transaction"
    APPEND = "append"
    OFFSETS = "offsets"

    @staticmethod
    def of(path: str, data: bytes) -> WriteKind | None:
        """Return the kind of a write, None for one that is no transaction's (indexes, checkpoints)."""
        if path.endswith(".txnindex"):
            return WriteKind.ABORTED
        if not path.endswith(".log"):
            return None
        if TRANSACTION_STATE_TOPIC in path:
            return WriteKind.COORDINATOR
        if data[22] & _CONTROL:
            return WriteKind.MARKER
        return WriteKind.OFFSETS if GROUP_METADATA_TOPIC in path else WriteKind.APPEND


Cell = tuple[WriteKind, Moment]


class ClientDied(Exception):
    """The client dies together with the broker: it does not repeat its request."""


class OffsetWrite(NamedTuple):
    """A commit of an offset. number: all commits are numbered, in the order in which they are asked for."""

    number: int
    group: str
    place: TopicPartition
    offset: int


@dataclass
class Transaction:
    """What is known of a transaction. asked: its end, if it was asked for; outcome: its end, if it is known.

    is_uncertain: a write was not answered. No client commits such a transaction.
    """

    number: int
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    offsets: list[OffsetWrite] = field(default_factory=list)
    asked: bool | None = None
    outcome: bool | None = None
    is_uncertain: bool = False

    @property
    def writes_no_more(self) -> bool:
        """Whether its client takes no other step than to end it."""
        return self.is_uncertain or self.asked is not None


class Session:
    """A producer from its InitProducerId on. is_doubtful: it may have been fenced. is_fenced: it has been."""

    def __init__(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequences: collections.Counter[TopicPartition] = collections.Counter()
        self.transaction: Transaction | None = None
        self.places: set[TopicPartition] = set()
        self.is_doubtful = False
        self.is_fenced = False


class CrashLife:
    """One history. cell: the only write beside which the process dies; any if it is None."""

    produce_version = 11
    commit_version = 3
    end_version = 3

    def __init__(self, seed: int, loss: Loss, cell: Cell | None = None) -> None:
        self.chance = random.Random(seed)
        self.loss = loss
        self.is_strict = loss is not Loss.UNFLUSHED
        self.disk = SimulatedFiles()
        self.has_timeouts = self.chance.random() < 0.5
        flush_messages = 1 if loss is Loss.FLUSHED else 10_000
        self.stored = StoredTopics(self.disk, flush_messages=flush_messages, seed=seed)
        self.epoch = 0
        self.first_producer_id = 1000
        self.deaths: collections.Counter[Cell] = collections.Counter()
        self.counts: collections.Counter[str] = collections.Counter()
        self.sessions: dict[str, Session | None] = dict.fromkeys(IDS)
        self.zombies: list[Session] = []
        self.transactions: list[Transaction] = []
        self.plain_offsets: list[OffsetWrite] = []
        self.offset_number = 0
        self.handed_out: set[tuple[int, int]] = set()
        self.seen: dict[TopicPartition, list[bytes]] = {place: [] for place in DATA_PLACES}
        self._cell = cell
        self._armed: Cell | None = None
        self._writes_left = 0
        self._is_calm = False
        self.broker = self._new_broker(is_new=True)
        self.disk.death = self._death
        self._arm()

    # -- the end of the process, and its start

    def _new_broker(self, *, is_new: bool = False) -> TransactionalBroker:
        self.first_producer_id += 1000
        return TransactionalBroker(
            self.stored, epoch=self.epoch, is_new=is_new, first_producer_id=self.first_producer_id
        )

    def _arm(self) -> None:
        self._armed = self._cell or (self.chance.choice(list(WriteKind)), self.chance.choice(list(Moment)))
        # A request with many markers never gets through where the process dies at each of them.
        self._writes_left = self.chance.choice((0, 0, 1, 2, 5) if self._cell is None else (0, 1, 3, 10, 30))

    def _death(self, path: str, data: bytes) -> Moment | None:
        if self._armed is None or WriteKind.of(path, data) is not self._armed[0]:
            return None
        self._writes_left -= 1
        if self._writes_left >= 0:
            return None
        (kind, moment), self._armed = self._armed, None
        self.deaths[kind, moment] += 1
        return moment

    def recover(self) -> None:
        """Start the broker again, which may take several attempts."""
        while True:
            self.broker.is_dead = True
            if self.loss is Loss.KILL or self.chance.random() < 0.2:
                self.disk.kill()
            else:
                self.disk.crash(self.chance)
            if not self._is_calm and self.chance.random() < 0.2:
                self.disk.power_off_after(self.chance.randint(0, 12))
            # One node alone may keep its leadership through a death; a controller that notices raises the epoch.
            self.epoch += self.chance.randint(0, 1)
            try:
                self.stored.start()
                self.broker = self._new_broker()
                self.check_readers()
            except PowerOff:
                self.counts["died while starting"] += 1
                continue
            if not self._is_calm:
                self._arm()
            return

    # -- requests

    def ask(self, message: Any, version: int) -> Any:
        """Return the answer; a client repeats its request when the broker died, or dies as well: ClientDied."""
        while True:
            try:
                return self.broker.ask(message, version)
            except PowerOff:
                self.recover()
                if not self._is_calm and self.chance.random() < 0.3:
                    raise ClientDied from None
                self.counts["repeated"] += 1

    def until_told(self, ask: Callable[[], ErrorCode]) -> ErrorCode:
        """Repeat a request while the error says so; markers are written meanwhile."""
        error = E.NONE
        for _ in range(PATIENCE):
            error = ask()
            if error not in RETRIED:
                return error
            self.send_markers()
        assert not self.is_strict, f"waits for ever: {error.name}"
        return error

    def send_markers(self) -> None:
        self.protected(self.broker.transactions.send_markers)

    def pass_time(self, milliseconds: int) -> None:
        self.protected(lambda: self.broker.scheduler.tick(milliseconds))

    def protected(self, work: Callable[[], object]) -> None:
        """Do work of the broker's own threads; the process may die in it."""
        try:
            if self.broker.is_dead:
                raise PowerOff
            work()
        except PowerOff:
            self.recover()

    # -- clients

    def step(self) -> None:
        if self.zombies and self.chance.random() < 0.1:
            zombie = self.chance.choice(self.zombies)
            self.act(zombie, self.chance.choice((self.add, self.produce, self.end)))
            return
        transactional_id = self.chance.choice(IDS)
        session = self.sessions[transactional_id]
        if session is None or self.chance.random() < 0.05:
            self.begin(transactional_id)
        elif session.transaction is None:
            if self.chance.random() < 0.15:
                self.begin(transactional_id, goes_on=True)
            else:
                self.act(session, self.add)
        else:
            steps = (self.add, self.produce, self.commit_offsets, self.end)
            self.act(session, self.chance.choices(steps, (1, 4, 1.5, 2))[0])

    def act(self, session: Session, step: Callable[[Session], bool]) -> None:
        """Take a step; a session that was fenced, or dies, takes no other as its id's producer."""
        try:
            goes_on = step(session)
        except ClientDied:
            self.counts["client died"] += 1
            goes_on = False
            self.zombies.append(session)
        else:
            if not goes_on:
                allowed = session.is_fenced or session.is_doubtful or self.has_timeouts or not self.is_strict
                assert allowed, f"{session.transactional_id}: a request of its only producer was refused"
                self.counts["fenced"] += 1
                if session in self.zombies:
                    self.zombies.remove(session)
        if not goes_on and self.sessions[session.transactional_id] is session:
            self.sessions[session.transactional_id] = None

    def begin(self, transactional_id: str, *, goes_on: bool = False) -> None:
        """Begin as a producer; `goes_on`: the same one, with a new epoch (KIP-360)."""
        before = self.sessions.get(transactional_id)
        earlier = [each for each in self.zombies if each.transactional_id == transactional_id]
        if before is not None:
            earlier.append(before)
            if not goes_on:
                self.zombies.append(before)
        self.sessions[transactional_id] = None
        for session in earlier:
            session.is_doubtful = True
        message = InitProducerIdRequest(
            transactional_id,
            SHORT_MS if self.has_timeouts and self.chance.random() < 0.5 else LONG_MS,
            *((before.producer_id, before.epoch) if goes_on and before is not None else ()),
        )
        given: list[tuple[int, int]] = []

        def ask() -> ErrorCode:
            answer = self.ask(message, 4)
            given.append((answer.producer_id, answer.producer_epoch))
            return E(answer.error_code)

        try:
            error = self.until_told(ask)
        except ClientDied:
            self.counts["client died"] += 1
            return
        if goes_on and error in FENCING:
            # The epoch was raised before the answer was lost, and the log does not keep what it was before.
            self.counts["fenced itself"] += 1
            return
        if not self.is_strict and error is not E.NONE:
            self.counts["stuck"] += 1
            return
        assert error is E.NONE, error
        assert not self.is_strict or given[-1] not in self.handed_out, f"{given[-1]} was handed out twice"
        self.handed_out.add(given[-1])
        for session in earlier:
            session.is_fenced = True
        self.sessions[transactional_id] = Session(transactional_id, *given[-1])

    def add(self, session: Session) -> bool:
        if session.transaction is not None and session.transaction.asked is not None:
            return self.end(session)
        places = self.chance.sample(DATA_PLACES, self.chance.randint(1, 2))
        return self.add_places(session, places)

    def add_places(self, session: Session, places: list[TopicPartition]) -> bool:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=session.transactional_id,
            v3_and_below_producer_id=session.producer_id,
            v3_and_below_producer_epoch=session.epoch,
            v3_and_below_topics=[topic(name, numbers) for name, numbers in by_topic(places).items()],
        )

        def ask() -> ErrorCode:
            results = self.ask(message, 3).results_by_topic_v3_and_below
            (error,) = {each.partition_error_code for topic in results for each in topic.results_by_partition}
            return E(error)

        self.begun(session)
        error = self.until_told(ask)
        session.places |= set(places) if error is E.NONE else set()
        return self.is_taken(error)

    def begun(self, session: Session) -> Transaction:
        if session.transaction is None:
            session.transaction = Transaction(len(self.transactions))
            session.places = set()
            self.transactions.append(session.transaction)
        return session.transaction

    def is_taken(self, error: ErrorCode) -> bool:
        assert error is E.NONE or error in FENCING or not self.is_strict, error
        return error is E.NONE

    def produce(self, session: Session, place: TopicPartition | None = None) -> bool:
        transaction = self.begun(session)
        if not session.places:
            return self.add(session)
        if transaction.writes_no_more:
            return self.end(session)
        place = place or self.chance.choice(sorted(session.places))
        sequence = session.sequences[place]
        builder = RecordBatchBuilder(
            producer_id=session.producer_id,
            producer_epoch=session.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        count = self.chance.randint(1, 3)
        values = [b"%d:%d" % (transaction.number, sequence + index) for index in range(count)]
        for value in values:
            builder.append(self.stored.clock.milliseconds(), None, value)
        part = ProduceRequest.PartitionProduceData(place.partition, builder.build())
        topics = [ProduceRequest.TopicProduceData(name=place.topic, partition_data=[part])]
        message = ProduceRequest(session.transactional_id, -1, 1000, topics)

        def ask() -> ErrorCode:
            return E(self.ask(message, self.produce_version).responses[0].partition_responses[0].error_code)

        transaction.is_uncertain = True
        error = self.until_told(ask)
        if error is E.NONE:
            transaction.is_uncertain = False
            transaction.values.setdefault(place, []).extend(values)
            session.sequences[place] += count
        return self.is_taken(error)

    def commit_offsets(self, session: Session) -> bool:
        transaction, group = self.begun(session), self.chance.choice(GROUPS)
        if transaction.writes_no_more:
            return self.end(session)
        if not self.add_group(session, group):
            return False
        place = self.chance.choice(DATA_PLACES)
        self.offset_number += 1
        write = OffsetWrite(self.offset_number, group, place, self.offset_number)
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            place.partition, write.offset, committed_metadata=""
        )
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(place.topic, [partition])
        commit = TxnOffsetCommitRequest(
            session.transactional_id, group, session.producer_id, session.epoch, topics=[topic]
        )
        transaction.is_uncertain = True
        version = self.commit_version
        error = self.until_told(lambda: E(self.ask(commit, version).topics[0].partitions[0].error_code))
        if error is E.NONE:
            transaction.is_uncertain = False
            transaction.offsets.append(write)
        return self.is_taken(error)

    def add_group(self, session: Session, group: str) -> bool:
        add = AddOffsetsToTxnRequest(session.transactional_id, session.producer_id, session.epoch, group)
        return self.is_taken(self.until_told(lambda: E(self.ask(add, 3).error_code)))

    def end(self, session: Session) -> bool:
        transaction = session.transaction
        if transaction is None or (not session.places and transaction.asked is None):
            return self.add(session)
        if transaction.asked is None:
            # Without a record it would not be seen whether it was committed.
            may_commit = bool(transaction.values) and not transaction.is_uncertain
            transaction.asked = may_commit and self.chance.random() < 0.65
        message = EndTxnRequest(session.transactional_id, session.producer_id, session.epoch, transaction.asked)
        answers: list[EndTxnResponse] = []

        def ask() -> ErrorCode:
            answers.append(self.ask(message, self.end_version))
            return E(answers[-1].error_code)

        error = self.until_told(ask)
        if error is E.NONE:
            assert not session.is_fenced or not self.is_strict, (
                f"{session.transactional_id}: a fenced producer ended its transaction"
            )
            transaction.outcome = transaction.asked
            session.transaction = None
            self.ended(session, answers[-1])
            self.counts["committed" if transaction.outcome else "aborted"] += 1
        return self.is_taken(error)

    def ended(self, session: Session, answer: EndTxnResponse) -> None:
        """Take the answer to an end, by which the producer keeps its epoch."""
        assert answer.producer_id == -1

    def commit_plainly(self) -> None:
        """Commit an offset outside of a transaction, until it is acknowledged."""
        self.offset_number += 1
        write = OffsetWrite(
            self.offset_number, self.chance.choice(GROUPS), self.chance.choice(DATA_PLACES), self.offset_number
        )
        answers: list[Any] = []

        def commit() -> None:
            answers.extend(self.broker.groups.commit((*write.place, write.offset), group=write.group))

        while not answers:
            self.protected(commit)
        assert answers == [[E.NONE]]
        self.plain_offsets.append(write)

    # -- the history

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()
            if self.chance.random() < 0.4:
                self.send_markers()
            if self.chance.random() < 0.1:
                self.commit_plainly()
            if self.has_timeouts and self.chance.random() < 0.1:
                self.pass_time(self.chance.choice((10, 2_000, 12_000)))
        self._is_calm, self._armed = True, None
        if self.broker.is_dead or self.chance.random() < 0.5:
            self.recover()
        self.disk.power_on()
        self.settle()
        self.check()

    def settle(self) -> None:
        """Let every open transaction end, by its timeout or by a successor, and every id go on."""
        if not self.is_strict:
            self.expire()
            self.abort_hanging()
        elif self.chance.random() < 0.5:
            self.expire()
        for transactional_id in IDS if self.is_strict else ("new0", "new1"):
            self.begin(transactional_id)
            session = self.sessions[transactional_id]
            assert session is not None
            assert self.add_places(session, list(DATA_PLACES))
            for place in DATA_PLACES:
                assert self.produce(session, place)
            assert session.transaction is not None
            session.transaction.asked = True
            assert self.end(session)
        self.expire()

    def expire(self) -> None:
        self.pass_time(LONG_MS + 1)
        self.pass_time(LONG_MS)
        for _ in range(3):
            self.send_markers()

    def abort_hanging(self) -> None:
        """Abort the transactions that the coordinator does not know any more, as an operator does."""
        marker, topic = WriteTxnMarkersRequest.WritableTxnMarker, WriteTxnMarkersRequest.WritableTxnMarkerTopic
        for place in (*DATA_PLACES, *GROUP_PLACES):
            for producer in self.broker.log(place).producers.active():
                if producer.current_transaction_start_offset < 0:
                    continue
                self.counts["hanging"] += 1
                request = marker(
                    producer.producer_id,
                    producer.producer_epoch,
                    False,
                    [topic(place.topic, [place.partition])],
                    max(0, producer.coordinator_epoch),
                )
                answer = self.broker.ask(WriteTxnMarkersRequest([request]), 1)
                assert answer.markers[0].topics[0].partitions[0].error_code == E.NONE

    # -- what has to be

    def check_readers(self) -> None:
        """What has been read stays, and what comes is behind it."""
        if not self.is_strict:
            self.seen = {place: committed_values(self.broker.log(place)) for place in DATA_PLACES}
            return
        for place, seen in self.seen.items():
            found = committed_values(self.broker.log(place))
            assert found[: len(seen)] == seen, f"{place}: {seen} was read before, and now {found}"
            self.seen[place] = found

    def check(self) -> None:
        assert not self.broker.transactions.has_markers
        for entry in self.broker.transactions.table.entries():
            assert entry.pending is None
            assert entry.metadata.state in COMPLETE or not self.is_strict, entry.metadata
        for place in (*DATA_PLACES, *GROUP_PLACES):
            log = self.broker.log(place)
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset, log
        self.check_readers()
        self.check_values()
        # Of lossy histories the last two transactions are demanded, which nothing has interrupted.
        self.check_transactions(self.transactions if self.is_strict else self.transactions[-2:])
        self.check_offsets()

    def check_values(self) -> None:
        begun = {b"%d" % transaction.number for transaction in self.transactions}
        for place, values in self.seen.items():
            assert len(set(values)) == len(values), f"{place}: {values} has a value twice"
            assert {value.partition(b":")[0] for value in values} <= begun

    def check_transactions(self, transactions: list[Transaction]) -> None:
        for transaction in transactions:
            prefix = b"%d:" % transaction.number
            found = {place: [each for each in self.seen[place] if each.startswith(prefix)] for place in DATA_PLACES}
            stored = {place: values for place, values in found.items() if values}
            if transaction.outcome is None:
                transaction.outcome = bool(stored) and transaction.asked is True
            expected = transaction.values if transaction.outcome else {}
            assert stored == expected, f"{transaction} has left {stored}"

    def check_offsets(self) -> None:
        committed = [write for each in self.transactions if each.outcome for write in each.offsets]
        for group in GROUPS:
            writes = sorted(write for write in (*self.plain_offsets, *committed) if write.group == group)
            expected = {tuple(write.place): write.offset for write in writes}
            found = self.broker.groups.offsets.fetch_offsets(OffsetFetchTerms(group, None, require_stable=True))
            assert found.error is E.NONE
            assert all(each.error is E.NONE for _, offsets in found.topics for each in offsets), found
            assert (
                not self.is_strict
                or {(topic, each.partition): each.offset for topic, some in found.topics for each in some} == expected
            )


class Version2Life(CrashLife):
    """One history of producers of transaction.version 2: what they write adds itself, and an end raises the epoch."""

    produce_version = 12
    commit_version = 5
    end_version = 5

    def add_places(self, session: Session, places: list[TopicPartition]) -> bool:
        self.broker.writes_markers_early = self.chance.random() < 0.7
        self.begun(session)
        session.places |= set(places)
        return True

    def add_group(self, session: Session, group: str) -> bool:
        return True

    def ended(self, session: Session, answer: EndTxnResponse) -> None:
        following = (answer.producer_id, answer.producer_epoch)
        assert not self.is_strict or following not in self.handed_out, f"{following} was handed out twice"
        self.handed_out.add(following)
        session.producer_id, session.epoch = following
        session.sequences.clear()


def run(seed: int, loss: Loss, cell: Cell | None = None, kind: type[CrashLife] = CrashLife) -> CrashLife:
    life = kind(seed, loss, cell)
    try:
        life.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}, {loss}: {error!r}") from error
    return life


CELLS = [(kind, moment) for kind in WriteKind for moment in Moment]


def run_block(block: int, loss: Loss, count: int = BLOCK, kind: type[CrashLife] = CrashLife) -> None:
    for seed in range(block * BLOCK, block * BLOCK + count):
        run(seed, loss, kind=kind)


def die(cell: Cell, loss: Loss, times: int, kind: type[CrashLife] = CrashLife) -> None:
    """Run histories until the process has died so often beside writes of one kind, at one moment."""
    deaths, seed = 0, 0
    while deaths < times:
        assert seed < 20 * times, f"{deaths} deaths in {seed} histories"
        deaths += run(seed, loss, cell, kind).deaths[cell]
        seed += 1


@pytest.mark.parametrize("block", range(3))
@pytest.mark.parametrize("loss", Loss)
def test_transactions_survive_the_end_of_the_process(loss: Loss, block: int) -> None:
    run_block(block, loss)


@pytest.mark.parametrize("cell", CELLS)
def test_the_process_dies_beside_each_kind_of_write(cell: Cell) -> None:
    die(cell, Loss.FLUSHED, 2)


@pytest.mark.parametrize("loss", Loss)
def test_transactions_of_version_2_survive_the_end_of_the_process(loss: Loss) -> None:
    run_block(0, loss, kind=Version2Life)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10, 40))
@pytest.mark.parametrize("loss", Loss)
def test_transactions_of_version_2_survive_many_ends(loss: Loss, block: int) -> None:
    run_block(block, loss, kind=Version2Life)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("loss", Loss)
def test_the_process_dies_fifty_times_in_transactions_of_version_2(loss: Loss, cell: Cell) -> None:
    die(cell, loss, 50, Version2Life)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10, 40))
@pytest.mark.parametrize("loss", Loss)
def test_transactions_survive_many_ends(loss: Loss, block: int) -> None:
    run_block(block, loss)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("loss", Loss)
def test_the_process_dies_fifty_times_beside_each_kind_of_write(loss: Loss, cell: Cell) -> None:
    die(cell, loss, 50)


def _decided_transactions_are_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionLoading, "_resume", lambda *_: None)


def _an_end_is_answered_before_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TransactionService.end

    def end(service: TransactionService, *args: Any, on_done: Callable[[ErrorCode], None], **terms: Any) -> None:
        on_done(E.NONE)
        real(service, *args, on_done=lambda _: None, **terms)

    monkeypatch.setattr(TransactionService, "end", end)


def _a_recovery_forgets_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_batch(*args: Any) -> None:
        rebuilt_producers.load_batch(*args)

    monkeypatch.setattr("barnabas.storage.log.log_recovery.load_batch", load_batch)


def _a_group_is_loaded_without_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionReplay, "transactional", lambda _: {})


def _a_transaction_is_complete_before_its_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    real = MarkerDispatch.requests

    def requests(dispatch: MarkerDispatch, image: MetadataImage) -> Iterator[MarkerRequest]:
        for request in list(real(dispatch, image)):
            # The first answer is taken for all: the others are lost with the process.
            for transaction, partitions in request.parts:
                transaction.waiting -= partitions
                dispatch._finish_if_written(transaction)
            yield request

    monkeypatch.setattr(MarkerDispatch, "requests", requests)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "plant",
    [
        _decided_transactions_are_not_resumed,
        _an_end_is_answered_before_it_is_stored,
        _a_recovery_forgets_aborted_transactions,
        _a_group_is_loaded_without_open_transactions,
        _a_transaction_is_complete_before_its_markers,
    ],
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_block(0, Loss.KILL, 3 * BLOCK)


def _a_repeated_end_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.coordinator.transaction.decisions._is_repeated_end", lambda *_: False)


def _an_addition_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(_: TransactionService, *args: Any, **terms: Any) -> None:
        args[3](E.NONE)

    monkeypatch.setattr(TransactionService, "add_partitions", add)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "plant", [_decided_transactions_are_not_resumed, _a_repeated_end_is_unknown, _an_addition_is_not_stored]
)
def test_a_planted_defect_is_found_in_version_2(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_block(0, Loss.KILL, 3 * BLOCK, Version2Life)
