"""Metadata: v0-13, with creation on demand, unknown topics, and topic ids."""

import uuid

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.uuid import ZERO_UUID
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import SERVER_PROPERTIES, Server

NOT_ASKED = -(2**31)
Topic = MetadataRequest.MetadataRequestTopic


@each_version(ApiKey.METADATA)
def test_describes_a_topic_and_the_broker(server: Server, client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, 3)
    answer = client.call(MetadataRequest([Topic(name=topic)]), version, MetadataResponse)

    (broker,) = answer.brokers
    assert (broker.host, broker.port) == (server.host, server.port)
    (described,) = answer.topics
    assert (described.error_code, described.name, described.is_internal) == (ErrorCode.NONE, topic, False)
    assert [partition.partition_index for partition in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert partition.error_code == ErrorCode.NONE
        assert partition.leader_id == broker.node_id
        assert partition.replica_nodes == partition.isr_nodes == [broker.node_id]
        assert partition.offline_replicas == []
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert described.topic_authorized_operations == NOT_ASKED
    assert (described.topic_id != ZERO_UUID) == (version >= 10)
    assert (answer.controller_id == broker.node_id) == (version >= 1)
    assert bool(answer.cluster_id) == (version >= 2)


@each_version(ApiKey.METADATA)
def test_all_topics(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    everything = MetadataRequest([] if version == 0 else None)
    answer = client.call(everything, version, MetadataResponse)
    assert topic in {each.name for each in answer.topics}


@each_version(ApiKey.METADATA, lowest=1)
def test_no_topics(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    answer = client.call(MetadataRequest([]), version, MetadataResponse)
    assert answer.topics == []
    assert len(answer.brokers) == 1


@each_version(ApiKey.METADATA)
def test_creates_an_unknown_topic(client: RawClient, topic: str, version: int) -> None:
    answer = client.call(MetadataRequest([Topic(name=topic)], True), version, MetadataResponse)
    (created,) = answer.topics
    assert created.error_code in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
    client.wait_for_leaders(topic, int(SERVER_PROPERTIES["num.partitions"]))


@each_version(ApiKey.METADATA, lowest=4)
def test_unknown_topic_is_not_created_unasked(client: RawClient, topic: str, version: int) -> None:
    request = MetadataRequest([Topic(name=topic)], allow_auto_topic_creation=False)
    for _ in range(2):
        (unknown,) = client.call(request, version, MetadataResponse).topics
        assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        assert unknown.partitions == []


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "x" * 250, "ä"])
@pytest.mark.parametrize("may_create", [True, False])
def test_invalid_topic_name(client: RawClient, name: str, may_create: bool) -> None:
    (invalid,) = client.call(MetadataRequest([Topic(name=name)], may_create), 9, MetadataResponse).topics
    assert invalid.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@each_version(ApiKey.METADATA, lowest=12)
def test_by_topic_id(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    known, unknown = client.topic_id(topic), uuid.uuid4().bytes
    request = MetadataRequest([Topic(topic_id=known, name=None), Topic(topic_id=unknown, name=None)], False)
    answer = client.call(request, version, MetadataResponse)
    by_id = {each.topic_id: each for each in answer.topics}
    assert by_id[known].name == topic
    assert by_id[known].error_code == ErrorCode.NONE
    assert by_id[unknown].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert by_id[unknown].name is None


@each_version(ApiKey.METADATA, lowest=8)
def test_authorized_operations(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic)
    request = MetadataRequest([Topic(name=topic)], include_topic_authorized_operations=True)
    (described,) = client.call(request, version, MetadataResponse).topics
    read, write, describe = 3, 4, 8  # AclOperation codes
    for operation in (read, write, describe):
        assert described.topic_authorized_operations & 1 << operation


@each_version(ApiKey.METADATA, lowest=10, highest=11)
@pytest.mark.parametrize("by", [Topic(name=None), Topic(topic_id=b"x" * 16, name=None), Topic(b"x" * 16, "name")])
def test_topic_ids_before_their_time(client: RawClient, version: int, by: MetadataRequest.MetadataRequestTopic) -> None:
    """The field is there from v10, but means something from v12 on only; before that an answer needs a name."""
    (refused,) = client.call(MetadataRequest([by], False), version, MetadataResponse).topics
    assert (refused.error_code, refused.name) == (ErrorCode.INVALID_REQUEST, by.name or "")
