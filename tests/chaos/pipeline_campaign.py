"""The campaign of pipelines: one from topic to topic, whose parts are ended by `kill -9` in turn while it works.

    python -m tests.chaos.pipeline_campaign --kills 50 --seed 7

The pipeline runs on a standalone cluster of separate processes. What is killed: the run (its Python and its JVM at
once), its JVM alone, an executor, one of Spark's Python workers, the broker. The broker starts again at once,
and the cluster starts another executor. A run that has ended, or that gives up because of a kill, is started again, as
an operator does. At the end librdkafka reads the output with isolation.level=read_committed: it has to be the transform
of the input, each row once. `make chaos-pipeline` and the tests of pipelines call it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from barnabas.clients.admin import Admin, NewTopic
from barnabas.protocol.topic_partition import TopicPartition
from tests.spark.confluent_reader import consume
from tests.spark.pipeline.shop import Shop, expected, orders
from tests.spark.standalone_cluster import StandaloneCluster, cluster_environment, standalone_cluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import free_port
from tests.support.transaction_markers import wait_for_markers

RUN, JVM, EXECUTOR, WORKER, BROKER = "run", "JVM", "executor", "Python worker", "broker"
VICTIMS = (RUN, JVM, EXECUTOR, WORKER, BROKER)
SIGNS = {
    # Not the shell that starts the JVM, nor the launcher, which have the class in their commands too.
    JVM: ("/bin/java -cp ", " org.apache.spark.deploy.SparkSubmit "),
    EXECUTOR: ("/bin/java -cp ", " org.apache.spark.executor.CoarseGrainedExecutorBackend "),
}
"""What the command of a victim contains."""
WORKERS = ("pyspark.daemon pyspark.worker", "streaming_source_runner", "streaming_sink_runner")
"""Spark's Python workers that work on micro-batches. Those that only plan queries stay as well, but do nothing."""
RECORDS_PER_KILL = 200
"""Five micro-batches: the pipeline has work when it is killed."""
PATIENCE_SECONDS = 1_800.0
"""Longer than any micro-batch, or any start of Spark, on a machine that is far too busy."""


class Child(NamedTuple):
    """A process below the run's, or below a worker of the cluster."""

    pid: int
    command: str


class PipelineCampaign:
    """One pipeline's lives. `kills` counts them by victim, `failed_runs` the runs that gave up, by the last victim.

    workers: how many the cluster has, of one core and one executor each.
    """

    def __init__(self, directory: Path, seed: int, workers: int = 2) -> None:
        self._chance = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.failed_runs: Counter[str] = Counter()
        self.starts = 0
        self.records = 0
        self._last_victim = "nothing"
        self._directory = directory
        self._workers = workers
        self._cluster: StandaloneCluster | None = None
        self._broker = BarnabasProcess(directory / "broker", port=free_port())
        self._process: subprocess.Popen[str] | None = None
        self._said = directory / "run-0.log"
        """The output of the last run."""

    def run(self, victims: Sequence[str], *, report: bool = False) -> None:
        """Kill the victims one after the other, then let the pipeline end and compare. Raises AssertionError."""
        began = time.monotonic()
        with ExitStack() as stack:
            self._environment = cluster_environment(self._directory)
            self._cluster = stack.enter_context(standalone_cluster(self._environment, self._directory, self._workers))
            stack.callback(self._broker.close)
            self._broker.start()
            stack.callback(self._kill_run)
            self._shop = Shop(self._directory, self._broker.bootstrap_servers, self._new_topic)
            settings = {"spark.master": self._cluster.address, "spark.executor.memory": "512m"}
            self._shop.write(trigger="continuous", dead_letters=False, spark_settings=settings)
            for victim in victims:
                self._live_and_die(victim)
                if report:
                    print(
                        f"{time.monotonic() - began:5.0f} s: {sum(self.kills.values())} kills, now of the {victim},"
                        f" {self.starts} starts, {self.records} records, micro-batch {self._shop.planned_batches()}",
                        flush=True,
                    )
            self._finish()

    # -- the life of the pipeline

    def _new_topic(self, partitions: int) -> str:
        name = f"topic-{self._chance.getrandbits(40):x}"
        with Admin(self._broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
        return name

    def _live_and_die(self, victim: str) -> None:
        self._produce()
        self._let_it_run()
        # One kill in five comes while Spark starts, or while it ends a former micro-batch.
        if self._chance.random() < 0.8 or victim == JVM:
            self._await_micro_batch()
        time.sleep(self._chance.uniform(0, 1.5))
        self._last_victim = victim
        if victim == BROKER:
            self._broker.kill()
            self._broker.start()
        elif victim == RUN:
            self._kill_run()
        else:
            self._kill_child(victim)
        self.kills[victim] += 1

    def _produce(self) -> None:
        self._shop.produce(orders(range(self.records, self.records + RECORDS_PER_KILL)))
        self.records += RECORDS_PER_KILL

    def _let_it_run(self) -> None:
        """Start the pipeline unless it runs. Raises AssertionError: a run has ended, and not as a failed run does."""
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return
            if status != -signal.SIGKILL:
                self.failed_runs[self._last_victim] += 1
                said = self._said.read_text().splitlines()
                assert status == 1, said
                assert said, f"the run gave up after the kill of the {self._last_victim} without a word"
                assert "Traceback" not in "".join(said), said
        self.starts += 1
        self._said = self._directory / f"run-{self.starts}.log"
        with self._said.open("w") as log:
            self._process = self._shop.start("run", out=log, err=subprocess.STDOUT, environment=self._environment)

    def _await_micro_batch(self) -> None:
        """Wait until the next micro-batch is planned. Raises AssertionError."""
        before = self._shop.planned_batches()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._shop.planned_batches() == before:
            assert time.monotonic() < deadline, self._said.read_text()
            self._let_it_run()
            time.sleep(0.05)

    def _kill_run(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _kill_child(self, victim: str) -> None:
        """Kill the JVM, an executor or a Python worker of Spark's, as soon as there is one. Raises AssertionError."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert time.monotonic() < deadline, self._said.read_text()
            self._let_it_run()
            found = [each for each in self._children() if _is(victim, each)]
            if found:
                break
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.kill(self._chance.choice(found).pid, signal.SIGKILL)

    def _children(self) -> list[Child]:
        """The processes below the run and below the cluster's workers."""
        assert self._process is not None
        assert self._cluster is not None
        return [each for pid in (self._process.pid, *self._cluster.worker_pids) for each in children(pid)]

    def _finish(self) -> None:
        """Let the pipeline read to the end, stop it, and compare. Raises AssertionError."""
        wanted = expected(range(self.records))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self._output()) < len(wanted) and time.monotonic() < deadline:
            self._let_it_run()
            time.sleep(0.5)
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE_SECONDS) == 0, self._said.read_text()
        target = self._shop.target
        wait_for_markers(self._broker.bootstrap_servers, [TopicPartition(target, number) for number in range(2)])
        output = Counter(self._output())
        missing, surplus = Counter(wanted) - output, output - Counter(wanted)
        assert not missing, f"{missing.total()} rows are missing, such as {sorted(missing)[:5]}"
        assert not surplus, f"{surplus.total()} rows are there once too often, such as {sorted(surplus)[:5]}"

    def _output(self) -> list[bytes]:
        places = consume(self._broker.bootstrap_servers, self._shop.target, "read_committed")
        return [place.value for place in places]


def children(pid: int) -> Iterator[Child]:
    """Yield the processes below a process, by Linux's /proc."""
    parents = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            # A process may end while it is looked at.
            with suppress(OSError):
                fields = (each / "stat").read_text().rpartition(")")[2].split()
                command = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if fields[0] != "Z":
                    parents[int(each.name)] = (int(fields[1]), command)
    found = {pid}
    for _ in range(4):
        found |= {child for child, (parent, _) in parents.items() if parent in found}
    return (Child(child, parents[child][1]) for child in sorted(found - {pid}))


def _is(victim: str, child: Child) -> bool:
    if victim == WORKER:
        return any(part in child.command for part in WORKERS)
    return all(part in child.command for part in SIGNS[victim])


def seeded_victims(seed: int, kills: int) -> list[str]:
    """Return so many victims: every kind in each round of five, in an order by chance."""
    chance = random.Random(seed)
    victims: list[str] = []
    while len(victims) < kills:
        victims += chance.sample(VICTIMS, len(VICTIMS))
    return victims[:kills]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2, help="of the cluster, with one executor each")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-pipeline-") as directory:
        print(f"seed {arguments.seed}", flush=True)
        campaign = PipelineCampaign(Path(directory), arguments.seed, arguments.workers)
        campaign.run(seeded_victims(arguments.seed, arguments.kills), report=True)
        print(
            f"{dict(campaign.kills)} survived: {campaign.records} records read, each row of the output there once;"
            f" {campaign.starts} starts, runs that gave up: {dict(campaign.failed_runs)}"
        )


if __name__ == "__main__":
    main()
