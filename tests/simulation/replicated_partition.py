"""Three brokers with simulated disks, one partition, and a controller, all moved step by step by a test.

No thread runs: a fetcher's turn is called, an order is delivered, a proposal is answered when the test says so. Every
interleaving that a history finds can be found again by its seed.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.replica.fetcher.fetcher_manager import FetcherId
from barnabas.storage.log.leader_epochs import EpochEntry
from barnabas.storage.log.unified_log import UnifiedLog
from tests.simulation.in_process_leader import FetchHandler, InProcessLeader, LeaderInSession
from tests.support.simulated_files import SimulatedFiles
from tests.unit.replica.replica_harness import Replicas
from tests.unit.storage.log_harness import NOW, Broker, log_config, read_all

PARTITION = TopicPartition("topic", 0)
BROKERS = (0, 1, 2)
LOG = {"min_insync_replicas": 2, "segment_bytes": 2000, "index_interval_bytes": 200}


class Order(NamedTuple):
    """A LeaderAndIsr on its way."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    live_leaders: tuple[int, ...]


class Produced(NamedTuple):
    """A batch that a client sent, and the list that the answer comes into."""

    value: bytes
    answer: list[Any]


class ReplicatedPartition:
    """The cluster. nodes: the brokers that run. cut: links that are broken, as pairs. loss: of a fetch's answers.

    epochs: the broker epoch of each broker, which rises with every start. in_sessions: whether followers fetch in
    sessions, by way of the handler of Fetch.
    """

    knows_returned_brokers = True
    """Whether the controller compares the broker epochs of a proposal (KIP-903)."""

    def __init__(self, seed: int, *, in_sessions: bool = False) -> None:
        self.in_sessions = in_sessions
        self.fetch_handlers: dict[int, FetchHandler] = {}
        self.chance = random.Random(seed)
        self.loss = self.chance.choice((0.0, 0.1))
        self.cut: set[frozenset[int]] = set()
        self.machines = {each: make_machine(SimulatedFiles(), seed * 3 + each) for each in BROKERS}
        self.older_disks: dict[int, SimulatedFiles] = {}
        self.done: Counter[str] = Counter()
        self.nodes: dict[int, Replicas] = {}
        self.epochs = dict.fromkeys(BROKERS, 0)
        self.orders: dict[int, deque[Order]] = {each: deque() for each in BROKERS}
        self.leader, self.leader_epoch, self.partition_epoch = 0, 0, 0
        self.isr: tuple[int, ...] = BROKERS
        self.produced: list[Produced] = []
        self.committed: dict[int, bytes] = {}
        self.observed: set[tuple[int, int, int]] = set()
        for broker_id in BROKERS:
            self._boot(broker_id)
        self._announce()
        self._order()
        self.deliver_all()

    # -- clients

    def produce(self, acks: int = -1) -> None:
        """Send a batch to a broker that believes it leads, perhaps one that does not any more."""
        leaders = [each for each in self.nodes if self.log(each) is not None and self._partition(each).is_leader]
        if leaders:
            node = self.nodes[self.chance.choice(leaders)]
            value = b"%d" % len(self.produced)
            builder = RecordBatchBuilder(Codec.NONE)
            for _ in range(self.chance.randint(1, 3)):
                builder.append(NOW, b"key", value)
            answer = node.append((*PARTITION, builder.build()), acks=acks, timeout_ms=60_000)
            self.produced.append(Produced(value, answer))

    def observe(self) -> None:
        """Note what consumers may see at a leader; what was seen once must be seen for ever.

        Most times only a leader whose high watermark has moved is read again.
        """
        for broker_id in self.nodes:
            log = self.log(broker_id)
            if log is None or not self._partition(broker_id).is_leader:
                continue
            place = (broker_id, log.log_end_offset, log.high_watermark)
            if place in self.observed and self.chance.random() < 0.95:
                continue
            self.observed.add(place)
            for offset, value in values(log, log.high_watermark).items():
                known = self.committed.setdefault(offset, value)
                assert known == value, f"offset {offset}: {known!r} was committed, broker {broker_id} shows {value!r}"

    # -- what happens to brokers

    def kill(self, broker_id: int) -> None:
        """Kill -9: the controller notices, and elects another leader."""
        del self.nodes[broker_id]
        self.orders[broker_id].clear()
        left = tuple(each for each in self.isr if each != broker_id)
        was_in_sync = bool(left) and broker_id in self.isr
        if was_in_sync:
            self.isr = left
        if self.leader == broker_id:
            self.elect()
            return
        self._announce()
        if was_in_sync:
            # The leader hears of it in a new epoch, as from Kafka's controller (removeReplicasFromIsr).
            self.leader_epoch += 1
            self.partition_epoch += 1
            self._order()

    def start(self, broker_id: int) -> None:
        """Start a killed broker; one out of sync may come back with an emptied disk, or an older state of its own."""
        machine = self.machines[broker_id]
        machine.kill()
        older = self.older_disks.get(broker_id)
        if broker_id not in self.isr and (lost := self.chance.choices((None, "all", "much"), (6, 1, 1))[0]):
            disk = older.copy() if lost == "much" and older is not None else SimulatedFiles()
            machine = self.machines[broker_id] = make_machine(disk, self.chance.randrange(1 << 30))
            self.done[lost] += 1
        self._join(broker_id)

    def bounce(self, broker_id: int) -> None:
        """Kill a broker and start it before the controller notices: it stays in sync."""
        self.machines[broker_id].kill()
        self._boot(broker_id)
        self._announce()
        self._order(only=broker_id)

    def lose_power(self, broker_id: int) -> None:
        """Kill a broker that has lost what it wrote since `remember_disk`, and start it before it is noticed."""
        self.machines[broker_id] = make_machine(self.older_disks[broker_id].copy(), self.chance.randrange(1 << 30))
        self.bounce(broker_id)

    def elect_unclean(self, leader: int) -> None:
        """Make any live replica the leader, in sync or not: what the others have and it lacks may be lost."""
        self.isr = (leader,)
        self.elect(leader)

    def start_emptied(self, broker_id: int) -> None:
        """Start a killed broker with an emptied disk."""
        self.machines[broker_id] = make_machine(SimulatedFiles(), self.chance.randrange(1 << 30))
        self._join(broker_id)

    def lose_all_but_an_emptied_leader(self) -> None:
        """Make the last in-sync replica one that has come back with an emptied disk."""
        self.machines[self.leader] = make_machine(SimulatedFiles(), self.chance.randrange(1 << 30))
        self._boot(self.leader)
        self.isr = (self.leader,)
        self.leader_epoch += 1
        self.partition_epoch += 1
        self._announce()
        self._order()

    def remember_disk(self, broker_id: int) -> None:
        """Keep the disk as it is, for a broker that comes back with it later."""
        self.older_disks[broker_id] = _disk(self.machines[broker_id]).copy()

    def fill_disk(self, broker_id: int) -> None:
        """Let the disk of a broker be full for some time. The broker refuses records, or copies none."""
        disk = _disk(self.machines[broker_id])
        disk.capacity_bytes = disk.used_bytes + self.chance.randint(0, 900)
        for _ in range(self.chance.randint(1, 6)):
            self.produce()
            self.fetch(broker_id)
        self.done["full"] += 1
        disk.capacity_bytes = None

    def elect(self, leader: int | None = None) -> None:
        """Choose a leader among the in-sync replicas that live, this one or any; without one there is none."""
        candidates = [each for each in self.isr if each in self.nodes and leader in (None, each)]
        self._announce()
        if candidates:
            self.leader = self.chance.choice(candidates)
            self.leader_epoch += 1
            self.partition_epoch += 1
            self._order()
        else:
            self.leader = -1

    def deliver(self, broker_id: int) -> None:
        """Carry out the next order of the controller."""
        if self.orders[broker_id] and broker_id in self.nodes:
            order = self.orders[broker_id].popleft()
            self.nodes[broker_id].lead(
                leader=order.leader,
                leader_epoch=order.leader_epoch,
                isr=order.isr,
                replicas=BROKERS,
                is_new=order.leader_epoch == 0,
                partition_epoch=order.partition_epoch,
                live_leaders=order.live_leaders,
            )

    def deliver_all(self) -> None:
        for broker_id in BROKERS:
            while self.orders[broker_id]:
                self.deliver(broker_id)

    def answer_proposal(self, broker_id: int) -> None:
        """Write the change of in-sync replicas that a leader has proposed, if the cluster still is as it believes."""
        requested = self.nodes[broker_id].alter_partitions.requested
        if not requested:
            return
        proposal = requested.pop(0)
        wanted = proposal.wanted
        if wanted.leader_epoch < self.leader_epoch or broker_id != self.leader:
            proposal.refuse(ErrorCode.FENCED_LEADER_EPOCH)
        elif wanted.partition_epoch != self.partition_epoch:
            proposal.refuse(ErrorCode.INVALID_UPDATE_VERSION)
        elif any(each not in self.nodes for each in wanted.isr) or (
            self.knows_returned_brokers and not proposal.broker_epochs.items() <= self.epochs.items()
        ):
            proposal.refuse(ErrorCode.INELIGIBLE_REPLICA)
        else:
            self.isr = tuple(wanted.isr)
            self.partition_epoch += 1
            proposal.write()
        self.nodes[broker_id].actions.run_all()

    def fetch(self, broker_id: int) -> None:
        """Let a broker's fetchers take a turn."""
        for thread in self.nodes[broker_id].manager.fetchers().threads:
            thread.turn()

    def pass_time(self, milliseconds: int) -> None:
        for node in self.nodes.values():
            node.pass_time(milliseconds)
            node.manager.shrink_isrs()

    # -- how it ends

    def settle(self) -> None:
        """Mend everything, and let the cluster come to rest."""
        self.cut.clear()
        self.loss = 0.0
        for broker_id in BROKERS:
            if broker_id not in self.nodes:
                self.start(broker_id)
        for _ in range(60):
            self.deliver_all()
            self.pass_time(1_000)
            for broker_id in BROKERS:
                self.fetch(broker_id)
                self.answer_proposal(broker_id)
            self.observe()
            if self.leader < 0:
                self.elect()

    def check(self) -> int:
        """Check what was acknowledged and what was seen against every replica. Returns the acknowledged batches."""
        assert self.leader in BROKERS
        leader = self.log(self.leader)
        assert leader is not None
        assert sorted(self.isr) == sorted(BROKERS), f"in sync at rest: {self.isr}"
        assert leader.high_watermark == leader.log_end_offset
        stored = values(leader, leader.log_end_offset)
        assert {offset: stored.get(offset) for offset in self.committed} == self.committed
        acknowledged = 0
        for value, answer in self.produced:
            if answer and answer[0].error is ErrorCode.NONE:
                info = answer[0].info
                for offset in range(info.first_offset, info.last_offset + 1):
                    assert stored.get(offset) == value, f"{value!r} is lost at {offset}: {stored.get(offset)!r}"
                acknowledged += 1
        whole = read_all(leader)
        for broker_id in BROKERS:
            log = self.log(broker_id)
            assert log is not None
            assert read_all(log) == whole, f"broker {broker_id} has another log than leader {self.leader}"
            assert epochs(log) == epochs(leader)
        return acknowledged

    # -- parts

    def log(self, broker_id: int) -> UnifiedLog | None:
        partition = self.nodes[broker_id].manager.hosted.get(PARTITION)
        return None if partition is None else partition.log

    def _partition(self, broker_id: int) -> Any:
        return self.nodes[broker_id].manager.hosted.get(PARTITION)

    def _boot(self, broker_id: int) -> None:
        self.epochs[broker_id] += 1
        node = self.nodes[broker_id] = Replicas(
            self.machines[broker_id], broker_id=broker_id, connect=partial(self._leader_of, broker_id)
        )
        node.announce(*PARTITION, leader=self.leader)
        self.fetch_handlers[broker_id] = FetchHandler(node)

    def _leader_of(self, follower: int, fetcher_id: FetcherId) -> InProcessLeader:
        kind = LeaderInSession if self.in_sessions else InProcessLeader
        return kind(self, follower, fetcher_id.leader.id)

    def _join(self, broker_id: int) -> None:
        self._boot(broker_id)
        if self.leader not in self.nodes:
            self.elect()
        else:
            self._announce()
            self._order(only=broker_id)

    def _announce(self) -> None:
        for node in self.nodes.values():
            node.brokers_alive(*self.nodes)

    def _order(self, only: int | None = None) -> None:
        order = Order(
            self.leader,
            self.leader_epoch,
            self.isr,
            self.partition_epoch,
            tuple(each for each in (self.leader,) if each in self.nodes),
        )
        for broker_id in self.nodes:
            if only in (None, broker_id):
                self.orders[broker_id].append(order)


def make_machine(disk: SimulatedFiles, seed: int) -> Broker:
    return Broker(disk, config=log_config(**LOG), seed=seed)


def _disk(machine: Broker) -> SimulatedFiles:
    assert isinstance(machine.files, SimulatedFiles)
    return machine.files


def epochs(log: UnifiedLog) -> list[EpochEntry]:
    """The epochs in which something was written: a leader also knows those in which nothing was."""
    entries = [*log.leader_epochs.entries, EpochEntry(-1, log.log_end_offset)]
    return [entry for entry, following in pairwise(entries) if entry.start_offset < following.start_offset]


def values(log: UnifiedLog, end_offset: int) -> dict[int, bytes]:
    """The values of a log below an offset, by offset."""
    found: dict[int, bytes] = {}
    for data in read_all(log):
        for batch in any_batches(data):
            assert isinstance(batch, RecordBatch)
            for record in batch.records():
                if record.offset < end_offset:
                    found[record.offset] = bytes(record.value or b"")
    return found


def run_history(seed: int, steps: int = 250) -> int:
    """Play a random history, and check it. Returns how many batches were acknowledged."""
    cluster = ReplicatedPartition(seed, in_sessions=seed % 2 == 1)
    chance = cluster.chance
    for _ in range(steps):
        step = chance.choices(
            ("produce", "fetch", "deliver", "propose", "kill", "start", "elect", "cut", "mend", "time", "keep", "fill"),
            (30, 40, 12, 12, 1.5, 4, 1.5, 1.5, 3, 2, 1, 3),
        )[0]
        live = list(cluster.nodes)
        if step == "produce":
            cluster.produce()
        elif step == "fetch" and live:
            cluster.fetch(chance.choice(live))
        elif step == "deliver" and live:
            cluster.deliver(chance.choice(live))
        elif step == "propose" and live:
            cluster.answer_proposal(chance.choice(live))
        elif step == "kill" and len(live) > 1:
            cluster.kill(chance.choice(live))
        elif step == "start" and (dead := [each for each in BROKERS if each not in cluster.nodes]):
            cluster.start(chance.choice(dead))
        elif step == "elect" and cluster.leader >= 0:
            cluster.elect()
        elif step == "cut":
            cluster.cut.add(frozenset(chance.sample(BROKERS, 2)))
        elif step == "mend":
            cluster.cut.clear()
        elif step == "time":
            cluster.pass_time(chance.choice((1, 100, 20_000)))
        elif step == "keep" and live:
            cluster.remember_disk(chance.choice(live))
        elif step == "fill" and live:
            cluster.fill_disk(chance.choice(live))
        cluster.observe()
    cluster.observed.clear()
    cluster.settle()
    return cluster.check()
