"""DescribeCluster and DescribeConfigs."""

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import SERVER_PROPERTIES, Server

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16  # ConfigResource.Type
BOOLEAN, LONG, LIST = 1, 5, 7  # DescribeConfigsResponse.ConfigType
OTHER_CHARACTERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
Resource = DescribeConfigsRequest.DescribeConfigsResource
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5


@each_version(ApiKey.DESCRIBE_CLUSTER)
def test_describe_cluster(server: Server, client: RawClient, version: int) -> None:
    metadata = client.call(MetadataRequest([]), 9, MetadataResponse)
    answer = client.call(DescribeClusterRequest(), version, DescribeClusterResponse)
    assert answer.error_code == ErrorCode.NONE
    (broker,) = answer.brokers
    assert (broker.host, broker.port) == (server.host, server.port)
    assert (answer.cluster_id, answer.controller_id) == (metadata.cluster_id, broker.broker_id)


def _describe(
    client: RawClient, version: int, *resources: DescribeConfigsRequest.DescribeConfigsResource
) -> list[DescribeConfigsResponse.DescribeConfigsResult]:
    request = DescribeConfigsRequest(list(resources), include_synonyms=version >= 1)
    return client.call(request, version, DescribeConfigsResponse).results


@each_version(ApiKey.DESCRIBE_CONFIGS)
def test_describe_topic_configs(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, configs={"retention.ms": "12345"})
    (result,) = _describe(client, version, Resource(TOPIC, topic, None))
    assert (result.error_code, result.resource_type, result.resource_name) == (ErrorCode.NONE, TOPIC, topic)
    settings = {config.name: config for config in result.configs}
    assert settings["retention.ms"].value == "12345"
    assert settings["cleanup.policy"].value == "delete"
    if version >= 1:
        assert settings["retention.ms"].config_source == DYNAMIC_TOPIC_CONFIG
        assert settings["cleanup.policy"].config_source == DEFAULT_CONFIG
        assert settings["retention.ms"].synonyms[0].value == "12345"


@each_version(ApiKey.DESCRIBE_CONFIGS)
def test_describe_broker_configs(client: RawClient, version: int) -> None:
    (result,) = _describe(client, version, Resource(BROKER, "0", None))
    assert result.error_code == ErrorCode.NONE
    settings = {config.name: config for config in result.configs}
    assert settings["num.partitions"].value == SERVER_PROPERTIES["num.partitions"]
    assert settings["num.io.threads"].value == "8"
    if version >= 1:
        assert settings["num.partitions"].config_source == STATIC_BROKER_CONFIG


def test_named_settings_only(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    (result,) = _describe(client, 2, Resource(TOPIC, topic, ["retention.ms", "segment.bytes"]))
    assert {config.name for config in result.configs} == {"retention.ms", "segment.bytes"}


def test_an_empty_list_of_names_means_all(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    (result,) = _describe(client, 4, Resource(TOPIC, topic, []))
    assert len(result.configs) > 30


def test_what_gives_a_setting_its_value(client: RawClient, topic: str) -> None:
    """The topic's own setting, then the broker's, then the default; the value as it is understood, not as written."""
    client.create_topic(topic, configs={"segment.bytes": "100000", "cleanup.policy": " compact , delete"})
    (result,) = _describe(client, 4, Resource(TOPIC, topic, None))
    synonyms = {
        config.name: [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]
        for config in result.configs
    }
    assert synonyms["segment.bytes"] == [
        ("segment.bytes", "100000", DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", "1073741824", DEFAULT_CONFIG),
    ]
    assert synonyms["cleanup.policy"] == [
        ("cleanup.policy", "compact,delete", DYNAMIC_TOPIC_CONFIG),
        ("log.cleanup.policy", "delete", DEFAULT_CONFIG),
    ]
    after_max_ms = "9223372036854775807"
    assert synonyms["message.timestamp.after.max.ms"] == [
        ("log.message.timestamp.after.max.ms", after_max_ms, STATIC_BROKER_CONFIG),
        ("log.message.timestamp.after.max.ms", after_max_ms, DEFAULT_CONFIG),
    ]
    assert synonyms["retention.ms"] == [], "log.retention.hours is told of only behind log.retention.ms"
    assert all(not config.read_only and not config.is_sensitive for config in result.configs)
    types = {config.name: config.config_type for config in result.configs}
    assert (types["cleanup.policy"], types["retention.ms"], types["preallocate"]) == (LIST, LONG, BOOLEAN)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "no-such-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            TOPIC,
            "a b",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a b' " + OTHER_CHARACTERS,
        ),
        (
            BROKER,
            "7",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 0 or empty string, but received 7",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (
            CLIENT_METRICS,
            "x",
            ErrorCode.INVALID_REQUEST,
            "Config type client-metrics is only supported on KRaft clusters",
        ),
    ],
)
def test_resources_that_cannot_be_described(
    client: RawClient, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    (result,) = _describe(client, 4, Resource(kind, name, None))
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


def test_describe_configs_of_an_unknown_topic(client: RawClient, topic: str) -> None:
    (result,) = _describe(client, 2, Resource(TOPIC, topic, None))
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
