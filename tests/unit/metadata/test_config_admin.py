"""Settings of topics are changed with Kafka's list arithmetic, checked as a whole, and no change loses another."""

from __future__ import annotations

import threading

import pytest

from barnabas.broker.settings.dynamic_broker_config import DynamicBrokerConfig
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.kept_settings import KEPT_TOPIC_KEYS
from barnabas.metadata.config_admin import AlterConfigOp, ConfigAdmin
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.stored_configs import ConfigRepository
from barnabas.protocol.codes import ConfigOperation
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.uuid import random_uuid
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import StoreUnavailableError
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
THROTTLED = "leader.replication.throttled.replicas"


class Fixture:
    """The topic `orders`, which sets `retention.ms`."""

    def __init__(self, **broker: str) -> None:
        clock = MockClock()
        zk = KafkaZkClient(InlineStore(clock).new_session(), clock)
        zk.make_sure_persistent_paths_exist()
        zk.topics.create("orders", random_uuid(), {0: [0]}, {"retention.ms": "1"})
        self.repository = ConfigRepository(zk)
        metadata = MetadataCache(0)
        state = UpdateMetadataRequest.UpdateMetadataPartitionState(leader=0, isr=[0], replicas=[0])
        told = UpdateMetadataRequest.UpdateMetadataTopicState("orders", partition_states=[state])
        metadata.update_metadata(UpdateMetadataRequest(topic_states=[told]))
        config = KafkaConfig.parse({name.replace("_", "."): value for name, value in broker.items()})
        self.admin = ConfigAdmin(self.repository, metadata, DynamicBrokerConfig(config))

    def change(self, *changes: tuple[str, ConfigOperation, str | None]) -> dict[str, str]:
        self.admin.change_topic_config("orders", [AlterConfigOp(*each) for each in changes])
        return self.settings()

    def settings(self) -> dict[str, str]:
        return self.repository.topic_overrides("orders")


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        ("", APPEND, "0:1", "0:1"),
        ("0:1", APPEND, "0:1,0:2", "0:1,0:2"),
        ("0:1,0:2", APPEND, "0:3,,", "0:1,0:2,0:3"),
        ("0:1,0:2,0:3", SUBTRACT, "0:2,0:9", "0:1,0:3"),
        ("0:1", SUBTRACT, "0:1", ""),
        ("", SUBTRACT, "0:1", ""),
    ],
)
def test_lists(before: str, operation: ConfigOperation, value: str, after: str) -> None:
    fixture = Fixture()
    fixture.admin.replace_topic_config("orders", {THROTTLED: before})
    assert fixture.change((THROTTLED, operation, value)) == {THROTTLED: after}


def test_a_list_the_topic_does_not_set_starts_from_kafkas_default_not_the_brokers() -> None:
    fixture = Fixture(log_cleanup_policy="compact")
    assert fixture.change(("cleanup.policy", APPEND, "compact"))["cleanup.policy"] == "delete,compact"


def test_changes_are_made_in_order_and_checked_together() -> None:
    fixture = Fixture()
    changed = fixture.change(
        ("min.compaction.lag.ms", SET, "7"), ("max.compaction.lag.ms", SET, "9"), ("no.such.setting", DELETE, None)
    )
    assert changed == {"retention.ms": "1", "min.compaction.lag.ms": "7", "max.compaction.lag.ms": "9"}
    with pytest.raises(ApiError) as raised:
        fixture.change(("flush.ms", SET, "5"), ("max.compaction.lag.ms", SET, "6"))
    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert fixture.settings() == changed


def test_the_brokers_own_settings_count() -> None:
    fixture = Fixture(log_cleaner_min_compaction_lag_ms="100")
    with pytest.raises(ApiError, match=r"min\.compaction\.lag\.ms \(100\) > max\.compaction\.lag\.ms \(50\)"):
        fixture.change(("max.compaction.lag.ms", SET, "50"))


def test_unknown_names_come_before_bad_values() -> None:
    with pytest.raises(ApiError, match="Unknown topic config name: z"):
        Fixture().admin.replace_topic_config("orders", {"retention.ms": "soon", "z": "1"})
    with pytest.raises(ApiError, match="Unknown config name: z"):
        Fixture().change(("z", APPEND, "1"))


@pytest.mark.parametrize("name", ["../brokers", "a/b", "nothing"])
def test_a_name_that_is_no_topic_is_never_looked_up(name: str) -> None:
    fixture = Fixture()
    with pytest.raises(ApiError) as changed:
        fixture.admin.change_topic_config(name, [])
    with pytest.raises(ApiError) as replaced:
        fixture.admin.replace_topic_config(name, {})
    assert {changed.value.code, replaced.value.code} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_store_that_is_gone_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fixture = Fixture()

    def gone(topic: str) -> dict[str, str]:
        raise StoreUnavailableError("the disk is full")

    monkeypatch.setattr(fixture.repository, "topic_overrides", gone)
    with pytest.raises(ApiError, match="the disk is full") as raised:
        fixture.change(("flush.ms", SET, "1"))
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_changes_at_once_lose_nothing() -> None:
    fixture = Fixture()
    names = ["flush.ms", "segment.ms", "flush.messages", "segment.bytes"]
    start = threading.Barrier(len(names))

    def change(name: str) -> None:
        start.wait()
        for value in range(100, 130):
            fixture.admin.change_topic_config("orders", [AlterConfigOp(name, SET, str(value))])

    threads = [threading.Thread(target=change, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fixture.settings() == {"retention.ms": "1"} | dict.fromkeys(names, "129")


def test_a_topics_change_that_nothing_acts_on_is_said_to_be_one(caplog: pytest.LogCaptureFixture) -> None:
    fixture = Fixture()
    tiered = "local.retention.ms"
    for _ in range(2):
        fixture.admin.replace_topic_config("orders", {tiered: "5", "retention.ms": "5"})
    said = [record.getMessage() for record in caplog.records if "nothing acts" in record.getMessage()]
    kept = f"{tiered} ({KEPT_TOPIC_KEYS[tiered]})"
    assert said == [f"Settings of topic orders are kept, and nothing acts on them: {kept}"]
