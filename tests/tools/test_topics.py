"""kafka-topics: create, list, describe, alter, delete, and what it says when that cannot be done."""

from __future__ import annotations

import pytest

from tests.tools.kafka_tools import SameSteps

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_topics_life(same_steps: SameSteps, topic: str) -> None:
    named = ("--topic", topic)
    settings = ("--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete")
    size = ("--partitions", "3", "--replication-factor", "1")
    created = same_steps.run("kafka-topics", "--create", *named, *size, *settings)
    assert f"Created topic {topic}." in created.stdout
    assert "already exists" in same_steps.run("kafka-topics", "--create", *named).text
    assert same_steps.run("kafka-topics", "--create", *named, "--if-not-exists").status == 0
    assert "PartitionCount: 3" in same_steps.run("kafka-topics", "--describe", *named).stdout
    listed = same_steps.tools.run(same_steps.ours, "kafka-topics", "--list").stdout.splitlines()
    assert topic in listed

    assert same_steps.run("kafka-topics", "--alter", *named, "--partitions", "5").status == 0
    assert "PartitionCount: 5" in same_steps.run("kafka-topics", "--describe", *named).stdout
    same_steps.run("kafka-topics", "--alter", *named, "--partitions", "4")
    same_steps.run("kafka-topics", "--alter", *named, "--partitions", "5")
    same_steps.run("kafka-topics", "--alter", *named, "--partitions", "6", "--replica-assignment", "0,0,0,0,0,0")
    same_steps.run("kafka-topics", "--alter", *named, "--partitions", "6", "--replica-assignment", "0,0,0,0,0,7")

    same_steps.run("kafka-topics", "--delete", *named)
    assert "does not exist" in same_steps.run("kafka-topics", "--describe", *named).text
    same_steps.run("kafka-topics", "--delete", *named)
    assert same_steps.run("kafka-topics", "--delete", *named, "--if-exists").status == 0
    same_steps.run("kafka-topics", "--alter", *named, "--partitions", "9")


def test_assigned_by_hand(same_steps: SameSteps, topic: str) -> None:
    named = ("--topic", topic)
    same_steps.run("kafka-topics", "--create", *named, "--replica-assignment", "0,0,0")
    same_steps.run("kafka-topics", "--describe", *named)
    same_steps.run("kafka-topics", "--describe", *named, "--under-replicated-partitions")
    same_steps.run("kafka-topics", "--describe", *named, "--unavailable-partitions")
    same_steps.run("kafka-topics", "--describe", *named, "--at-min-isr-partitions")
    same_steps.run("kafka-topics", "--describe", *named, "--topics-with-overrides")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--partitions", "0"),
        ("--partitions", "1", "--replication-factor", "2"),
        ("--partitions", "1", "--replication-factor", "0"),
        ("--replica-assignment", "0:0"),
        ("--config", "no.such.setting=1"),
        ("--config", "retention.ms=soon"),
        ("--config", "cleanup.policy=burn"),
        ("--config", "segment.bytes=1"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_created(same_steps: SameSteps, topic: str, arguments: tuple[str, ...]) -> None:
    assert same_steps.run("kafka-topics", "--create", "--topic", topic, *arguments).status == 1


@pytest.mark.parametrize("name", ["..", "with blank", "x" * 250, "a/b"])
def test_names_that_are_none(same_steps: SameSteps, name: str) -> None:
    assert same_steps.run("kafka-topics", "--create", "--topic", name).status == 1
