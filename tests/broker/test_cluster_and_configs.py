"""DescribeCluster, DescribeConfigs, and FindCoordinator while there are no groups."""

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import AGAINST_KAFKA, SERVER_PROPERTIES, Server

TOPIC, BROKER = 2, 4  # ConfigResource.Type
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


def test_describe_configs_of_an_unknown_topic(client: RawClient, topic: str) -> None:
    (result,) = _describe(client, 2, Resource(TOPIC, topic, None))
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.skipif(AGAINST_KAFKA, reason="Apache Kafka has groups")
@each_version(ApiKey.FIND_COORDINATOR)
def test_no_coordinator_yet(client: RawClient, version: int) -> None:
    request = FindCoordinatorRequest("group") if version < 4 else FindCoordinatorRequest(coordinator_keys=["group"])
    answer = client.call(request, version, FindCoordinatorResponse)
    if version < 4:
        codes = [(answer.error_code, answer.node_id, answer.port)]
    else:
        codes = [(each.error_code, each.node_id, each.port) for each in answer.coordinators]
    assert codes == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)]
