"""Seeded histories of requests to one classic group, and their player: the same steps to two brokers, one by one.

Used by `test_same_group_histories`. Nothing is shared between two players.

A history names actors, not members: which id and generation an actor has is what each broker gave it, so the same
history can be played to any broker. Where Kafka leaves something to chance (who leads after the leader left, the order
of a member list) an answer is told without it: answers are compared by what they say of the actor they belong to.
Version 0 of commits and their fetches is left out: with ZooKeeper, Kafka 3.9 keeps those offsets there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

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
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.compatibility.history_player import REBALANCE_MS, HistoryPlayer, Step, name_of
from tests.support.server_process import ServerProcess

STATIC_JOIN, STATIC_HEARTBEAT, STATIC_SYNC, STATIC_LEAVE = 5, 3, 3, 3
"""First versions that know members by a name of their own (KIP-345)."""
SESSION_MS: Final = 20_000
LONG_REBALANCE_MS: Final = 20_000
UNKNOWN_MEMBER: Final = "nobody-0123"


@dataclass(frozen=True)
class Actor:
    """Somebody who may be a member. instance: the name of a static member; two actors may have the same one."""

    name: str
    instance: str | None = None


ACTORS: Final = {
    each.name: each
    for each in (Actor("a"), Actor("b"), Actor("c"), Actor("s", "one"), Actor("t", "one"), Actor("u", "two"))
}
PROTOCOLS: Final = {
    "range": [("range", b"")],
    "both": [("range", b""), ("roundrobin", b"")],
    "cooperative": [("cooperative-sticky", b"")],
    "none": [],
}


def make_history(seed: int, length: int) -> list[Step]:
    """A history of about `length` steps."""
    chance = random.Random(seed)
    everybody = list(ACTORS)
    actors = chance.sample(everybody, chance.randint(1, 4))
    is_waiting_allowed = chance.random() < 0.25  # the whole history then has short rebalance time-outs
    steps: list[Step] = []
    if chance.random() < 0.6:  # most of what can go wrong needs a group first
        steps.extend(_join_as_usual(chance, actor, is_waiting_allowed) for actor in [*actors, *actors])
        steps.append(Step("sync", "all", 5, {"wrong": ""}))
    while len(steps) < length:
        steps.extend(_next_steps(chance, actors, is_waiting_allowed))
    return steps


def _next_steps(chance: random.Random, actors: list[str], is_waiting_allowed: bool) -> list[Step]:
    actor = chance.choice(actors)
    static = ACTORS[actor].instance is not None
    draw = chance.random()
    if draw < 0.36:
        return [_join(chance, actor, is_waiting_allowed)]
    if draw < 0.52:
        order = chance.choice(["followers", "leader", "leader", "all", "all"])
        return [Step("sync", order, chance.choice([3, 4, 5] if static else range(6)), {"wrong": _wrong(chance, 0.1)})]
    if draw < 0.66:
        versions = range(STATIC_HEARTBEAT, 5) if static else range(5)
        return [Step("heartbeat", actor, chance.choice(versions), {"wrong": _wrong(chance, 0.3)})]
    if draw < 0.76:
        versions = range(STATIC_LEAVE, 6) if static else range(6)
        return [
            Step(
                "leave",
                actor,
                chance.choice(versions),
                {"wrong": _wrong(chance, 0.15), "by": chance.choice(["member", "instance", "both"])},
            )
        ]
    if draw < 0.86:
        versions = range(7, 10) if static else range(1, 10)
        return [
            Step(
                "commit",
                actor,
                chance.choice(versions),
                {"wrong": _wrong(chance, 0.3), "offset": chance.randrange(100)},
            )
        ]
    if draw < 0.90:
        return [Step("fetch_offsets", "", chance.choice(range(1, 10)))]
    if draw < 0.95:
        return [Step("describe", "", chance.choice(range(6)))]
    if draw < 0.965:
        return [Step("delete_group", "", chance.choice(range(3)))]
    if draw < 0.98:
        return [Step("delete_offsets")]
    if draw < 0.99:
        return [Step("list", "", chance.choice(range(6)))]
    return [Step("wait")] if is_waiting_allowed else [Step("describe", "", 5)]


def _join(chance: random.Random, actor: str, is_waiting_allowed: bool) -> Step:
    versions = range(STATIC_JOIN, 10) if ACTORS[actor].instance is not None else range(10)
    return Step(
        "join",
        actor,
        chance.choice(versions),
        {
            "as": chance.choices(["itself", "new", "unknown"], [8, 3, 0.5])[0],
            "protocols": chance.choices(["range", "both", "cooperative", "none"], [4, 6, 0.5, 0.2])[0],
            "type": chance.choices(["consumer", "connect", ""], [30, 1, 0.5])[0],
            "session": chance.choices([SESSION_MS, 10, 9_000_000], [30, 0.5, 0.5])[0],
            "rebalance": REBALANCE_MS if is_waiting_allowed else LONG_REBALANCE_MS,
            "metadata": chance.choice([b"\x00\x01m", b"\x00\x01m", b"\x00\x01n"]),
        },
    )


def _join_as_usual(chance: random.Random, actor: str, is_waiting_allowed: bool) -> Step:
    usual = {"as": "itself", "protocols": "both", "type": "consumer", "session": SESSION_MS, "metadata": b"\x00\x01m"}
    rebalance = REBALANCE_MS if is_waiting_allowed else LONG_REBALANCE_MS
    return Step("join", actor, chance.choice([5, 7, 8, 9]), usual | {"rebalance": rebalance})


def _wrong(chance: random.Random, probability: float) -> str:
    return chance.choice(["generation", "member", "instance"]) if chance.random() < probability else ""


@dataclass
class _Known:
    """What a broker has told an actor."""

    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    is_leader: bool = False
    members: list[str] = field(default_factory=list)


class GroupHistoryPlayer(HistoryPlayer):
    """Plays to a classic group. topic: of two partitions, whose offsets are committed."""

    def __init__(self, server: ServerProcess, group: str, topic: str, settle_seconds: float) -> None:
        super().__init__(server, group, settle_seconds)
        self._topic = topic
        self._known = {name: _Known() for name in ACTORS}

    # Steps

    def _join(self, step: Step) -> list[str]:
        known, options = self._known[step.actor], step.options
        instance = ACTORS[step.actor].instance
        member_id = {"itself": known.member_id, "new": "", "unknown": UNKNOWN_MEMBER}[options["as"]]
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=options["session"],
            rebalance_timeout_ms=options["rebalance"],
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=options["type"],
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name, options["metadata"])
                for name, _ in PROTOCOLS[options["protocols"]]
            ],
        )
        if step.version == 0:
            request.rebalance_timeout_ms = -1
        return self._ask(step, request, JoinGroupResponse)

    def _sync(self, step: Step) -> list[str]:
        told: list[str] = []
        members = [name for name, known in self._known.items() if known.generation >= 0]
        followers = [name for name in members if not self._known[name].is_leader]
        leaders = [name for name in members if self._known[name].is_leader]
        chosen = {"followers": followers, "leader": leaders, "all": followers + leaders}[step.actor]
        for name in chosen:
            known, instance = self._known[name], ACTORS[name].instance
            by_id = {each.member_id: other for other, each in self._known.items()}
            assignments = [
                SyncGroupRequest.SyncGroupRequestAssignment(member, f"for {by_id.get(member)}".encode())
                for member in known.members
            ]
            version = max(step.version, STATIC_SYNC) if instance else step.version
            generation, member_id, instance = self._identity(name, step.options["wrong"], version >= STATIC_SYNC)
            request = SyncGroupRequest(
                group_id=self._group,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance,
                protocol_type="consumer" if version >= 5 else None,
                protocol_name=known.protocol if version >= 5 else None,
                assignments=assignments if known.is_leader else [],
            )
            # Of the followers it is not known who becomes leader: a lone sync that fails for one may not for another.
            told += self._ask(Step("sync", name, version), request, SyncGroupResponse)
        return sorted(told)

    def _heartbeat(self, step: Step) -> list[str]:
        generation, member_id, instance = self._identity(step.actor, step.options["wrong"], step.version >= 3)
        return self._ask(step, HeartbeatRequest(self._group, generation, member_id, instance), HeartbeatResponse)

    def _leave(self, step: Step) -> list[str]:
        _, member_id, instance = self._identity(step.actor, step.options["wrong"], step.version >= STATIC_LEAVE)
        if step.version < STATIC_LEAVE:
            request = LeaveGroupRequest(self._group, member_id)
        else:
            if instance is not None and step.options["by"] == "instance":
                member_id = ""
            elif step.options["by"] == "member":
                instance = None
            request = LeaveGroupRequest(self._group, members=[LeaveGroupRequest.MemberIdentity(member_id, instance)])
        return self._ask(step, request, LeaveGroupResponse)

    def _commit(self, step: Step) -> list[str]:
        generation, member_id, instance = self._identity(step.actor, step.options["wrong"], step.version >= 7)
        if step.version == 0:
            generation, member_id = -1, ""
        place = OffsetCommitRequest.OffsetCommitRequestPartition(0, step.options["offset"], committed_metadata="m")
        elsewhere = OffsetCommitRequest.OffsetCommitRequestPartition(7, 1, committed_metadata="")
        wanted = OffsetCommitRequest.OffsetCommitRequestTopic(name=self._topic, partitions=[place, elsewhere])
        request = OffsetCommitRequest(self._group, generation, member_id, instance, topics=[wanted])
        return self._ask(step, request, OffsetCommitResponse)

    def _fetch_offsets(self, step: Step) -> list[str]:
        if step.version < 8:
            topics = [OffsetFetchRequest.OffsetFetchRequestTopic(self._topic, [0, 1])]
            request = OffsetFetchRequest(self._group, topics)
        else:
            wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0, 1])
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=self._group, topics=[wanted])]
            )
        return self._ask(step, request, OffsetFetchResponse)

    def _describe(self, step: Step) -> list[str]:
        return self._ask(step, DescribeGroupsRequest([self._group]), DescribeGroupsResponse)

    def _list(self, step: Step) -> list[str]:
        return self._ask(step, ListGroupsRequest(), ListGroupsResponse)

    def _delete_group(self, step: Step) -> list[str]:
        return self._ask(step, DeleteGroupsRequest([self._group]), DeleteGroupsResponse)

    def _delete_offsets(self, step: Step) -> list[str]:
        partition = OffsetDeleteRequest.OffsetDeleteRequestPartition(0)
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(self._topic, [partition])
        return self._ask(step, OffsetDeleteRequest(self._group, [topic]), OffsetDeleteResponse)

    def _identity(self, actor: str, wrong: str, may_be_static: bool) -> tuple[int, str, str | None]:
        known = self._known[actor]
        instance = ACTORS[actor].instance if may_be_static else None
        if wrong == "generation":
            return known.generation + 7, known.member_id, instance
        if wrong == "member":
            return known.generation, UNKNOWN_MEMBER, instance
        if wrong == "instance" and may_be_static:
            return known.generation, known.member_id, "another"
        return known.generation, known.member_id, instance

    # Answers

    def _tell(self, actor: str, answer: Any) -> str:
        if isinstance(answer, JoinGroupResponse):
            return self._tell_join(actor, answer)
        if isinstance(answer, SyncGroupResponse):
            protocol = f"{answer.protocol_type} {answer.protocol_name}"
            return f"{name_of(answer.error_code)} {protocol} {bytes(answer.assignment)!r}"
        if isinstance(answer, HeartbeatResponse):
            return name_of(answer.error_code)
        if isinstance(answer, LeaveGroupResponse):
            members = [f"{name_of(each.error_code)} {each.group_instance_id}" for each in answer.members]
            return f"{name_of(answer.error_code)} {members}"
        if isinstance(answer, OffsetCommitResponse | OffsetDeleteResponse):
            code = name_of(getattr(answer, "error_code", 0))
            partitions = [each for topic in answer.topics for each in topic.partitions]
            parts = sorted((each.partition_index, name_of(each.error_code)) for each in partitions)
            if isinstance(answer, OffsetCommitResponse):
                # To a member of a group that is not there v9 says so since Kafka 4, which ours follows there.
                missing, illegal = ErrorCode.GROUP_ID_NOT_FOUND.name, ErrorCode.ILLEGAL_GENERATION.name
                parts = [(index, illegal if error == missing else error) for index, error in parts]
            return f"{code} {parts}"
        if isinstance(answer, OffsetFetchResponse):
            return _tell_offsets(answer)
        if isinstance(answer, DescribeGroupsResponse):
            return self._tell_description(answer)
        if isinstance(answer, DeleteGroupsResponse):
            return str([name_of(each.error_code) for each in answer.results])
        mine = [each for each in answer.groups if each.group_id == self._group]
        return f"{name_of(answer.error_code)} {[(e.protocol_type, e.group_state, e.group_type.lower()) for e in mine]}"

    def _tell_join(self, actor: str, answer: JoinGroupResponse) -> str:
        known = self._known[actor]
        if answer.member_id and answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            known.member_id = answer.member_id
        if answer.error_code != ErrorCode.NONE:
            given = "an id" if answer.member_id not in ("", UNKNOWN_MEMBER) else repr(answer.member_id)
            return f"{name_of(answer.error_code)} {answer.generation_id} {answer.protocol_name!r} {given}"
        known.generation, known.protocol = answer.generation_id, answer.protocol_name
        known.is_leader = answer.leader == answer.member_id
        known.members = [each.member_id for each in answer.members]
        # Who leads is chance once the first leader is gone; so are the members, which only the leader is told.
        return f"NONE {answer.generation_id} {answer.protocol_type} {answer.protocol_name} {answer.skip_assignment}"

    def _tell_description(self, answer: DescribeGroupsResponse) -> str:
        (group,) = answer.groups
        names = {known.member_id: name for name, known in self._known.items()}
        members = sorted(
            (names.get(each.member_id, "?"), each.group_instance_id or "", each.client_id, each.client_host,
             bytes(each.member_metadata), bytes(each.member_assignment))
            for each in group.members
        )  # fmt: skip
        return (
            f"{name_of(group.error_code)} {group.group_state} {group.protocol_type} {group.protocol_data!r} {members}"
        )


def _tell_offsets(answer: OffsetFetchResponse) -> str:
    code = answer.groups[0].error_code if answer.groups else answer.error_code
    topics = answer.groups[0].topics if answer.groups else answer.topics
    parts = [
        (
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            name_of(each.error_code),
        )
        for topic in topics
        for each in topic.partitions
    ]
    return f"{name_of(code)} {parts}"
