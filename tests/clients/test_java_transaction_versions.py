"""Java's producer of Kafka 4 at both levels of transaction.version: what it writes, and the epochs it is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, FeatureUpdate, NewTopic
from barnabas.clients.consumer import Consumer
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.maven import counterparts_needed, fetch_jars, find_java
from tests.support.server_fixtures import make_server
from tests.support.transaction_markers import wait_for_markers

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("TransactionalWriter.java")
POM = Path(__file__).parent.parent / "wire" / "kafka-clients-4.xml"
TRANSACTIONS = 60
TOPIC = "numbers"


@pytest.mark.parametrize("level", [0, 2])
def test_what_is_committed_is_read_once(level: int, tmp_path: Path) -> None:
    with counterparts_needed():
        command = [find_java(), "-Xmx256m", "-cp", f"{fetch_jars(POM)}/*", str(PROGRAM)]
    server = make_server("inline", tmp_path / "server")
    with server.running():
        bootstrap = f"{server.host}:{server.port}"
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 2)])
            if level:
                admin.update_features({"transaction.version": FeatureUpdate(level)})
            arguments = [bootstrap, TOPIC, str(TRANSACTIONS)]
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
            assert done.stdout.endswith("done\n"), done.stderr
            partitions = [TopicPartition(TOPIC, number) for number in range(2)]
            wait_for_markers(bootstrap, partitions)
            with_records = [number for number in range(TRANSACTIONS) if number % 5]
            committed = [number for number in with_records if number % 3]
            offsets = admin.list_group_offsets(TOPIC, require_stable=True)
            assert offsets[partitions[0]].offset == committed[-1]
            epoch = admin.describe_transactions([TOPIC])[TOPIC].producer_epoch
            assert epoch >= len(with_records) if level else epoch == 0
        for partition in partitions:
            assert _read(bootstrap, partition) == committed


def _read(bootstrap: str, partition: TopicPartition) -> list[int]:
    """Read what is committed in a partition."""
    values: list[int] = []
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        consumer.seek_to_beginning([partition])
        while consumer.position(partition) < end:
            values.extend(int(record.value or b"") for record in consumer.poll(1000))
    return values
