"""A log directory that Apache Kafka 3.9 wrote, kept with the tests, and what that Kafka answered about it.

So that every test run opens files of Kafka's, with no Java there. `python -m tests.compatibility.golden` writes both
anew; it needs Java and Maven.
"""

from __future__ import annotations

import json
import random
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.compatibility.contents import (
    BROKER_PROPERTIES,
    fill_compacted,
    fill_transactions,
    produce,
    wait_until_cleaned,
)
from tests.compatibility.observation import PIECES, Observation, observe
from tests.support.apache_kafka import ApacheKafka
from tests.support.kafka_znodes import kafka_znodes
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess

DIRECTORY = Path(__file__).with_name("kafka-3.9-log-dir.zip")
ANSWERS = Path(__file__).with_name("kafka-3.9-answers.json")
FAR_AHEAD = 4_000_000_000_000
"""In 2096: until then nobody forgets these producers."""

ORDERS, COMPACTED, TRANSACTIONS = "orders", "compacted", "transactions"
SMALL = {"retention.ms": "-1", "segment.bytes": "1000", "index.interval.bytes": "200"}
CONFIGS = {
    ORDERS: SMALL | {"segment.bytes": "400"},
    COMPACTED: SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    TRANSACTIONS: SMALL,
}
TOPICS = {ORDERS: 2, COMPACTED: 1, TRANSACTIONS: 1, "__transaction_state": 1}
PROPERTIES = BROKER_PROPERTIES | {"transaction.state.log.num.partitions": "1"}
PIECES_KEPT = [name for name in PIECES if name != "stored_batches"]  # the directory has them


def fill_orders(client: RawClient, count: int, first_sequence: int) -> None:
    """Batches of an idempotent producer, each codec in turn."""
    for number in range(count):
        for partition in range(2):
            sequence = first_sequence + 2 * number
            builder = RecordBatchBuilder(
                Codec(number % len(Codec)), producer_id=5000, producer_epoch=1, base_sequence=sequence
            )
            for each in range(2):
                stamp = FAR_AHEAD + number * 1000 - each * 500
                builder.append(stamp, b"key-%d" % each, b"value-%d" % (sequence + each), [("n", b"%d" % number)])
            produce(client, ORDERS, builder.build(), partition)


def plain(value: Any) -> Any:
    """The same for every way of having it: JSON's lists, texts and numbers."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return [[plain(key), plain(each)] for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def kept_answers(observation: Observation) -> dict[str, Any]:
    """By `piece topic partition`. Producers of transactions are forgotten in time, so they are left out."""
    return {
        " ".join(map(str, key)): plain(value)
        for key, value in observation.items()
        if key[0] in PIECES_KEPT and key[:2] != ("producers", TRANSACTIONS)
    }


def write(directory: Path) -> None:
    """Have a Kafka fill a directory, ask it, stop it, keep both."""
    kafka = ApacheKafka(directory, PROPERTIES)
    try:
        kafka.start()
        with RawClient(kafka) as client:
            client.create_topic(ORDERS, 2, CONFIGS[ORDERS])
            fill_orders(client, 6, 0)
            client.create_topic(COMPACTED, 1, CONFIGS[COMPACTED])
            fill_compacted(client, COMPACTED, random.Random(7), batches=20)
        fill_transactions(kafka, TRANSACTIONS, partitions=1, configs=CONFIGS[TRANSACTIONS], turns=3)
        wait_until_cleaned(kafka.data_dir, COMPACTED)
        ServerProcess.stop(kafka)
        with kafka_znodes(kafka.zookeeper) as znodes:
            znodes.raise_leader_epoch(TopicPartition(ORDERS, 0), 2)
        kafka.start()
        with RawClient(kafka) as client:
            client.wait_for_leaders(ORDERS, 2)
            fill_orders(client, 2, 12)
        answers = observe(kafka, TOPICS)
        kafka.stop()
    finally:
        kafka.close()
    ANSWERS.write_text("".join(f"{line}\n" for line in _lines(kept_answers(answers))))
    with zipfile.ZipFile(DIRECTORY, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(kafka.data_dir.rglob("*")):
            name = path.relative_to(kafka.data_dir).as_posix()
            if path.is_file() and name != ".lock" and not name.startswith("__consumer_offsets"):
                archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), path.read_bytes(), zipfile.ZIP_DEFLATED)


def _lines(answers: dict[str, Any]) -> list[str]:
    """A JSON object of a line per answer."""
    rows = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in answers.items()]
    return ["{", *(f"{row}," for row in rows[:-1]), rows[-1], "}"]


def unpack(target: Path) -> Path:
    """The directory as Kafka left it."""
    with zipfile.ZipFile(DIRECTORY) as archive:
        archive.extractall(target)
    return target


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        write(Path(scratch))
