"""kafka-topics: create, list, describe, alter, delete."""

from __future__ import annotations

import pytest

from tests.tools.kafka_tools import SameSteps

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_topics_life(same_steps: SameSteps, topic: str) -> None:
    named = ("--topic", topic)
    settings = ("--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete")
    created = same_steps.run(
        "kafka-topics", "--create", *named, "--partitions", "3", "--replication-factor", "1", *settings
    )
    assert f"Created topic {topic}." in created.stdout
    assert "already exists" in same_steps.run("kafka-topics", "--create", *named).text
    assert same_steps.run("kafka-topics", "--create", *named, "--if-not-exists").status == 0
    described = same_steps.run("kafka-topics", "--describe", *named)
    assert "PartitionCount: 3" in described.stdout
    assert topic in same_steps.tools.run(same_steps.ours, "kafka-topics", "--list").stdout.splitlines()
    same_steps.run("kafka-topics", "--delete", *named)
    assert "does not exist" in same_steps.run("kafka-topics", "--describe", *named).text
