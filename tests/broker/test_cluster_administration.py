"""UpdateFeatures, UnregisterBroker, telemetry, ListConfigResources and DescribeCluster's refusals, as Kafka answers."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.protocol.messages.configs import ListConfigResourcesRequest, ListConfigResourcesResponse
from barnabas.protocol.messages.inter_broker import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.messages.metadata import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import AGAINST_KAFKA, Server

Update = UpdateFeaturesRequest.FeatureUpdateKey
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
UPGRADE, SAFE_DOWNGRADE = 1, 2
OPERATIONS = 8096
FEATURE_ERROR = "The update failed for all features since the following feature had an error: "

ours_only = pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka in ZooKeeper mode closes the connection")


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (Update("foo", 5), "Could not apply finalized feature update because the provided feature is not supported."),
        (
            Update("metadata.version", 17),
            "Could not apply finalized feature update because the provided feature is not",
        ),
        (Update("foo", 0), "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the"),
        (Update("foo", 0, True, SAFE_DOWNGRADE), "Can not delete non-existing finalized feature."),
        (Update("", 1), "Feature name can not be empty."),
    ],
)
@each_version(ApiKey.UPDATE_FEATURES)
def test_there_are_no_features(
    client: RawClient, update: UpdateFeaturesRequest.FeatureUpdateKey, reason: str, version: int
) -> None:
    sent = Update(update.feature, update.max_version_level)
    if version == 0:
        sent.allow_downgrade = update.allow_downgrade
    else:
        sent.upgrade_type = update.upgrade_type
    answer = client.call(UpdateFeaturesRequest(1_000, [sent]), version, UpdateFeaturesResponse)
    if version >= 2:
        assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
        told = f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"
        assert (answer.error_message or "").startswith(f"{FEATURE_ERROR}{told}"), "as Apache Kafka 4 says it"
    else:
        (result,) = answer.results
        assert (answer.error_code, result.feature) == (ErrorCode.NONE, update.feature)
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert (result.error_message or "").startswith(reason)


@each_version(ApiKey.UPDATE_FEATURES)
def test_no_updates_at_all(client: RawClient, version: int) -> None:
    answer = client.call(UpdateFeaturesRequest(1_000), version, UpdateFeaturesResponse)
    assert (answer.error_code, answer.results) == (ErrorCode.NONE, [])


def test_unknown_upgrade_type(client: RawClient) -> None:
    answer = client.call(UpdateFeaturesRequest(1_000, [Update("foo", 1, False, 9)]), 1, UpdateFeaturesResponse)
    assert [result.error_message for result in answer.results] == ["Received unknown upgrade type."]


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (5, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 5"),
    ],
)
def test_only_brokers_have_endpoints(client: RawClient, endpoint_type: int, code: ErrorCode, message: str) -> None:
    answer = client.call(DescribeClusterRequest(False, endpoint_type), 1, DescribeClusterResponse)
    assert (answer.error_code, answer.error_message, answer.brokers) == (code, message, [])


@each_version(ApiKey.DESCRIBE_CLUSTER)
def test_what_may_be_done_to_the_cluster(client: RawClient, version: int) -> None:
    answer = client.call(DescribeClusterRequest(True), version, DescribeClusterResponse)
    assert answer.cluster_authorized_operations == OPERATIONS


@ours_only
def test_brokers_are_not_unregistered(client: RawClient) -> None:
    answer = client.call(UnregisterBrokerRequest(7), 0, UnregisterBrokerResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "Raft" in (answer.error_message or "")


@ours_only
def test_nobody_takes_client_metrics(client: RawClient) -> None:
    listed = client.supported_versions()
    assert ApiKey.GET_TELEMETRY_SUBSCRIPTIONS not in listed
    assert ApiKey.PUSH_TELEMETRY not in listed
    asked = client.call(GetTelemetrySubscriptionsRequest(bytes(16)), 0, GetTelemetrySubscriptionsResponse)
    pushed = client.call(PushTelemetryRequest(bytes(16), 1, False, 0, b"metrics"), 0, PushTelemetryResponse)
    assert asked.error_code == pushed.error_code == ErrorCode.UNSUPPORTED_VERSION


@ours_only
def test_resources_with_settings(client: RawClient, topic: str) -> None:
    client.create_topic(topic)

    def listed(version: int, *types: int) -> set[tuple[str, int]]:
        request = ListConfigResourcesRequest(list(types))
        answer = client.call(request, version, ListConfigResourcesResponse)
        assert answer.error_code == ErrorCode.NONE
        return {(resource.resource_name, resource.resource_type) for resource in answer.config_resources}

    assert listed(0) == set()
    assert (topic, TOPIC) in listed(1)
    assert ("0", BROKER) in listed(1)
    assert listed(1, BROKER, CLIENT_METRICS) == {("0", BROKER)}
    refused = client.call(ListConfigResourcesRequest([99]), 1, ListConfigResourcesResponse)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION


@ours_only
def test_partitions_of_topics(server: Server, client: RawClient, topic: str) -> None:
    client.create_topic(topic, partitions=3)
    asked = DescribeTopicPartitionsRequest.TopicRequest(topic)
    first = client.call(DescribeTopicPartitionsRequest([asked], 2), 0, DescribeTopicPartitionsResponse)
    assert first.next_cursor is not None
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (topic, 2)
    cursor = DescribeTopicPartitionsRequest.Cursor(topic, 2)
    second = client.call(DescribeTopicPartitionsRequest([asked], 2, cursor), 0, DescribeTopicPartitionsResponse)
    assert second.next_cursor is None
    indexes = [each.partition_index for answer in (first, second) for each in answer.topics[0].partitions]
    assert indexes == [0, 1, 2]
