"""DescribeTopicPartitions page by page: every partition once, in order, whatever the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.handlers.describe_topic_partitions import DescribeTopicPartitionsApi
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext
from barnabas.api.request_parser import RequestParser
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.messages.metadata import DescribeTopicPartitionsRequest as Asked
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.security.acl.acl_codes import AclOperation, Action, ResourceType
from tests.support.recording_channel import RecordingChannel, connection

Update = UpdateMetadataRequest


class Hidden(Authorizer):
    """Topics whose names end with `-hidden` may not be described."""

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        return [not each.resource_name.endswith("-hidden") for each in actions]

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        return True


class Broker:
    """Knows topics by their partition counts; every partition is led by broker 0, replica 1 is offline."""

    def __init__(self, topics: dict[str, int], limit: int = 2000, authorizer: Authorizer | None = None) -> None:
        metadata = MetadataCache(0, "cluster")
        endpoint = Update.UpdateMetadataEndpoint(port=9092, host="here", listener="PLAINTEXT", security_protocol=0)
        states = [
            Update.UpdateMetadataTopicState(
                name,
                bytes([index + 1] * 16),
                [
                    Update.UpdateMetadataPartitionState(
                        partition_index=partition,
                        leader=0,
                        leader_epoch=3,
                        isr=[0],
                        replicas=[0, 1],
                        offline_replicas=[1],
                    )
                    for partition in range(count)
                ],
            )
            for index, (name, count) in enumerate(topics.items())
        ]
        metadata.update_metadata(
            Update(live_brokers=[Update.UpdateMetadataBroker(id=0, endpoints=[endpoint])], topic_states=states)
        )
        api = DescribeTopicPartitionsApi(metadata, authorizer or None, limit)
        (handler,) = api.handlers()
        self._parser = RequestParser(Registry([handler]))
        self._apis = Apis(ActionQueue(), lambda: 1)

    def ask(self, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        body = Asked(
            [Asked.TopicRequest(name) for name in names], limit, None if cursor is None else Asked.Cursor(*cursor)
        )
        channel = RecordingChannel()
        frame = encode_request_header(body.api_key, 0, 1, "me") + b"".join(map(bytes, body.encode(0)))
        self._apis.handle(self._parser.parse(frame, connection(), channel=channel, received_ns=1))
        return channel.answer()


def found(answer: Any) -> list[tuple[str, int]]:
    return [(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions]


@given(
    topics=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 5), max_size=6),
    limit=st.integers(-1, 7),
    most=st.integers(1, 7),
    named=st.booleans(),
)
def test_pages_make_the_whole(topics: dict[str, int], limit: int, most: int, named: bool) -> None:
    broker = Broker(topics, limit=most)
    pages = []
    cursor = None
    while True:
        answer = broker.ask(*(topics if named else ()), limit=limit, cursor=cursor)
        pages.append(found(answer))
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    whole = [(name, index) for name in sorted(topics) for index in range(topics[name])]
    assert [each for page in pages for each in page] == whole
    assert all(len(page) == max(min(limit, most), 1) for page in pages[:-1])


def test_what_is_said_of_a_partition() -> None:
    answer = Broker({"flights": 1}).ask("flights")
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, bytes([1] * 16))
    assert (partition.leader_id, partition.leader_epoch) == (0, 3)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([0, 1], [0], [1])
    assert partition.eligible_leader_replicas == [], "only KRaft controllers keep them; Java clients cannot read null"


def test_topics_that_are_not_there() -> None:
    answer = Broker({"b": 1}).ask("b", "a", "no such name")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", ErrorCode.NONE),
        ("no such name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def test_topics_that_may_not_be_described() -> None:
    broker = Broker({"a-hidden": 1, "b": 1}, authorizer=Hidden())
    assert [topic.name for topic in broker.ask().topics] == ["b"]
    refused = broker.ask("a-hidden", "b", "c-hidden").topics[1:]
    assert {(topic.name, topic.error_code, topic.topic_id) for topic in refused} == {
        (name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, bytes(16)) for name in ("a-hidden", "c-hidden")
    }


@pytest.mark.parametrize("cursor", [("c", 0), ("b", -1)])
def test_cursors_that_fit_nothing(cursor: tuple[str, int]) -> None:
    answer = Broker({"b": 1}).ask("b", cursor=cursor)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
