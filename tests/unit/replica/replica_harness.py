"""A ReplicaManager on a simulated disk, with a clock and a timer that tests move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metrics.rate import SampleWindow
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.purgatory.timer import SystemTimer
from barnabas.quota.replication_quota import ReplicationQuotas
from barnabas.replica.fetcher.fetcher_manager import FetcherId
from barnabas.replica.fetcher.leader_end_point import LeaderEndPoint
from barnabas.replica.isr.isr_updates import AlterPartitionCallback, AlterPartitionManager, IsrChange
from barnabas.replica.partitions.partition_append import PartitionAppend
from barnabas.replica.partitions.partition_fetch import ConsumerPlace, FetchTerms, PartitionFetch
from barnabas.replica.replica_config import FetcherConfig, ReplicaConfig
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.replica.requests.delete_records import ReplicaRecordDeleter
from barnabas.replica.requests.waiting_requests import WaitingRequests
from barnabas.runtime.lazy import Lazy
from barnabas.storage.fetch_data import FetchIsolation
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr
from tests.unit.storage.log_harness import Broker

TOPIC_ID = bytes(range(16))
US = 0
ANOTHER = 1


class AlterPartitionRequested(NamedTuple):
    """A change of in-sync replicas that waits for the test's answer."""

    partition: TopicPartition
    wanted: LeaderAndIsr
    broker_epochs: Mapping[int, int]
    on_done: AlterPartitionCallback

    def write(self) -> None:
        """As the store does."""
        self.on_done(self.wanted.with_partition_epoch(self.wanted.partition_epoch + 1))

    def refuse(self, code: ErrorCode) -> None:
        self.on_done(ApiError(code))


class RecordedAlterPartitions:
    """Keeps what is asked for until the test answers."""

    def __init__(self) -> None:
        self.requested: list[AlterPartitionRequested] = []

    def submit(self, change: IsrChange) -> None:
        self.requested.append(
            AlterPartitionRequested(change.partition, change.wanted, change.broker_epochs, change.on_done)
        )

    def shutdown(self) -> None:
        """Do nothing: no thread asks."""


def deleter_of(manager: ReplicaManager) -> ReplicaRecordDeleter:
    """Return what the handler of DeleteRecords calls."""
    return ReplicaRecordDeleter(manager.hosted.partition_or_error, manager.waiting)


def no_leader(fetcher_id: FetcherId) -> LeaderEndPoint:
    """Fail the test: its broker was to follow nobody."""
    raise AssertionError(f"connected to {fetcher_id}")


class Replicas:
    """Broker 0 by default, told by controller epoch 1 unless a test says otherwise. connect: of its fetchers."""

    def __init__(
        self,
        broker: Broker | None = None,
        *,
        broker_id: int = US,
        connect: Callable[[FetcherId], LeaderEndPoint] = no_leader,
        replica_selector_class: str | None = None,
        alter_partitions: AlterPartitionManager | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker = broker or Broker()
        self.clock = self.broker.clock
        self.actions = ActionQueue()
        self.timer = SystemTimer(self.clock, lambda task: task())
        self.metadata = MetadataCache(broker_id)
        self.alter_partitions = RecordedAlterPartitions()
        self.quotas = ReplicationQuotas.of(SampleWindow(11, 1000), SampleWindow(11, 1000), self.clock)
        config = ReplicaConfig(broker_id=broker_id, replica_selector_class=replica_selector_class)
        self.manager = ReplicaManager(
            config,
            self.broker.manager,
            WaitingRequests(config, self.timer, self.actions),
            self.broker.files,
            self.metadata,
            self.clock,
            Lazy(lambda: self.alter_partitions if alter_partitions is None else alter_partitions),
            FetcherConfig(backoff_ms=1),
            connect,
            self.quotas,
        )

    def lead(
        self,
        topic: str = "topic",
        partition: int = 0,
        *,
        leader: int = US,
        leader_epoch: int = 0,
        isr: Sequence[int] = (US,),
        replicas: Sequence[int] | None = None,
        adding_replicas: Sequence[int] = (),
        controller_epoch: int = 1,
        topic_id: bytes = TOPIC_ID,
        is_new: bool = True,
        partition_epoch: int | None = None,
        live_leaders: Sequence[int] = (),
    ) -> LeaderAndIsrResponse:
        """What the controller says of one partition; its partition epoch is the leader epoch unless it is given."""
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(
            partition_index=partition,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=list(isr),
            partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
            replicas=list(replicas if replicas is not None else isr),
            adding_replicas=list(adding_replicas),
            is_new=is_new,
        )
        topic_state = LeaderAndIsrRequest.LeaderAndIsrTopicState(
            topic_name=topic, topic_id=topic_id, partition_states=[state]
        )
        return self.manager.orders.apply_leader_and_isr(
            LeaderAndIsrRequest(
                controller_id=US,
                controller_epoch=controller_epoch,
                topic_states=[topic_state],
                live_leaders=[
                    LeaderAndIsrRequest.LeaderAndIsrLiveLeader(each, f"broker-{each}", 9092) for each in live_leaders
                ],
            )
        )

    def stop(self, topic: str = "topic", partition: int = 0, *, leader_epoch: int = -2, delete: bool = True) -> Any:
        state = StopReplicaRequest.StopReplicaPartitionState(
            partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete
        )
        topic_state = StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=[state])
        return self.manager.orders.stop_replicas(StopReplicaRequest(controller_epoch=1, topic_states=[topic_state]))

    def announce(self, topic: str, partition: int, leader: int) -> None:
        """Put a partition into the metadata image."""
        state = UpdateMetadataRequest.UpdateMetadataPartitionState(
            partition_index=partition, leader=leader, leader_epoch=0, isr=[leader], replicas=[leader]
        )
        topic_state = UpdateMetadataRequest.UpdateMetadataTopicState(
            topic_name=topic, topic_id=TOPIC_ID, partition_states=[state]
        )
        self.manager.orders.update_metadata(
            UpdateMetadataRequest(controller_id=US, controller_epoch=1, topic_states=[topic_state])
        )

    def append(self, *entries: tuple[str, int, bytes], acks: int = 1, timeout_ms: int = 1000) -> list[Any]:
        """Append; what comes back is empty until the answer is there. Drains the action queue as Apis.handle does."""
        answered: list[Any] = []
        self.manager.appender.append_records(
            [PartitionAppend(topic, partition, records) for topic, partition, records in entries],
            required_acks=acks,
            timeout_ms=timeout_ms,
            on_complete=answered.extend,
        )
        self.actions.run_all()
        return answered

    def fetch(
        self,
        *fetches: PartitionFetch,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        hard_max_bytes: bool = False,
        replica_id: int = -1,
        replica_epoch: int = -1,
        place: ConsumerPlace | None = None,
    ) -> list[PartitionFetch]:
        """Fetch; what comes back is empty until the answer is there. Drains the action queue as Apis.handle does."""
        answered: list[PartitionFetch] = []
        terms = FetchTerms(
            max_wait_ms, min_bytes, max_bytes, isolation, hard_max_bytes, replica_id, replica_epoch, place=place
        )
        self.manager.reader.fetch_records(terms, list(fetches), answered.extend)
        self.actions.run_all()
        return answered

    def follow(
        self,
        offset: int,
        *,
        replica_id: int = ANOTHER,
        partition: int = 0,
        epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = 0,
        max_wait_ms: int = 0,
        broker_epoch: int = -1,
    ) -> list[PartitionFetch]:
        """A follower fetches from `offset`: it has everything below."""
        fetch = PartitionFetch(
            "topic",
            partition,
            offset,
            1 << 20,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset_of_follower=log_start_offset,
        )
        return self.fetch(
            fetch,
            replica_id=replica_id,
            replica_epoch=broker_epoch,
            isolation=FetchIsolation.LOG_END,
            max_wait_ms=max_wait_ms,
        )

    def brokers_alive(self, *broker_ids: int) -> None:
        """What the metadata says of brokers."""
        brokers = [UpdateMetadataRequest.UpdateMetadataBroker(id=broker_id) for broker_id in broker_ids]
        self.manager.orders.update_metadata(
            UpdateMetadataRequest(controller_id=US, controller_epoch=1, live_brokers=brokers)
        )

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.timer.advance()

    def partition(self, topic: str = "topic", partition: int = 0) -> Any:
        return self.manager.hosted.partition_or_error(topic, partition)


def key(topic: str = "topic", partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
