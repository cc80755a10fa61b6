"""Random histories of requests to a classic group get the same answers from Apache Kafka 3.9, step by step.

The history is played to both. Kafka leaves some things to chance (who leads after the leader has left; an answer may
come a step later), and then differs from itself: a difference counts if it is there every time.
"""

from __future__ import annotations

import os
import uuid

import pytest

from tests.compatibility.group_histories import GroupHistoryPlayer, make_history
from tests.compatibility.history_player import Step, wait_for_coordinator
from tests.support.apache_kafka import need_apache_kafka
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import SharedServers, shared_servers
from tests.support.server_process import ServerProcess

__all__ = ["shared_servers"]

pytestmark = pytest.mark.java

FIRST_SEED = int(os.environ.get("BARNABAS_GROUP_HISTORIES_SEED", "1"))
HISTORIES = int(os.environ.get("BARNABAS_GROUP_HISTORIES", "25"))
STEPS = 24
SETTLE_SECONDS = (0.03, 0.03, 0.1, 0.1, 0.1, 0.1, 0.1)
"""One attempt each; later ones wait longer for answers to come."""
LATE_SECONDS = (0.2, 0.5, 1.0)
"""A busy machine may be late with an answer: both are given that much more time."""
TOPIC = "group-histories"


@pytest.fixture(scope="module")
def servers(shared_servers: SharedServers) -> list[ServerProcess]:
    """Ours, and Apache Kafka."""
    need_apache_kafka()
    both: list[ServerProcess] = [shared_servers.running(mode) for mode in ("inline", "apache-kafka")]
    for server in both:
        with RawClient(server) as client:
            client.create_topic(TOPIC, 2)
        wait_for_coordinator(server)
    return both


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + HISTORIES))
def test_same_answers(servers: list[ServerProcess], seed: int) -> None:
    history = make_history(seed, STEPS)
    difference = ""
    for settle_seconds in SETTLE_SECONDS:
        difference = difference_between(servers, history, settle_seconds)
        if not difference:
            return
    pytest.fail(difference, pytrace=False)


def difference_between(servers: list[ServerProcess], history: list[Step], settle_seconds: float) -> str:
    """The first step that ours and Kafka's answer differently, in words; "" when there is none."""
    group = f"histories-{uuid.uuid4().hex[:8]}"
    ours, theirs = (GroupHistoryPlayer(server, group, TOPIC, settle_seconds) for server in servers)
    told = []
    try:
        for step in history:
            expected, found = theirs.play(step), ours.play(step)
            for seconds in LATE_SECONDS:
                if expected == found:
                    break
                expected = sorted([*expected, *theirs.answers_that_come_late(seconds)])
                found = sorted([*found, *ours.answers_that_come_late(seconds)])
            told.append(f"{step}\n    {expected}")
            if expected != found:
                return "\n".join([*told, f"  ours: {found}"])
    finally:
        ours.close()
        theirs.close()
    return ""
