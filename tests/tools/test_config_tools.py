"""kafka-configs: topics, brokers (one and all), their loggers, and clients, users and addresses with their quotas."""

from __future__ import annotations

import time

import pytest

from tests.support.waiting import wait_until
from tests.tools.kafka_tools import LOGGING_OF_RELEASE_4, SameSteps, ToolOutput

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

SECONDS = 10
CONFIGS = "kafka-configs"
Entity = tuple[str, ...]
BROKER: Entity = ("--entity-type", "brokers", "--entity-name", "0")
ALL_BROKERS: Entity = ("--entity-type", "brokers", "--entity-default")
LOGGERS: Entity = ("--entity-type", "broker-loggers", "--entity-name", "0")


def described(same_steps: SameSteps, entity: Entity, *words: str) -> ToolOutput:
    """What both say of an entity, once ours shows all of `words`: a change is answered before it is taken over."""
    deadline = time.monotonic() + SECONDS
    while True:
        ours = same_steps.tools.run(same_steps.ours, CONFIGS, "--describe", *entity)
        theirs = same_steps.tools.run(same_steps.theirs, CONFIGS, "--describe", *entity)
        if all(word in output.stdout for word in words for output in (ours, theirs)):
            return same_steps.run(CONFIGS, "--describe", *entity)
        assert time.monotonic() < deadline, (words, ours, theirs)


def altered(same_steps: SameSteps, entity: Entity, *, add: str = "", delete: str = "") -> ToolOutput:
    """Change an entity on both."""
    changes = (("--add-config", add) if add else ()) + (("--delete-config", delete) if delete else ())
    return same_steps.run(CONFIGS, "--alter", *entity, *changes, ignoring=LOGGING_OF_RELEASE_4)


def test_topics(same_steps: SameSteps, topic: str) -> None:
    same_steps.run("kafka-topics", "--create", "--topic", topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    altered(same_steps, entity, add="retention.ms=5000,cleanup.policy=[compact,delete]")
    assert "retention.ms=5000" in described(same_steps, entity).stdout
    altered(same_steps, entity, add="segment.ms=7", delete="retention.ms")
    assert "retention.ms" not in described(same_steps, entity, "segment.ms=7").stdout
    altered(same_steps, entity, add="retention.ms=soon")
    altered(same_steps, entity, add="no.such.setting=1")
    altered(same_steps, ("--entity-type", "topics", "--entity-name", f"{topic}-none"), add="retention.ms=1")


def test_one_broker_and_all(same_steps: SameSteps) -> None:
    altered(same_steps, ALL_BROKERS, add="log.cleaner.backoff.ms=20,background.threads=12")
    altered(same_steps, BROKER, add="log.cleaner.backoff.ms=30,message.max.bytes=2000000")
    ours = described(same_steps, BROKER, "log.cleaner.backoff.ms=30", "message.max.bytes=2000000")
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.backoff.ms=20" in ours.stdout
    described(same_steps, ALL_BROKERS, "background.threads=12")
    altered(same_steps, BROKER, delete="log.cleaner.backoff.ms,message.max.bytes")
    altered(same_steps, ALL_BROKERS, delete="log.cleaner.backoff.ms,background.threads")
    wait_until(
        lambda: "backoff" not in same_steps.tools.run(same_steps.ours, CONFIGS, "--describe", *BROKER).stdout, SECONDS
    )


@pytest.mark.parametrize(
    ("entity", "change"),
    [
        (BROKER, "num.partitions=3"),
        (BROKER, "background.threads=100"),
        (BROKER, "num.io.threads=x"),
        (BROKER, "log.retention.ms=0"),
        (BROKER, "max.connections=0"),
        (BROKER, "ssl.keystore.location=/x"),
        (BROKER, "listener.name.plaintext.ssl.keystore.password=x"),
        (ALL_BROKERS, "listeners=PLAINTEXT://:1"),
        (("--entity-type", "brokers", "--entity-name", "seven"), "num.io.threads=9"),
        (LOGGERS, "root=LOUD"),
        (LOGGERS, "no.such.logger=INFO"),
    ],
)
def test_what_brokers_refuse(same_steps: SameSteps, entity: Entity, change: str) -> None:
    altered(same_steps, entity, add=change)


def test_all_settings_of_a_broker_are_shown(same_steps: SameSteps) -> None:
    """Not compared: they are two brokers."""
    shown = same_steps.tools.run(same_steps.ours, CONFIGS, "--describe", "--all", *BROKER)
    assert shown.status == 0
    assert "log.segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes" in shown.stdout


def test_loggers(same_steps: SameSteps) -> None:
    """Their names are each broker's own, but for the root's."""
    altered(same_steps, LOGGERS, add="root=WARN")
    shown = same_steps.tools.run(same_steps.ours, CONFIGS, "--describe", *LOGGERS).stdout
    assert "root=WARN" in shown
    assert "barnabas.storage.log_manager=WARN" in shown
    altered(same_steps, LOGGERS, add="root=INFO")
    altered(same_steps, LOGGERS, delete="root")


def test_quotas(same_steps: SameSteps) -> None:
    """Of clients, users, both, and addresses; by name and by default."""
    for entity, change in (
        (("--entity-type", "clients", "--entity-name", "reader"), "consumer_byte_rate=1024"),
        (("--entity-type", "clients", "--entity-default"), "request_percentage=50"),
        (("--entity-type", "users", "--entity-name", "alice"), "controller_mutation_rate=5"),
        (("--entity-type", "users", "--entity-default"), "producer_byte_rate=4096"),
        (
            ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "reader"),
            "consumer_byte_rate=512",
        ),
        (("--entity-type", "ips", "--entity-name", "127.0.0.9"), "connection_creation_rate=10"),
        (("--entity-type", "ips", "--entity-default"), "connection_creation_rate=20000"),
    ):
        altered(same_steps, entity, add=change)
        described(same_steps, entity)
        altered(same_steps, entity, add=f"{change.partition('=')[0]}=x")
        altered(same_steps, entity, add="no_such_rate=5")
        altered(same_steps, entity, delete=change.partition("=")[0])
        described(same_steps, entity)


def test_subscriptions_to_client_metrics_exist_in_kraft_only(same_steps: SameSteps) -> None:
    entity = ("--entity-type", "client-metrics", "--entity-name", "all")
    altered(same_steps, entity, add="interval.ms=1000")
    if same_steps.tools.release == "3.9":  # that of 4 asks first which there are, by a request that 3.9 lacks
        same_steps.run(CONFIGS, "--describe", *entity)
