"""kafka-topics --alter --partitions, kafka-leader-election, kafka-reassign-partitions: on one broker, as on Kafka's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.kafka_tools import SameSteps

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

REASSIGN = "kafka-reassign-partitions"
ELECT = "kafka-leader-election"


def _create(same_steps: SameSteps, topic: str, partitions: int = 2) -> None:
    same_steps.run("kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions))


def _file(directory: Path, name: str, content: dict[str, Any]) -> str:
    path = directory / name
    path.write_text(json.dumps(content))
    return str(path)


def _plan(directory: Path, topic: str, *replicas: list[int]) -> str:
    partitions = [
        {"topic": topic, "partition": index, "replicas": brokers, "log_dirs": ["any"] * len(brokers)}
        for index, brokers in enumerate(replicas)
    ]
    return _file(directory, "plan.json", {"version": 1, "partitions": partitions})


def test_a_topic_grows(same_steps: SameSteps, topic: str) -> None:
    _create(same_steps, topic)
    alter = ("kafka-topics", "--alter", "--topic", topic, "--partitions")
    assert same_steps.run(*alter, "5").status == 0
    assert "PartitionCount: 5" in same_steps.run("kafka-topics", "--describe", "--topic", topic).stdout
    assert "higher than the requested 3" in same_steps.run(*alter, "3").text
    assert "already has 5 partitions" in same_steps.run(*alter, "5").text
    assert same_steps.run(*alter, "7", "--replica-assignment", "0,0,0,0,0,0,0").status == 0
    assert same_steps.run("kafka-topics", "--alter", "--topic", f"{topic}-missing", "--partitions", "2").status != 0


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_elections(same_steps: SameSteps, topic: str, tmp_path: Path, kind: str) -> None:
    _create(same_steps, topic)
    one = (ELECT, "--election-type", kind, "--topic", topic, "--partition")
    assert "Valid replica already elected" in same_steps.run(*one, "1").stdout
    assert same_steps.run(*one, "9").status != 0
    named = _file(tmp_path, "elect.json", {"partitions": [{"topic": topic, "partition": index} for index in (0, 1)]})
    same_steps.run(ELECT, "--election-type", kind, "--path-to-json-file", named)
    assert same_steps.run(ELECT, "--election-type", kind, "--all-topic-partitions").status == 0


def test_a_reassignment_is_proposed_executed_listed_and_verified(
    same_steps: SameSteps, topic: str, tmp_path: Path
) -> None:
    _create(same_steps, topic)
    topics = _file(tmp_path, "topics.json", {"version": 1, "topics": [{"topic": topic}]})
    proposed = same_steps.run(REASSIGN, "--topics-to-move-json-file", topics, "--broker-list", "0", "--generate")
    assert "Proposed partition reassignment configuration" in proposed.stdout
    plan = ("--reassignment-json-file", _plan(tmp_path, topic, [0], [0]))
    executed = same_steps.run(REASSIGN, *plan, "--execute")
    assert "Successfully started partition reassignments" in executed.stdout
    verified = same_steps.run(REASSIGN, *plan, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified.stdout
    assert "No partition reassignments found." in same_steps.run(REASSIGN, "--list").stdout
    same_steps.run(REASSIGN, *plan, "--cancel")
    again = same_steps.run(REASSIGN, *plan, "--execute", "--additional")
    assert again.status == 0


def test_a_throttled_reassignment_clears_its_throttle_when_it_is_verified(
    same_steps: SameSteps, topic: str, tmp_path: Path
) -> None:
    _create(same_steps, topic)
    plan = ("--reassignment-json-file", _plan(tmp_path, topic, [0], [0]))
    executed = same_steps.run(REASSIGN, *plan, "--execute", "--throttle", "1000000")
    assert "The inter-broker throttle limit was set to 1000000 B/s" in executed.stdout
    # log4j of 4.3 complains on stderr the first time it is configured, whatever the broker
    described = same_steps.run(
        "kafka-configs",
        "--describe",
        "--entity-type",
        "brokers",
        "--entity-name",
        "0",
        ignoring="Reconfiguration failed",
    )
    assert "follower.replication.throttled" in described.stdout
    verified = same_steps.run(REASSIGN, *plan, "--verify")
    assert "Clearing broker-level throttles" in verified.stdout
    assert f"Clearing topic-level throttles on topic {topic}" in verified.stdout


def test_a_reassignment_to_nobody(same_steps: SameSteps, topic: str, tmp_path: Path) -> None:
    _create(same_steps, topic, 1)
    for replicas in ([7], [0, 0], []):
        plan = ("--reassignment-json-file", _plan(tmp_path, topic, replicas))
        assert same_steps.run(REASSIGN, *plan, "--execute").status != 0
