"""Apache Kafka, started on a log directory of ours, answers as we did; its ZooKeeper is told of the topics before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.compatibility.conftest import OurDirectories
from tests.compatibility.contents import BROKER_PROPERTIES, CODECS, PARTITIONS
from tests.compatibility.data_dirs import copy_data_dir, start_over_data_dir
from tests.compatibility.observation import PIECES, Observation, observe
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPICS = [topic for topic in PARTITIONS if topic != "transactions"]
ENDS = ("stopped", "killed")


class Opened(NamedTuple):
    """A Kafka that runs on our directory, and what it answers."""

    kafka: ApacheKafka
    answers: Observation


@pytest.fixture(scope="module", params=ENDS)
def opened(
    request: pytest.FixtureRequest, our_directories: OurDirectories, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """A Kafka per end of ours."""
    directory = tmp_path_factory.mktemp(f"kafka-{request.param}")
    kafka = ApacheKafka(directory, BROKER_PROPERTIES | {"log.cleaner.enable": "false"})
    kafka.data_dir = copy_data_dir(our_directories.data_dirs[request.param], directory / "data")
    try:
        start_over_data_dir(kafka)
        with RawClient(kafka) as client:
            for topic, partitions in our_directories.topics.items():
                client.wait_for_leaders(topic, partitions)
        yield Opened(kafka, observe(kafka, our_directories.topics))
    finally:
        kafka.close()


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("piece", PIECES)
def test_same_answers(our_directories: OurDirectories, opened: Opened, piece: str, topic: str) -> None:
    for partition in range(our_directories.topics[topic]):
        key = (piece, topic, partition)
        assert not isinstance(opened.answers[key], str), opened.answers[key]
        assert opened.answers[key] == our_directories.answers[key], key


def test_kafka_had_nothing_to_repair(opened: Opened) -> None:
    """Not one index rebuilt, not one snapshot refused: only what a kill must cost, the recovery of the tail."""
    complaint = re.compile(r" (WARN|ERROR) .*\(([a-z.]*\.)?log\.[A-Za-z]+\$?\)$")
    assert [line for line in opened.kafka.log_text().splitlines() if complaint.search(line)] == []


def test_kafka_goes_on_writing(opened: Opened) -> None:
    with RawClient(opened.kafka) as client:
        end = client.end_offset(CODECS)
        assert client.produce_values(CODECS, b"from Kafka") == end
