"""A stopped Apache Kafka's log directory, adopted and served by us, answers as Kafka did before it stopped."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from tests.compatibility.contents import (
    BROKER_PROPERTIES,
    CODECS,
    COMPACTED,
    IDEMPOTENT,
    PARTITIONS,
    commit_some_offsets,
    fill,
    fill_by_clients,
    fill_codecs,
    fill_transactions,
    wait_until_cleaned,
)
from tests.compatibility.data_dirs import adopt, copy_data_dir
from tests.compatibility.observation import PIECES, Observation, observe
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_znodes import kafka_znodes
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

INTERNAL = {"__consumer_offsets": 2, "__transaction_state": 2}
TOPICS = PARTITIONS | INTERNAL
ENDS = ("stopped", "killed")


class Left(NamedTuple):
    """A directory that Apache Kafka left, and what it had answered."""

    data_dir: Path
    answers: Observation


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """One Kafka: filled, killed, started again in later leader epochs, filled on, stopped."""
    need_apache_kafka()
    directory = tmp_path_factory.mktemp("kafka")
    kafka = ApacheKafka(directory / "kafka", BROKER_PROPERTIES)
    try:
        kafka.start()
        fill(kafka)
        fill_by_clients(kafka)
        fill_transactions(kafka)
        commit_some_offsets(kafka)
        wait_until_cleaned(kafka.data_dir, COMPACTED)
        answers = observe(kafka, TOPICS)
        kafka.kill()
        killed = Left(copy_data_dir(kafka.data_dir, directory / "killed"), answers)
        with kafka_znodes(kafka.zookeeper) as znodes:
            znodes.wait_for_session_end()
            for partition in (TopicPartition(CODECS, 0), TopicPartition(IDEMPOTENT, 1)):
                znodes.raise_leader_epoch(partition, 3)
        kafka.start()
        _fill_on(kafka)
        answers = observe(kafka, TOPICS)
        kafka.stop()
    finally:
        kafka.close()
    return {"killed": killed, "stopped": Left(copy_data_dir(kafka.data_dir, directory / "stopped"), answers)}


def _fill_on(kafka: ApacheKafka) -> None:
    with RawClient(kafka) as client:
        for topic, partitions in PARTITIONS.items():
            client.wait_for_leaders(topic, partitions)
        fill_codecs(client, CODECS, random.Random(2), batches=10)


@pytest.fixture(scope="module")
def answers(left: dict[str, Left], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Observation]:
    """What we answer over each directory."""
    found = {}
    for end, (data_dir, _) in left.items():
        adopt(data_dir)
        properties = BROKER_PROPERTIES | {"log.cleaner.enable": "false"}
        ours = BarnabasProcess(tmp_path_factory.mktemp(f"ours-{end}"), properties)
        ours.data_dir = data_dir
        with ours.running():
            found[end] = observe(ours, TOPICS)
    return found


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("end", ENDS)
def test_same_answers(left: dict[str, Left], answers: dict[str, Observation], end: str, piece: str, topic: str) -> None:
    for partition in range(TOPICS[topic]):
        key = (piece, topic, partition)
        assert not isinstance(left[end].answers[key], str), left[end].answers[key]
        assert answers[end][key] == left[end].answers[key], key


def test_the_directory_held_what_it_was_meant_to(left: dict[str, Left]) -> None:
    stopped = left["stopped"]
    answers = stopped.answers
    assert len(answers["leader_epochs", CODECS, 0]) > 3
    assert answers["bounds", "transactions", 0]["last stable offset"] < answers["bounds", "transactions", 0]["end"]
    assert any(aborted for _, aborted, _ in answers["aborted_transactions", "transactions", 1].values())
    assert len(answers["producers", IDEMPOTENT, 0]) == 3
    offsets = [record.offset for record in answers["records", COMPACTED, 0]]
    assert len(offsets) < offsets[-1] / 2
    for topic in (CODECS, IDEMPOTENT, "transactions"):
        assert len(list((stopped.data_dir / f"{topic}-0").glob("*.log"))) > 2
