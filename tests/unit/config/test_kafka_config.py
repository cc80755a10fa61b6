"""The broker's settings: types, bounds, Kafka's messages, and help for wrong names."""

import pytest

from barnabas.config.broker_config_keys import BARNABAS_KEYS, BROKER_CONFIG_KEYS
from barnabas.config.config_error import ConfigError
from barnabas.config.cross_checks import uses_zookeeper
from barnabas.config.kafka_config import KafkaConfig


def test_defaults_are_kafkas() -> None:
    config = KafkaConfig.parse({})
    assert config.integer("num.io.threads") == 8
    assert config.integer("queued.max.requests") == 500
    assert config.integer("socket.request.max.bytes") == 104857600
    assert config.boolean("auto.create.topics.enable")
    assert config.list("group.coordinator.rebalance.protocols") == ["classic", "consumer"]  # Kafka 4.0
    assert config.floating("log.cleaner.io.buffer.load.factor") == 0.9
    assert config.optional_integer("log.retention.ms") is None
    assert config.log_dirs == ["/tmp/kafka-logs"]
    assert config.boolean("inline.requests.enable")


def test_table_is_complete_and_its_defaults_pass_their_own_validators() -> None:
    assert len(BROKER_CONFIG_KEYS) - len(BARNABAS_KEYS) == 329, "every setting of Kafka 3.9, and none twice"
    for key in BROKER_CONFIG_KEYS.values():
        text = key.text(key.default)
        if text is not None:
            assert key.parse(text) == key.default, key.name


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("num.io.threads", "x", "Invalid value x for configuration num.io.threads: Not a number of type INT"),
        ("num.io.threads", "1_0", "Invalid value 1_0 for configuration num.io.threads: Not a number of type INT"),
        ("num.io.threads", "2147483648", "Not a number of type INT"),
        ("num.io.threads", "0", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"),
        ("log.cleaner.min.cleanable.ratio", "2", "Value must be no more than 1"),
        ("compression.gzip.level", "10", "Value must be between 1 and 9 or equal to -1"),
        ("delete.topic.enable", "yes", "Expected value to be either true or false"),
        (
            "compression.type",
            "lzma",
            "compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("log.cleanup.policy", "compact,shred", "Invalid value shred for configuration log.cleanup.policy"),
        ("inter.broker.protocol.version", "3.9-IV1", "is not a valid version"),
        ("log.retention.hours", "0", "must be unlimited"),
        ("queued.max.request.bytes", "10", "must be larger or equal to socket.request.max.bytes"),
        ("group.consumer.assignors", "uniform,my.Assignor", "Invalid value my.Assignor"),
        ("group.consumer.assignors", "", "must not be empty"),
        ("group.consumer.session.timeout.ms", "6000", "than or equal to group.consumer.min.session.timeout.ms"),
        ("group.consumer.session.timeout.ms", "70000", "than or equal to group.consumer.max.session.timeout.ms"),
        ("group.consumer.max.session.timeout.ms", "44999", "equal to group.consumer.min.session.timeout.ms"),
        ("group.consumer.heartbeat.interval.ms", "4999", "than or equal to group.consumer.min.heartbeat.interval.ms"),
        ("group.consumer.heartbeat.interval.ms", "15001", "than or equal to group.consumer.max.heartbeat.interval.ms"),
        ("group.consumer.max.heartbeat.interval.ms", "100", "equal to group.consumer.min.heartbeat.interval.ms"),
    ],
)
def test_wrong_values_are_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaConfig.parse({name: text})
    assert message in str(caught.value)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("num.partition", "num.partitions"),
        ("NUM_IO_THREADS", "num.io.threads"),
        ("log.retention.hour", "log.retention.hours"),
        ("port", "listeners"),
        ("inline.request.enable", "inline.requests.enable"),
    ],
)
def test_unknown_settings_are_named_with_the_nearest_right_one(name: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"^Unknown setting {name} in a.properties; did you mean {nearest}\\?$"):
        KafkaConfig.parse({name: "1"}, source="a.properties")


def test_a_setting_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"^Unknown setting espresso in properties$"):
        KafkaConfig.parse({"espresso": "1"})


def test_zookeeper_is_selected_by_its_address_unless_the_broker_stands_alone() -> None:
    assert uses_zookeeper(KafkaConfig.parse({"zookeeper.connect": "localhost:2181"}))
    assert uses_zookeeper(KafkaConfig.parse({"zookeeper.connect": "localhost:2181", "metadata.store": "zookeeper"}))
    assert not uses_zookeeper(KafkaConfig.parse({"zookeeper.connect": "localhost:2181", "metadata.store": "embedded"}))
    assert not uses_zookeeper(KafkaConfig.parse({}))
    with pytest.raises(ConfigError, match=r"zookeeper\.connect is missing"):
        KafkaConfig.parse({"metadata.store": "zookeeper"})


ZOOKEEPER = {"zookeeper.connect": "localhost:2181"}
NETTY = {"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty"}
TLS = {**ZOOKEEPER, "zookeeper.ssl.client.enable": "true"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({**ZOOKEEPER, **NETTY}, r"^zookeeper\.clientCnxnSocket: the connection to ZooKeeper is in plaintext unless"),
        ({**ZOOKEEPER, "zookeeper.ssl.keystore.location": "/x"}, "is in plaintext unless"),
        (
            {**TLS, "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"},
            "other classes have no TLS",
        ),
        ({**TLS, "zookeeper.ssl.crl.enable": "true"}, "does not look up whether ZooKeeper's certificate is revoked"),
        ({**TLS, "zookeeper.ssl.ocsp.enable": "true"}, "does not look up whether ZooKeeper's certificate is revoked"),
        ({**TLS, "zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"}, "HTTPS verifies the name"),
        ({**ZOOKEEPER, "zookeeper.set.acl": "true"}, "needs a user of ZooKeeper"),
        ({**TLS, "zookeeper.set.acl": "true"}, "needs a user of ZooKeeper"),
    ],
)
def test_protection_of_zookeeper_that_would_be_missing(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        KafkaConfig.parse(settings)


def test_protection_of_zookeeper_that_is_complete() -> None:
    KafkaConfig.parse({**ZOOKEEPER, **NETTY, "zookeeper.ssl.client.enable": "false"})
    KafkaConfig.parse({"metadata.store": "embedded", **NETTY, "zookeeper.set.acl": "true"})
    KafkaConfig.parse({**TLS, **NETTY, "zookeeper.set.acl": "true", "zookeeper.ssl.keystore.location": "/x"})
    KafkaConfig.parse({**ZOOKEEPER, "zookeeper.set.acl": "true", "zookeeper.sasl.jaas.config": "x"})


def test_kraft_is_refused_with_all_its_settings_named() -> None:
    ignored = r"process.roles, controller.quorum.voters and the listeners of the controller are ignored"
    with pytest.raises(ConfigError, match=ignored):
        KafkaConfig.parse({"process.roles": "broker,controller", "controller.quorum.voters": "1@localhost:9093"})


def test_node_id_is_another_name_of_broker_id() -> None:
    assert KafkaConfig.parse({"node.id": "7"}).integer("broker.id") == 7
    with pytest.raises(ConfigError, match="must be equal"):
        KafkaConfig.parse({"node.id": "7", "broker.id": "8"})


def test_prefixed_settings() -> None:
    config = KafkaConfig.parse(
        {
            "listener.name.plaintext.max.connections": "5",
            "listener.name.plaintext.scram-sha-256.sasl.login.class": "a.Login",
            "rsm.config.anything": "goes",
        }
    )
    assert config.of_listener("PLAINTEXT").integer("max.connections") == 5
    assert config.of_listener("OTHER").integer("max.connections") == 2147483647
    assert config.integer("max.connections") == 2147483647
    with pytest.raises(ConfigError, match="Unknown setting"):
        KafkaConfig.parse({"listener.name.plaintext.max.connection": "5"})


def test_secrets_are_not_shown() -> None:
    config = KafkaConfig.parse({"ssl.key.password": "hunter2", "rsm.config.key": "hunter2", "num.partitions": "2"})
    assert "hunter2" not in repr(config)
    assert config.text("ssl.key.password") is None
    assert config.text("num.partitions") == "2"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308"),
        ("log.cleaner.min.cleanable.ratio", "0.5"),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
        ("auto.create.topics.enable", "true"),
        ("log.dirs", None),
    ],
)
def test_values_as_text_are_javas(name: str, text: str | None) -> None:
    assert KafkaConfig.parse({}).text(name) == text
