"""AlterConfigs v0-2 and IncrementalAlterConfigs v0-1: what they change, what they refuse, and in which words."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import MODES, Server

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC_CONFIG = 1
OK = (ErrorCode.NONE, None)
BAD_VALUE = "Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): "

Setting = IncrementalAlterConfigsRequest.AlterableConfig
Replacement = AlterConfigsRequest.AlterableConfig
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource


def replace(
    client: RawClient,
    topic: str,
    *settings: tuple[str, str | None],
    version: int = 2,
    kind: int = TOPIC,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """AlterConfigs of one resource; (error, message)."""
    resource = AlterConfigsRequest.AlterConfigsResource(kind, topic, [Replacement(*each) for each in settings])
    (result,) = client.call(AlterConfigsRequest([resource], validate_only), version, AlterConfigsResponse).responses
    assert (result.resource_type, result.resource_name) == (kind, topic)
    return result.error_code, result.error_message


def change(
    client: RawClient,
    topic: str,
    *settings: tuple[str, int, str | None],
    version: int = 1,
    kind: int = TOPIC,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """IncrementalAlterConfigs of one resource; (error, message)."""
    resource = Resource(kind, topic, [Setting(*each) for each in settings])
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    (result,) = client.call(request, version, IncrementalAlterConfigsResponse).responses
    assert (result.resource_type, result.resource_name) == (kind, topic)
    return result.error_code, result.error_message


def own_settings(client: RawClient, topic: str) -> dict[str, str | None]:
    """What the topic itself sets."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(TOPIC, topic, None)
    (result,) = client.call(DescribeConfigsRequest([resource]), 4, DescribeConfigsResponse).results
    assert result.error_code == ErrorCode.NONE
    return {each.name: each.value for each in result.configs if each.config_source == DYNAMIC_TOPIC_CONFIG}


@each_version(ApiKey.ALTER_CONFIGS)
def test_alter_configs_replaces_all_settings(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, configs={"retention.ms": "12345", "segment.bytes": "100000"})
    assert replace(client, topic, ("retention.ms", "777"), ("max.message.bytes", "2000"), version=version) == OK
    assert own_settings(client, topic) == {"retention.ms": "777", "max.message.bytes": "2000"}
    assert replace(client, topic, version=version) == OK
    assert own_settings(client, topic) == {}


@each_version(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def test_incremental_changes_leave_the_others_alone(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, configs={"retention.ms": "12345", "segment.bytes": "100000"})
    changes = (("retention.ms", SET, "777"), ("segment.bytes", DELETE, None), ("flush.ms", DELETE, None))
    assert change(client, topic, *changes, version=version) == OK
    assert own_settings(client, topic) == {"retention.ms": "777"}


def test_lists_are_appended_to_and_subtracted_from(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    assert change(client, topic, ("cleanup.policy", APPEND, "compact")) == OK
    assert own_settings(client, topic) == {"cleanup.policy": "delete,compact"}
    assert change(client, topic, ("cleanup.policy", APPEND, "compact")) == OK
    assert own_settings(client, topic) == {"cleanup.policy": "delete,compact"}
    assert change(client, topic, ("cleanup.policy", SUBTRACT, "delete,nothing")) == OK
    assert own_settings(client, topic) == {"cleanup.policy": "compact"}
    throttled = "leader.replication.throttled.replicas"
    assert change(client, topic, (throttled, APPEND, "0:1,0:2"), ("cleanup.policy", DELETE, None)) == OK
    assert change(client, topic, (throttled, SUBTRACT, "0:2")) == OK
    assert own_settings(client, topic) == {throttled: "0:1"}


def test_validate_only_changes_nothing(client: RawClient, topic: str) -> None:
    client.create_topic(topic, configs={"retention.ms": "12345"})
    assert replace(client, topic, ("retention.ms", "777"), validate_only=True) == OK
    assert change(client, topic, ("retention.ms", SET, "777"), validate_only=True) == OK
    code, _ = change(client, topic, ("retention.ms", SET, "x"), validate_only=True)
    assert code == ErrorCode.INVALID_CONFIG
    assert own_settings(client, topic) == {"retention.ms": "12345"}


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ((("no.such.setting", "1"),), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such.setting"),
        (
            (("retention.ms", "soon"),),
            ErrorCode.INVALID_CONFIG,
            BAD_VALUE + "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (
            (("segment.bytes", "13"),),
            ErrorCode.INVALID_CONFIG,
            BAD_VALUE + "Invalid value 13 for configuration segment.bytes: Value must be at least 14",
        ),
        (
            (("cleanup.policy", "compact,burn"),),
            ErrorCode.INVALID_CONFIG,
            BAD_VALUE + "Invalid value burn for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            (("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "4")),
            ErrorCode.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            (("retention.ms", "5"), ("retention.ms", "4")),
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            (("retention.ms", None), ("flush.ms", "1"), ("segment.ms", None)),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms, segment.ms",
        ),
        (
            (("remote.storage.enable", "true"),),
            ErrorCode.INVALID_CONFIG,
            BAD_VALUE
            + "Tiered Storage functionality is disabled in the broker. "
            + "Topic cannot be configured with remote log storage.",
        ),
        (
            (("remote.log.copy.disable", "true"),),
            ErrorCode.INVALID_CONFIG,
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
        ),
    ],
)
def test_settings_that_are_refused(
    client: RawClient, topic: str, settings: tuple[tuple[str, str | None], ...], code: ErrorCode, message: str
) -> None:
    client.create_topic(topic, configs={"flush.messages": "7"})
    expected = (code, message.replace("{topic}", topic))
    assert replace(client, topic, *settings) == expected
    assert change(client, topic, *((name, SET, value) for name, value in settings)) == expected
    assert own_settings(client, topic) == {"flush.messages": "7"}


@pytest.mark.parametrize(("operation", "name"), [(APPEND, "append"), (SUBTRACT, "subtract")])
def test_only_lists_can_be_appended_to(client: RawClient, topic: str, operation: int, name: str) -> None:
    client.create_topic(topic)
    expected = (ErrorCode.INVALID_CONFIG, f"Config value {name} is not allowed for config key: retention.ms")
    assert change(client, topic, ("retention.ms", operation, "5")) == expected
    missing = (ErrorCode.INVALID_REQUEST, "Null value not supported for : cleanup.policy")
    assert change(client, topic, ("cleanup.policy", operation, None)) == missing


def test_topics_that_are_not_there(client: RawClient, topic: str) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    assert replace(client, topic, ("retention.ms", "5")) == unknown
    assert change(client, topic, ("retention.ms", SET, "5")) == unknown
    nameless = (ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    assert replace(client, "", ("retention.ms", "5")) == nameless
    assert change(client, "", ("retention.ms", SET, "5")) == nameless


@pytest.mark.parametrize("name", ["no/such/topic", "a b", "x" * 300, "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_names_that_are_no_topics(client: RawClient, name: str) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    assert replace(client, name, ("retention.ms", "5")) == unknown
    assert change(client, name, ("retention.ms", SET, "5")) == unknown


def test_other_resources(client: RawClient) -> None:
    cases: list[tuple[int, str, str]] = [
        (3, "group", "Unknown resource type 3"),
        (BROKER, "seven", "Node id must be an integer, but it is: seven"),
        (BROKER, "7", "Unexpected broker id, expected 0, but received 7"),
        (BROKER, "0", "Cannot update these configs dynamically: Set(num.partitions)"),
        (
            CLIENT_METRICS,
            "subscription",
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        ),
    ]
    for kind, name, message in cases:
        expected = (ErrorCode.INVALID_REQUEST, message)
        assert replace(client, name, ("num.partitions", "5"), kind=kind) == expected
        assert change(client, name, ("num.partitions", SET, "5"), kind=kind) == expected
    logger = (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
    assert replace(client, "0", ("root", "DEBUG"), kind=BROKER_LOGGER) == logger
    assert change(client, "7", ("root", SET, "DEBUG"), kind=BROKER_LOGGER)[0] == ErrorCode.INVALID_REQUEST


def test_each_resource_is_answered_on_its_own(client: RawClient, topic: str) -> None:
    client.create_topic(topic)
    setting = [Setting("retention.ms", SET, "5")]
    twice = f"{topic}-twice"
    resources = [Resource(TOPIC, name, setting) for name in (topic, twice, f"{topic}-unknown", twice)]
    request = IncrementalAlterConfigsRequest(resources, False)
    results = client.call(request, 1, IncrementalAlterConfigsResponse).responses
    refused = (twice, ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert [(each.resource_name, each.error_code, each.error_message) for each in results] == [
        (topic, *OK),
        refused,
        (f"{topic}-unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}-unknown' does not exist."),
        refused,
    ]


@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_changes_survive_a_restart(own_server: Server, topic: str) -> None:
    with own_server.running(), RawClient(own_server) as client:
        client.create_topic(topic, configs={"retention.ms": "12345"})
        assert change(client, topic, ("flush.messages", SET, "7")) == OK
    with own_server.running(), RawClient(own_server) as client:
        client.wait_for_leaders(topic, 1)
        assert own_settings(client, topic) == {"retention.ms": "12345", "flush.messages": "7"}
