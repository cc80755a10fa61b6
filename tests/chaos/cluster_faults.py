"""What goes wrong in a cluster campaign: faults of one cluster, chosen by chance.

Called on the campaign's thread. Each fault is over when its method returns: every broker runs and knows all others, the
network is whole, and every disk has room.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from barnabas.clients.admin import Admin, ElectionType
from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.faults.fault_plan import Drop
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import BrokerFailed, Cluster
from barnabas.testing.broker_cluster import client_ids_of
from tests.support.small_disk import SmallDisk

BROKERS = (0, 1, 2)
SESSION_TIMEOUT_MS = 6_000
SESSION_LOST = "the session with ZooKeeper is closed, lost or has expired"
"""The reason of a start that fails where the machine is too busy for the session; a supervisor starts it again."""
START_ATTEMPTS = 3
PATIENCE_SECONDS = 240
"""How long anything may take that has to happen: brokers start slowly where the machine is busy."""
_LAST_IS_CONTROLLER = 0.75


class ClusterFaults:
    """The faults. events: how often each kind has happened. partitions: those that may lose a replica for some time."""

    def __init__(
        self,
        cluster: Cluster,
        chance: random.Random,
        partitions: Sequence[TopicPartition],
        *,
        splits: bool = False,
        disks: Sequence[SmallDisk] = (),
        only: Collection[str] = (),
    ) -> None:
        """splits: whether the network is split too. disks: of each broker, to be filled; none: their disks are not.

        only: the names of the only faults that may happen; none: all may.
        """
        self._cluster = cluster
        self._chance = chance
        self._partitions = partitions
        self._disks = disks
        self.events: Counter[str] = Counter()
        self._kinds: list[Callable[[], None]] = [
            self._kill_one,
            self._kill_one,
            self._kill_controller,
            self._pause,
            self._restart,
            self._rolling_restart,
            self._kill_two,
            self._lose_session,
            self._reassign,
        ]
        if splits:
            self._kinds += [
                self._isolate_one,
                self._isolate_controller,
                self._isolate_all,
                self._cut_link,
                self._kill_in_turn,
            ]
        if disks:
            self._kinds += [self._fill_disk, self._fill_disk, self._kill_on_full_disk]
        if only:
            self._kinds = [kind for kind in self._kinds if _name(kind) in only]
        self._to_come: list[Callable[[], None]] = []

    @property
    def kinds(self) -> Collection[str]:
        """The names of all faults that may happen."""
        return {_name(kind) for kind in self._kinds}

    def happen(self) -> None:
        """Have something go wrong, and wait until it is mended. Every kind comes before any comes again."""
        if not self._to_come:
            self._to_come = self._chance.sample(self._kinds, len(self._kinds))
        event = self._to_come.pop()
        event()
        self.events[_name(event)] += 1

    # -- processes

    def _kill_one(self) -> None:
        self._kill([self._chance.choice(BROKERS)])

    def _kill_controller(self) -> None:
        self._kill([self._controller()])

    def _kill_two(self) -> None:
        """With one replica left nothing is acknowledged, and nothing is lost."""
        self._kill(self._chance.sample(BROKERS, 2))

    def _kill(self, broker_ids: list[int]) -> None:
        for broker_id in broker_ids:
            self._cluster.kill(broker_id)
            time.sleep(self._chance.uniform(0, 0.5))
        time.sleep(self._chance.uniform(0, 3))
        for broker_id in broker_ids:
            self._start(broker_id)
        self._cluster.wait_until_known(PATIENCE_SECONDS)

    def _start(self, broker_id: int) -> None:
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._cluster.brokers[broker_id].start(PATIENCE_SECONDS)
                return
            except BrokerFailed as failure:
                if SESSION_LOST not in str(failure) or attempt == START_ATTEMPTS:
                    raise
                self.events["start_repeated"] += 1

    def _pause(self) -> None:
        """A broker that stands still is taken for dead, and does not know it when it goes on."""
        broker_id = self._chance.choice(BROKERS)
        self._cluster.pause(broker_id)
        time.sleep(self._chance.uniform(0.1, 2 * SESSION_TIMEOUT_MS / 1000))
        self._cluster.resume(broker_id)

    def _restart(self) -> None:
        self._cluster.restart(self._chance.choice(BROKERS), PATIENCE_SECONDS)

    def _rolling_restart(self) -> None:
        self._cluster.rolling_restart(PATIENCE_SECONDS)

    # -- sessions and replicas

    def _lose_session(self) -> None:
        """End a broker's session for a moment: it registers again with a new epoch, and resigns as controller."""
        self._cluster.partition(without_store=[self._chance.choice(BROKERS)])
        self._heal_later()

    def _reassign(self) -> None:
        """Take a replica of a partition away, and copy it anew; the controller may die when that has begun."""
        partition = self._chance.choice(self._partitions)
        replicas = self._chance.sample(BROKERS, len(BROKERS))
        self._move(partition, replicas[:2])
        with Admin(self._cluster.bootstrap_servers) as admin:
            self._insist(partial(_is_accepted, admin, partition, replicas))
        if self._chance.random() < 0.5:
            self._kill_controller()
        self._move(partition, replicas)

    def _move(self, partition: TopicPartition, replicas: list[int]) -> None:
        """Reassign a partition, and wait until that is done."""
        with Admin(self._cluster.bootstrap_servers) as admin:
            self._insist(partial(_is_accepted, admin, partition, replicas))
            self._insist(lambda: not admin.list_partition_reassignments([partition]))

    def _insist(self, is_done: Callable[[], bool]) -> None:
        """Ask until it is done: controllers change. Raises AssertionError: not in time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            problem: Exception | None = None
            try:
                if is_done():
                    return
            except (ApiError, ClientTimeout, Disconnected) as error:
                problem = error
            assert time.monotonic() < deadline, f"not done after {PATIENCE_SECONDS} s, last: {problem!r}"
            time.sleep(0.1)

    # -- the network

    def _isolate_one(self) -> None:
        self._isolate(self._chance.choice(BROKERS))

    def _isolate_controller(self) -> None:
        self._isolate(self._controller())

    def _isolate(self, broker_id: int) -> None:
        """Cut one broker off from the other two, and perhaps from the store, so that it does not know it is deposed."""
        others = set(BROKERS) - {broker_id}
        without_store = self._chance.choice(((), (broker_id,)))
        self._cluster.partition({broker_id}, others, without_store=without_store)
        self._heal_later()

    def _isolate_all(self) -> None:
        """Have no broker reach another: nothing is acknowledged."""
        without_store = self._chance.sample(BROKERS, self._chance.randint(0, len(BROKERS)))
        self._cluster.partition(*({broker_id} for broker_id in BROKERS), without_store=without_store)
        self._heal_later()

    def _cut_link(self) -> None:
        """Lose one direction of one link: one broker hears another that does not hear it."""
        source, target = self._chance.sample(BROKERS, 2)
        self._cluster.cut_link(source, target)
        self._heal_later()

    def _kill_in_turn(self) -> None:
        """Kill two brokers after each other while the other two cannot copy: the last one has what it had at first.

        Before, the last one's fetches from the first are handled, and their answers are lost: it does not learn that
        its records are committed. A replica that follows a new leader, and cannot reach it, must not have given up what
        was acknowledged before. Only a controller that reaches the last one has it follow: mostly that is itself.
        """
        self._spread_leaders()
        controller = self._controller()
        if self._chance.random() < _LAST_IS_CONTROLLER:
            last = controller
            first, second = self._chance.sample([each for each in BROKERS if each != last], 2)
        else:
            first, second, last = self._chance.sample(BROKERS, 3)
        self._cluster.partition({second}, {last})
        lost_answers = [
            self._cluster.brokers[first].faults.add(Drop("after"), api="Fetch", client_id=client_id)
            for client_id in client_ids_of(last, fetchers=1)
        ]
        time.sleep(self._chance.uniform(0, 0.5))
        self._cluster.kill(first)
        time.sleep(self._chance.uniform(0.2, 1))
        self._cluster.kill(second)
        time.sleep(self._chance.uniform(0.2, 1))
        for fault in lost_answers:
            fault.remove()
        self._cluster.heal()
        for broker_id in (first, second):
            self._start(broker_id)
        self._cluster.wait_until_known(PATIENCE_SECONDS)

    def _spread_leaders(self) -> None:
        """Have all replicas in sync, and each partition led by its preferred one: a broker that returned leads none."""
        with Admin(self._cluster.bootstrap_servers) as admin:
            self._insist(partial(_is_spread, admin, {partition.topic for partition in self._partitions}))

    # -- disks

    def _fill_disk(self) -> None:
        """Have a broker without room on its disk: it refuses records, or copies none, until there is room again."""
        disk = self._chance.choice(self._disks)
        disk.take_room(but_bytes=self._chance.choice((0, 20_000, 200_000)))
        time.sleep(self._chance.uniform(0.5, 4))
        disk.make_room()

    def _kill_on_full_disk(self) -> None:
        """Kill a broker whose disk is full, and start it when there is room again."""
        broker_id = self._chance.choice(BROKERS)
        self._disks[broker_id].take_room(but_bytes=self._chance.choice((0, 20_000)))
        time.sleep(self._chance.uniform(0.5, 2))
        self._cluster.kill(broker_id)
        self._disks[broker_id].make_room()
        self._start(broker_id)
        self._cluster.wait_until_known(PATIENCE_SECONDS)

    # -- parts

    def _heal_later(self) -> None:
        time.sleep(self._chance.uniform(0.1, 2 * SESSION_TIMEOUT_MS / 1000))
        self._cluster.heal()
        self._cluster.wait_until_known(PATIENCE_SECONDS)

    def _controller(self) -> int:
        controller = self._cluster.controller_id
        return self._chance.choice(BROKERS) if controller is None else controller


def _name(event: Callable[[], None]) -> str:
    return event.__name__.removeprefix("_")


def _is_accepted(admin: Admin, partition: TopicPartition, replicas: list[int]) -> bool:
    """Ask for a reassignment. Raises ApiError, ClientTimeout, Disconnected."""
    return admin.alter_partition_reassignments({partition: replicas})[partition] is None


def _is_spread(admin: Admin, topics: Collection[str]) -> bool:
    """Return whether the leaders are spread, and else ask for it. Raises ApiError, ClientTimeout, Disconnected."""
    partitions = [partition for topic in admin.describe_topics(topics).values() for partition in topic.partitions]
    if any(len(partition.isr) < len(BROKERS) for partition in partitions):
        return False
    if all(partition.leader == partition.replicas[0] for partition in partitions):
        return True
    admin.elect_leaders(ElectionType.PREFERRED)
    return False
