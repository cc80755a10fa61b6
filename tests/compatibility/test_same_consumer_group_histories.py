"""Random histories of requests to a consumer group (KIP-848) get the same answers from Apache Kafka 4, step by step.

As in `test_same_group_histories`. Kafka 4.3 may put an assignment off by a second (KIP-1263), which would make every
history a matter of time: here it assigns at once, as earlier releases and we do.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.compatibility.consumer_group_histories import TOPICS, ConsumerHistoryPlayer, make_history
from tests.compatibility.history_player import Step, wait_for_coordinator
from tests.support.apache_kafka_4 import ApacheKafka4, need_apache_kafka_4
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.java

FIRST_SEED = int(os.environ.get("BARNABAS_GROUP_HISTORIES_SEED", "1"))
HISTORIES = int(os.environ.get("BARNABAS_GROUP_HISTORIES", "40"))
STEPS = 24
SETTLE_SECONDS = (0.03, 0.03, 0.1, 0.1, 0.1, 0.1, 0.1)
"""One attempt each; later ones wait longer for answers to come."""
PREFIX = "histories-"
PROPERTIES = {"group.consumer.migration.policy": "bidirectional", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ServerProcess]]:
    """Ours, and Apache Kafka 4."""
    need_apache_kafka_4()
    both = [
        BarnabasProcess(tmp_path_factory.mktemp("ours"), {**PROPERTIES, "offsets.topic.replication.factor": "1"}),
        ApacheKafka4(tmp_path_factory.mktemp("theirs"), {**PROPERTIES, "group.consumer.assignment.interval.ms": "0"}),
    ]
    try:
        for server in both:
            server.start()
            with RawClient(server) as client:
                for name, partitions in TOPICS.items():
                    client.create_topic(PREFIX + name, partitions)
            wait_for_coordinator(server)
        yield list(both)
    finally:
        for server in both:
            server.close()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + HISTORIES))
def test_same_answers(servers: list[ServerProcess], seed: int) -> None:
    history = make_history(seed, STEPS)
    difference = ""
    for settle_seconds in SETTLE_SECONDS:
        difference = difference_between(servers, history, seed, settle_seconds)
        if not difference:
            return
    pytest.fail(difference, pytrace=False)


def difference_between(servers: list[ServerProcess], history: list[Step], seed: int, settle_seconds: float) -> str:
    """The first step that ours and Kafka's answer differently, in words; "" when there is none."""
    group = f"histories-{uuid.uuid4().hex[:8]}"
    ours, theirs = (ConsumerHistoryPlayer(server, group, PREFIX, seed, settle_seconds) for server in servers)
    told = []
    try:
        for step in history:
            expected, found = theirs.play(step), ours.play(step)
            told.append(f"{step}\n    {expected}")
            if expected != found:
                return "\n".join([*told, f"  ours: {found}"])
    finally:
        ours.close()
        theirs.close()
    return ""
