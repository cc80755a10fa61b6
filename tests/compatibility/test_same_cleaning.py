"""Over the same files, Apache Kafka's log cleaner and ours keep the same records, markers and batches."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.record_batch import RecordBatch
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.compatibility.contents import (
    BROKER_PROPERTIES,
    KEEP,
    STAMP,
    cleaner_checkpoint,
    fill_compacted,
    fill_idempotent,
    fill_transactions,
    produce,
    wait_until_cleaned,
)
from tests.compatibility.data_dirs import adopt, copy_data_dir
from tests.compatibility.observation import Observation, observe
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_znodes import kafka_znodes
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

COMPACT = KEEP | {"cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.01"}
HOUR_MS = 3_600_000
KEYS, TOMBSTONES, LAGGING, SEQUENCES, MARKERS, OLD_MARKERS = (
    "keys",
    "tombstones",
    "lagging",
    "sequences",
    "markers",
    "old-markers",
)
TOPICS = {
    KEYS: COMPACT | {"delete.retention.ms": "86400000"},
    TOMBSTONES: COMPACT | {"delete.retention.ms": "0"},
    LAGGING: COMPACT | {"min.compaction.lag.ms": str(HOUR_MS)},
    SEQUENCES: COMPACT | {"delete.retention.ms": "86400000"},
    MARKERS: COMPACT | {"delete.retention.ms": "86400000"},
    OLD_MARKERS: COMPACT | {"delete.retention.ms": "0"},
}
AGAIN = (TOMBSTONES, OLD_MARKERS)
"""A tombstone goes when its segment is cleaned for the second time, the marker of an empty transaction at the third."""
CLEANED_WHOLE = [topic for topic in TOPICS if topic != LAGGING]


class Cleaned(NamedTuple):
    """What is left after cleaning, and up to where each topic was cleaned."""

    answers: Observation
    checkpoint: dict[str, int]


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cleaned, Cleaned]]:
    """By Kafka, and by us: the files are the same to begin with, and what is added later is."""
    need_apache_kafka()
    directory = tmp_path_factory.mktemp("cleaning")
    idle = ApacheKafka(directory / "kafka", BROKER_PROPERTIES | {"log.cleaner.enable": "false"})
    ours = BarnabasProcess(directory / "ours", BROKER_PROPERTIES)
    kafka = ApacheKafka(directory / "kafka", BROKER_PROPERTIES)
    kafka.zookeeper = idle.zookeeper
    try:
        idle.start()
        _fill(idle)
        ServerProcess.stop(idle)
        copy_data_dir(idle.data_dir, ours.data_dir)
        adopt(ours.data_dir, configs=TOPICS)
        with kafka_znodes(kafka.zookeeper) as znodes:
            for topic in TOPICS:  # as ours does, which was told of them anew
                znodes.raise_leader_epoch(TopicPartition(topic, 0), 1)
        ours.start()
        kafka.start()
        yield _clean(kafka, kafka.data_dir), _clean(ours, ours.data_dir)
    finally:
        ours.close()
        kafka.close()


def _fill(server: ServerProcess) -> None:
    chance = random.Random(11)
    now = int(time.time() * 1000)
    with RawClient(server) as client:
        for topic in (KEYS, TOMBSTONES, LAGGING):
            client.create_topic(topic, 1, TOPICS[topic])
            fill_compacted(client, topic, chance, start=now - 2 * HOUR_MS if topic == LAGGING else STAMP)
        fill_compacted(client, LAGGING, chance, start=now)
        client.create_topic(SEQUENCES, 2, TOPICS[SEQUENCES])
        fill_idempotent(client, chance, batches=120, topic=SEQUENCES)
    for topic in (MARKERS, OLD_MARKERS):
        fill_transactions(server, topic, partitions=1, configs=TOPICS[topic], leave_open=False)


def _clean(server: ServerProcess, data_dir: Path) -> Cleaned:
    """Wait for the first cleaning; twice let another segment become cleanable, and wait for the next."""
    wait_until_cleaned(data_dir, *CLEANED_WHOLE)
    with RawClient(server) as client:
        for topic in TOPICS:
            client.wait_for_leaders(topic, 2 if topic == SEQUENCES else 1)
        for turn in range(2):
            for topic in AGAIN:
                builder = RecordBatchBuilder()
                builder.append(STAMP, b"turn %d" % turn, b"x" * 3000)
                for _ in range(2):
                    produce(client, topic, builder.build())
            wait_until_cleaned(data_dir, *CLEANED_WHOLE)
    _wait_until_settled(data_dir)
    return Cleaned(observe(server, dict.fromkeys(TOPICS, 1)), cleaner_checkpoint(data_dir))


def _wait_until_settled(data_dir: Path) -> None:
    """Return when the topic of which not all may be cleaned has been cleaned as far as it may."""
    wait_until(lambda: LAGGING in cleaner_checkpoint(data_dir), 60)


def _batch(stored: str) -> Any:
    batch = RecordBatch(bytes.fromhex(stored))
    return (
        batch.base_offset,
        batch.last_offset,
        batch.count,
        batch.base_sequence,
        batch.last_sequence,
        batch.producer_id,
        batch.producer_epoch,
        batch.partition_leader_epoch,
        batch.is_control,
        batch.is_transactional,
        batch.codec,
        batch.max_timestamp,
        batch.delete_horizon_ms is not None,
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_records_are_kept(cleaned: tuple[Cleaned, Cleaned], topic: str) -> None:
    kafkas, ours = cleaned
    assert kafkas.checkpoint[topic] == ours.checkpoint[topic]
    for piece in ("bounds", "records"):
        assert ours.answers[piece, topic, 0] == kafkas.answers[piece, topic, 0]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_batches_are_kept(cleaned: tuple[Cleaned, Cleaned], topic: str) -> None:
    """Markers, and the empty batches that keep a producer's last sequence number, among them."""
    kafkas, ours = ([_batch(stored) for _, stored in one.answers["stored_batches", topic, 0]] for one in cleaned)
    assert ours == kafkas


@pytest.mark.parametrize("topic", TOPICS)
def test_readers_are_told_the_same(cleaned: tuple[Cleaned, Cleaned], topic: str) -> None:
    kafkas, ours = cleaned
    for piece in ("producers", "aborted_transactions", "leader_epochs"):
        assert ours.answers[piece, topic, 0] == kafkas.answers[piece, topic, 0], piece


def test_cleaning_meant_something(cleaned: tuple[Cleaned, Cleaned]) -> None:
    kafkas, _ = cleaned
    assert any(record.value is None for record in kafkas.answers["records", KEYS, 0])
    for topic in TOPICS:
        end = kafkas.answers["bounds", topic, 0]["end"]
        assert 0 < len(kafkas.answers["records", topic, 0]) < end
    controls = {
        topic: sum(_batch(stored)[8] for _, stored in kafkas.answers["stored_batches", topic, 0])
        for topic in (MARKERS, OLD_MARKERS)
    }
    assert controls[OLD_MARKERS] < controls[MARKERS]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_bytes_are_written(cleaned: tuple[Cleaned, Cleaned], topic: str) -> None:
    """But for delete horizons, which say when each was cleaned, and for what the codecs make of the same records."""
    kafkas, ours = ([bytes.fromhex(stored) for _, stored in one.answers["stored_batches", topic, 0]] for one in cleaned)
    for kafkas_bytes, our_bytes in zip(kafkas, ours, strict=True):
        kafkas_batch, our_batch = RecordBatch(kafkas_bytes), RecordBatch(our_bytes)
        if kafkas_batch.delete_horizon_ms is not None:
            assert list(our_batch.records()) == list(kafkas_batch.records())
            continue
        assert our_batch.attributes == kafkas_batch.attributes
        assert our_batch.base_timestamp == kafkas_batch.base_timestamp
        assert our_batch.decompressed_records() == kafkas_batch.decompressed_records()
        if not kafkas_batch.codec:
            assert our_bytes == kafkas_bytes
