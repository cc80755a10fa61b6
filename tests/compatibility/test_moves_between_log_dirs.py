"""A move between log directories that Apache Kafka 3.9 began and did not end: our broker goes on with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource, NewTopic, ReplicaInfo
from barnabas.clients.producer import Producer
from barnabas.protocol.topic_partition import TopicPartition
from tests.clients.each_broker.each_broker import eventually
from tests.compatibility.data_dirs import adopt, copy_data_dir
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

MOVED = TopicPartition("moved", 0)
BATCHES = 40
BATCH_BYTES = 100_000


def test_a_move_that_kafka_has_not_ended(tmp_path: Path) -> None:
    need_apache_kafka()
    log_dirs = [tmp_path / "kafka-a", tmp_path / "kafka-b"]
    kafka = ApacheKafka(tmp_path / "kafka", {"log.dirs": ",".join(map(str, log_dirs))})
    try:
        kafka.start()
        with Admin(kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(MOVED.topic, 1)])
            with Producer(kafka.bootstrap_servers) as producer:
                for _ in range(BATCHES):
                    producer.send(MOVED.topic, os.urandom(BATCH_BYTES), partition=0).result(30)
            # One fetch of at most a megabyte uses up this rate for minutes: the move stops in the midst of the log.
            # Kafka reads the setting when it changes, and never from its properties.
            slowly = ConfigChange("replica.alter.log.dirs.io.max.bytes.per.second", ConfigOperation.SET, "100")
            admin.incremental_alter_configs(ConfigResource.broker(0), [slowly])
            (source,) = [path for path, _ in _replicas(admin)]
            (target,) = {str(path) for path in log_dirs} - {source}
            assert admin.alter_replica_log_dirs(0, {MOVED: target}) == {MOVED: None}
            copied = eventually(lambda: dict(_replicas(admin)).get(target), lambda found: bool(found and found.size))
        kafka.stop()
    finally:
        kafka.close()
    assert copied is not None
    assert copied.is_future

    ours = BarnabasProcess(tmp_path / "ours")
    ours.log_dirs = tuple(copy_data_dir(path, tmp_path / f"ours-{path.name[-1]}") for path in log_dirs)
    place = {str(path): str(tmp_path / f"ours-{path.name[-1]}") for path in log_dirs}
    adopt(*ours.log_dirs, options=("--ignore-leftovers",))
    with ours.running(), Admin(ours.bootstrap_servers) as admin, RawClient(ours) as client:
        moved = eventually(lambda: dict(_replicas(admin)), lambda found: set(found) == {place[target]})
        assert not moved[place[target]].is_future
        assert client.end_offset(MOVED.topic) == BATCHES
        client.produce_values(MOVED.topic, b"one more", partition=0)
    name = f"{MOVED.topic}-0/{0:020}.log"
    of_kafka, of_ours = (Path(source) / name).read_bytes(), (Path(place[target]) / name).read_bytes()
    assert of_ours.startswith(of_kafka)
    assert len(of_kafka) > BATCHES * BATCH_BYTES


def _replicas(admin: Admin) -> list[tuple[str, ReplicaInfo]]:
    """The log directories that hold the partition, with its replica there."""
    return [(each.path, each.replicas[MOVED]) for each in admin.describe_log_dirs(0) if MOVED in each.replicas]
