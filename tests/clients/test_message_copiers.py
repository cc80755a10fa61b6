"""Kafka's own TransactionalMessageCopier, as its system test runs it: in group mode, with random aborts and kills.

Two copiers share a group. The first is killed and started again, then the broker is. The tool stops when what was there
at the last rebalance is copied, so a copier is started again until nothing is left. kafka-python reads the copy.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic
from barnabas.protocol.topic_partition import TopicPartition
from tests.clients.topic_copies import (
    PARTITIONS,
    SOURCE,
    STALL_SECONDS,
    Source,
    await_ended_transactions,
    read_committed,
)
from tests.support.apache_kafka import TOOL_HEAP, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.maven import counterparts_needed, fetch_jars, find_java
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES
from tests.support.server_process import free_port
from tests.tools.kafka_tools import POMS

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out"),
]

TOOL: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
TARGET: Final = "copy"
COPIERS: Final = ("first", "second")
ROUNDS: Final = 10
RECORDS_A_TRANSACTION: Final = 7
PROPERTIES: Final = {"transaction.state.log.num.partitions": "3", "transaction.state.log.replication.factor": "1"}


class MessageCopiers:
    """The processes of the tool, by transactional id. What they print goes to a file each."""

    def __init__(self, release: str, bootstrap: str, directory: Path) -> None:
        jars = fetch_jars(POMS[release])
        settings = ("--input-topic", SOURCE, "--input-partition", "0", "--output-topic", TARGET)
        group = ("--consumer-group", TARGET, "--group-mode", "--use-group-metadata", "--enable-random-aborts")
        size = ("--transaction-size", str(RECORDS_A_TRANSACTION), "--broker-list", bootstrap)
        self._command = [find_java(), *TOOL_HEAP, "-cp", f"{jars}/*", TOOL, *settings, *group, *size]
        self._directory = directory
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.starts = 0

    def start(self, name: str) -> None:
        """Start a copier; it fences the one of the same name before it."""
        self.starts += 1
        with (self._directory / f"{name}-{self.starts}.out").open("wb") as output:
            self._running[name] = subprocess.Popen(
                [*self._command, "--transactional-id", name], stdout=output, stderr=subprocess.STDOUT
            )

    def kill(self, name: str) -> None:
        """End a copier without a goodbye."""
        self._running[name].kill()
        self._running[name].wait()

    def start_those_that_ended(self) -> None:
        """Start the copiers again that have copied all they saw, or that failed."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self.start(name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Copy inside the block."""
        for name in COPIERS:
            self.start(name)
        try:
            yield
        finally:
            for name in COPIERS:
                self.kill(name)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BarnabasProcess]:
    running = BarnabasProcess(tmp_path / "server", SERVER_PROPERTIES | PROPERTIES, port=free_port())
    with running.running():
        yield running


@pytest.mark.parametrize(("release", "transaction_version"), [("3.9", 0), ("4", 0), ("4", 2)])
def test_each_message_is_copied_once(
    broker: BarnabasProcess, release: str, transaction_version: int, tmp_path: Path
) -> None:
    need_apache_kafka()
    with counterparts_needed():
        copiers = MessageCopiers(release, broker.bootstrap_servers, tmp_path)
    bootstrap = broker.bootstrap_servers
    with Admin(bootstrap) as admin:
        if transaction_version:
            admin.update_features({"transaction.version": FeatureUpdate(transaction_version)})
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)])
        source = Source(bootstrap)
        for _ in range(ROUNDS):
            source.write_round()
        with copiers.running():
            _await_copies(admin, copiers, source.count // 4)
            copiers.kill("first")
            copiers.start("first")
            _await_copies(admin, copiers, source.count // 2)
            broker.kill()
            broker.start()
            _await_copies(admin, copiers, source.count)
    copied = read_committed(bootstrap, TARGET)
    await_ended_transactions(bootstrap)
    assert copied == source.values


def _await_copies(admin: Admin, copiers: MessageCopiers, wanted: int) -> None:
    """Return when the group has committed the offsets of `wanted` records."""
    places = [TopicPartition(SOURCE, partition) for partition in range(PARTITIONS)]
    deadline = time.monotonic() + STALL_SECONDS
    while (copied := sum(found.offset for found in admin.list_group_offsets(TARGET, places).values())) < wanted:
        assert time.monotonic() < deadline, f"{copied} of {wanted} records are copied"
        copiers.start_those_that_ended()
        time.sleep(0.1)
