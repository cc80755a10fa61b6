"""Random histories of requests to a consumer group (KIP-848) get the same answers from Apache Kafka 4, step by step.

As in `test_same_group_histories`. Kafka 4.3 may put an assignment off by a second (KIP-1263), which would make every
history a matter of time: here it assigns at once, as earlier releases and we do.

Who gets what depends on the ids of topics and of classic members, which each broker draws for itself. Every attempt at
a history is made with other ids: where Kafka does not give itself the same answers, ours cannot be expected to. Nor who
gets what after a member has joined others by a regular expression (docs/decisions/0014): there the comparison ends.
"""

from __future__ import annotations

import os
import re
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
PREFIXES = [f"histories{attempt}-" for attempt, _ in enumerate(SETTLE_SECONDS)]
"""Of the topics of each attempt."""
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
                for prefix in PREFIXES:
                    for name, partitions in TOPICS.items():
                        client.create_topic(prefix + name, partitions)
            wait_for_coordinator(server)
        yield list(both)
    finally:
        for server in both:
            server.close()


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + HISTORIES))
def test_same_answers(servers: list[ServerProcess], seed: int) -> None:
    history = make_history(seed, STEPS)
    attempts: list[Attempt] = []
    for prefix, settle_seconds in zip(PREFIXES, SETTLE_SECONDS, strict=True):
        group = f"histories-{uuid.uuid4().hex[:8]}"
        ours, theirs = (ConsumerHistoryPlayer(server, group, prefix, seed, settle_seconds) for server in servers)
        attempts.append(Attempt(history, ours, theirs))
        if not attempts[-1].difference or is_chance(attempts):
            return
    pytest.fail(max(attempts, key=lambda attempt: len(attempt.expected)).difference, pytrace=False)


class Attempt:
    """A history as it went.

    expected: what Kafka answered, up to the first step that ours answered differently. difference: all that in words;
    "" when there is none.
    """

    def __init__(self, history: list[Step], ours: ConsumerHistoryPlayer, theirs: ConsumerHistoryPlayer) -> None:
        self.expected: list[list[str]] = []
        self.difference = ""
        told = []
        joined_by_regex = False
        try:
            for step in history:
                expected, found = theirs.play(step), ours.play(step)
                self.expected.append(expected)
                told.append(f"{step}\n    {expected}")
                joined_by_regex = joined_by_regex or step.options.get("how") == "regex"
                if expected != found:
                    if joined_by_regex and without_partitions(expected) == without_partitions(found):
                        return
                    self.difference = "\n".join([*told, f"  ours: {found}"])
                    return
        finally:
            ours.close()
            theirs.close()


def is_chance(attempts: list[Attempt]) -> bool:
    """Whether Kafka has answered the last attempt otherwise than an earlier one."""
    last = attempts[-1].expected
    return any(
        earlier != later for attempt in attempts[:-1] for earlier, later in zip(attempt.expected, last, strict=False)
    )


def without_partitions(answers: list[str]) -> list[str]:
    """Answers without what members have or shall have."""
    return [re.sub(r"\{[^{}]*\}", "{}", answer) for answer in answers]
