"""Our clients have every metric of Apache Kafka's clients, by its name, group and tags, or a reason not to have it.

The names are recorded in kafka-clients-3.9.txt, by JavaClientMetrics.java: the client, the group, the name and the keys
of the tags. Our clients do here what that program does: a transaction of one record, a group that reads it, a look at
the cluster. To record anew, run this module as a program:

    python -m tests.clients.metric_names.test_metric_names
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.client_metrics import MetricName
from barnabas.clients.consumer import Consumer, RebalanceListener, TopicPartition
from barnabas.clients.consumer.group.coordinator_metrics import GROUP
from barnabas.clients.producer import Producer
from barnabas.runtime.clock import SystemClock
from barnabas.testing import BrokerProcess, broker
from tests.support.apache_kafka import POM
from tests.support.maven import counterparts_needed, fetch_jars, find_java

RECORDED = Path(__file__).with_name("kafka-clients-3.9.txt")
PROGRAM = Path(__file__).with_name("JavaClientMetrics.java")
TOPIC = "metric-names"

APP_INFO = "its values are texts; `MetricName` has numbers"
RENAMED = "deprecated since Kafka 3.1 (KIP-773) and gone in 4.0; the same number is there as "
MISSING = {
    "app-info commit-id": APP_INFO,
    "app-info start-time-ms": APP_INFO,
    "app-info version": APP_INFO,
    "producer-metrics record-size-avg": "would cost something for each record",
    "producer-metrics record-size-max": "would cost something for each record",
    "producer-metrics bufferpool-wait-time-total": RENAMED + "bufferpool-wait-time-ns-total",
    **{
        f"{client}-metrics {name}": RENAMED + f"{new}-ns-total"
        for client in ("producer", "consumer", "admin-client")
        for name, new in (("iotime-total", "io-time"), ("io-waittime-total", "io-wait-time"))
    },
}
"""By group and name: the metrics of Kafka's clients that ours leave out, and why."""

OURS_ALONE = {
    "producer-metrics txn-prepare-time-ns-total": "prepare_transaction is Kafka 4's (KIP-939)",
}
"""The metrics of ours that the recorded clients do not have."""


def names_of(client: str, measured: Mapping[MetricName, float]) -> set[str]:
    """The metrics as the recording has them."""
    return {f"{client} {each.group} {each.name} {','.join(sorted(dict(each.tags)))}" for each in measured}


def group_and_name(line: str) -> str:
    """The key of `MISSING`."""
    _, group, name, _ = line.split(" ")
    return f"{group} {name}"


def recorded() -> set[str]:
    return set(RECORDED.read_text().splitlines())


def record(bootstrap_servers: str) -> str:
    """What the program prints that asks Kafka's clients."""
    command = [find_java(), "-cp", f"{fetch_jars(POM)}/*", str(PROGRAM), bootstrap_servers, TOPIC]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=100).stdout


class Session:
    """A session of our three clients, and the metrics of each at its end."""

    def __init__(self, running: BrokerProcess) -> None:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
            self.admin = admin.metrics()
        with Producer(running.bootstrap_servers, transactional_id=TOPIC) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(TOPIC, b"0123456789")
            self.producer = producer.metrics()
        with Consumer(running.bootstrap_servers, group_id=TOPIC, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([TOPIC])
            while not consumer.poll(100):
                pass
            consumer.commit_sync()
            consumer.committed(consumer.assignment())
            self.consumer = consumer.metrics()

    def value(self, client: str, name: str, group: str = "") -> float:
        """The one metric of this name in `<client>-metrics`, or in another group."""
        wanted = group or f"{client}-metrics"
        (value,) = [
            value
            for each, value in getattr(self, client.split("-", maxsplit=1)[0]).items()
            if each.name == name and each.group == wanted and len(each.tags) == 1
        ]
        return float(value)


@pytest.fixture(scope="module")
def running() -> Iterator[BrokerProcess]:
    with broker() as started:
        yield started


@pytest.fixture(scope="module")
def session(running: BrokerProcess) -> Session:
    return Session(running)


def test_every_metric_of_kafka_is_there_or_left_out_for_a_reason(session: Session) -> None:
    ours = {
        *names_of("admin", session.admin),
        *names_of("producer", session.producer),
        *names_of("consumer", session.consumer),
    }
    missing = recorded() - ours
    assert {each for each in missing if group_and_name(each) not in MISSING} == set()
    assert {group_and_name(each) for each in missing} == set(MISSING), "a reason for a metric that is there"
    assert {group_and_name(each) for each in ours - recorded()} == set(OURS_ALONE)


def test_requests_add_up(session: Session) -> None:
    for client, measured in (("producer", session.producer), ("consumer", session.consumer)):
        by_node = [
            value
            for each, value in measured.items()
            if each.group == f"{client}-node-metrics" and each.name == "request-total"
        ]
        requests, responses = session.value(client, "request-total"), session.value(client, "response-total")
        assert requests == sum(by_node)
        assert responses <= requests
        assert session.value(client, "network-io-total") == requests + responses
        assert session.value(client, "outgoing-byte-total") > 0
        assert session.value(client, "request-size-max") >= session.value(client, "request-size-avg")
        assert session.value(client, "connection-count") <= session.value(client, "connection-creation-total")
        assert session.value(client, "failed-authentication-total") == 0
        assert session.value(client, "select-total") >= requests
        assert 0 < session.value(client, "io-wait-ratio") < 1


def test_each_broker_has_its_latencies(session: Session) -> None:
    for client, measured in (("producer", session.producer), ("consumer", session.consumer)):
        latencies = {
            dict(each.tags)["node-id"]: value
            for each, value in measured.items()
            if each.group == f"{client}-node-metrics" and each.name == "request-latency-max"
        }
        # Of the broker itself; those of the bootstrap address and of the coordinator take no records.
        assert {node for node, value in latencies.items() if not math.isnan(value)} == {"node-0"}


def test_the_group_is_measured(session: Session) -> None:
    def value(name: str) -> float:
        return session.value("consumer", name, GROUP)

    assert value("assigned-partitions") == 1
    assert value("join-total") == value("sync-total") == value("rebalance-total") == 1
    # The first JoinGroup is answered with the id under which the member has to join (KIP-394).
    assert value("failed-rebalance-total") == 1
    assert value("commit-total") >= 1
    assert value("rebalance-latency-total") == value("rebalance-latency-max") >= value("join-time-max")
    assert value("last-rebalance-seconds-ago") >= 0
    coordinators = {dict(each.tags).get("node-id") for each in session.consumer} - {None}
    assert f"node-{2**31 - 1}" in coordinators


class AdvancedClock:
    """The system's clock, which a test can set forward."""

    def __init__(self) -> None:
        self.ahead_ns = 0
        self._system = SystemClock()

    def milliseconds(self) -> int:
        return self._system.milliseconds()

    def nanoseconds(self) -> int:
        return self._system.nanoseconds() + self.ahead_ns


class Slow(RebalanceListener):
    """A listener that takes 70 ms of the consumer's clock."""

    def __init__(self, clock: AdvancedClock) -> None:
        self.clock = clock

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.clock.ahead_ns += 70_000_000


def test_reconciliations_are_rebalances_without_joins(running: BrokerProcess, session: Session) -> None:
    """A group of KIP-848; its listener's time is measured, too."""
    clock = AdvancedClock()
    with Consumer(
        running.bootstrap_servers,
        group_id="reconciled",
        group_protocol="consumer",
        auto_offset_reset="earliest",
        clock=clock,
    ) as consumer:
        consumer.subscribe([TOPIC], listener=Slow(clock))
        while not consumer.poll(100):
            pass
        measured = {each.name: value for each, value in consumer.metrics().items() if each.group == GROUP}
    assert measured["assigned-partitions"] == 1
    assert measured["rebalance-total"] >= 1
    assert measured["rebalance-latency-max"] >= measured["partition-assigned-latency-max"] >= 70
    assert math.isnan(measured["partition-lost-latency-max"])
    assert measured["heartbeat-total"] >= 1
    assert measured["last-heartbeat-seconds-ago"] >= 0
    assert measured["join-total"] == measured["sync-total"] == measured["failed-rebalance-total"] == 0


def test_polls_and_commits_are_measured(session: Session) -> None:
    assert session.value("consumer", "commit-sync-time-ns-total") > 0
    assert session.value("consumer", "committed-time-ns-total") > 0
    assert session.value("consumer", "last-poll-seconds-ago") >= 0
    assert session.value("consumer", "time-between-poll-max") >= session.value("consumer", "time-between-poll-avg")
    assert 0 < session.value("consumer", "poll-idle-ratio-avg") <= 1


def test_the_number_of_metrics_is_one_of_them(session: Session) -> None:
    for client in ("admin", "producer", "consumer"):
        assert session.value(client, "count", "kafka-metrics-count") == len(getattr(session, client))


@pytest.mark.java
def test_the_names_are_those_of_kafkas_clients() -> None:
    with counterparts_needed(), broker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
        assert set(record(running.bootstrap_servers).splitlines()) == recorded()


def main() -> None:
    """Record the names of Kafka's clients."""
    with broker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
        RECORDED.write_text(record(running.bootstrap_servers))


if __name__ == "__main__":
    main()
