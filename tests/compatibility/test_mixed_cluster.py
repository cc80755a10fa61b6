"""Clusters of brokers of Apache Kafka 3.9 and of ours, on one ZooKeeper, under load; nothing is lost.

Each broker dies in turn, or is taken for dead while it lives; and each broker of Kafka is replaced by one of ours on
the same files, and back; and brokers log in to each other over TLS. Every broker leads, follows and may be the
controller. An idempotent librdkafka producer with acks=all writes meanwhile, and a transactional one. In the end all
three replicas of each partition are equal byte for byte, and Kafka's DumpLogSegments finds them in order.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.chaos.committed_records import check_transactions, content_of
from tests.chaos.ledger import Ledger
from tests.chaos.replicas import check_replicas, equal_replicas
from tests.chaos.transaction_ledger import Outcome, TransactionLedger
from tests.chaos.transactional_clients import ConfluentTransactions
from tests.chaos.transactional_writer import TransactionalWriter
from tests.chaos.writers import Client, ConfluentClient, Delivered, Writer
from tests.support.apache_kafka import (
    REPLICA_VERIFICATION,
    ApacheKafka,
    ZooKeeper,
    dump_log_segments,
    endless_tool,
    need_apache_kafka,
)
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import CertificateAuthority
from tests.support.lossy_relay import LossyRelay
from tests.support.raw_client import RawClient
from tests.support.server_process import free_port
from tests.support.waiting import wait_until
from tests.support.zookeeper_cluster import SETTINGS, JoinedKafka, ZooKeeperCluster
from tests.tools.kafka_tools import KafkaTools, ToolOutput

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1200)]

TOPIC = "mixed"
TRANSACTIONS = "mixed-transactions"
PARTITIONS = 6
BROKERS = (0, 1, 2)
SECONDS = 120
_METADATA_VERSION = 9
_INTERNAL = "INTERNAL"
"""The listener of the brokers, where it is another than the clients'."""


class MixedCluster(ZooKeeperCluster):
    """Three brokers, each of either kind: both kinds start on the same files, at the same address.

    Each reaches ZooKeeper by a relay of its own, which can be cut.
    """

    def __init__(self, directory: Path, ours: Sequence[int], between_brokers: Mapping[str, str]) -> None:
        """between_brokers: the settings of their own listener; none: they use the clients'."""
        self.zookeeper = ZooKeeper(directory / "zookeeper")
        self.zookeeper.port = free_port()
        self._directory = directory
        self._between_brokers = between_brokers
        self._ports = [free_port() for _ in BROKERS]
        self._internal_ports = [free_port() for _ in BROKERS]
        self._links_to_zookeeper = [LossyRelay(loss=0, seed=0) for _ in BROKERS]
        for link in self._links_to_zookeeper:
            link.relay_to(self.zookeeper.port)
        made = [self._broker(broker_id, is_ours=broker_id in ours) for broker_id in BROKERS]
        self._brokers: list[ApacheKafka | BarnabasProcess] = made
        super().__init__(directory, self._brokers, self.zookeeper)

    def _broker(self, broker_id: int, *, is_ours: bool) -> ApacheKafka | BarnabasProcess:
        directory, port = self._directory / f"broker-{broker_id}", self._ports[broker_id]
        zookeeper = self._links_to_zookeeper[broker_id].bootstrap_servers
        settings = {**SETTINGS, **self._between_brokers, "zookeeper.connect": zookeeper, "broker.id": str(broker_id)}
        internal = [f"{_INTERNAL}://127.0.0.1:{self._internal_ports[broker_id]}"] if self._between_brokers else []
        if is_ours:
            ours = BarnabasProcess(directory, settings, port=port)
            ours.more_listeners = tuple(internal)
            return ours
        listeners = ",".join([f"PLAINTEXT://127.0.0.1:{port}", *internal])
        kafka = JoinedKafka(directory, {**settings, "listeners": listeners}, self.zookeeper)
        kafka.port = port
        return kafka

    def replace(self, broker_id: int, *, by_ours: bool) -> None:
        """Stop a broker, and start one of the other kind on its files."""
        self.brokers[broker_id].stop()
        self.wait_until_known(len(BROKERS) - 1, SECONDS)
        self._brokers[broker_id] = self._broker(broker_id, is_ours=by_ours)
        self._brokers[broker_id].start()

    def kill_and_start(self, broker_id: int) -> None:
        """Kill a broker, and start it when the others have gone on."""
        self.brokers[broker_id].kill()
        self.wait_until_in_sync([TOPIC, TRANSACTIONS], 2 * 2 * PARTITIONS, SECONDS)
        # Apache Kafka's broker does not start while its former session lasts.
        self.wait_until_known(2, SECONDS)
        self.brokers[broker_id].start()

    def with_controller(self, do: Callable[[int], None]) -> None:
        """Do something with the broker that is the controller then."""
        do(self.controller_id())

    @contextmanager
    def frozen(self, broker_id: int) -> Iterator[None]:
        """Freeze a broker until the block ends."""
        self.brokers[broker_id].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.brokers[broker_id].send_signal(signal.SIGCONT)

    @contextmanager
    def without_zookeeper(self, broker_id: int) -> Iterator[None]:
        """Cut a broker off from ZooKeeper until the block ends."""
        link = self._links_to_zookeeper[broker_id]
        link.relay_to(free_port())
        link.cut()
        try:
            yield
        finally:
            link.relay_to(self.zookeeper.port)

    def wait_until_taken_for_dead(self, broker_id: int) -> None:
        """Wait until both other brokers know that it is gone. The broker itself may live, and would not know."""
        for other in BROKERS:
            if other != broker_id:
                wait_until(partial(self._is_unknown_to, other, broker_id), SECONDS)

    def _is_unknown_to(self, other: int, broker_id: int) -> bool:
        with RawClient(self.brokers[other]) as client:
            answer = client.call(MetadataRequest([]), _METADATA_VERSION, MetadataResponse)
            return broker_id not in {each.node_id for each in answer.brokers}

    def close(self) -> None:
        """Stop what runs."""
        super().close()
        for link in self._links_to_zookeeper:
            link.close()

    def replicas(self, topic: str, partition: int) -> list[Path]:
        """Return the directories of a partition, of each broker."""
        return [broker.data_dir / f"{topic}-{partition}" for broker in self.brokers]


@contextmanager
def mixed(
    directory: Path, *, ours: Sequence[int], between_brokers: Mapping[str, str] = MappingProxyType({})
) -> Iterator[MixedCluster]:
    """Run a cluster in which these brokers are ours, with its topics."""
    need_apache_kafka()
    cluster = MixedCluster(directory, ours, between_brokers)
    try:
        cluster.start()
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS, 3) for topic in (TOPIC, TRANSACTIONS)])
        yield cluster
    finally:
        cluster.close()


def secured(directory: Path, protocol: str) -> dict[str, str]:
    """Return the settings of a listener of the brokers with this protocol: each shows a certificate, or a password."""
    authority = CertificateAuthority()
    key_store = authority.issue("broker").write_pem(directory / "broker.pem")
    trust_store = authority.write_pem(directory / "authority.pem")
    listener = f"listener.name.{_INTERNAL.lower()}"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_INTERNAL}:{protocol}",
        "inter.broker.listener.name": _INTERNAL,
        f"{listener}.ssl.keystore.type": "PEM",
        f"{listener}.ssl.keystore.location": str(key_store),
        f"{listener}.ssl.truststore.type": "PEM",
        f"{listener}.ssl.truststore.location": str(trust_store),
        f"{listener}.ssl.client.auth": "required" if protocol == "SSL" else "none",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.sasl.enabled.mechanisms": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f'{login} username="broker" password="secret" user_broker="secret";',
    }


class Load:
    """A producer and a transactional one that write to the cluster."""

    def __init__(self, cluster: MixedCluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self.transactions = TransactionLedger(TRANSACTIONS, PARTITIONS)
        addresses = cluster.bootstrap_servers

        def make(delivered: Delivered) -> Client:
            return ConfluentClient(addresses, TOPIC, delivered, idempotent=True, give_up_seconds=SECONDS)

        def make_transactional() -> ConfluentTransactions:
            return ConfluentTransactions(addresses, TRANSACTIONS, self.transactions.acknowledged.__setitem__)

        self.writer = Writer(Ledger(TOPIC, PARTITIONS), make, seed=1)
        self.transactional_writer = TransactionalWriter(self.transactions, make_transactional, seed=1)

    def play(self, steps: Sequence[Callable[[], None]]) -> None:
        """Write during each step, until all replicas are in sync; rest between steps, and check everything at last."""
        writers = (self.writer, self.transactional_writer)
        for writer in writers:
            writer.start()
        try:
            for step in steps:
                for writer in writers:
                    writer.resume()
                step()
                self._cluster.wait_until_in_sync([TOPIC, TRANSACTIONS], 2 * 3 * PARTITIONS, SECONDS)
                for writer in writers:
                    writer.rest(2 * SECONDS)
            self.check()
            for writer in writers:
                writer.close()
        finally:
            for writer in writers:
                writer.close(timeout_seconds=0)

    def has_written(self) -> bool:
        """Return whether enough is written to say something."""
        return self.writer.ledger.acknowledged > 1_000 and self.transactions.count(Outcome.COMMITTED) > 10

    def check(self) -> None:
        """Hold the files of all brokers against what the producers were told."""
        for partition, book in enumerate(self.writer.ledger.partitions):
            assert not book.failed
            check_replicas(f"{TOPIC}-{partition}", book, self._cluster.replicas(TOPIC, partition))
        contents = [
            content_of(
                equal_replicas(
                    f"{TRANSACTIONS}-{partition}",
                    self._cluster.replicas(TRANSACTIONS, partition),
                    lambda log: not content_of(log).open_producers,
                )
            )
            for partition in range(PARTITIONS)
        ]
        check_transactions(self.transactions, contents)
        dumps = [
            dump_log_segments(sorted(place.glob("*.log")), "--print-data-log", directory=self._directory)
            for place in self._cluster.replicas(TOPIC, 0)
        ]
        assert [dump.complaints for dump in dumps] == [[], [], []]
        lines = [[line for line in dump.lines if not line.startswith("Dumping ")] for dump in dumps]
        assert lines[0] == lines[1] == lines[2]
        assert self.has_written()


@pytest.mark.parametrize("ours", [(2,), (1, 2)], ids=["two of Kafka", "one of Kafka"])
def test_each_broker_dies_in_turn_and_nothing_is_lost(ours: Sequence[int], tmp_path: Path) -> None:
    with mixed(tmp_path, ours=ours) as cluster:
        # Each once, then whoever is the controller: it may be any of the three by then.
        each = [partial(cluster.kill_and_start, broker_id) for broker_id in (0, 2, 1)]
        controller = partial(cluster.with_controller, cluster.kill_and_start)
        Load(cluster, tmp_path).play([*each, controller, controller, controller])


@pytest.mark.parametrize("ours", [(2,), (1, 2)], ids=["two of Kafka", "one of Kafka"])
def test_brokers_that_live_are_taken_for_dead_and_nothing_is_lost(ours: Sequence[int], tmp_path: Path) -> None:
    """Their sessions end. They lead on, or are the controller, until they know."""
    with mixed(tmp_path, ours=ours) as cluster:

        def depose(fault: Callable[[int], AbstractContextManager[None]], broker_id: int) -> None:
            with fault(broker_id):
                cluster.wait_until_taken_for_dead(broker_id)
            cluster.wait_until_known(3, SECONDS)

        freeze, cut_off = partial(depose, cluster.frozen), partial(depose, cluster.without_zookeeper)
        each = [partial(fault, broker_id) for broker_id in BROKERS for fault in (freeze, cut_off)]
        controller = [partial(cluster.with_controller, fault) for fault in (freeze, cut_off)]
        Load(cluster, tmp_path).play([*each, *controller, *controller])


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_brokers_log_in_to_each_other(protocol: str, tmp_path: Path) -> None:
    """A kill ends all connections of a broker, so each logs in to each."""
    with mixed(tmp_path, ours=(1, 2), between_brokers=secured(tmp_path, protocol)) as cluster:
        Load(cluster, tmp_path).play([partial(cluster.kill_and_start, broker_id) for broker_id in BROKERS])


def test_every_broker_is_replaced_by_one_of_the_other_kind_and_back(tmp_path: Path) -> None:
    with mixed(tmp_path, ours=()) as cluster:
        there = [partial(cluster.replace, broker_id, by_ours=True) for broker_id in BROKERS]
        back = [partial(cluster.replace, broker_id, by_ours=False) for broker_id in BROKERS]
        Load(cluster, tmp_path).play([*there, *back])


def test_kafkas_tools_see_one_healthy_cluster(tmp_path: Path) -> None:
    """Each tool asks each of the brokers, of either kind."""
    with mixed(tmp_path, ours=(1, 2)) as cluster:
        load = Load(cluster, tmp_path)
        load.play([partial(wait_until, load.has_written, SECONDS)])
        tools = KafkaTools("3.9", tmp_path)
        try:
            for number, broker in enumerate(cluster.brokers):
                run = partial(tools.run, broker)
                assert not run("kafka-topics", "--describe", "--under-replicated-partitions").stdout.strip()
                assert (
                    run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions").status == 0
                )
                listed = run("kafka-transactions", "list").stdout
                assert re.search(rf"^{TRANSACTIONS}\s.*\bComplete(Commit|Abort)\b", listed, re.MULTILINE), listed
                _check_log_dirs(run("kafka-log-dirs", "--describe", "--topic-list", TOPIC).stdout)
                _reassign(run, [number, (number + 1) % 3, (number + 2) % 3], tmp_path)
        finally:
            tools.close()
        with endless_tool(
            REPLICA_VERIFICATION, "--broker-list", cluster.bootstrap_servers, "--topics-include", TOPIC,
            "--report-interval-ms", "500", directory=tmp_path,
        ) as lines:  # fmt: skip
            seen = list(islice(_until("max lag is 0 for partition", lines), 100))
        assert "max lag is 0 for partition" in seen[-1], seen
        assert not [line for line in seen if "match" in line]


def _check_log_dirs(printed: str) -> None:
    """All brokers have all partitions, in the same size and without a lag."""
    brokers = json.loads(printed.splitlines()[-1])["brokers"]
    assert sorted(each["broker"] for each in brokers) == list(BROKERS)
    sizes = []
    for each in brokers:
        (log_dir,) = each["logDirs"]
        assert log_dir["error"] is None
        assert [(place["offsetLag"], place["isFuture"]) for place in log_dir["partitions"]] == [(0, False)] * PARTITIONS
        sizes.append({place["partition"]: place["size"] for place in log_dir["partitions"]})
    assert sizes[0] == sizes[1] == sizes[2]


def _reassign(run: Callable[..., ToolOutput], replicas: Sequence[int], directory: Path) -> None:
    """Give a partition another order of replicas, and have the tool say that it is done."""
    path = directory / "plan.json"
    plan = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": list(replicas)}]}
    path.write_text(json.dumps(plan))
    arguments = ("--reassignment-json-file", str(path))
    started = run("kafka-reassign-partitions", *arguments, "--execute")
    assert "Successfully started partition reassignment" in started.stdout, started
    wait_until(
        lambda: (
            f"Reassignment of partition {TOPIC}-0 is completed."
            in run("kafka-reassign-partitions", *arguments, "--verify").stdout
        ),
        SECONDS,
    )


def _until(words: str, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if words in line:
            return
