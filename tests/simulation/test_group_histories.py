"""Random lives of a classic group: members that come, go, fall silent, are restarted, repeat themselves and come late,
a log that fails, and coordinators that change.

Whatever happens: generations follow each other, one at a time; every member of a generation gets what its leader
assigned to it and nothing else; every request is answered once, and nobody waits forever; in the end nothing is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from barnabas.coordinator.group.classic import classic_group
from barnabas.coordinator.group.classic.classic_group_member import JoinAnswer, LeavingMember, SyncAnswer
from barnabas.coordinator.group.classic.states import (
    TRANSITIONS,
    ClassicEvent,
    ClassicState,
    ClassicTransition,
    classic_transition,
)
from barnabas.protocol.errors import ErrorCode
from tests.support.classic_coordinator import Answers, ClassicCoordinator

LIVES, MORE_LIVES, LIVES_PER_TEST = 2_000, 20_000, 250
LONGEST_SESSION_MS, LONGEST_REBALANCE_MS, NEW_MEMBER_MS = 30_000, 40_000, 300_000
PROTOCOLS = (
    (("range", b"a"), ("roundrobin", b"b")),
    (("roundrobin", b"b"), ("range", b"a")),
    (("range", b"a"),),
    (("range", b"other"), ("roundrobin", b"b")),
    (("sticky", b"c"),),
)
Assignment = dict[str, bytes]


class Client:
    """A member as it sees itself; `instance` may be another one's as well."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.members: list[str] = []
        self.leads = False
        self.skips_assignment = False


class GroupLife:
    """One life. `era` counts coordinators: what a lost one had agreed on and not stored is forgotten."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.coordinator = ClassicCoordinator(
            initial_rebalance_delay_ms=self.chance.choice((0, 500, 3000)),
            max_size=self.chance.choice((2, 4, 100)),
        )
        self.service = self.coordinator.service
        self.changes = self.coordinator.changes
        self.is_slow = self.chance.random() < 0.3
        if self.is_slow:
            self.changes.is_late = lambda: self.chance.random() < 0.3
        instances = (None, None, None, None, "one", "one", "two")
        count = self.chance.randint(1, len(instances))
        self.clients = [Client(f"c{number}", each) for number, each in enumerate(self.chance.sample(instances, count))]
        self.waiting: list[tuple[str, Answers]] = []
        self.generation = 0
        self.said: dict[tuple[int, str], list[Assignment]] = {}
        """By generation and member id, what syncs said; more than one if somebody said something several times."""
        self.leaders: dict[int, str] = {}
        """By generation, the id of the member that was told to assign."""
        self.got: list[tuple[int, str | None, str, bytes]] = []
        """Generation, instance, id and assignment of members whose syncs were answered. What leaders were told may be
        known later than that, so this is looked at when nothing is late any more."""
        self.owners: dict[tuple[int, str], str] = {}
        """The ids by which a generation's leader knows its static members."""
        self.trace: list[str] = []

    def run(self) -> None:
        steps: list[tuple[Callable[[], None], int]] = [
            (self.join, 30),
            (self.sync, 30),
            (self.heartbeat, 12),
            (self.leave, 5),
            (self.let_time_pass, 14),
            (self.change_the_log, 5),
            (self.settle, 10),
            (self.change_the_coordinator, 2),
        ]
        chosen = self.chance.choices([step for step, _ in steps], [weight for _, weight in steps], k=120)
        for step in chosen:
            step()
            self.check()
        self.end()

    # Steps

    def join(self) -> None:
        client = self.chance.choice(self.clients)
        member_id = self.chance.choices((client.member_id, "", "unknown"), (10, 2, 0.5))[0]
        self.note(f"{client.name} joins as {member_id!r}")
        answers = self.coordinator.join(
            member_id,
            client.instance,
            client_id=client.name,
            protocol_type="connect",
            protocols=self.chance.choices(PROTOCOLS, (10, 3, 3, 2, 0.5))[0],
            session_timeout_ms=self.chance.choice((6_000, 10_000, LONGEST_SESSION_MS)),
            rebalance_timeout_ms=self.chance.choice((0, 1_000, 10_000, LONGEST_REBALANCE_MS)),
            needs_known_member_id=client.instance is None and self.chance.random() < 0.7,
            can_skip_assignment=self.chance.random() < 0.5,
        )
        self.follow(f"join of {client.name}", answers, partial(self.joined, client))

    def sync(self) -> None:
        client = self.chance.choice(self.clients)
        generation = client.generation + self.chance.choices((0, -1, 1), (30, 1, 1))[0]
        assignment: Assignment = {}
        if client.leads and not client.skips_assignment:
            known = [each for each in client.members if self.chance.random() < 0.9]
            assignment = {each: f"{generation} {self.chance.random()} {each}".encode() for each in known}
        self.note(f"{client.name} syncs as {client.member_id!r} of {generation}, leads: {client.leads}")
        # Whether it does lead is seen when all answers are there: it may sync before it knows, or know it no more.
        self.said.setdefault((generation, client.member_id), []).append(assignment)
        answers = self.coordinator.sync(client.member_id, generation, assignment, client.instance)
        on_answer = partial(self.synced, client, client.member_id, generation, assignment)
        self.follow(f"sync of {client.name}", answers, on_answer)

    def heartbeat(self) -> None:
        for client in self.chance.sample(self.clients, self.chance.randint(1, len(self.clients))):
            error = self.coordinator.heartbeat(client.member_id, client.generation, client.instance)
            self.note(f"{client.name} lives: {error.name}")

    def leave(self) -> None:
        client = self.chance.choice(self.clients)
        member_id = client.member_id if self.chance.random() < 0.7 else ""
        answer = self.coordinator.leave(LeavingMember(member_id, client.instance))
        self.note(f"{client.name} leaves: {answer.error.name} {[each.error.name for each in answer.members]}")

    def let_time_pass(self) -> None:
        milliseconds = self.chance.choice((1, 100, 1_000, 6_000, 11_000, 45_000))
        self.note(f"{milliseconds} ms")
        self.coordinator.advance(milliseconds)

    def change_the_log(self) -> None:
        log = self.coordinator.log
        log.holds_back = self.chance.random() < 0.4
        log.refusal = self.chance.choices((ErrorCode.NONE, ErrorCode.NOT_COORDINATOR), (6, 1))[0]
        self.note(f"log: holds back {log.holds_back}, refuses {log.refusal.name}")

    def settle(self) -> None:
        error = self.chance.choices((ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS), (5, 1))[0]
        self.note(f"replicas answer {error.name}")
        self.coordinator.log.settle_all(error)

    def change_the_coordinator(self) -> None:
        self.note("another coordinator")
        if self.coordinator.table.get("group") is not None:
            self.coordinator.unload()
        self.changes.catch_up(self.chance)
        self.take_answers()
        assert not self.waiting, "a coordinator that is not one any more owes answers"
        self.check_what_members_got()
        self.coordinator.log.settle_all(ErrorCode.NOT_COORDINATOR)
        self.coordinator.load()
        self.generation = self.coordinator.group.generation if self.coordinator.table.get("group") else 0
        self.said = {key: value for key, value in self.said.items() if key[0] <= self.generation}
        self.leaders = {key: value for key, value in self.leaders.items() if key <= self.generation}

    # Answers

    def follow(self, what: str, answers: Answers, on_answer: Callable[[Any], None]) -> None:
        """Look at an answer as soon as it comes, in order."""
        self.waiting.append((what, answers))
        if answers.is_waiting:
            answers.on_answer = on_answer
        else:
            on_answer(answers.given[0])

    def take_answers(self) -> None:
        self.waiting = [each for each in self.waiting if each[1].is_waiting]

    def joined(self, client: Client, answer: JoinAnswer) -> None:
        self.note(f"  {client.name} joined: {answer.error.name} {answer.member_id!r} of {answer.generation}")
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        if answer.error is not ErrorCode.NONE:
            return
        assert answer.generation >= self.generation or self.is_slow, "a generation after the next one"
        self.generation = max(answer.generation, self.generation)
        client.member_id, client.generation = answer.member_id, answer.generation
        client.leads = answer.leader == answer.member_id
        client.skips_assignment = answer.skip_assignment
        client.members = [each.member_id for each in answer.members]
        assert client.leads == bool(answer.members)
        if client.leads and not client.skips_assignment:
            leader = self.leaders.setdefault(client.generation, client.member_id)
            assert leader == client.member_id, f"two leaders of generation {client.generation}"
        for member in answer.members:
            if member.group_instance_id is not None and not answer.skip_assignment:
                self.owners[answer.generation, member.group_instance_id] = member.member_id

    def synced(
        self, client: Client, member_id: str, generation: int, assignment: Assignment, answer: SyncAnswer
    ) -> None:
        self.note(f"  {client.name} synced: {answer.error.name} {answer.assignment!r}")
        if answer.error is ErrorCode.NONE:
            self.got.append((generation, client.instance, member_id, answer.assignment))
        elif answer.error is ErrorCode.ILLEGAL_GENERATION:  # the only refusal that says that nobody listened
            said = self.said.get((generation, member_id), [])
            self.said[generation, member_id] = [each for each in said if each is not assignment]

    def check_what_members_got(self) -> None:
        assert not self.changes.late
        for generation, instance, member_id, assignment in self.got:
            self.keep_matching(generation, {self.owners.get((generation, instance or ""), member_id): assignment})
        self.got.clear()

    def keep_matching(self, generation: int, seen: Assignment) -> None:
        """Of what the leader said, only what fits to what members got can be the assignment."""
        key = generation, self.leaders.get(generation, "nobody")
        said = self.said.get(key, [])
        fitting = [each for each in said if all(each.get(owner, b"") == value for owner, value in seen.items())]
        assert fitting, f"of generation {generation} members have {seen}, its leader {key[1]} said {said}"
        self.said[key] = fitting

    # What always holds

    def check(self) -> None:
        self.take_answers()
        if self.coordinator.table.get("group") is None:
            assert not self.waiting or self.changes.late
            return
        if self.changes.late and self.chance.random() < 0.7:
            return
        while self.changes.late:
            self.changes.catch_up(self.chance)
        self.take_answers()
        self.check_what_members_got()
        group = self.coordinator.group
        members = group.members
        waiting = [each for each in members.by_id.values() if each.join_reply is not None]
        assert members.waiting == len(waiting)
        assert len(self.waiting) == sum(
            (each.join_reply is not None) + (each.sync_reply is not None) for each in members.by_id.values()
        ), "a request is lost, or answered too early"
        sessions = [each.session for each in members.by_id.values()] + list(members.pending.values())
        for session in sessions:
            assert session in self.coordinator.heartbeats.watchers, f"nobody watches {session.member_id}"
        assert self.coordinator.heartbeats.delayed == len(sessions) == len(self.coordinator.heartbeats.watchers)
        static = {each.group_instance_id: each.member_id for each in members.by_id.values() if each.group_instance_id}
        assert members.static_ids == static
        self.check_state(group.state)

    def check_state(self, state: ClassicState) -> None:
        group = self.coordinator.group
        members, keys = group.members, self.coordinator.rebalances.watchers
        assert (("join", "group") in keys) == (state is ClassicState.PREPARING_REBALANCE)
        if state is ClassicState.EMPTY:
            assert not members.by_id
        elif state is not ClassicState.PREPARING_REBALANCE:
            assert members.leader_id in members.by_id
            assert (("sync", "group") in keys) == bool(members.pending_syncs)
        if state is ClassicState.STABLE:
            assert all(each.sync_reply is None for each in members.by_id.values())
            got = {
                self.owners.get((group.generation, each.group_instance_id or ""), each.member_id): each.assignment
                for each in members.by_id.values()
            }
            self.keep_matching(group.generation, got)

    def end(self) -> None:
        """Nobody says anything any more."""
        log = self.coordinator.log
        log.refusal, log.holds_back = ErrorCode.NONE, False
        self.changes.is_late = lambda: False
        self.changes.catch_up(self.chance)
        log.settle_all()
        self.coordinator.advance(NEW_MEMBER_MS + 2 * LONGEST_REBALANCE_MS + 2 * LONGEST_SESSION_MS)
        self.take_answers()
        assert not self.waiting, f"waits forever: {[what for what, _ in self.waiting]}"
        self.check_what_members_got()
        if self.coordinator.table.get("group") is not None:
            assert self.coordinator.group.state is ClassicState.EMPTY
        assert len(self.coordinator.timer) == 0
        assert self.coordinator.heartbeats.watched == self.coordinator.rebalances.watched == 0

    def note(self, what: str) -> None:
        self.trace.append(what)


def live(seeds: range) -> None:
    for seed in seeds:
        life = GroupLife(seed)
        try:
            life.run()
        except BaseException as error:
            error.add_note("\n  ".join((f"seed {seed}:", *life.trace[-60:])))
            raise


@pytest.mark.parametrize("first", range(0, LIVES, LIVES_PER_TEST))
def test_whatever_happens_members_agree_and_nobody_waits_forever(first: int) -> None:
    live(range(first, first + LIVES_PER_TEST))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(LIVES, MORE_LIVES, LIVES_PER_TEST))
def test_the_same_for_more_lives(first: int) -> None:
    live(range(first, first + LIVES_PER_TEST))


def test_the_lives_go_every_way_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = set()

    def noted(state: ClassicState, event: ClassicEvent) -> ClassicTransition:
        gone.add((state, event))
        return classic_transition(state, event)

    monkeypatch.setattr(classic_group, "classic_transition", noted)
    live(range(100))
    assert gone == set(TRANSITIONS)
