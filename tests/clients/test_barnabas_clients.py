"""Our own producer, consumer, raw fetcher and admin client against a real broker."""

from __future__ import annotations

import pytest

from barnabas.clients.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    FeatureUpdate,
    NewTopic,
    UpgradeType,
)
from barnabas.clients.consumer import Consumer, RawFetcher, TopicPartition
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.records.memory_records import any_batches
from tests.clients.barnabas_driver import BarnabasDriver
from tests.clients.client_driver import each_case, round_trip
from tests.support.server_fixtures import Server


@each_case
@pytest.mark.parametrize("enable_idempotence", [False, True], ids=["plain", "idempotent"])
def test_round_trip_of_our_clients(server: Server, codec: str, topic: str, enable_idempotence: bool) -> None:
    round_trip(server, BarnabasDriver(enable_idempotence=enable_idempotence), codec, topic)


def test_raw_fetches_follow_each_other_to_the_end(server: Server, topic: str) -> None:
    BarnabasDriver().create_topic(server.bootstrap_servers, topic, 1)
    with Producer(server.bootstrap_servers, batch_size=20_000) as producer:
        for number in range(5_000):
            producer.send(topic, b"%d" % number * 50, partition=0)
    offset = 0
    values = []
    with RawFetcher(server.bootstrap_servers) as fetcher:
        while offset < 5_000:
            fetched = fetcher.fetch(topic, 0, offset, max_bytes=200_000)
            assert fetched.high_watermark == 5_000
            batches = list(any_batches(fetched.records))
            offset = batches[-1].next_offset
            fetcher.send_ahead(topic, 0, offset, max_bytes=200_000, max_wait_ms=10)
            values += [record.value for batch in batches for record in batch.records()]
            del batches
            fetched.release()
        with pytest.raises(ApiError) as raised:
            fetcher.fetch(topic, 0, 9_999)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert values == [b"%d" % number * 50 for number in range(5_000)]


def test_a_batch_that_the_broker_finds_too_large_is_split(server: Server, topic: str) -> None:
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, {"max.message.bytes": "2000"})])
    with Producer(server.bootstrap_servers, batch_size=16_384, linger_ms=50, enable_idempotence=True) as producer:
        futures = [producer.send(topic, b"%3d" % number * 100) for number in range(100)]
        too_large = producer.send(topic, bytes(5_000))
        producer.flush()
    assert [future.result(0).offset for future in futures] == list(range(100))
    error = too_large.exception(0)
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_offsets_and_admin_calls(server: Server, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Admin(server.bootstrap_servers) as admin:
        created = admin.create_topics([NewTopic(topic, 2, 1, {"retention.ms": "12345"})])[topic]
        assert (created.num_partitions, created.replication_factor) == (2, 1)
        with pytest.raises(ApiError) as raised:
            admin.create_topics([NewTopic(topic, 2, 1)])
        assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert topic in admin.list_topics()
        description = admin.describe_topics([topic])[topic]
        assert description.topic_id == created.topic_id
        assert [info.leader for info in description.partitions] == [0, 0]
        assert admin.describe_topic_configs(topic)["retention.ms"].value == "12345"
        assert [node.id for node in admin.describe_cluster().nodes] == [0]
        with Producer(server.bootstrap_servers) as producer:
            for number in range(10):
                producer.send(topic, b"v", partition=0, timestamp_ms=1_700_000_000_000 + number)
        assert admin.list_offsets({partition: -1})[partition].offset == 10
        with Consumer(server.bootstrap_servers) as consumer:
            assert consumer.beginning_offsets([partition]) == {partition: 0}
            found = consumer.offsets_for_times({partition: 1_700_000_000_004})[partition]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (4, 1_700_000_000_004)
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()


def test_settings_records_directories_and_producers(server: Server, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    resource = ConfigResource.topic(topic)
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
        with Producer(server.bootstrap_servers, enable_idempotence=True) as producer:
            for number in range(10):
                producer.send(topic, b"v" * 100, partition=number % 2).result(30)
        (state,) = admin.describe_producers([first, second])[first]
        assert (state.producer_epoch, state.last_sequence, state.current_transaction_start_offset) == (0, 4, -1)
        assert admin.delete_records({first: 3, second: -1}) == {first: 3, second: 5}
        assert admin.list_offsets({first: -2})[first].offset == 3
        with pytest.raises(ApiError) as raised:
            admin.delete_records({first: 99})
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

        admin.incremental_alter_configs(resource, [ConfigChange("cleanup.policy", ConfigOperation.APPEND, "compact")])
        admin.incremental_alter_configs(
            resource, [ConfigChange("retention.ms", ConfigOperation.SET, "5")], validate_only=True
        )
        names = ["cleanup.policy", "retention.ms"]
        settings = admin.describe_configs(resource, names)
        assert [(settings[name].value, settings[name].source) for name in names] == [
            ("delete,compact", 1),
            ("604800000", 5),
        ]
        (directory,) = admin.describe_log_dirs(0)
        assert directory.error is ErrorCode.NONE
        assert 0 < directory.usable_bytes < directory.total_bytes
        assert directory.replicas[first].size > 500
        assert directory.replicas[first].offset_lag == 0


def test_resources_features_and_credentials(server: Server, topic: str) -> None:
    with Admin(server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        found = admin.list_config_resources()
        assert ConfigResource.topic(topic) in found
        assert ConfigResource.broker(0) in found
        assert found == sorted(found)
        assert admin.list_config_resources([ConfigResourceType.BROKER]) == [ConfigResource.broker(0)]
        assert admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == []
        assert admin.update_features({}) == {}
        # No broker with ZooKeeper has this feature, Kafka's or ours.
        with pytest.raises(ApiError) as raised:
            admin.update_features({"group.version": FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)}, validate_only=True)
        assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
        assert "group.version" in str(raised.value)
        assert admin.describe_user_scram_credentials() == {}
        assert admin.describe_user_scram_credentials(["alice"]) == {}
