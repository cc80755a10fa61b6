"""A coordinator of offsets over a real log on a simulated disk; clock, scheduler, replicas move when tests say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import ClassicMember, MemberTerms
from barnabas.coordinator.group.classic.states import ClassicState
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_environment import GroupEnvironment
from barnabas.coordinator.group.group_loading import PartitionLoader
from barnabas.coordinator.group.group_table import GroupTable, OpenTransactions
from barnabas.coordinator.group.offsets.offset_expiry import OffsetExpiry
from barnabas.coordinator.group.offsets.offset_service import OffsetService
from barnabas.coordinator.group.offsets.offset_terms import CommitTerms, OffsetFetchTerms, TopicToCommit
from barnabas.coordinator.group.offsets.transactional import TransactionalOffsetService
from barnabas.coordinator.runtime.coordinator_loader import CoordinatorLoader, CpuReadings
from barnabas.coordinator.runtime.coordinator_log import CoordinatorLog
from barnabas.coordinator.runtime.partitions import CoordinatorPartitions
from barnabas.metadata.topic_name import GROUP_METADATA_TOPIC
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.messages.offsets import OffsetCommitRequestPartition
from barnabas.records.memory_records import any_batches
from barnabas.replica.partitions.partition_fetch import PartitionFetch
from barnabas.runtime.lock_order import check_no_lock_held
from barnabas.storage.fetch_data import FetchIsolation
from tests.unit.replica.replica_harness import ANOTHER, TOPIC_ID, US, Replicas
from tests.unit.storage.log_harness import Broker

GROUP = "group"
PARTITIONS = 3


class RecordedService:
    """Notes what loading says of groups."""

    def __init__(self) -> None:
        self.restored_ids: list[str] = []
        self.unloaded_ids: list[str] = []

    def restored(self, group: Group) -> None:
        check_no_lock_held("restoring")
        self.restored_ids.append(group.group_id)

    def unloaded(self, group: Group) -> None:
        check_no_lock_held("unloading")
        assert group.is_removed
        self.unloaded_ids.append(group.group_id)


class GroupBroker:
    """Leads `PARTITIONS` partitions of `__consumer_offsets`, loaded and served unless a test says otherwise."""

    def __init__(
        self, broker: Broker | None = None, *, lead: bool = True, replicas: Replicas | None = None, **settings: Any
    ) -> None:
        self.replicas = replicas or Replicas(broker)
        self.clock = self.replicas.clock
        self.scheduler = self.replicas.broker.scheduler
        config = GroupCoordinatorConfig(num_partitions=PARTITIONS, **settings)
        self.partitions = CoordinatorPartitions(GROUP_METADATA_TOPIC, self.replicas.metadata, config.num_partitions)
        self.table = GroupTable(self.partitions, lambda group_id: ClassicGroup(group_id, self.clock))
        self.environment = GroupEnvironment(
            config=config,
            clock=self.clock,
            timer=self.replicas.timer,
            scheduler=self.scheduler,
            actions=self.replicas.actions,
            metadata=self.replicas.metadata,
            partitions=self.partitions,
            table=self.table,
            log=CoordinatorLog(GROUP_METADATA_TOPIC, self.replicas.manager.appender, config.append_terms, self.clock),
            open_transactions=OpenTransactions(self.table),
        )
        self.memberships = RecordedService()
        self.partition_loader = PartitionLoader(
            self.environment,
            self.replicas.manager.hosted.partition_or_error,
            lambda group_type: self.memberships,
        )
        self.loader = CoordinatorLoader(
            self.partitions,
            self.partition_loader,
            start=self._start_loading,
            readings=lambda: CpuReadings(0, 0, 0),
        )
        self.offsets = OffsetService(self.environment, self.memberships.unloaded)
        self.transactional = TransactionalOffsetService(self.environment, self.offsets)
        self.expiry = OffsetExpiry(self.environment, self.memberships.unloaded)
        self.partitions.start()
        if lead:
            self.lead()

    def _start_loading(self, run: Callable[[], None]) -> None:
        self.scheduler.schedule("group-loader", run)

    def lead(self, *, epoch: int = 0, isr: Sequence[int] = (US,), is_new: bool = True) -> None:
        """Become the leader of all partitions, and load them."""
        for partition in range(PARTITIONS):
            self.replicas.lead(GROUP_METADATA_TOPIC, partition, isr=isr, leader_epoch=epoch, is_new=is_new)
            self.loader.load(partition, epoch)
        self.scheduler.tick()

    def announce(self, *topics: str, deleted: Sequence[str] = ()) -> None:
        """Put topics of two partitions into the metadata image, or take them out."""

        def state(topic: str, leader: int) -> UpdateMetadataRequest.UpdateMetadataTopicState:
            states = [
                UpdateMetadataRequest.UpdateMetadataPartitionState(
                    partition_index=number, leader=leader, leader_epoch=0, isr=[US], replicas=[US]
                )
                for number in range(2)
            ]
            return UpdateMetadataRequest.UpdateMetadataTopicState(topic, TOPIC_ID, states)

        told = [state(topic, US) for topic in topics] + [state(topic, -2) for topic in deleted]
        self.replicas.manager.orders.update_metadata(
            UpdateMetadataRequest(controller_id=US, controller_epoch=1, topic_states=told)
        )

    def commit(
        self,
        *offsets: tuple[str, int, int],
        group: str = GROUP,
        member: str = "",
        generation: int = -1,
        metadata: str = "",
        timestamp_ms: int = -1,
        retention_ms: int = -1,
    ) -> list[Sequence[ErrorCode]]:
        """Commit (topic, partition, offset); the answer appears in what is returned."""
        answers: list[Sequence[ErrorCode]] = []

        def answered(errors: Sequence[ErrorCode]) -> None:
            check_no_lock_held("answering")
            answers.append(errors)

        terms = CommitTerms(group, member, None, generation, retention_ms, names_times=timestamp_ms != -1)
        wanted = to_commit(*offsets, metadata=metadata, timestamp_ms=timestamp_ms)
        errors = self.offsets.commit_offsets(terms, wanted, answered)
        if errors is not None:
            answered(errors)
        self.replicas.actions.run_all()
        assert len(answers) <= 1
        return answers

    def committed(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        """Everything that a group has committed."""
        found = self.offsets.fetch_offsets(OffsetFetchTerms(group, None))
        assert found.error is ErrorCode.NONE
        return {(topic, each.partition): each.offset for topic, offsets in found.topics for each in offsets}

    def records(self, group: str = GROUP) -> list[tuple[bytes, bytes | None]]:
        """Keys and values in the log of the group's partition, as they were written."""
        log = self.log(group)
        data = log.read(log.log_start_offset, 1 << 20, FetchIsolation.LOG_END).records
        content = data if isinstance(data, bytes) else data.read()
        return [(record.key or b"", record.value) for batch in any_batches(content) for record in batch.records()]

    def log(self, group: str = GROUP) -> Any:
        """The log of a group's partition."""
        partition = self.partitions.partition_for(group)
        return self.replicas.partition(GROUP_METADATA_TOPIC, partition).log

    def follow(self, group: str = GROUP) -> None:
        """The other replica has everything of the group's partition."""
        partition = self.partitions.partition_for(group)
        fetch = PartitionFetch(GROUP_METADATA_TOPIC, partition, self.log(group).log_end_offset, 1 << 20)
        self.replicas.fetch(fetch, replica_id=ANOTHER, isolation=FetchIsolation.LOG_END)

    def restarted(self, **settings: Any) -> GroupBroker:
        """Another coordinator over the same logs, loaded."""
        for partition in range(PARTITIONS):
            self.replicas.stop(GROUP_METADATA_TOPIC, partition, leader_epoch=-1, delete=False)
        again = GroupBroker(self.replicas.broker, lead=False, **settings)
        again.lead(epoch=1, is_new=False)
        return again


def to_commit(*offsets: tuple[str, int, int], metadata: str = "", timestamp_ms: int = -1) -> list[TopicToCommit]:
    """Each (topic, partition, offset) under a topic of its own, so that the order stays."""
    return [
        TopicToCommit(
            topic,
            [
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=at,
                    committed_metadata=metadata,
                    commit_timestamp=timestamp_ms,
                )
            ],
        )
        for topic, number, at in offsets
    ]


def with_member(broker: GroupBroker, topics: frozenset[str] | None = frozenset({"read"})) -> str:
    """A stable group with one member, "m", of generation 1."""
    with broker.table.locked_or_new(GROUP) as group:
        membership = group.membership
        assert isinstance(membership, ClassicGroup)
        session = membership.members.new_session("m", 10_000)
        terms = MemberTerms("client", "/host", 1000, 10_000, (("range", b""),))
        membership.add_member(ClassicMember("m", None, terms, session), "consumer", None)
        membership.generation, membership.state = 1, ClassicState.STABLE
        membership.subscribed_topics = topics
    return "m"
