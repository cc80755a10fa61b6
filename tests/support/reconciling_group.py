"""Consumers of the consumer protocol (KIP-848) in one group: no sockets, no threads, the broker's own ConsumerGroup.

Each consumer's channel to the coordinator is stepped by that consumer's polls, on one mock clock. What the brokers tell
about topics (`cluster.topics`) may lag behind what the coordinator knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.group.consumer.coordinator import ReconcilingCoordinator
from barnabas.clients.consumer.group.coordinator_channel import ChannelUser
from barnabas.clients.metadata.cluster_metadata import MetadataConfig
from barnabas.coordinator.group.consumer.heartbeat_terms import HeartbeatAnswer
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.client_metadata import metadata_response
from tests.support.consumer_group_coordinator import ConsumerGroupCoordinator, name_of, topic_id, topics_of
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_group import SteppingClient
from tests.support.scripted_selector import ScriptedSelector, SentRequest

GROUP_ID = "g"
MESSAGES = (FindCoordinatorRequest, ConsumerGroupHeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest)
INTERVAL_MS = 5_000


class ReconcilingGroup:
    """The group, its coordinator, and the brokers around it. Errors are scripted by API, NONE for success."""

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.coordinator = ConsumerGroupCoordinator(**topics)
        self.cluster = ScriptedCluster({name: [0] * count for name, count in topics.items()}, 1, MESSAGES)
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
        self.regexes: dict[str, set[str]] = {}
        """The topics that each server pattern matches."""
        self.selectors: dict[str, ScriptedSelector] = {}
        """The connection of each member to its coordinator."""
        handlers = {
            ApiKey.METADATA: lambda request: self._metadata(),
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch_offsets,
        }
        for api_key, handler in handlers.items():
            self.cluster.handlers[api_key] = lambda request, api_key=api_key, handler=handler: self._answer(
                request, api_key, handler
            )

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
        defaults = {"group_id": GROUP_ID, "auto_offset_reset": "earliest", "group_protocol": "consumer"}
        consumer = Consumer("", client=client, **{**defaults, **settings})
        coordinator = coordinator_of(consumer)
        coordinator._membership.member_id = member_id
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
        self.coordinator.image = topics_of(**topics)
        self.coordinator.newest_topics_version += 1
        if told:
            self.tell_topics()

    def tell_topics(self) -> None:
        """Let metadata have the topics that the coordinator knows."""
        self.cluster.topics.clear()
        self.cluster.topics.update({name: [0] * count for name, count in self.topics.items()})

    def expire(self, member_id: str) -> None:
        """End a member's session at the coordinator."""
        member = self.coordinator.group.members.get(member_id)
        if member is not None:
            self.coordinator.leave(member_id, -1, member.instance_id)

    def heartbeats(self) -> list[Any]:
        """The bodies of all heartbeats so far."""
        requests = dict.fromkeys(self.cluster.sent(ApiKey.CONSUMER_GROUP_HEARTBEAT))
        return [request.body for request in requests]

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

    def _heartbeat(self, request: SentRequest) -> ConsumerGroupHeartbeatResponse:
        error = self._error(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if error:
            return ConsumerGroupHeartbeatResponse(error_code=error, error_message="scripted")
        try:
            return self._carried_out(request.body)
        except ApiError as refusal:
            return ConsumerGroupHeartbeatResponse(error_code=int(refusal.code), error_message=str(refusal))

    def _carried_out(self, body: Any) -> ConsumerGroupHeartbeatResponse:
        # Changes of topics count from this time on.
        self.coordinator.now_ms += 11_000
        if body.member_epoch < 0:
            self.coordinator.leave(body.member_id, body.member_epoch, body.instance_id)
            return ConsumerGroupHeartbeatResponse(member_id=body.member_id, member_epoch=body.member_epoch)
        owned = None
        if body.topic_partitions is not None:
            owned = {name_of(bytes(each.topic_id)): set(each.partitions) for each in body.topic_partitions}
        answer = self.coordinator.beat(
            body.member_id,
            body.member_epoch,
            owned,
            instance_id=body.instance_id,
            rebalance_timeout_ms=body.rebalance_timeout_ms,
            subscribed_topic_names=body.subscribed_topic_names,
            subscribed_topic_regex=body.subscribed_topic_regex,
            server_assignor=body.server_assignor,
        )
        if wanted := self.coordinator.group.topics.members_by_regex:
            self.coordinator.resolve(**{regex: self.regexes[regex] for regex in wanted})
        return _response(answer)

    def _commit(self, request: SentRequest) -> OffsetCommitResponse:
        body = request.body
        error = self._error(ApiKey.OFFSET_COMMIT)
        if not error:
            error = int(self._check_member(body.member_id, body.generation_id_or_member_epoch))
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
            error = int(self._check_member(group.member_id, group.member_epoch))
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

    def _check_member(self, member_id: str, epoch: int) -> ErrorCode:
        """What the coordinator says to a commit or a look-up of offsets by this member."""
        member = self.coordinator.group.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member.member_epoch == epoch else ErrorCode.STALE_MEMBER_EPOCH


def coordinator_of(consumer: Consumer) -> ReconcilingCoordinator:
    """The consumer's side of its group."""
    coordinator = consumer._coordinator
    assert isinstance(coordinator, ReconcilingCoordinator)
    return coordinator


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        assignment = ConsumerGroupHeartbeatResponse.Assignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=key, partitions=sorted(found))
                for key, found in answer.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=assignment,
    )
