"""What the death of a controller costs that has many partitions: three brokers of ours, and of Apache Kafka 3.9.

    python -m benchmarks.controller_failover [--systems apache-kafka barnabas] [--partitions 1000 10000] [--deaths 3]

The systems run one after the other, each with a ZooKeeper of its own and a session time-out of 6 s, which is most of
what a death takes. Every partition has three replicas. The controller is killed by SIGKILL while it also leads the
partition to which a client writes with acks=all and `min.insync.replicas=2`; each death is of the controller of then.

- record s: from the kill to the next acknowledged record, for which the next controller must have elected a leader;
- controller s: from the kill until the other brokers tell clients of the next controller, which sends its metadata
  when it has read everything;
- return s: from the start of the killed broker until all replicas are in sync again.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.errors import ClientTimeout
from benchmarks.cluster import (
    ASK_SECONDS,
    BROKERS,
    PATIENCE_SECONDS,
    SYSTEMS,
    Placement,
    make_cluster,
    produce_until_acknowledged,
)
from benchmarks.figure_table import Result, collect, figure_table
from benchmarks.systems import REFERENCE
from tests.support.zookeeper_cluster import ZooKeeperCluster

FIGURES = {"record s": "record_seconds", "controller s": "controller_seconds", "return s": "return_seconds"}
BALLAST = "ballast"
PARTITIONS_AT_ONCE = 1_000
PREPARATION_SECONDS = 900


def create_partitions(cluster: ZooKeeperCluster, partitions: int) -> list[str]:
    """Create topics of so many partitions in all, and return their names when all replicas are in sync."""
    topics = [f"{BALLAST}-{first}" for first in range(0, partitions, PARTITIONS_AT_ONCE)]
    with Admin(cluster.bootstrap_servers, timeout_ms=PREPARATION_SECONDS * 1_000) as admin:
        for number, topic in enumerate(topics):
            count = min(PARTITIONS_AT_ONCE, partitions - number * PARTITIONS_AT_ONCE)
            admin.create_topics([NewTopic(topic, count, BROKERS)])
    cluster.wait_until_in_sync(topics, partitions * BROKERS, PREPARATION_SECONDS)
    return topics


def measure_death(cluster: ZooKeeperCluster, ballast: Sequence[str], partitions: int, topic: str) -> Result:
    """Kill the controller, which leads a new topic, until the next acknowledged record."""
    controller = cluster.controller_id()
    others = [broker_id for broker_id in range(BROKERS) if broker_id != controller]
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, assignments={0: [controller, *others]})])
    cluster.wait_until_in_sync([topic], BROKERS, PATIENCE_SECONDS)
    placement = Placement(controller, others[0])
    produce_until_acknowledged(cluster, topic, placement)
    watch = ControllerWatch(cluster, others, controller)
    began = time.perf_counter()
    cluster.brokers[controller].kill()
    watch.start()
    produce_until_acknowledged(cluster, topic, placement)
    record_seconds = time.perf_counter() - began
    watch.join()
    started = time.perf_counter()
    cluster.brokers[controller].start()
    cluster.wait_until_in_sync([*ballast, topic], (partitions + 1) * BROKERS, PREPARATION_SECONDS)
    return {
        "record_seconds": record_seconds,
        "controller_seconds": watch.seen_at - began,
        "return_seconds": time.perf_counter() - started,
    }


class ControllerWatch(threading.Thread):
    """A thread that asks the living brokers for their controller until it is another one. `seen_at`: when it was."""

    def __init__(self, cluster: ZooKeeperCluster, living: Sequence[int], former: int) -> None:
        super().__init__(name="controller-watch", daemon=True)
        self._addresses = [cluster.brokers[broker_id].bootstrap_servers for broker_id in living]
        self._former = former
        self.seen_at = float("nan")

    def run(self) -> None:
        """Ask every few milliseconds. `seen_at` stays NaN when no broker answers in time."""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        with Admin(self._addresses) as admin:
            while time.perf_counter() < deadline:
                try:
                    found = admin.describe_cluster().controller_id
                except ClientTimeout:
                    continue
                if found not in (-1, self._former):
                    self.seen_at = time.perf_counter()
                    return
                time.sleep(ASK_SECONDS)


def run(options: argparse.Namespace) -> Iterator[Result]:
    """Yield each measurement as it is made."""
    for partitions in options.partitions:
        for name in options.systems:
            with tempfile.TemporaryDirectory(dir=options.directory) as place:
                cluster = make_cluster(name, Path(place) / name)
                try:
                    cluster.start()
                    ballast = create_partitions(cluster, partitions)
                    for number in range(options.deaths):
                        result = measure_death(cluster, ballast, partitions, f"written-{number}")
                        yield {"cell": f"{partitions:,} partitions", "system": name, "round": number, **result}
                        # The next round has the topic of this one too, which counts for nothing.
                        with Admin(cluster.bootstrap_servers) as admin:
                            admin.delete_topics([f"written-{number}"])
                finally:
                    cluster.close()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=[REFERENCE, "barnabas"], choices=SYSTEMS)
    parser.add_argument("--partitions", nargs="+", type=int, default=[1_000, 10_000])
    parser.add_argument(
        "--deaths", type=int, default=3, help="of controllers, for each system and number of partitions"
    )
    parser.add_argument("--output", type=Path, help="a JSON file of every figure")
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    results = collect(run(options), options.output)
    print(figure_table(results, FIGURES, options.systems[0]))


if __name__ == "__main__":
    main()
