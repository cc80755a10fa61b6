"""Seeded histories of requests to one consumer group (KIP-848), and their player.

Used by `test_same_consumer_group_histories`. Nothing is shared between two players.

Member ids are the actors' own, as members of KIP-848 choose them, so that both brokers see the same; topic ids are each
broker's and are told by name. Actors `x` and `y` speak the classic protocol: with them groups change their protocol, or
have members of both (`group.consumer.migration.policy=bidirectional`).
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.compatibility.history_player import REBALANCE_MS, HistoryPlayer, Step, name_of
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess

INSTANCES: Final = {"s": "one", "t": "one", "u": "two"}
"""Static members, by actor; `s` and `t` are the same one."""
CONSUMERS: Final = ("a", "b", "c", "s", "t", "u")
CLASSICS: Final = ("x", "y")
TOPICS: Final = {"g3": 3, "g5": 5, "other": 1}
"""Partitions of each topic, by what comes behind the player's prefix."""
LONG_REBALANCE_MS: Final = 45_000
UNKNOWN_MEMBER: Final = "bm9ib2R5LTAxMjM0NTY3OA"
_LOOKS: Final = (ConsumerGroupDescribeResponse, DescribeGroupsResponse, ListGroupsResponse)


def make_history(seed: int, length: int) -> list[Step]:
    """A history of about `length` steps."""
    chance = random.Random(seed)
    actors = chance.sample(CONSUMERS, chance.randint(1, 4))
    if chance.random() < 0.4:
        actors += chance.sample(CLASSICS, chance.randint(1, 2))
    rebalance_ms = REBALANCE_MS if chance.random() < 0.2 else LONG_REBALANCE_MS
    steps: list[Step] = []
    while len(steps) < length:
        steps.append(_next_step(chance, chance.choice(actors), rebalance_ms))
    return steps


def _next_step(chance: random.Random, actor: str, rebalance_ms: int) -> Step:
    draw = chance.random()
    if draw > 0.95:
        return Step("delete_group", "", 2)
    if draw > 0.92:
        return Step("describe_classic", "", chance.choice([5, 6]))
    if draw > 0.89:
        return Step("list", "", 5)
    if draw > 0.82:
        return Step("describe", "", chance.choice([0, 1]))
    if draw > 0.80 and rebalance_ms == REBALANCE_MS:
        return Step("wait")
    if draw > 0.74:
        options = {"offset": chance.randrange(100), "wrong": _wrong(chance, 0.3)}
        return Step("commit", actor, chance.choice([9, 10]), options)
    if draw > 0.70:
        return Step("fetch_offsets", actor, chance.choice([9, 10]), {"wrong": _wrong(chance, 0.4)})
    if actor in CLASSICS:
        return _classic_step(chance, actor, rebalance_ms)
    return _consumer_step(chance, actor, rebalance_ms)


def _consumer_step(chance: random.Random, actor: str, rebalance_ms: int) -> Step:
    draw = chance.random()
    if draw < 0.28:
        how = chance.choices(["names", "regex", "neither"], [8, 2, 0.3])[0]
        subscribed = sorted(chance.sample(list(TOPICS), chance.randint(1, 3)))
        options: dict[str, Any] = {
            "how": how,
            "topics": subscribed,
            "assignor": chance.choice([None, None, "uniform", "range", "no"]),
        }
        options |= {"rebalance": rebalance_ms, "rack": None}
        return Step("join", actor, chance.choice([1, 1, 1, 0]), options)
    if draw < 0.38:
        topics = sorted(chance.sample(list(TOPICS), chance.randint(0, 3)))
        return Step("resubscribe", actor, 1, {"topics": topics})
    if draw < 0.48:
        return Step("leave", actor, 1, {"wrong": _wrong(chance, 0.15)})
    owned = chance.choices(["same", "assigned", "fewer", "more"], [3, 10, 1, 0.5])[0]
    return Step("beat", actor, 1, {"owned": owned, "wrong": _wrong(chance, 0.12)})


def _classic_step(chance: random.Random, actor: str, rebalance_ms: int) -> Step:
    draw = chance.random()
    if draw < 0.45:
        topics = sorted(chance.sample(list(TOPICS), chance.randint(1, 3)))
        version = chance.choice([7, 8, 9])
        return Step("classic_join", actor, version, {"topics": topics, "rebalance": rebalance_ms})
    if draw < 0.7:
        return Step("classic_sync", actor, 5, {"wrong": _wrong(chance, 0.1)})
    if draw < 0.88:
        return Step("classic_beat", actor, 4, {"wrong": _wrong(chance, 0.15)})
    return Step("classic_leave", actor, 5)


def _wrong(chance: random.Random, probability: float) -> str:
    return chance.choice(["epoch", "earlier epoch", "member", "instance"]) if chance.random() < probability else ""


@dataclass
class _Known:
    """What a broker has told an actor."""

    member_id: str
    epoch: int = -1
    owned: dict[str, list[int]] = field(default_factory=dict)
    is_leader: bool = False
    members: list[str] = field(default_factory=list)
    protocol: str | None = None


class ConsumerHistoryPlayer(HistoryPlayer):
    """Plays to a consumer group.

    prefix: of the names of the topics, which exist. seed: member ids come from it.
    """

    def __init__(self, server: ServerProcess, group: str, prefix: str, seed: int, settle_seconds: float) -> None:
        super().__init__(server, group, settle_seconds)
        self._prefix = prefix
        self._is_torn = False
        """An empty consumer group that a classic member joins by an id of its own: Kafka takes it out of its memory,
        but not out of its log. Who looks at it finds the one or the other, until somebody is let in."""
        chance = random.Random(seed)
        ids = {name: uuid.UUID(int=chance.getrandbits(128)) for name in CONSUMERS}
        self._known = {name: _Known(str(ids[name])) for name in CONSUMERS} | {name: _Known("") for name in CLASSICS}
        with RawClient(server) as client:
            self._ids = {name: client.topic_id(prefix + name) for name in TOPICS}
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    # Steps

    def _join(self, step: Step) -> list[str]:
        known, options = self._known[step.actor], step.options
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=known.member_id,
            member_epoch=0,
            instance_id=INSTANCES.get(step.actor),
            rebalance_timeout_ms=options["rebalance"],
            server_assignor=options["assignor"],
            topic_partitions=[],
        )
        if options["how"] == "names" or (step.version == 0 and options["how"] == "regex"):
            request.subscribed_topic_names = [self._prefix + name for name in options["topics"]]
        elif options["how"] == "regex":
            request.subscribed_topic_names = []
            request.subscribed_topic_regex = f"{self._prefix}({'|'.join(options['topics'])})"
        known.owned = {}
        return self._ask(step, request, ConsumerGroupHeartbeatResponse)

    def _beat(self, step: Step) -> list[str]:
        request = self._heartbeat_as(step.actor, step.options["wrong"])
        owned = {topic: list(partitions) for topic, partitions in self._known[step.actor].owned.items()}
        if step.options["owned"] == "fewer" and owned:
            owned.popitem()
        elif step.options["owned"] == "more":
            owned["g5"] = sorted({*owned.get("g5", []), 4})
        if step.options["owned"] != "same":
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(self._ids[topic], partitions)
                for topic, partitions in sorted(owned.items())
                if partitions
            ]
        return self._ask(step, request, ConsumerGroupHeartbeatResponse)

    def _resubscribe(self, step: Step) -> list[str]:
        request = self._heartbeat_as(step.actor, "")
        request.subscribed_topic_names = [self._prefix + name for name in step.options["topics"]]
        request.subscribed_topic_regex = ""
        return self._ask(step, request, ConsumerGroupHeartbeatResponse)

    def _leave(self, step: Step) -> list[str]:
        request = self._heartbeat_as(step.actor, step.options["wrong"])
        request.member_epoch = -2 if step.actor in ("s", "u") else -1
        return self._ask(step, request, ConsumerGroupHeartbeatResponse)

    def _heartbeat_as(self, actor: str, wrong: str) -> ConsumerGroupHeartbeatRequest:
        epoch, member_id, instance = self._identity(actor, wrong)
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=member_id, member_epoch=epoch, instance_id=instance
        )

    def _describe(self, step: Step) -> list[str]:
        return self._ask(step, ConsumerGroupDescribeRequest([self._group]), ConsumerGroupDescribeResponse)

    def _describe_classic(self, step: Step) -> list[str]:
        return self._ask(step, DescribeGroupsRequest([self._group]), DescribeGroupsResponse)

    def _list(self, step: Step) -> list[str]:
        return self._ask(step, ListGroupsRequest(), ListGroupsResponse)

    def _delete_group(self, step: Step) -> list[str]:
        if self._is_torn:
            return []
        return self._ask(step, DeleteGroupsRequest([self._group]), DeleteGroupsResponse)

    def _commit(self, step: Step) -> list[str]:
        epoch, member_id, instance = self._identity(step.actor, step.options["wrong"])
        place = OffsetCommitRequest.OffsetCommitRequestPartition(0, step.options["offset"], committed_metadata="m")
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(
            name=f"{self._prefix}g3", topic_id=self._ids["g3"], partitions=[place]
        )
        return self._ask(
            step, OffsetCommitRequest(self._group, epoch, member_id, instance, topics=[wanted]), OffsetCommitResponse
        )

    def _fetch_offsets(self, step: Step) -> list[str]:
        epoch, member_id, _ = self._identity(step.actor, step.options["wrong"])
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=f"{self._prefix}g3", topic_id=self._ids["g3"], partition_indexes=[0, 1]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=self._group, member_id=member_id, member_epoch=epoch, topics=[wanted]
        )
        return self._ask(step, OffsetFetchRequest(groups=[group]), OffsetFetchResponse)

    def _classic_join(self, step: Step) -> list[str]:
        known = self._known[step.actor]
        metadata = encode_subscription(
            Subscription(topics=tuple(self._prefix + name for name in step.options["topics"])), 1
        )
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=20_000,
            rebalance_timeout_ms=step.options["rebalance"],
            member_id=known.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol("range", metadata)],
        )
        return self._ask(step, request, JoinGroupResponse)

    def _classic_sync(self, step: Step) -> list[str]:
        epoch, member_id, _ = self._identity(step.actor, step.options["wrong"])
        known = self._known[step.actor]
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member, bytes.fromhex("0001 00000000 ffffffff"))
            for member in known.members
        ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=epoch,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments if known.is_leader else [],
        )
        return self._ask(step, request, SyncGroupResponse)

    def _classic_beat(self, step: Step) -> list[str]:
        epoch, member_id, _ = self._identity(step.actor, step.options["wrong"])
        return self._ask(step, HeartbeatRequest(self._group, epoch, member_id), HeartbeatResponse)

    def _classic_leave(self, step: Step) -> list[str]:
        member = LeaveGroupRequest.MemberIdentity(self._known[step.actor].member_id)
        return self._ask(step, LeaveGroupRequest(self._group, members=[member]), LeaveGroupResponse)

    def _identity(self, actor: str, wrong: str) -> tuple[int, str, str | None]:
        known, instance = self._known[actor], INSTANCES.get(actor)
        if wrong == "epoch":
            return known.epoch + 5, known.member_id, instance
        if wrong == "earlier epoch":
            return known.epoch - 1, known.member_id, instance
        if wrong == "member":
            return max(known.epoch, 1), UNKNOWN_MEMBER, instance
        if wrong == "instance":
            return known.epoch, known.member_id, "another"
        return known.epoch, known.member_id, instance

    # Answers

    def _tell(self, actor: str, answer: Any) -> str:
        known = self._known.get(actor)
        if self._is_torn and isinstance(answer, _LOOKS):
            return "one or the other"
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and known is not None:
            return self._tell_heartbeat(known, answer)
        if isinstance(answer, ConsumerGroupDescribeResponse):
            return self._tell_description(answer.groups[0])
        if isinstance(answer, JoinGroupResponse) and known is not None:
            return self._tell_join(known, answer)
        if isinstance(answer, SyncGroupResponse):
            return (
                f"{name_of(answer.error_code)} {answer.protocol_name} {self._tell_assigned(bytes(answer.assignment))}"
            )
        if isinstance(answer, DescribeGroupsResponse):
            (group,) = answer.groups
            told = f"{name_of(group.error_code)} {group.group_state} {group.protocol_type} {group.protocol_data!r}"
            return f"{told} {len(group.members)} members"
        if isinstance(answer, ListGroupsResponse):
            mine = [each for each in answer.groups if each.group_id == self._group]
            return str([(each.protocol_type, each.group_state, each.group_type.lower()) for each in mine])
        if isinstance(answer, DeleteGroupsResponse):
            return str([name_of(each.error_code) for each in answer.results])
        if isinstance(answer, OffsetCommitResponse):
            return str([name_of(each.error_code) for topic in answer.topics for each in topic.partitions])
        if isinstance(answer, OffsetFetchResponse):
            (fetched,) = answer.groups
            parts = [(each.partition_index, each.committed_offset) for one in fetched.topics for each in one.partitions]
            return f"{name_of(fetched.error_code)} {parts}"
        if isinstance(answer, LeaveGroupResponse):
            return f"{name_of(answer.error_code)} {[name_of(each.error_code) for each in answer.members]}"
        return name_of(answer.error_code)

    def _tell_heartbeat(self, known: _Known, answer: ConsumerGroupHeartbeatResponse) -> str:
        code = name_of(answer.error_code)
        if answer.error_code != ErrorCode.NONE:
            return f"{code} {self._without_names(answer.error_message)}"
        self._is_torn = False
        known.epoch = answer.member_epoch
        if answer.assignment is None:
            return f"{code} epoch {answer.member_epoch}"
        known.owned = self._by_name(answer.assignment.topic_partitions)
        is_itself = answer.member_id == known.member_id
        return f"{code} epoch {answer.member_epoch} {is_itself} every {answer.heartbeat_interval_ms} owns {known.owned}"

    def _tell_description(self, group: ConsumerGroupDescribeResponse.DescribedGroup) -> str:
        by_id = {known.member_id: name for name, known in self._known.items()}
        members = sorted(
            [
                by_id.get(each.member_id, "?"),
                each.instance_id,
                each.member_epoch,
                each.client_id,
                each.client_host,
                sorted(name.removeprefix(self._prefix) for name in each.subscribed_topic_names),
                self._without_names(each.subscribed_topic_regex),
                self._by_name(each.assignment.topic_partitions),
                self._by_name(each.target_assignment.topic_partitions),
                each.member_type,
            ]
            for each in group.members
        )
        told = f"{name_of(group.error_code)} {self._without_names(group.error_message)} {group.group_state}"
        return f"{told} epoch {group.group_epoch} {group.assignment_epoch} by {group.assignor_name} {members}"

    def _tell_join(self, known: _Known, answer: JoinGroupResponse) -> str:
        if answer.member_id:
            known.member_id = answer.member_id
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._is_torn = True
        if answer.error_code == ErrorCode.NONE:
            self._is_torn = False
            known.epoch = answer.generation_id
            known.is_leader = answer.leader == answer.member_id
            known.members = [each.member_id for each in answer.members]
        told = f"{name_of(answer.error_code)} {answer.generation_id} {answer.protocol_name}"
        return f"{told} {answer.leader == answer.member_id} {len(answer.members)}"

    def _tell_assigned(self, assignment: bytes) -> object:
        if not assignment:
            return "nothing"
        return {
            topic.removeprefix(self._prefix): sorted(partitions)
            for topic, partitions in sorted(_partitions_of(decode_assignment(assignment)).items())
        }

    def _by_name(self, partitions: Iterable[Any]) -> dict[str, list[int]]:
        found = {self._names.get(each.topic_id, "?"): sorted(each.partitions) for each in partitions}
        return dict(sorted(found.items()))

    def _without_names(self, text: str | None) -> str | None:
        if text is None:
            return None
        for name, known in self._known.items():
            if known.member_id:
                text = text.replace(known.member_id, f"<{name}>")
        return text.replace(self._prefix, "").replace(self._group, "<group>")


def _partitions_of(assignment: Any) -> Mapping[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for each in assignment.partitions:
        by_topic.setdefault(each.topic, []).append(each.partition)
    return by_topic
