"""Readers of committed records see no anomaly while the broker is killed (-9) and paused.

Several producers write transactions of several partitions at the same time and abort some; readers of two libraries
follow them, and in the end read everything. tests/anomalies/checker.py says what must hold.
A broker with a planted defect fails.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from barnabas.broker.broker_server import BrokerServer
from barnabas.clients.admin import Admin, NewTopic
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.coordinator.transaction.marker_dispatch import EndedTransaction, MarkerDispatch
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.storage.log.state import LogState
from barnabas.storage.producers.append import TransactionEnd
from tests.anomalies.checker import Kind, find_anomalies
from tests.anomalies.history import Outcome
from tests.anomalies.workload import PARTITIONS, Workload, end_offsets
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES
from tests.support.server_process import free_port
from tests.support.transaction_markers import wait_for_markers

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="starts brokers of its own")

TOPIC = "lists"
TRANSACTIONS_A_LIFE = 40
PAUSE_SECONDS = 0.2
STALL_SECONDS = 300
ROUNDS = 20
"""So often a workload may meet a broken broker and see nothing of it; once is the rule."""
PROPERTIES = {"transaction.state.log.num.partitions": "3", "transaction.state.log.replication.factor": "1"}


def new_workload(bootstrap: str, topic: str, seed: int) -> Workload:
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    return Workload(bootstrap, topic, seed)


def await_transactions(workload: Workload, more: int) -> None:
    """Return when the producers have ended so many more transactions."""
    wanted, counted = workload.transaction_count + more, 0
    changed_at = time.monotonic()
    while counted < wanted:
        if workload.transaction_count != counted:
            counted, changed_at = workload.transaction_count, time.monotonic()
        failures = [appender.failures for appender in workload.appenders]
        assert time.monotonic() - changed_at < STALL_SECONDS, f"{counted} of {wanted} transactions, {failures}"
        time.sleep(0.002)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lives", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_no_anomaly_over_kills_and_pauses(tmp_path: Path, lives: int) -> None:
    broker = BarnabasProcess(tmp_path, SERVER_PROPERTIES | PROPERTIES, port=free_port())
    chance = random.Random(lives)
    with broker.running():
        workload = new_workload(broker.bootstrap_servers, TOPIC, seed=lives)

        def pause_and_kill() -> None:
            for life in range(lives):
                await_transactions(workload, TRANSACTIONS_A_LIFE)
                broker.send_signal(signal.SIGSTOP)
                time.sleep(chance.random() * PAUSE_SECONDS)
                broker.send_signal(signal.SIGCONT)
                if life < lives - 1:
                    time.sleep(chance.random() * PAUSE_SECONDS)
                    broker.kill()
                    broker.start()

        workload.run(pause_and_kill)
        wait_for_markers(broker.bootstrap_servers, [TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        workload.read_to(end_offsets(broker.bootstrap_servers, TOPIC))
        workload.close()
    history = workload.history()
    assert find_anomalies(history) == []
    outcomes = {transaction.outcome for transaction in history.transactions}
    assert {Outcome.COMMITTED, Outcome.ABORTED} <= outcomes
    assert all(read.seen for read in history.reads)


# -- planted defects


def no_unstable_offset(state: LogState) -> None:
    """Leave the last stable offset at the high watermark, whatever transactions are open."""


def no_entry(end: TransactionEnd, segment: object) -> None:
    """Tell no reader that the transaction was aborted."""


def commit_always(ended: EndedTransaction) -> bool:
    """Write markers of commits for aborted transactions too."""
    return True


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """A broker in this process, so that methods can be replaced. The address of its clients."""
    settings = SERVER_DEFAULTS | PROPERTIES | {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = BrokerServer(KafkaConfig.parse(settings, "the test"))
    try:
        broker.startup()
        (endpoint,) = broker.bound_endpoints
        yield f"{endpoint.host}:{endpoint.port}"
    finally:
        broker.shutdown()


@pytest.mark.interpreted
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("owner", "method", "defect", "kind"),
    [
        (LogState, "update_first_unstable_offset", no_unstable_offset, Kind.EARLY_READ),
        (TransactionEnd, "enter", no_entry, Kind.ABORTED_READ),
        (EndedTransaction, "is_commit", property(commit_always), Kind.ABORTED_READ),
    ],
)
def test_a_planted_defect_is_found(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, defect: Callable[..., object], kind: Kind
) -> None:
    monkeypatch.setattr(owner, method, defect)
    found: set[Kind] = set()
    for number in range(ROUNDS):
        workload = new_workload(bootstrap, f"{TOPIC}-{number}", seed=number)
        workload.run(partial(await_transactions, workload, TRANSACTIONS_A_LIFE))
        workload.close()
        history = workload.history()
        # The readers have stopped anywhere: what they have not read says nothing.
        reads = tuple(read._replace(is_complete=False) for read in history.reads)
        found |= {anomaly.kind for anomaly in find_anomalies(history._replace(reads=reads))}
        if kind in found:
            return
    pytest.fail(f"found only {found}")


@pytest.mark.interpreted
@pytest.mark.timeout(600)
def test_an_omitted_marker_is_found(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No marker reaches partition 0: what was written there stays invisible, the rest of the transactions does not."""
    omitted = TopicPartition(TOPIC, 0)
    add = MarkerDispatch.add

    def add_without(dispatch: MarkerDispatch, transaction: EndedTransaction) -> None:
        transaction.waiting.discard(omitted)
        add(dispatch, transaction)

    monkeypatch.setattr(MarkerDispatch, "add", add_without)
    workload = new_workload(bootstrap, TOPIC, seed=1)
    workload.run(partial(await_transactions, workload, TRANSACTIONS_A_LIFE))
    wait_for_markers(bootstrap, [TopicPartition(TOPIC, number) for number in range(1, PARTITIONS)])
    workload.read_to(end_offsets(bootstrap, TOPIC))
    workload.close()
    kinds = {anomaly.kind for anomaly in find_anomalies(workload.history())}
    assert kinds == {Kind.LOST_WRITE, Kind.PARTIAL_TRANSACTION}
