"""What a Kafka in KRaft mode left is adopted like any other: with several log directories here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.contents import BROKER_PROPERTIES, CONFIGS, PARTITIONS, fill
from tests.compatibility.data_dirs import adopt, partition_counts
from tests.compatibility.observation import observe
from tests.support.apache_kafka import need_apache_kafka
from tests.support.apache_kafka_kraft import CLUSTER_ID, NODE_ID, KraftKafka
from tests.support.barnabas_process import BarnabasProcess

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPICS = {topic: count for topic, count in PARTITIONS.items() if topic in {"codecs", "append-time", "idempotent"}}


def test_same_answers(tmp_path: Path) -> None:
    need_apache_kafka()
    first, second = tmp_path / "first", tmp_path / "second"
    properties = BROKER_PROPERTIES | {"log.cleaner.enable": "false"}
    kafka = KraftKafka(tmp_path / "kafka", properties | {"log.dirs": f"{first},{second}"})
    kafka.data_dir = first
    try:
        kafka.start()
        fill(kafka)
        answers = observe(kafka, TOPICS)
    finally:
        kafka.close()
    assert partition_counts(second), "nothing was put into the second directory"
    printed = adopt(first, second, configs=CONFIGS)
    assert f"broker {NODE_ID} of cluster {CLUSTER_ID}" in printed
    assert "KRaft's metadata, left alone" in printed
    ours = BarnabasProcess(tmp_path / "ours", properties | {"broker.id": str(NODE_ID)})
    ours.log_dirs = (first, second)
    with ours.running():
        found = observe(ours, TOPICS)
    for key, answer in answers.items():
        assert not isinstance(answer, str), answer
        assert found[key] == answer, key
