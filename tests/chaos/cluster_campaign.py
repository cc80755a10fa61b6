"""The cluster campaign: three brokers, clients of three libraries, and something going wrong every few seconds.

    python -m tests.chaos.cluster_campaign --seconds 1800 --seed 7

kill -9, SIGSTOP beyond the session's timeout, orderly restarts, of any broker or of the controller, and two brokers at
once; sessions that end; a partition that loses a replica and gets it back, perhaps while the controller dies; with
`splits`, cuts in the network. Topics have three replicas, `min.insync.replicas=2`; producers are idempotent
with acks=all. After each round the writers rest, every broker runs, and everything is held against what the writers
were told: each record once, at the offset that was acknowledged, in the order of sending, and in the same bytes on all
three brokers.
`make chaos-cluster` and this directory's tests call it.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.errors import ClientTimeout, Disconnected
from barnabas.clients.producer import Producer, RecordMetadata
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import Cluster
from tests.chaos.ledger import Ledger
from tests.chaos.replicas import check_replicas
from tests.chaos.writers import Client, ConfluentClient, Delivered, KafkaPythonClient, Writer

BROKERS = (0, 1, 2)
PARTITIONS = 2
SESSION_TIMEOUT_MS = 2_000
PATIENCE_SECONDS = 240
"""How long a record may stay undecided: brokers start slowly where the machine is busy."""
SETTINGS: Mapping[str, str | int] = {
    "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
    "log_segment_bytes": 100_000,
    "replica_lag_time_max_ms": 3_000,
    "replica_fetch_backoff_ms": 200,
    "controlled_shutdown_max_retries": 1,
}
TOPICS = ("by-confluent", "by-kafka-python", "by-barnabas")


class BarnabasClient:
    """Our own producer: idempotent, as it is by default."""

    def __init__(self, bootstrap_servers: str, topic: str, delivered: Delivered) -> None:
        self._topic = topic
        self._delivered = delivered
        self._producer = Producer(bootstrap_servers, linger_ms=2, delivery_timeout_ms=PATIENCE_SECONDS * 1000)

    def send(self, partition: int, key: bytes | None, value: bytes) -> None:
        def on_delivery(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self._delivered(partition, value, None if metadata is None else metadata.offset)

        self._producer.send(self._topic, value, key=key, partition=partition, on_delivery=on_delivery)

    def serve(self) -> None:
        time.sleep(0.005)

    def close(self, timeout_seconds: float) -> None:
        self._producer.close(timeout_seconds)


class ClusterCampaign:
    """Rounds of faults. events: how often each kind has happened."""

    def __init__(self, directory: Path, seed: int, *, splits: bool = False) -> None:
        """splits: whether the network between the brokers, and to the store, is split as well."""
        self._chance = random.Random(seed)
        self.events: Counter[str] = Counter()
        self._cluster = Cluster(str(directory), len(BROKERS), dict(SETTINGS), faults=splits)
        self._kinds: list[Callable[[], None]] = [
            self._kill_one,
            self._kill_one,
            self._kill_controller,
            self._pause,
            self._restart,
            self._kill_two,
            self._lose_session,
            self._reassign,
        ]
        if splits:
            self._kinds += [self._isolate_one, self._isolate_controller, self._isolate_all, self._cut_link]
        self._ledgers = [Ledger(topic, PARTITIONS) for topic in TOPICS]
        self._writers = [
            Writer(ledger, self._client_factory(ledger.topic), seed + number)
            for number, ledger in enumerate(self._ledgers)
        ]

    def _client_factory(self, topic: str) -> Callable[[Delivered], Client]:
        def make(delivered: Delivered) -> Client:
            addresses = self._cluster.bootstrap_servers
            if topic == "by-confluent":
                return ConfluentClient(addresses, topic, delivered, idempotent=True, give_up_seconds=PATIENCE_SECONDS)
            if topic == "by-kafka-python":
                return KafkaPythonClient(addresses, topic, delivered, PATIENCE_SECONDS)
            return BarnabasClient(addresses, topic, delivered)

        return make

    @property
    def acknowledged(self) -> int:
        """Records whose delivery was reported, so far."""
        return sum(ledger.acknowledged for ledger in self._ledgers)

    def run(self, *, seconds: float, rounds: int = 1, report: bool = False) -> None:
        """Play rounds until both numbers are reached."""
        deadline = time.monotonic() + seconds
        played = 0
        try:
            self._cluster.start()
            with Admin(self._cluster.bootstrap_servers) as admin:
                admin.create_topics([NewTopic(topic, PARTITIONS, len(BROKERS)) for topic in TOPICS])
            for writer in self._writers:
                writer.start()
            while time.monotonic() < deadline or played < rounds:
                self._round()
                self._take_inventory()
                played += 1
                if report:
                    print(f"{played} rounds, {self.acknowledged} records, {dict(self.events)}", flush=True)
            for writer in self._writers:
                writer.close()
            self._cluster.close()
        finally:
            for writer in self._writers:
                writer.close(timeout_seconds=0)
            self._cluster.kill_all()

    # -- what goes wrong

    def _round(self) -> None:
        for writer in self._writers:
            writer.resume()
        time.sleep(self._chance.uniform(0.2, 1))
        for _ in range(self._chance.randint(1, 3)):
            event = self._chance.choice(self._kinds)
            event()
            self.events[event.__name__.removeprefix("_")] += 1
            time.sleep(self._chance.uniform(0.2, 2))
        for writer in self._writers:
            writer.rest(2 * PATIENCE_SECONDS)

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
            self._cluster.brokers[broker_id].restart()
        self._cluster.wait_until_known()

    def _pause(self) -> None:
        """A broker that stands still is taken for dead, and does not know it when it goes on."""
        broker_id = self._chance.choice(BROKERS)
        self._cluster.pause(broker_id)
        time.sleep(self._chance.uniform(0.1, 2 * SESSION_TIMEOUT_MS / 1000))
        self._cluster.resume(broker_id)

    def _restart(self) -> None:
        self._cluster.restart(self._chance.choice(BROKERS))

    def _lose_session(self) -> None:
        """End a broker's session for a moment: it registers again with a new epoch, and resigns as controller."""
        self._cluster.partition(without_store=[self._chance.choice(BROKERS)])
        self._heal_later()

    def _reassign(self) -> None:
        """Take a replica of a partition away, and copy it anew; the controller may die when that has begun."""
        partition = TopicPartition(self._chance.choice(TOPICS), self._chance.randrange(PARTITIONS))
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

    def _heal_later(self) -> None:
        time.sleep(self._chance.uniform(0.1, 2 * SESSION_TIMEOUT_MS / 1000))
        self._cluster.heal()
        self._cluster.wait_until_known()

    def _controller(self) -> int:
        controller = self._cluster.controller_id
        return self._chance.choice(BROKERS) if controller is None else controller

    # -- what must be there

    def _take_inventory(self) -> None:
        for ledger in self._ledgers:
            for partition, book in enumerate(ledger.partitions):
                name = f"{ledger.topic}-{partition}"
                assert not book.failed, f"{name}: {len(book.failed)} deliveries failed"
                replicas = [Path(self._cluster.brokers[broker_id].data_dir, name) for broker_id in BROKERS]
                check_replicas(name, book, replicas)


def _is_accepted(admin: Admin, partition: TopicPartition, replicas: list[int]) -> bool:
    """Ask for a reassignment. Raises ApiError, ClientTimeout, Disconnected."""
    return admin.alter_partition_reassignments({partition: replicas})[partition] is None


def main() -> None:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1_800)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-cluster-chaos-") as directory:
        ClusterCampaign(Path(directory), arguments.seed, splits=True).run(seconds=arguments.seconds, report=True)


if __name__ == "__main__":
    main()
