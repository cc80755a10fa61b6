"""Three brokers of ours against three of Apache Kafka 3.9: throughput, memory, and what a broker's death costs.

    python -m benchmarks.cluster [--systems apache-kafka barnabas] [--rounds 3] [--seconds 4] [--deaths 10]

Each system has a ZooKeeper of its own and the same session time-out; all are up at once, and each round goes round
them. Topics have three replicas and `min.insync.replicas=2`; everything is produced with acks=all by a raw client.
CPU and memory are summed over the three brokers, without ZooKeeper.

- produce: batches of 16 KB and 100 KB, one request in flight and five.
- idle-partitions: batches of 16 KB, one in flight, while the followers fetch 300 other partitions of the same leader,
  which nothing is written to.
- death: kill -9 of the partition's leader until the next acknowledged record; the client asks for the new leader every
  5 ms. The controller is one of the other brokers.
- emptied-disk: a follower without its data, from its start until it is in sync again.
- rolling-restart: SIGTERM and start of each broker in turn, each time until all replicas are in sync.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from benchmarks.broker import Generator
from benchmarks.figure_table import Result, collect, figure_table
from benchmarks.process_usage import cpu_seconds, resident_mib
from benchmarks.systems import COMPILED_PLACE, COMPILED_SUFFIX, REFERENCE, PlacedBarnabas
from benchmarks.wire_requests import (
    BadAnswer,
    Connection,
    batch_of_count,
    batch_of_size,
    check_produce_answer,
    produce_frame,
)
from tests.support.apache_kafka import ApacheKafka, ZooKeeper
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.server_process import free_port
from tests.support.zookeeper_cluster import SETTINGS, JoinedKafka, ZooKeeperCluster

BROKERS = 3
CELLS = (PRODUCE, IDLE_PARTITIONS, DEATH, EMPTIED_DISK, ROLLING_RESTART) = (
    "produce",
    "idle-partitions",
    "death",
    "emptied-disk",
    "rolling-restart",
)
SYSTEMS = (REFERENCE, "barnabas", f"barnabas{COMPILED_SUFFIX}")
BATCHES = {"16 KB": 16_384, "100 KB": 100_000}
VALUE_BYTES = 1_000
DEPTHS = (1, 5)
MAX_BYTES_PER_RUN = 300_000_000
WARM_SECONDS = 4
ASK_SECONDS = 0.005
PATIENCE_SECONDS = 120
CATCH_UP_BYTES = 400_000_000
IDLE_TOPIC, IDLE_COUNT = "idle", 300

FIGURES = {
    "MB/s": "mb_per_second",
    "CPU s/GB": "cpu_s_per_gb",
    "p50 ms": "p50_ms",
    "p99 ms": "p99_ms",
    "seconds": "seconds",
    "MiB of three": "resident_mib",
}


class LeaderGone(Exception):
    """The partition has no leader yet, or one that does not answer."""


class Placement(NamedTuple):
    """The leader of a partition, and the broker that is asked about it while the leader is dead."""

    leader: int
    asked: int


def make_cluster(name: str, directory: Path) -> ZooKeeperCluster:
    """Return three brokers of a system, not started."""
    zookeeper = ZooKeeper(directory / "zookeeper")
    zookeeper.port = free_port()
    shared = dict(SETTINGS) | {"zookeeper.connect": f"{zookeeper.host}:{zookeeper.port}"}

    def make(broker_id: int) -> ApacheKafka | BarnabasProcess:
        place, properties = directory / f"broker-{broker_id}", shared | {"broker.id": str(broker_id)}
        if name == REFERENCE:
            return JoinedKafka(place, properties, zookeeper)
        if name.endswith(COMPILED_SUFFIX):
            return PlacedBarnabas(place, properties, COMPILED_PLACE, port=free_port())
        return BarnabasProcess(place, properties, port=free_port())

    return ZooKeeperCluster(directory, [make(broker_id) for broker_id in range(BROKERS)], zookeeper)


def create_topic(cluster: ZooKeeperCluster, topic: str, replicas: Sequence[int], partitions: int = 1) -> None:
    """Create a topic; the first replica leads its partitions."""
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, assignments=dict.fromkeys(range(partitions), replicas))])
    cluster.wait_until_in_sync([topic], len(replicas) * partitions, PATIENCE_SECONDS)


# -- throughput


def measure_produce(cluster: ZooKeeperCluster, topic: str, batch_bytes: int, depth: int, seconds: float) -> Result:
    """Produce to broker 0 with acks=all."""
    create_topic(cluster, topic, [0, 1, 2])
    words = ("--batch-bytes", str(batch_bytes), "--value-bytes", str(VALUE_BYTES), "--depth", str(depth))
    limit = ("--max-total-bytes", str(MAX_BYTES_PER_RUN))
    generator = Generator(cluster.brokers[0], "produce", topic, seconds, "--acks", "-1", *words, *limit)
    before = _cpu_seconds(cluster)
    generator.go()
    load = generator.result()
    cluster.wait_until_in_sync([topic], BROKERS, PATIENCE_SECONDS)
    return {
        "mb_per_second": load["bytes"] / load["seconds"] / 1e6,
        "cpu_s_per_gb": (_cpu_seconds(cluster) - before) / load["bytes"] * 1e9,
        "p50_ms": load["p50_us"] / 1000,
        "p99_ms": load["p99_us"] / 1000,
        "resident_mib": sum(resident_mib(broker.pid) for broker in cluster.brokers),
    }


def measure_beside_idle_partitions(cluster: ZooKeeperCluster, topic: str, seconds: float) -> Result:
    """Produce while the leader has many partitions that nothing is written to."""
    create_topic(cluster, IDLE_TOPIC, [0, 1, 2], IDLE_COUNT)
    result = measure_produce(cluster, topic, BATCHES["16 KB"], 1, seconds)
    with Admin(cluster.bootstrap_servers) as admin:
        admin.delete_topics([IDLE_TOPIC])
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while IDLE_TOPIC in admin.list_topics() and time.perf_counter() < deadline:
            time.sleep(0.1)
    return result


def _cpu_seconds(cluster: ZooKeeperCluster) -> float:
    return sum(cpu_seconds(broker.pid).total for broker in cluster.brokers)


# -- deaths


def measure_death(cluster: ZooKeeperCluster, topic: str) -> Result:
    """Kill the leader of a partition, which is not the controller: the time to the next acknowledged record."""
    controller = cluster.controller_id()
    leader = next(broker_id for broker_id in range(BROKERS) if broker_id != controller)
    create_topic(cluster, topic, [leader, *(each for each in range(BROKERS) if each != leader)])
    placement = Placement(leader, controller)
    produce_until_acknowledged(cluster, topic, placement)
    began = time.perf_counter()
    cluster.brokers[leader].kill()
    produce_until_acknowledged(cluster, topic, placement)
    seconds = time.perf_counter() - began
    cluster.brokers[leader].start()
    cluster.wait_until_in_sync([topic], BROKERS, PATIENCE_SECONDS)
    return {"seconds": seconds}


def produce_until_acknowledged(cluster: ZooKeeperCluster, topic: str, placement: Placement) -> None:
    """Produce one record to the leader, whichever broker that is by now.

    Raises LeaderGone: no leader acknowledges it in time.
    """
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while True:
        try:
            return _produce_one(cluster, topic, placement)
        except (LeaderGone, BadAnswer, ConnectionClosed, OSError) as error:
            if time.perf_counter() > deadline:
                raise LeaderGone(f"{topic}: nothing is acknowledged within {PATIENCE_SECONDS} s") from error
        time.sleep(ASK_SECONDS)


def _produce_one(cluster: ZooKeeperCluster, topic: str, placement: Placement) -> None:
    """Raises LeaderGone, BadAnswer, ConnectionClosed, OSError: the record is not acknowledged."""
    with RawClient(cluster.brokers[placement.asked]) as client:
        partitions = client.metadata(topic).partitions
    if not partitions or partitions[0].leader_id < 0 or not cluster.brokers[partitions[0].leader_id].is_alive:
        raise LeaderGone(topic)
    leader = cluster.brokers[partitions[0].leader_id]
    with closing(Connection(leader.host, leader.port)) as connection:
        check_produce_answer(connection.call(produce_frame(topic, 0, batch_of_count(1, VALUE_BYTES), -1)))


# -- catching up, restarting


def measure_emptied_disk(cluster: ZooKeeperCluster, topic: str) -> Result:
    """Start a follower without its data: the rate until it is in sync."""
    create_topic(cluster, topic, [0, 1, 2])
    batch, _ = batch_of_size(BATCHES["100 KB"], VALUE_BYTES)
    generator = Generator(
        cluster.brokers[0], "produce", topic, PATIENCE_SECONDS, "--acks", "-1", "--depth", "5",
        "--batch-bytes", str(len(batch)), "--value-bytes", str(VALUE_BYTES), "--max-total-bytes", str(CATCH_UP_BYTES),
    )  # fmt: skip
    generator.go()
    loaded = generator.result()["bytes"]
    cluster.brokers[2].stop()
    cluster.wait_until_in_sync([topic], BROKERS - 1, PATIENCE_SECONDS)
    cluster.empty_disk(2)
    before = _cpu_seconds_of(cluster, (0, 1))
    began = time.perf_counter()
    cluster.brokers[2].start()
    cluster.wait_until_in_sync([topic], BROKERS, PATIENCE_SECONDS)
    seconds = time.perf_counter() - began
    used = _cpu_seconds_of(cluster, (0, 1)) - before + cpu_seconds(cluster.brokers[2].pid).total
    return {"seconds": seconds, "mb_per_second": loaded / seconds / 1e6, "cpu_s_per_gb": used / loaded * 1e9}


def _cpu_seconds_of(cluster: ZooKeeperCluster, broker_ids: Sequence[int]) -> float:
    return sum(cpu_seconds(cluster.brokers[broker_id].pid).total for broker_id in broker_ids)


def measure_rolling_restart(cluster: ZooKeeperCluster, topic: str) -> Result:
    """Restart all three, one after the other."""
    create_topic(cluster, topic, [0, 1, 2])
    began = time.perf_counter()
    for broker in cluster.brokers:
        broker.stop()
        cluster.wait_until_in_sync([topic], BROKERS - 1, PATIENCE_SECONDS)
        broker.start()
        cluster.wait_until_in_sync([topic], BROKERS, PATIENCE_SECONDS)
    return {"seconds": time.perf_counter() - began}


# -- the run


def run(options: argparse.Namespace) -> Iterator[Result]:
    """Yield each measurement as it is made."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        clusters = {name: make_cluster(name, place / name) for name in options.systems}
        for cluster in clusters.values():
            stack.callback(cluster.close)
            cluster.start()
            measure_produce(cluster, "warm", BATCHES["16 KB"], 5, WARM_SECONDS)
        for number in range(options.rounds):
            for name, cluster in clusters.items():
                for cell, result in _round(cluster, f"{number}", options):
                    yield {"cell": cell, "system": name, "round": number, **result}


def _round(cluster: ZooKeeperCluster, suffix: str, options: argparse.Namespace) -> Iterator[tuple[str, Result]]:
    for size, batch_bytes in BATCHES.items() if PRODUCE in options.cells else ():
        for depth in DEPTHS:
            topic = f"produce-{batch_bytes}-{depth}-{suffix}"
            result = measure_produce(cluster, topic, batch_bytes, depth, options.seconds)
            yield f"produce {size}, {depth} in flight", result
    if IDLE_PARTITIONS in options.cells:
        yield IDLE_PARTITIONS, measure_beside_idle_partitions(cluster, f"beside-{suffix}", options.seconds)
    for number in range(options.deaths) if DEATH in options.cells else ():
        yield DEATH, measure_death(cluster, f"death-{suffix}-{number}")
    if EMPTIED_DISK in options.cells:
        yield EMPTIED_DISK, measure_emptied_disk(cluster, f"emptied-{suffix}")
    if ROLLING_RESTART in options.cells:
        yield ROLLING_RESTART, measure_rolling_restart(cluster, f"rolling-{suffix}")


def report(results: Sequence[Result], systems: Sequence[str]) -> str:
    """Return the table; ratios are to the first system. The deaths' worst case stands below it."""
    lines = [figure_table(results, FIGURES, systems[0]), ""]
    for system in systems:
        times = sorted(
            result["seconds"] for result in results if result["system"] == system and result["cell"] == DEATH
        )
        if times:
            lines.append(f"{system}: {len(times)} deaths, median {median(times):.2f} s, longest {times[-1]:.2f} s")
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=[REFERENCE, "barnabas"], choices=SYSTEMS)
    parser.add_argument("--cells", nargs="+", default=CELLS, choices=CELLS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--deaths", type=int, default=10, help="in each round")
    parser.add_argument("--output", type=Path, help="a JSON file of every figure")
    parser.add_argument("--directory", help="where data directories are made; the system's temporary one if unset")
    options = parser.parse_args()
    results = collect(run(options), options.output)
    print(report(results, options.systems))


if __name__ == "__main__":
    main()
