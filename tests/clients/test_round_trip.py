"""Each client creates a topic, produces 10,000 records with keys and headers in each codec, and reads them back.

Reading is by assigned partitions and explicit offsets. What lies on the disk is checked as well: a client that
silently drops compression would otherwise pass.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.clients.aiokafka_driver import AiokafkaDriver
from tests.clients.client_driver import ClientDriver, ReadRecord, SentRecord, make_records
from tests.clients.confluent_kafka_driver import ConfluentKafkaDriver
from tests.clients.java_console_driver import JavaConsoleDriver
from tests.clients.kafka_python_driver import KafkaPythonDriver
from tests.clients.kcat_driver import KcatDriver
from tests.support.apache_kafka import need_apache_kafka
from tests.support.requirements import need_program
from tests.support.server_fixtures import MODES, Server
from tests.support.stored_batches import CODECS, stored_batches

RECORDS = 10_000
PYTHON_DRIVERS = (ConfluentKafkaDriver, KafkaPythonDriver, AiokafkaDriver)

# every codec in the first mode, one in the others: the codec changes nothing about who runs the request
CASES = [(MODES[0], codec) for codec in CODECS] + [(mode, "zstd") for mode in MODES[1:]]
each_case = pytest.mark.parametrize(("server", "codec"), CASES, indirect=["server"])


@each_case
@pytest.mark.parametrize("driver_class", PYTHON_DRIVERS, ids=lambda driver: driver.name)
def test_python_client(server: Server, driver_class: type[ClientDriver], codec: str, topic: str) -> None:
    _round_trip(server, driver_class(), codec, topic)


@each_case
def test_kcat(server: Server, codec: str, topic: str) -> None:
    _round_trip(server, KcatDriver(need_program("kcat")), codec, topic)


@pytest.mark.java
@pytest.mark.slow
@each_case
def test_java_console(server: Server, codec: str, topic: str, tmp_path: Path) -> None:
    need_apache_kafka()
    _round_trip(server, JavaConsoleDriver(tmp_path), codec, topic)


def _round_trip(server: Server, driver: ClientDriver, codec: str, topic: str) -> None:
    sent = make_records(driver, RECORDS, seed=zlib.crc32(f"{driver.name} {codec}".encode()))
    driver.create_topic(server.bootstrap_servers, topic, driver.partitions)
    driver.produce(server.bootstrap_servers, topic, codec, sent)

    expected = _as_stored(sent)
    counts = {partition: len(records) for partition, records in expected.items()}
    _assert_stored(server, topic, codec, counts)

    everything = driver.read(server.bootstrap_servers, topic, dict.fromkeys(counts, 0), RECORDS)
    assert _by_partition(everything) == expected

    half = {partition: count // 2 for partition, count in counts.items()}
    rest = sum(counts[partition] - half[partition] for partition in counts)
    second_half = driver.read(server.bootstrap_servers, topic, half, rest)
    assert _by_partition(second_half) == {p: records[half[p] :] for p, records in expected.items()}


def _as_stored(sent: list[SentRecord]) -> dict[int, list[ReadRecord]]:
    """What was sent to each partition, with the offsets that its order gives."""
    partitions: defaultdict[int, list[ReadRecord]] = defaultdict(list)
    for record in sent:
        placed = partitions[record.partition]
        placed.append(ReadRecord(record.partition, len(placed), record.key, record.value, record.headers))
    return dict(partitions)


def _by_partition(records: Iterable[ReadRecord]) -> dict[int, list[ReadRecord]]:
    partitions: defaultdict[int, list[ReadRecord]] = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    return dict(partitions)


def _assert_stored(server: Server, topic: str, codec: str, counts: dict[int, int]) -> None:
    for partition, count in counts.items():
        batches = stored_batches(server.data_dir, topic, partition)
        assert {batch.codec for batch in batches} == {codec}
        assert sum(batch.count for batch in batches) == count
        assert [batch.base_offset for batch in batches[1:]] == [batch.last_offset + 1 for batch in batches[:-1]]
