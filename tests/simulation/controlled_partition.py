"""Three brokers with simulated disks and real controllers on a simulated store, one partition, moved step by step.

As `replicated_partition`, whose controller is a model. Here each broker has a `Controller`, of which the store elects
one. The network between controllers and brokers is a queue for each broker. Watches of the store, events of
controllers, orders, fetches and changes of the in-sync replicas take place when the history says so. No thread runs.

A broker that is killed keeps its session until the store notices (`expire_dead`). A live broker may lose its session,
and registers again; its controller resigns.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from barnabas.config.listeners import EndPoint
from barnabas.controller.controller import Controller
from barnabas.controller.controller_channel_manager import (
    OnLeaderAndIsrResponse,
    OnReachabilityChange,
    OnStopReplicaResponse,
    OnUpdateMetadataResponse,
)
from barnabas.controller.controller_context import ControllerConfig
from barnabas.protocol.codes import ElectionType
from barnabas.protocol.messages.inter_broker import (
    AlterPartitionResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from barnabas.replica.isr.default_alter_partition_manager import (
    AlterPartitionSender,
    _is_unanswered,
    _outcomes,
    _request,
)
from barnabas.replica.isr.isr_updates import IsrChange
from barnabas.replica.leadership_orders import LeadershipOrders
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from barnabas.zk.znodes.topic_zk_data import LeaderIsrAndControllerEpoch
from tests.simulation.in_process_leader import FetchHandler
from tests.simulation.replicated_partition import (
    BROKERS,
    PARTITION,
    Produced,
    ReplicatedPartition,
    make_machine,
)
from tests.support.inline_store import InlineSession, InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.simulated_files import SimulatedFiles
from tests.unit.replica.replica_harness import TOPIC_ID, Replicas

LISTENER = "PLAINTEXT"
_ALTER_PARTITION_VERSION = 3
_SETTLING_TURNS = 300


class Sent(NamedTuple):
    """A request of a controller on its way to a broker."""

    channel: SimulatedChannel
    deliver: Callable[[], None]


class SimulatedChannel:
    """A controller's way to a broker."""

    def __init__(self, cluster: ControlledPartition, sender: int, broker_id: int) -> None:
        self._cluster = cluster
        self.sender = sender
        self._broker_id = broker_id
        self.is_closed = False

    def start(self, on_reachability_change: OnReachabilityChange) -> None:
        """Kafka's controller learns of a dead broker by its session; so does this one."""

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        self._send(request.broker_epoch, lambda orders: orders.apply_leader_and_isr(request), on_response)

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        self._send(request.broker_epoch, lambda orders: orders.update_metadata(request), on_response)

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        self._send(request.broker_epoch, lambda orders: orders.stop_replicas(request), on_response)

    def close(self) -> None:
        self.is_closed = True

    def _send(
        self, broker_epoch: int, carry_out: Callable[[LeadershipOrders], Any], on_response: Callable[[Any], None]
    ) -> None:
        def deliver() -> None:
            node = self._cluster.nodes.get(self._broker_id)
            # As `api.handlers.inter_broker`: a request for an earlier registration is rejected whole.
            if node is None or self._cluster.epochs[self._broker_id] != broker_epoch:
                return
            response = carry_out(node.manager.orders)
            node.actions.run_all()
            if not self.is_closed:
                on_response(response)

        self._cluster.sent[self._broker_id].append(Sent(self, deliver))


class UnansweredChanges:
    """The changes of in-sync replicas of one broker that no controller has answered (DefaultAlterPartitionManager).

    asked: the controller that has been asked for them, and has not answered.
    """

    def __init__(self) -> None:
        self.changes: list[IsrChange] = []
        self.asked: Controller | None = None

    def submit(self, change: IsrChange) -> None:
        self.changes.append(change)

    def shutdown(self) -> None:
        """Do nothing: no thread asks."""


class ControlledPartition(ReplicatedPartition):
    """The cluster. sent: the controllers' requests on their way. done: what has happened, by name."""

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
        self.epochs = dict.fromkeys(BROKERS, -1)
        self.produced: list[Produced] = []
        self.committed: dict[int, bytes] = {}
        self.observed: set[tuple[int, int, int]] = set()
        self.leaders_of_epochs: dict[int, int] = {}
        self.store_clock = MockClock()
        self.store = InlineStore(self.store_clock)
        self.scheduler = MockScheduler(self.store_clock)
        self.sessions: dict[int, InlineSession] = {}
        self.controllers: dict[int, Controller] = {}
        self.unanswered = {each: UnansweredChanges() for each in BROKERS}
        self.sent: dict[int, deque[Sent]] = {each: deque() for each in BROKERS}
        for broker_id in BROKERS:
            self._boot(broker_id)
        self._run_all()
        zk = KafkaZkClient(self.store.new_session(), self.store_clock)
        zk.topics.create(PARTITION.topic, TOPIC_ID, {PARTITION.partition: list(BROKERS)}, {})
        self._zk = zk
        self._run_all()

    # -- the cluster's own view

    @property
    def state(self) -> LeaderIsrAndControllerEpoch:
        """The leadership in the store."""
        return self._zk.topics.partition_states([PARTITION])[PARTITION]

    @property
    def leader(self) -> int:  # type: ignore[override]
        """The leader in the store, -1 if there is none."""
        return self.state.leader_and_isr.leader

    @property
    def isr(self) -> tuple[int, ...]:  # type: ignore[override]
        """The in-sync replicas in the store."""
        return self.state.leader_and_isr.isr

    # -- steps

    def step_store(self) -> None:
        """Deliver a watch of the store, in their order, or tell a listener of its session."""
        if self.store.pending:
            self.store.pending.popleft()()

    def step_controller(self, broker_id: int) -> None:
        """Let a controller handle the events that it has."""
        if broker_id in self.controllers:
            self.controllers[broker_id].run_pending()

    def deliver(self, broker_id: int) -> None:
        """Carry out the next request of a controller, unless the link is cut."""
        queue = self.sent[broker_id]
        while queue and queue[0].channel.is_closed:
            queue.popleft()
        if queue and frozenset((queue[0].channel.sender, broker_id)) not in self.cut and broker_id in self.nodes:
            queue.popleft().deliver()
            self._note_leader(broker_id)

    def ask_for_change(self, broker_id: int) -> None:
        """Send the changes that a leader wants to the controller that it knows. The answer may be lost."""
        node, unanswered = self.nodes.get(broker_id), self.unanswered[broker_id]
        if node is None or not unanswered.changes or unanswered.asked is not None:
            return
        controller_id = node.metadata.image.controller_id
        controller = self.controllers.get(controller_id)
        if controller is None or frozenset((broker_id, controller_id)) in self.cut:
            return
        changes = list(unanswered.changes)
        request = _request(
            AlterPartitionSender(broker_id, lambda: self.epochs[broker_id], _ALTER_PARTITION_VERSION),
            self.epochs[broker_id],
            changes,
            _ALTER_PARTITION_VERSION,
        )
        unanswered.asked = controller

        def answered(response: AlterPartitionResponse) -> None:
            if self.nodes.get(broker_id) is not node or unanswered.asked is not controller:
                return
            unanswered.asked = None
            if response.error_code or self.chance.random() < self.loss:
                return  # asked again
            outcomes = _outcomes(changes, response)
            for change in changes:
                outcome = outcomes.get(change.partition)
                if outcome is not None and not _is_unanswered(outcome):
                    unanswered.changes.remove(change)
                    change.on_done(outcome)
            node.actions.run_all()

        controller.alter_partitions(request, _ALTER_PARTITION_VERSION, answered)

    def kill(self, broker_id: int) -> None:
        """Kill -9. Its session lasts until `expire_dead`."""
        del self.nodes[broker_id]
        killed = self.controllers.pop(broker_id)
        killed.shutdown()
        self.sent[broker_id].clear()
        for other in self.unanswered.values():
            if other.asked is killed:
                other.asked = None  # the connection to it is lost
        self.done["kill"] += 1

    def expire_dead(self, broker_id: int) -> None:
        """Let the store notice that a broker has died."""
        if broker_id not in self.nodes:
            self.sessions[broker_id].close()

    def expire_live(self, broker_id: int) -> None:
        """End the session of a broker that lives: it registers again, and resigns as controller."""
        self.sessions[broker_id].expire(tells_at_once=True)
        self.done["expire"] += 1

    def start(self, broker_id: int) -> None:
        """Start a killed broker; one out of sync may come back with an emptied disk, or an older state of its own."""
        self.expire_dead(broker_id)
        machine = self.machines[broker_id]
        machine.kill()
        older = self.older_disks.get(broker_id)
        if broker_id not in self.isr and (lost := self.chance.choices((None, "all", "much"), (6, 1, 1))[0]):
            disk = older.copy() if lost == "much" and older is not None else SimulatedFiles()
            self.machines[broker_id] = make_machine(disk, self.chance.randrange(1 << 30))
            self.done[lost] += 1
        self._boot(broker_id)

    def prefer(self) -> None:
        """Have the controllers elect the preferred leader, where it is another one."""
        for controller in self.controllers.values():
            if controller.is_active:
                controller.elect_leaders({PARTITION}, ElectionType.PREFERRED, lambda _: None)
                self.done["prefer"] += 1

    # -- how it ends

    def settle(self) -> None:
        """Mend everything, and let the cluster come to rest."""
        self.cut.clear()
        self.loss = 0.0
        for broker_id in BROKERS:
            if broker_id not in self.nodes:
                self.start(broker_id)
        for _ in range(_SETTLING_TURNS):
            self._run_all()
            self.pass_time(100)
            for broker_id in BROKERS:
                self.fetch(broker_id)
                self.ask_for_change(broker_id)
            self.observe()
            if self._is_at_rest():
                return

    def _is_at_rest(self) -> bool:
        logs = [log for each in BROKERS if (log := self.log(each)) is not None]
        # Followers that have copied all are not enough: the leader learns of it by their next fetches.
        ends = {end for log in logs for end in (log.log_end_offset, log.high_watermark)}
        is_whole = len(logs) == len(self.isr) == len(BROKERS) and self.leader >= 0
        return is_whole and len(ends) == 1 and not self._is_busy()

    def _is_busy(self) -> bool:
        return bool(self.store.pending or any(self.sent.values()) or any(e.changes for e in self.unanswered.values()))

    # -- parts

    def _run_all(self) -> None:
        """Deliver all that is on its way, and what that causes."""
        while True:
            progress = self.store.deliver()
            progress += sum(controller.run_pending() for controller in list(self.controllers.values()))
            for broker_id, queue in self.sent.items():
                while queue and broker_id in self.nodes:
                    self.deliver(broker_id)
                    progress += 1
            if not progress:
                return

    def _note_leader(self, broker_id: int) -> None:
        """Check that an epoch has one leader."""
        partition = self.nodes[broker_id].manager.hosted.get(PARTITION)
        state = None if partition is None else partition.state
        if state is not None and state.is_leader:
            epoch = state.leader_epoch
            first = self.leaders_of_epochs.setdefault(epoch, broker_id)
            assert first == broker_id, f"brokers {first} and {broker_id} both lead in epoch {epoch}"

    def _boot(self, broker_id: int) -> None:
        self.sent[broker_id].clear()
        changes = self.unanswered[broker_id] = UnansweredChanges()
        self.nodes[broker_id] = Replicas(
            self.machines[broker_id],
            broker_id=broker_id,
            connect=partial(self._leader_of, broker_id),
            alter_partitions=changes,
        )
        self.fetch_handlers[broker_id] = FetchHandler(self.nodes[broker_id])
        session = self.sessions[broker_id] = self.store.new_session()
        zk = KafkaZkClient(session, self.store_clock)
        zk.make_sure_persistent_paths_exist()
        info = BrokerInfo(broker_id, (EndPoint(f"broker-{broker_id}", 9092, LISTENER, "PLAINTEXT"),))

        def register() -> int:
            epoch = self.epochs[broker_id] = zk.register_broker(info)
            return epoch

        def channel_to(target: BrokerInfo) -> SimulatedChannel:
            return SimulatedChannel(self, broker_id, target.id)

        register()
        controller = self.controllers[broker_id] = Controller(
            ControllerConfig(broker_id, LISTENER),
            zk,
            register,
            channel_to,
            self.scheduler,
            threaded=False,
        )
        controller.startup()


def run_history(seed: int, steps: int = 400) -> int:
    """Play a random history, and check it. Returns how many batches were acknowledged."""
    cluster = ControlledPartition(seed, in_sessions=seed % 2 == 1)
    chance = cluster.chance
    for _ in range(steps):
        step = chance.choices(
            ("produce", "fetch", "deliver", "store", "control", "ask", "rare"), (25, 40, 20, 15, 15, 10, 9)
        )[0]
        live = list(cluster.nodes)
        if step == "produce":
            cluster.produce()
        elif step == "fetch":
            cluster.fetch(chance.choice(live))
        elif step == "deliver":
            cluster.deliver(chance.choice(live))
        elif step == "store":
            cluster.step_store()
        elif step == "control":
            cluster.step_controller(chance.choice(live))
        elif step == "ask":
            cluster.ask_for_change(chance.choice(live))
        else:
            _rare_step(cluster, live)
        cluster.observe()
    cluster.observed.clear()
    cluster.settle()
    return cluster.check()


def _rare_step(cluster: ControlledPartition, live: list[int]) -> None:
    chance = cluster.chance
    dead = [each for each in BROKERS if each not in cluster.nodes]
    step = chance.choices(
        ("kill", "notice", "start", "expire", "cut", "mend", "time", "keep", "fill", "prefer"),
        (2, 3, 4, 1, 2, 4, 3, 1, 2, 1),
    )[0]
    if step == "kill" and len(live) > 1:
        cluster.kill(chance.choice(live))
    elif step == "notice" and dead:
        cluster.expire_dead(chance.choice(dead))
    elif step == "start" and dead:
        cluster.start(chance.choice(dead))
    elif step == "expire":
        cluster.expire_live(chance.choice(live))
    elif step == "cut":
        cluster.cut.add(frozenset(chance.sample(BROKERS, 2)))
    elif step == "mend":
        cluster.cut.clear()
    elif step == "time":
        cluster.pass_time(chance.choice((1, 100, 20_000)))
    elif step == "keep":
        cluster.remember_disk(chance.choice(live))
    elif step == "fill":
        cluster.fill_disk(chance.choice(live))
    elif step == "prefer":
        cluster.prefer()
