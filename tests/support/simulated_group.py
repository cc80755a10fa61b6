"""Consumers of one group: no sockets, no threads, the broker's own group, whose protocol a subclass adds.

Each consumer's channel to the coordinator is stepped by that consumer's polls, on one mock clock. What the brokers tell
about topics (`cluster.topics`) may lag behind what the coordinator knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.group.coordinator_channel import ChannelUser
from barnabas.clients.consumer.subscription_state import RebalanceListener
from barnabas.clients.metadata.cluster_metadata import MetadataConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.client_metadata import metadata_response
from tests.support.consumer_group_coordinator import topic_id
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_group import SteppingClient
from tests.support.scripted_selector import ScriptedSelector, SentRequest

GROUP_ID = "g"

Handler = Callable[[SentRequest], Any]


class SimulatedGroup(ABC):
    """The group and the brokers around it. Errors are scripted by API, NONE for success."""

    protocol: ClassVar[str]
    messages: ClassVar[tuple[type[Message], ...]]
    """The requests of the protocol."""

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.cluster = ScriptedCluster(
            {name: [0] * count for name, count in topics.items()},
            1,
            (FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest, *self.messages),
        )
        self.group_errors: dict[ApiKey, list[ErrorCode]] = defaultdict(list)
        self.silent: set[ApiKey] = set()
        """APIs whose requests are carried out, and whose answers are lost."""
        self._lost: set[SentRequest] = set()
        self.committed: dict[tuple[str, int], int] = {}
        self.on_commit: Callable[[str, int, int], None] = lambda topic, partition, offset: None
        """Called with each offset that is accepted."""
        self.topic_ids: dict[str, bytes] = {}
        """The ids that metadata gives to topics, where they differ from those of their names."""
        self.cluster.topic_id = self._topic_id  # type: ignore[method-assign]
        self.selectors: dict[str, ScriptedSelector] = {}
        """The connection of each member to its coordinator."""
        handlers: dict[ApiKey, Handler] = {
            ApiKey.METADATA: lambda request: self._metadata(),
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch_offsets,
            **self._protocol_handlers(),
        }
        for api_key, handler in handlers.items():
            self.cluster.handlers[api_key] = lambda request, api_key=api_key, handler=handler: self._answer(
                request, api_key, handler
            )

    @abstractmethod
    def _protocol_handlers(self) -> dict[ApiKey, Handler]:
        """Return what answers the requests of `messages`."""

    @abstractmethod
    def _check_commit(self, member_id: str, instance: str | None, generation: int) -> ErrorCode:
        """Return what the coordinator says to a commit by this member."""

    @abstractmethod
    def _check_fetch(self, member_id: str, epoch: int) -> ErrorCode:
        """Return what the coordinator says to a look-up of offsets by this member."""

    def consumer(self, member_id: str = "member-1", **settings: Any) -> Consumer:
        """A consumer of the group "g", which subscribes to nothing yet."""
        made: list[ScriptedSelector] = []

        def make_selector(clock: Any, *, max_idle_ms: float) -> ScriptedSelector:
            selector = ScriptedSelector(self.cluster.clock)
            selector.responder = self.cluster.selector.responder
            selector.passes_time = not made
            made.append(selector)
            return selector

        client = SteppingClient(
            "127.0.0.1:9092",
            NetworkClientConfig(),
            MetadataConfig(),
            clock=self.cluster.clock,
            make_selector=make_selector,
            resolve=lambda host, port: (host,),
        )
        defaults = {"group_id": GROUP_ID, "auto_offset_reset": "earliest", "group_protocol": self.protocol}
        consumer = Consumer("", client=client, **{**defaults, **settings})
        coordinator = consumer._coordinator
        assert coordinator is not None
        channel = client.channel = coordinator.channel
        self.selectors[member_id] = made[1]

        def start(user: ChannelUser) -> None:
            channel._user = user

        close = channel.close

        def send_and_close(timeout_ms: int) -> None:
            for _ in range(4):
                channel.run_once()
            close(timeout_ms)

        channel.start = start  # type: ignore[method-assign]
        channel.close = send_and_close  # type: ignore[method-assign]
        return consumer

    def change_topics(self, *, told: bool = True, **topics: int) -> None:
        """Let the cluster have these topics. Only if `told`, metadata has them too."""
        self.topics = topics
        if told:
            self.tell_topics()

    def tell_topics(self) -> None:
        """Let metadata have the topics that the coordinator knows."""
        self.cluster.topics.clear()
        self.cluster.topics.update({name: [0] * count for name, count in self.topics.items()})

    # -- answers

    def _answer(self, request: SentRequest, api_key: ApiKey, handler: Callable[[SentRequest], Any]) -> Any:
        # A request without an answer comes here again, with each poll of its sender.
        if request in self._lost:
            return None
        answer = handler(request)
        if api_key in self.silent:
            self._lost.add(request)
            return None
        return answer

    def _error(self, api_key: ApiKey) -> int:
        errors = self.group_errors[api_key]
        return int(errors.pop(0)) if errors else 0

    def _topic_id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, topic_id(topic))

    def _metadata(self) -> MetadataResponse:
        answer = metadata_response(self.cluster.topics, self.cluster.brokers)
        for topic in answer.topics:
            topic.topic_id = self._topic_id(topic.name or "")
        return answer

    def _find(self, request: SentRequest) -> FindCoordinatorResponse:
        error = self._error(ApiKey.FIND_COORDINATOR)
        found = FindCoordinatorResponse.Coordinator(GROUP_ID, 0, "127.0.0.1", 9092, error, None)
        return FindCoordinatorResponse(coordinators=[found])

    def _commit(self, request: SentRequest) -> OffsetCommitResponse:
        body = request.body
        error = self._error(ApiKey.OFFSET_COMMIT)
        if not error:
            error = int(self._check_commit(body.member_id, body.group_instance_id, body.generation_id_or_member_epoch))
        topics = []
        for topic in body.topics:
            for each in topic.partitions:
                if not error:
                    self.on_commit(topic.name, each.partition_index, each.committed_offset)
                    self.committed[topic.name, each.partition_index] = each.committed_offset
            partitions = [
                OffsetCommitResponse.OffsetCommitResponsePartition(each.partition_index, error)
                for each in topic.partitions
            ]
            topics.append(OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=topics)

    def _fetch_offsets(self, request: SentRequest) -> OffsetFetchResponse:
        (group,) = request.body.groups
        error = self._error(ApiKey.OFFSET_FETCH)
        if not error and group.member_id is not None:
            error = int(self._check_fetch(group.member_id, group.member_epoch))
        topics = []
        for topic in group.topics:
            found = [
                OffsetFetchResponse.OffsetFetchResponsePartitions(
                    index, self.committed.get((topic.name, index), -1), -1, "", 0
                )
                for index in topic.partition_indexes
            ]
            topics.append(OffsetFetchResponse.OffsetFetchResponseTopics(name=topic.name, partitions=found))
        return OffsetFetchResponse(groups=[OffsetFetchResponse.OffsetFetchResponseGroup(GROUP_ID, topics, error)])


class Events(RebalanceListener):
    def __init__(self) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("assigned", list(partitions)))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("revoked", list(partitions)))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append(("lost", list(partitions)))


def poll_until(consumers: Sequence[Consumer], condition: Callable[[], Any], polls: int = 500) -> None:
    for _ in range(polls):
        if condition():
            return
        for consumer in consumers:
            consumer.poll(20)
    raise AssertionError("it never came to that")
