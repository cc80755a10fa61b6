"""kill -9 under load at random moments: after the restart every record acknowledged before is there, once, at its
offset; no batch is torn; every topic whose creation was answered exists.

The page cache survives a kill, so this alone proves little about power cuts: tests/simulation has a disk that forgets.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.records.record_batch import batches
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server
from tests.support.stored_batches import stored_batches

TOPIC = "load"
PARTITIONS = 3
IN_FLIGHT = 5
RECORDS_PER_BATCH = 4

pytestmark = pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka cannot be restarted within ZooKeeper's session time-out"
)


class Load:
    """Producers, one a partition, and a creator of topics: they note what was acknowledged, until they are cut off."""

    def __init__(self, server: Server, life: int) -> None:
        self._server = server
        self._life = life
        self.records: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
        """Acknowledged values by offset, a partition each."""
        self.topics: list[str] = []
        """Topics whose creation was acknowledged."""
        self._threads = [threading.Thread(target=self._produce, args=(partition,)) for partition in range(PARTITIONS)]
        self._threads.append(threading.Thread(target=self._create_topics))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _produce(self, partition: int) -> None:
        acknowledged, number = self.records[partition], 0
        in_flight: list[tuple[int, list[bytes]]] = []
        try:
            with RawClient(self._server) as client:
                while True:
                    while len(in_flight) < IN_FLIGHT:
                        size = random.Random(number).randrange(1, 2000)
                        values = [
                            b"%d/%d/%d/%d " % (self._life, partition, number, index) + bytes(size)
                            for index in range(RECORDS_PER_BATCH)
                        ]
                        request = client.produce_request(TOPIC, make_batch(values), 9, acks=-1, partition=partition)
                        in_flight.append((client.send(request, 9), values))
                        number += 1
                    sent, values = in_flight.pop(0)
                    answer = client.receive(ProduceResponse, 9, sent)
                    (result,) = answer.responses[0].partition_responses
                    if result.error_code == ErrorCode.NONE:
                        acknowledged.update((result.base_offset + i, value) for i, value in enumerate(values))
        except (ConnectionClosed, OSError):
            return

    def _create_topics(self) -> None:
        try:
            with RawClient(self._server) as client:
                for number in range(20):
                    name = f"created-{self._life}-{number}"
                    new = CreateTopicsRequest.CreatableTopic(name, 2, 1)
                    (result,) = client.call(CreateTopicsRequest([new], 10_000), 5, CreateTopicsResponse).topics
                    if result.error_code == ErrorCode.NONE:
                        self.topics.append(name)
        except (ConnectionClosed, OSError):
            return


def _read_everything(client: RawClient, partition: int) -> dict[int, bytes | None]:
    """Every record of the partition; offsets must rise without a hole."""
    read: dict[int, bytes | None] = {}
    while True:
        fetched = client.fetch(TOPIC, len(read), partition=partition, partition_max_bytes=8 << 20)
        assert fetched.error_code == ErrorCode.NONE
        found = [record for batch in batches(record_bytes(fetched)) for record in batch.records()]
        if not found:
            return read
        for record in found:
            if record.offset >= len(read):  # a batch is answered whole, from its beginning
                assert record.offset == len(read)
                read[record.offset] = record.value


def _kill_again_and_again(mode: str, directory: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    # small segments and a dense index, so that kills hit rolls and index writes too
    server = make_server(mode, directory, log_segment_bytes="262144", log_index_interval_bytes="512")
    server.start()
    with RawClient(server) as client:
        client.create_topic(TOPIC, PARTITIONS)
    acknowledged: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
    topics: list[str] = []
    for life in range(kills):
        load = Load(server, life)
        load.start()
        time.sleep(chance.uniform(0.02, 0.8))
        server.kill()
        load.join()
        for partition, more in enumerate(load.records):
            assert not acknowledged[partition].keys() & more.keys(), "an offset was acknowledged twice"
            acknowledged[partition] |= more
        topics += load.topics
        server.start()
        with RawClient(server) as client:
            client.wait_for_leaders(TOPIC, PARTITIONS)
            for name in topics:
                client.wait_for_leaders(name, 2)
            for partition in range(PARTITIONS):
                read = _read_everything(client, partition)
                expected = acknowledged[partition]
                assert {offset: read.get(offset) for offset in expected} == expected
                values = list(read.values())
                assert len(set(values)) == len(values), "a record is there twice"
                assert sum(batch.count for batch in stored_batches(server.data_dir, TOPIC, partition)) == len(values)
    assert all(acknowledged)
    assert server.stop() == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_few_kills(mode: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    _kill_again_and_again(mode, tmp_path_factory.mktemp("kill"), kills=3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_twenty_kills(mode: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    _kill_again_and_again(mode, tmp_path_factory.mktemp("kill"), kills=20, seed=2)
