"""Random lives of a consumer group (KIP-848): members that join, leave, are restarted, fall silent, lose answers and
read something else; topics that come, go and grow; regular expressions that are resolved late; coordinators that
change.

Whatever happens: no partition is owned by two members at once, nor is it in two targets; when nothing happens any more,
every partition that somebody reads has exactly one owner, and everybody has gone on to the group's epoch; and what the
log says is what the coordinator knows.
"""

from __future__ import annotations

import random
import re

import pytest

from barnabas.coordinator.group.consumer.consumer_group_member import TimerKind
from barnabas.coordinator.group.consumer.replay import restore_consumer_groups
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.support.consumer_group_coordinator import ConsumerGroupCoordinator, Owned, name_of, topics_of

LIVES, MORE_LIVES, LIVES_PER_TEST = 500, 10_000, 250
STEPS = 60
NAMES = ("foo", "fox", "bar", "baz")
REGEXES = ("fo.", "ba.", "foo|baz", "none")


class Client:
    """A member as it sees itself: what it owns, until it has given it up."""

    def __init__(self, member_id: str, instance: str | None) -> None:
        self.member_id = member_id
        self.instance = instance
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.assigned: set[tuple[str, int]] = set()
        self.names: tuple[str, ...] | None = ("foo",)
        self.regex: str | None = None
        self.says_all = False
        """After an answer was lost, to be told again what it said."""

    def begin_anew(self) -> None:
        """It was fenced: it abandons everything."""
        self.epoch = 0
        self.owned = set()
        self.assigned = set()


class GroupLife:
    """One life."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.counts = {"foo": 4, "bar": 2}
        self.largest = dict(self.counts)
        self.coordinator = ConsumerGroupCoordinator(**self.counts)
        self.clients: dict[str, Client] = {}
        self.silent: list[Client] = []
        self.made = 0

    def live(self) -> None:
        actions = (
            *[self.beat] * 8,
            *[self.join] * 2,
            *[self.reconcile] * 8,
            self.leave,
            self.fall_silent,
            self.restart_static,
            self.resubscribe,
            self.change_topics,
            self.resolve,
            self.lose_answer,
            self.change_coordinator,
        )
        for _ in range(STEPS):
            self.chance.choice(actions)()
            self.check()
        self.settle()

    # -- what happens

    def join(self) -> None:
        if len(self.clients) >= 6:
            return
        self.made += 1
        instance = self.chance.choice((None, None, "one", "two"))
        if instance in {client.instance for client in [*self.clients.values(), *self.silent]} - {None}:
            instance = None
        client = Client(f"member-{self.made}", instance)
        self.choose_topics(client)
        self.clients[client.member_id] = client
        self.ask(client)

    def beat(self) -> None:
        if client := self.any_client():
            self.ask(client, says_owned=self.chance.random() < 0.5)

    def reconcile(self) -> None:
        """A client does what it was told: gives up, takes, and says so."""
        if client := self.any_client():
            client.owned = set(client.assigned)
            self.ask(client, says_owned=True)

    def leave(self) -> None:
        client = self.any_client()
        if client is None or client.epoch == 0:
            return
        del self.clients[client.member_id]
        if client.instance is not None and self.chance.random() < 0.5:
            self.coordinator.leave(client.member_id, -2, client.instance)
            client.owned = set()
            self.silent.append(client)
        else:
            self.coordinator.leave(client.member_id, -1, client.instance)

    def restart_static(self) -> None:
        """A static member that left for a while comes back, under a new id."""
        gone = [client for client in self.silent if self.is_away(client)]
        if gone:
            client = self.chance.choice(gone)
            self.silent.remove(client)
            self.made += 1
            client.member_id = f"member-{self.made}"
            client.begin_anew()
            self.clients[client.member_id] = client
            self.ask(client)

    def is_away(self, client: Client) -> bool:
        member = self.coordinator.group.static_member(client.instance)
        return member is not None and member.member_epoch == -2

    def fall_silent(self) -> None:
        """Nothing is heard of a client until its session is over; by then it has given up on its own."""
        client = self.any_client() if self.chance.random() < 0.5 else None
        if client is not None:
            del self.clients[client.member_id]
            self.silent.append(client)
        for client in list(self.silent):
            if self.chance.random() < 0.5:
                self.silent.remove(client)
                if client.member_id in self.coordinator.group.members:
                    client.owned = set()
                    self.coordinator.leave(client.member_id, -1, client.instance)

    def resubscribe(self) -> None:
        client = self.any_client()
        if client is not None and client.epoch > 0:
            self.choose_topics(client)
            self.ask(client, says_owned=True, says_topics=True)

    def choose_topics(self, client: Client) -> None:
        if self.chance.random() < 0.3:
            client.names, client.regex = (), self.chance.choice(REGEXES)
        else:
            client.names, client.regex = tuple(self.chance.sample(NAMES, self.chance.randint(0, 3))), ""

    def change_topics(self) -> None:
        name = self.chance.choice(NAMES)
        if self.chance.random() < 0.3:
            self.counts.pop(name, None)
        else:
            # The id is made of the name, and a topic of one id never shrinks.
            self.largest[name] = self.counts[name] = self.largest.get(name, 0) + self.chance.randint(1, 2)
        self.coordinator.image = topics_of(**self.counts)
        self.coordinator.newest_topics_version += 1
        self.coordinator.now_ms += 11_000

    def resolve(self) -> None:
        wanted = self.coordinator.group.topics.members_by_regex
        self.coordinator.resolve(
            **{regex: {name for name in self.counts if re.fullmatch(regex, name)} for regex in wanted}
        )

    def lose_answer(self) -> None:
        if client := self.any_client():
            self.ask(client, says_owned=True, hears=False)
            client.says_all = True

    def change_coordinator(self) -> None:
        """Another broker reads the log: it knows what this one knew."""
        log = list(self.coordinator.log.items())
        self.chance.shuffle(log)
        *_, groups = restore_consumer_groups(log)
        loaded, known = groups.get("group"), self.coordinator.group
        if loaded is None:
            assert not known.members
            return
        for name in ("members", "static_members", "group_epoch", "assignment_epoch"):
            assert getattr(loaded, name) == getattr(known, name), name
        for name in ("by_member", "owners", "size"):
            assert getattr(loaded.target, name) == getattr(known.target, name), name
        assert loaded.topics.names() == known.topics.names()
        self.coordinator.group = loaded

    # -- requests

    def any_client(self) -> Client | None:
        return self.chance.choice(list(self.clients.values())) if self.clients else None

    def ask(self, client: Client, *, says_owned: bool = False, says_topics: bool = False, hears: bool = True) -> None:
        joins = client.epoch == 0
        owned: Owned | None = None
        if joins:
            owned = {}
        elif says_owned or client.says_all:
            owned = {}
            for name, number in client.owned:
                owned.setdefault(name, set()).add(number)
        says = joins or says_topics or client.says_all
        try:
            answer = self.coordinator.beat(
                client.member_id,
                client.epoch,
                owned,
                instance_id=client.instance,
                rebalance_timeout_ms=5000 if joins or client.says_all else -1,
                subscribed_topic_names=client.names if says else None,
                subscribed_topic_regex=client.regex if says else None,
                server_assignor=self.chance.choice((None, "range", "uniform")) if joins else None,
            )
        except ApiError as error:
            if joins and error.code is ErrorCode.UNRELEASED_INSTANCE_ID and client.instance is not None:
                # Kafka, too, has a static member that was fenced wait until its session is over.
                del self.clients[client.member_id]
                self.silent.append(client)
                return
            if joins or error.code not in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}:
                raise
            client.begin_anew()
            return
        if not hears:
            return
        client.epoch = answer.member_epoch
        client.says_all = False
        if answer.assignment is not None:
            client.assigned = {
                (name_of(key), number) for key, numbers in answer.assignment.items() for number in numbers
            }

    # -- what must hold

    def check(self) -> None:
        group = self.coordinator.group
        owners: dict[tuple[str, int], str] = {}
        for client in [*self.clients.values(), *self.silent]:
            if client.member_id not in group.members:
                continue
            for partition in client.owned:
                assert partition not in owners, f"{partition}: {owners[partition]} and {client.member_id}"
                owners[partition] = client.member_id
        held: set[tuple[bytes, int]] = set()
        for member in group.members.values():
            for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
                for key, numbers in partitions.items():
                    for number in numbers:
                        assert (key, number) not in held, "assigned twice"
                        held.add((key, number))
                        assert group.partition_epoch(key, number) == member.member_epoch
        targets = [
            (key, n) for target in group.target.by_member.values() for key, found in target.items() for n in found
        ]
        assert len(targets) == len(set(targets))
        assert set(group.target.by_member) <= set(group.members)

    def settle(self) -> None:
        """Nothing happens any more: those who fell silent are sent away, everybody does what he is told."""
        self.coordinator.now_ms += 60_000
        for _ in range(12):
            for client in self.silent:
                if client.member_id in self.coordinator.group.members:
                    self.coordinator.leave(client.member_id, -1, client.instance)
            self.silent = []
            self.resolve()
            for client in list(self.clients.values()):
                client.owned = set(client.assigned)
                self.ask(client, says_owned=True)
                client.owned &= client.assigned
                self.check()
        group = self.coordinator.group
        if not self.clients:
            return
        assert group.state_name == "Stable", group.state_name
        assert {client.epoch for client in self.clients.values()} == {group.group_epoch}
        read = {name for client in self.clients.values() for name in self.read_by(client)}
        owned = sorted(partition for client in self.clients.values() for partition in client.owned)
        assert owned == sorted((name, n) for name in read for n in range(self.counts[name]))
        for client in self.clients.values():
            assert {name for name, _ in client.owned} <= self.read_by(client)

    def read_by(self, client: Client) -> set[str]:
        names = set(client.names or ())
        if client.regex:
            names |= {name for name in self.counts if re.fullmatch(client.regex, name)}
        return names & self.counts.keys()


def live(first: int, count: int) -> None:
    for seed in range(first, first + count):
        try:
            GroupLife(seed).live()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("first", range(0, LIVES, LIVES_PER_TEST))
def test_lives(first: int) -> None:
    live(first, LIVES_PER_TEST)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(LIVES, LIVES + MORE_LIVES, LIVES_PER_TEST))
def test_more_lives(first: int) -> None:
    live(first, LIVES_PER_TEST)


def test_deadlines_follow_what_is_to_be_given_up() -> None:
    """Whoever has to give something up is watched until it has; nobody else is."""
    for seed in range(100):
        life = GroupLife(seed)
        watched: set[str] = set()
        for _ in range(STEPS):
            life.chance.choice((life.join, life.beat, life.reconcile, life.reconcile, life.resubscribe))()
            assert life.coordinator.last is not None or not life.clients
            for change in life.coordinator.last.timers if life.coordinator.last is not None else ():
                if change.kind is TimerKind.REBALANCE:
                    (watched.discard if change.delay_ms is None else watched.add)(change.member_id)
            members = life.coordinator.group.members.values()
            assert watched == {member.member_id for member in members if member.partitions_pending_revocation}
