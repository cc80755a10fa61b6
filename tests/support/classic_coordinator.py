"""The service of classic groups on a mock clock, with a log in memory whose replicas answer when the test says so."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_changes import (
    ClassicFollowUp,
    ClassicGroupChanges,
    DelayedHeartbeat,
    DelayedRebalance,
)
from barnabas.coordinator.group.classic.classic_group_member import (
    JoinAnswer,
    JoinTerms,
    LeaveAnswer,
    LeavingMember,
    SyncAnswer,
    SyncTerms,
)
from barnabas.coordinator.group.classic.classic_group_service import ClassicGroupService
from barnabas.coordinator.group.committed_offsets import CommittedOffsets
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.group_table import GroupTable, OpenTransactions
from barnabas.coordinator.group.restore import loaded_classic_group
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.coordinator.runtime.record import CoordinatorRecord
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.purgatory import DelayedOperationPurgatory
from barnabas.purgatory.timer import SystemTimer
from barnabas.runtime.lock_order import check_no_lock_held
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

GROUP = "group"
RANGE = (("range", b"topics"),)


class OnePartition:
    """Every group is of partition 0, whose requests are answered with what `error` was set to."""

    def __init__(self) -> None:
        self.real = CoordinatorPartitions(GROUP_METADATA_TOPIC, MetadataCache(1), 1)
        self._epoch = 0
        self.error = ErrorCode.NONE

    @property
    def error(self) -> ErrorCode:
        return self.real.check(GROUP)

    @error.setter
    def error(self, error: ErrorCode) -> None:
        self.real.start()
        self.real.resign(0, None)
        if error in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            self._epoch += 1
            self.real.begin_loading(0, self._epoch)
        if error is ErrorCode.NONE:
            self.real.end_loading(0, self._epoch)
        if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.real.stop()
        assert self.error is error


class PendingAppend:
    """Records whose replicas have not answered."""

    def __init__(self, log: MemoryLog, records: Sequence[CoordinatorRecord]) -> None:
        self._log = log
        self.records = records
        self.error = log.refusal
        self.on_stored: Callable[[ErrorCode], None] | None = None

    def when_replicated(self, on_stored: Callable[[ErrorCode], None]) -> None:
        check_no_lock_held("waiting for replicas")
        self.on_stored = on_stored
        if self.error is not ErrorCode.NONE or not self._log.holds_back:
            self.settle(self.error)
        else:
            self._log.waiting.append(self)

    def settle(self, error: ErrorCode = ErrorCode.NONE) -> None:
        assert self.on_stored is not None
        self.on_stored(error)


class MemoryLog:
    """Keeps what is appended. refusal: the local log's. holds_back: replicas answer by `settle_all` only."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.refusal = ErrorCode.NONE
        self.holds_back = False
        self.waiting: list[PendingAppend] = []

    def append(self, partition: int, records: Sequence[CoordinatorRecord], purpose: Any = None) -> PendingAppend:
        if self.refusal is ErrorCode.NONE:
            self.records.extend(records)
        return PendingAppend(self, records)

    def settle_all(self, error: ErrorCode = ErrorCode.NONE) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.settle(error)


class NoConsumerGroups:
    """Groups of KIP-848: there are none."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name}: not a classic group")


@dataclass
class Answers:
    """What one request was answered; more than one answer is a mistake."""

    given: list[Any] = field(default_factory=list)
    on_answer: Callable[[Any], None] | None = None

    def __call__(self, answer: Any) -> None:
        check_no_lock_held("answering")
        assert not self.given, f"answered twice: {self.given[0]}, {answer}"
        self.given.append(answer)
        if self.on_answer is not None:
            self.on_answer(answer)

    @property
    def is_waiting(self) -> bool:
        return not self.given

    @property
    def join(self) -> JoinAnswer:
        (answer,) = self.given
        assert isinstance(answer, JoinAnswer)
        return answer

    @property
    def sync(self) -> SyncAnswer:
        (answer,) = self.given
        assert isinstance(answer, SyncAnswer)
        return answer

    @property
    def leave(self) -> LeaveAnswer:
        (answer,) = self.given
        assert isinstance(answer, LeaveAnswer)
        return answer


class SlowChanges(ClassicGroupChanges):
    """What follows a change may come late, in any order, as when a thread is interrupted after it let the lock go."""

    is_late: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.late: list[ClassicFollowUp] = []

    def finish(self, follow_up: ClassicFollowUp) -> None:
        if self.is_late():
            self.late.append(follow_up)
        else:
            super().finish(follow_up)

    def catch_up(self, chance: random.Random) -> None:
        """Do what is left to do, in any order."""
        late, self.late = self.late, []
        chance.shuffle(late)
        for each in late:
            super().finish(each)


class ClassicCoordinator:
    """The service and everything around it; `advance` lets time pass."""

    def __init__(self, **settings: Any) -> None:
        self.clock = MockClock()
        self.timer = SystemTimer(self.clock, lambda task: task())
        self.partitions = OnePartition()
        self.log = MemoryLog()
        self.rebalances_completed = 0
        self._ids = 0
        self.table = GroupTable(self.partitions.real, lambda group_id: ClassicGroup(group_id, self.clock))
        environment = GroupEnvironment(
            config=GroupCoordinatorConfig(**{"initial_rebalance_delay_ms": 0, **settings}),
            clock=self.clock,
            timer=self.timer,
            scheduler=MockScheduler(self.clock),
            actions=ActionQueue(),
            metadata=cast(Any, None),
            partitions=self.partitions.real,
            table=self.table,
            log=cast(Any, self.log),
            open_transactions=OpenTransactions(self.table),
        )
        self.heartbeats: DelayedOperationPurgatory[DelayedHeartbeat] = DelayedOperationPurgatory(
            "Heartbeat", self.timer
        )
        self.rebalances: DelayedOperationPurgatory[DelayedRebalance] = DelayedOperationPurgatory(
            "Rebalance", self.timer
        )
        self.changes = SlowChanges(environment, self.heartbeats, self.rebalances, self._count_rebalance)
        self.service = ClassicGroupService(environment, self.changes, cast(Any, NoConsumerGroups()), self._next_uuid)

    # Requests

    def join(self, member_id: str = "", instance: str | None = None, **terms: Any) -> Answers:
        answers = Answers()
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        self.service.join_group(
            JoinTerms(member_id=member_id, group_instance_id=instance, **(defaults | terms)), answers
        )
        return answers

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Answers:
        answers = Answers()
        terms = SyncTerms(GROUP, generation, member_id, instance, protocol_type, protocol_name, assignments or {})
        self.service.sync_group(terms, answers)
        return answers

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.service.heartbeat(GROUP, member_id, instance, generation)

    def leave(self, *members: LeavingMember) -> LeaveAnswer:
        answers = Answers()
        self.service.leave_group(GROUP, members, answers)
        return answers.leave

    # Whole steps

    def stable_group(self, *clients: str, static: bool = False) -> list[str]:
        """A stable group of as many members as names are given; their ids, the leader's first."""
        joins = [self.join(instance=name if static else None, client_id=name) for name in clients]
        if len(joins) > 1:
            first = joins[0].join.member_id
            joins[0] = self.join(first, clients[0] if static else None)
        ids = [each.join.member_id for each in joins]
        generation = self.group.generation
        leader = self.group.members.leader_id
        assert leader is not None
        for each, name in sorted(zip(ids, clients, strict=True), key=lambda pair: pair[0] == leader):
            self.sync(each, generation, {one: f"of {one}".encode() for one in ids}, name if static else None)
        assert self.group.state_name == "Stable"
        return ids

    # Time and life

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer's tick by tick: what expires later sees what happened earlier."""
        until_ns = self.clock.nanoseconds() + milliseconds * 1_000_000
        while True:
            next_ms = self.timer.next_expiration_ms()
            if next_ms is None or next_ms * 1_000_000 > until_ns:
                break
            self.clock.advance(max(0.0, next_ms - self.clock.nanoseconds() / 1_000_000))
            self.timer.advance()
        self.clock.advance(max(0.0, (until_ns - self.clock.nanoseconds()) / 1_000_000))
        self.timer.advance()

    @property
    def group(self) -> ClassicGroup:
        group = self.table.get(GROUP)
        assert group is not None
        assert isinstance(group.membership, ClassicGroup)
        return group.membership

    @property
    def state(self) -> str:
        """In Kafka's words."""
        return self.group.state_name

    def unload(self) -> None:
        """Another broker coordinates the group."""
        for group in self.table.take_all(0):
            with group.lock:
                group.is_removed = True
            self.service.unloaded(group)

    def shutdown(self) -> None:
        """This broker stops."""
        self.service.shutdown()

    def load(self) -> None:
        """This broker does, again."""
        latest: dict[bytes, bytes | None] = dict(self.log.records)
        for key, value in latest.items():
            if value is not None:
                classic = loaded_classic_group(key, value, self.clock)
                group = Group(classic.group_id, 0, classic, CommittedOffsets())
                self.table.add_loaded([group])
                self.service.restored(group)

    def _count_rebalance(self) -> None:
        self.rebalances_completed += 1

    def _next_uuid(self) -> str:
        self._ids += 1
        return str(UUID(int=self._ids))
