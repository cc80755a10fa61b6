"""Consumers of the consumer protocol (KIP-848) in one group: no sockets, no threads, the broker's own ConsumerGroup."""

from __future__ import annotations

from typing import Any, ClassVar

from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.consumer.group.consumer.member_states import MemberState
from barnabas.clients.consumer.group.consumer.reconciling_coordinator import ReconcilingCoordinator
from barnabas.clients.consumer.subscription_state import RebalanceListener
from barnabas.coordinator.group.consumer.heartbeat_terms import HeartbeatAnswer
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.message import Message
from tests.support.consumer_group_coordinator import ConsumerGroupCoordinator, name_of, topics_of
from tests.support.scripted_selector import SentRequest
from tests.support.simulated_group import Handler, SimulatedGroup, poll_until

INTERVAL_MS = 5_000


class ReconcilingGroup(SimulatedGroup):
    """The group and its coordinator."""

    protocol = "consumer"
    messages: ClassVar[tuple[type[Message], ...]] = (ConsumerGroupHeartbeatRequest,)

    def __init__(self, **topics: int) -> None:
        self.coordinator = ConsumerGroupCoordinator(**topics)
        self.regexes: dict[str, set[str]] = {}
        """The topics that each server pattern matches."""
        super().__init__(**topics)

    def consumer(self, member_id: str = "member-1", **settings: Any) -> Consumer:
        """A consumer of the group "g", which subscribes to nothing yet."""
        consumer = super().consumer(member_id, **settings)
        coordinator_of(consumer)._membership.member_id = member_id
        return consumer

    def change_topics(self, *, told: bool = True, **topics: int) -> None:
        """Let the cluster have these topics. Only if `told`, metadata has them too."""
        self.coordinator.image = topics_of(**topics)
        self.coordinator.newest_topics_version += 1
        super().change_topics(told=told, **topics)

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

    def _protocol_handlers(self) -> dict[ApiKey, Handler]:
        return {ApiKey.CONSUMER_GROUP_HEARTBEAT: self._heartbeat}

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

    def _check_commit(self, member_id: str, instance: str | None, generation: int) -> ErrorCode:
        return self._check_fetch(member_id, generation)

    def _check_fetch(self, member_id: str, epoch: int) -> ErrorCode:
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


def state_of(consumer: Consumer) -> MemberState:
    return coordinator_of(consumer)._membership.state


def joined(group: ReconcilingGroup, listener: RebalanceListener | None = None, **settings: Any) -> Consumer:
    consumer = group.consumer(**settings)
    consumer.subscribe(["t"], listener=listener)
    poll_until([consumer], lambda: state_of(consumer) is MemberState.STABLE)
    return consumer
