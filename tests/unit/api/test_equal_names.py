"""Requests that name one thing again and again: what is looked up, and answered, is looked up once."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.api.authorize import Authorizer
from barnabas.api.brief import AUTHORIZED_NAME_US, BUDGET_US, NeedsHandlerThread
from barnabas.api.handlers.configs import ConfigsApi
from barnabas.api.handlers.find_coordinator import FindCoordinatorApi
from barnabas.api.handlers.group_admin import GroupAdminApi
from barnabas.api.handlers.metadata import MetadataApi
from barnabas.api.handlers.offsets import _whole_groups_once
from barnabas.api.handlers.transaction_admin import ProducersApi, TransactionAdminApi
from barnabas.api.request import Handler, Request
from barnabas.api.topic_changes import TopicChanges
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import BrokerMetadata, MetadataImage, PartitionMetadata, TopicMetadata
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.messages.configs import DescribeConfigsRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import OffsetFetchRequest
from barnabas.protocol.messages.transactions import DescribeProducersRequest, DescribeTransactionsRequest
from barnabas.purgatory.timer import SystemTimer
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel, connection

TIMES = 500


def cache(*names: str) -> MetadataCache:
    states = tuple(PartitionMetadata(number, 0, 4, (0,), (0,), (), 1) for number in range(3))
    known = {name: TopicMetadata(name, name.encode().ljust(16), states) for name in names}
    brokers = {0: BrokerMetadata(0, 1, None, {"PLAINTEXT": ("here", 9092)})}
    made = MetadataCache(0)
    ids = {topic.topic_id: name for name, topic in known.items()}
    made.image = MetadataImage(7, "cluster", 0, brokers, known, ids)
    return made


def ask(handlers: Any, message: Message, version: int, *, brief: bool = False) -> Any:
    """Have the handler of a message's API answer it; the answer."""
    (handler,) = (each for each in handlers if each.api_key is message.api_key)
    assert isinstance(handler, Handler)
    header = RequestHeader(message.api_key, version, 9, "client", request_header_version(message.api_key, version))
    channel = RecordingChannel()
    handler.handle(Request(header, message, handler, connection(), channel, received_ns=0, brief=brief))
    return channel.answer()


def test_metadata() -> None:
    api = MetadataApi(cache("a", "b"), None, lambda: False, None)  # type: ignore[arg-type]  # nothing is created
    topic = MetadataRequest.MetadataRequestTopic
    names = [topic(name=name) for name in ["b", "a", "unknown"] * TIMES]
    answer = ask(api.handlers(), MetadataRequest(topics=names), 9)
    assert [each.name for each in answer.topics] == ["b", "a", "unknown"]
    ids = [topic(topic_id=each.ljust(16), name=None) for each in [b"a", b"b", b"c"] * TIMES]
    answer = ask(api.handlers(), MetadataRequest(topics=ids), 12)
    assert [each.name for each in answer.topics] == ["a", "b", None]


class Groups:
    serves_consumer_groups = True

    def describe_groups(self, group_ids: list[str], *, tells_missing: bool) -> list[Any]:
        return [DescribeGroupsResponse.DescribedGroup(group_id=each) for each in group_ids]

    def describe_consumer_groups(self, group_ids: list[str]) -> list[Any]:
        return [ConsumerGroupDescribeResponse.DescribedGroup(group_id=each) for each in group_ids]


@pytest.mark.parametrize(
    "message",
    [DescribeGroupsRequest(groups=["g", "h"] * TIMES), ConsumerGroupDescribeRequest(group_ids=["g", "h"] * TIMES)],
    ids=["classic", "consumer"],
)
def test_groups(message: Message) -> None:
    answer = ask(GroupAdminApi(Groups(), None).handlers(), message, 0)  # type: ignore[arg-type]
    assert [each.group_id for each in answer.groups] == ["g", "h"]


def test_coordinators_are_answered_as_often_as_asked_for_and_found_once() -> None:
    asked: list[str] = []

    def partition_for(key: str) -> int:
        asked.append(key)
        return 0

    metadata = cache("__consumer_offsets")
    api = FindCoordinatorApi(metadata, partition_for, partition_for, None, None, None)  # type: ignore[arg-type]
    answer = ask(api.handlers(), FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"] * TIMES), 4)
    assert [each.key for each in answer.coordinators] == ["g", "h"] * TIMES
    assert asked == ["g", "h"]


def test_producers() -> None:
    asked: list[tuple[str, int]] = []

    class Hosted:
        def partition_or_error(self, topic: str, index: int) -> Any:
            asked.append((topic, index))
            return SimpleNamespace(log=SimpleNamespace(producers=SimpleNamespace(active=list)))

    api = ProducersApi(SimpleNamespace(hosted=Hosted()), cache("a"), None)  # type: ignore[arg-type]
    topics = [DescribeProducersRequest.TopicRequest("a", [0, 1] * TIMES)] * 3
    answer = ask(api.handlers(), DescribeProducersRequest(topics=topics), 0)
    assert [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0, 1]]
    assert asked == [("a", 0), ("a", 1)]


def test_transactions() -> None:
    asked: list[str] = []

    class Admin:
        def describe(self, transactional_id: str) -> Any:
            asked.append(transactional_id)
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    message = DescribeTransactionsRequest(transactional_ids=["t", "u"] * TIMES)
    answer = ask(TransactionAdminApi(Admin(), None).handlers(), message, 0)  # type: ignore[arg-type]
    assert [each.transactional_id for each in answer.transaction_states] == asked == ["t", "u"]


def test_settings() -> None:
    loggers = DescribeConfigsRequest.DescribeConfigsResource(8, "0", None)
    one = DescribeConfigsRequest.DescribeConfigsResource(8, "0", ["root"])
    api = ConfigsApi(0, None, None, cache(), None)  # type: ignore[arg-type]  # loggers are no settings
    answer = ask(api.handlers(), DescribeConfigsRequest(resources=[loggers, one] * TIMES), 4)
    assert len(answer.results) == 2


def test_all_offsets_of_a_group() -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    named = group(group_id="g", topics=[])
    kept = _whole_groups_once([group(group_id="g", topics=None), named, group(group_id="h", topics=None)] * TIMES)
    assert [each.group_id for each in kept if each.topics is None] == ["g", "h"]
    assert len([each for each in kept if each is named]) == TIMES  # its answer is as long as its question


class Asked(Authorizer):
    """Allows everything, and counts what it is asked."""

    def __init__(self) -> None:
        self.names = 0

    def authorize(self, connection: Any, actions: Any, api_key: Any) -> list[bool]:
        self.names += len(actions)
        return [True] * len(actions)

    def authorize_by_resource_type(self, *_: Any) -> bool:
        return True


def test_an_authorizer_is_not_asked_about_very_many_topics_on_a_network_thread() -> None:
    most = BUDGET_US // AUTHORIZED_NAME_US
    for count, is_handed_over in ((100, False), (most + 1, True)):
        authorizer = Asked()
        api = MetadataApi(cache(*map(str, range(count))), None, lambda: False, authorizer)  # type: ignore[arg-type]
        ask(api.handlers(), MetadataRequest(topics=None), 9)  # the answer is kept now
        authorizer.names = 0
        if is_handed_over:
            with pytest.raises(NeedsHandlerThread):
                ask(api.handlers(), MetadataRequest(topics=None), 9, brief=True)
            assert authorizer.names == 0
        else:
            ask(api.handlers(), MetadataRequest(topics=None), 9, brief=True)
            assert authorizer.names == count


def test_a_change_of_many_topics_is_looked_at_once_for_each_and_not_once_for_each_pair() -> None:
    """Ten thousand new topics were looked at a hundred million times."""
    names = [f"topic-{number}" for number in range(300)]
    before, after = cache(), cache(*names)
    looked = 0

    class Topics(dict[str, TopicMetadata]):
        def get(self, name: str, default: Any = None) -> Any:
            nonlocal looked
            looked += 1
            return super().get(name, default)

    clock = MockClock()
    changes = TopicChanges(before, SystemTimer(clock, lambda task: task()))
    answers: list[frozenset[str]] = []
    changes.when_leaders_elected(frozenset(names), 1000, answers.append)
    images = []
    # The metadata shows them one after the other, as a controller sends them.
    for count in range(1, len(names) + 1):
        known = Topics({name: after.image.topics[name] for name in names[:count]})
        images.append(replace(before.image, topics=known))
    for image in images:
        old, before.image = before.image, image
        changes.metadata_changed(old, image)
    assert answers == [frozenset()]
    # Two looks for each key watched and image tell what differs; beside them, each topic is looked at a few times.
    assert looked - 2 * len(names) * len(images) < 5 * len(names)
