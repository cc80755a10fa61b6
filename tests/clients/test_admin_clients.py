"""Other people's admin clients and tools change settings, delete records, and look at replicas and producers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from kafka import KafkaAdminClient
from kafka.admin import AlterConfigOp
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.structs import TopicPartition as PythonTopicPartition

from tests.support.apache_kafka import (
    CONFIG_COMMAND,
    DELETE_RECORDS_COMMAND,
    LOG_DIRS_COMMAND,
    TRANSACTIONS_COMMAND,
    ToolFailed,
    need_apache_kafka,
    run_tool,
)
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import Server

SECONDS = 60
EARLIEST = -2
DYNAMIC_TOPIC_CONFIG = 1
PRODUCER_ID = 4_711


@pytest.fixture
def filled(server: Server, topic: str) -> str:
    """A topic whose first partition has ten records of one idempotent producer."""
    with RawClient(server) as client:
        client.create_topic(topic, partitions=2, configs={"retention.ms": "12345678"})
        values = [b"value"] * 10
        client.produce(topic, make_batch(values, producer_id=PRODUCER_ID, producer_epoch=2, base_sequence=0))
    return topic


def earliest(server: Server, topic: str) -> int:
    """The first offset of the first partition."""
    with RawClient(server) as client:
        return client.list_offset(topic, EARLIEST).offset


def test_confluent_kafka_changes_settings(server: Server, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})

    def settings() -> dict[str, ConfigEntry]:
        resource = ConfigResource(ResourceType.TOPIC, filled)
        found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(SECONDS)
        return found

    before = settings()
    assert before["retention.ms"].value == "12345678"
    source: object = before["retention.ms"].source  # a number, whatever its type hint says
    assert source == DYNAMIC_TOPIC_CONFIG
    assert before["segment.bytes"].is_default
    changes = [
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("segment.bytes", "100000", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ResourceType.TOPIC, filled, incremental_configs=changes)
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)
    after = settings()
    names = ("cleanup.policy", "retention.ms", "segment.bytes")
    assert [after[name].value for name in names] == ["delete,compact", "604800000", "100000"]
    wrong = ConfigResource(
        ResourceType.TOPIC,
        filled,
        incremental_configs=[ConfigEntry("segment.bytes", "1", incremental_operation=AlterConfigOpType.SET)],
    )
    with pytest.raises(KafkaException, match="Value must be at least 14"):
        admin.incremental_alter_configs([wrong])[wrong].result(SECONDS)


def test_confluent_kafka_deletes_records(server: Server, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(filled, 0, 4)]).values()
    assert deleted.result(SECONDS).low_watermark == 4
    assert earliest(server, filled) == 4
    (refused,) = admin.delete_records([TopicPartition(filled, 0, 11)]).values()
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        refused.result(SECONDS)


def test_kafka_python_changes_settings(server: Server, filled: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    try:
        changes = {"retention.ms": (AlterConfigOp.DELETE, None), "segment.bytes": (AlterConfigOp.SET, "100000")}
        admin.alter_configs([PythonConfigResource("TOPIC", filled, changes)])
        described = admin.describe_configs([PythonConfigResource("TOPIC", filled)])
        assert "segment.bytes" in json.dumps(described, default=str)
        assert "retention.ms" not in json.dumps(described, default=str), "only what was set is shown"
        replaced = [PythonConfigResource("TOPIC", filled, {"flush.messages": "7"})]
        admin.alter_configs(replaced, incremental=False)
        described = admin.describe_configs([PythonConfigResource("TOPIC", filled)])
        assert "flush.messages" in json.dumps(described, default=str)
        assert "segment.bytes" in json.dumps(described, default=str), "the client fills in what was set before"
    finally:
        admin.close()


def test_kafka_python_looks_at_replicas_and_producers(server: Server, filled: str) -> None:
    place = PythonTopicPartition(filled, 0)
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    try:
        assert str(server.data_dir) in json.dumps(admin.describe_log_dirs(), default=str)
        (states,) = admin.describe_producers([place]).values()
        (state,) = states.active_producers
        assert (state.producer_id, state.producer_epoch, state.last_sequence) == (PRODUCER_ID, 2, 9)
        admin.delete_records({place: 3})
    finally:
        admin.close()
    assert earliest(server, filled) == 3


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kafkas_own_tools(server: Server, filled: str, tmp_path: Path) -> None:
    need_apache_kafka()
    place = ["--bootstrap-server", server.bootstrap_servers]
    entity = ["--entity-type", "topics", "--entity-name", filled]

    changes = ["--alter", "--add-config", "cleanup.policy=[compact,delete],segment.bytes=100000"]
    run_tool(CONFIG_COMMAND, *place, *entity, *changes, "--delete-config", "retention.ms", directory=tmp_path)
    shown = run_tool(CONFIG_COMMAND, *place, *entity, "--describe", directory=tmp_path)
    assert "segment.bytes=100000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=100000, " in shown
    assert "cleanup.policy=compact,delete " in shown
    assert "retention.ms" not in shown
    with pytest.raises(ToolFailed, match=r"Unknown topic config name: no\.such\.setting"):
        run_tool(CONFIG_COMMAND, *place, *entity, "--alter", "--add-config", "no.such.setting=1", directory=tmp_path)
    broker = ["--entity-type", "brokers", "--entity-name", "0"]
    everything = run_tool(CONFIG_COMMAND, *place, *broker, "--describe", "--all", directory=tmp_path)
    assert "num.partitions=2 sensitive=false" in everything

    offsets = tmp_path / "offsets.json"
    wanted = {"partitions": [{"topic": filled, "partition": 0, "offset": 6}], "version": 1}
    offsets.write_text(json.dumps(wanted))
    deleted = run_tool(DELETE_RECORDS_COMMAND, *place, "--offset-json-file", str(offsets), directory=tmp_path)
    assert f"partition: {filled}-0\tlow_watermark: 6" in deleted
    assert earliest(server, filled) == 6

    listed = run_tool(LOG_DIRS_COMMAND, *place, "--describe", "--topic-list", filled, directory=tmp_path)
    (broker_found,) = json.loads(listed.splitlines()[-1])["brokers"]
    (directory,) = broker_found["logDirs"]
    assert (directory["logDir"], directory["error"]) == (str(server.data_dir), None)
    assert {each["partition"] for each in directory["partitions"]} == {f"{filled}-0", f"{filled}-1"}

    producers = run_tool(
        TRANSACTIONS_COMMAND, *place, "describe-producers", "--topic", filled, "--partition", "0", directory=tmp_path
    )
    assert str(PRODUCER_ID) in producers
