"""In-sync replicas written to the store by a leader, and the notice the controller gets."""

from __future__ import annotations

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import random_uuid
from barnabas.replica.isr.isr_updates import IsrChange
from barnabas.replica.isr.zk_alter_partition_manager import ZkAlterPartitionManager
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.store import ANY_VERSION
from barnabas.zk.znodes.topic_zk_data import LeaderAndIsr, LeaderIsrAndControllerEpoch
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.mock_scheduler import MockScheduler

ONE, TWO, GONE = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("gone", 0))
CONTROLLER_EPOCH = 3
TOLD = LeaderAndIsr(0, 5, (0, 1))


class Leader:
    """A broker with a store of two partitions."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.scheduler = MockScheduler(self.clock)
        self.store = InlineStore(self.clock)
        self.session = self.store.new_session()
        self.zk = KafkaZkClient(self.session, self.clock)
        self.zk.make_sure_persistent_paths_exist()
        self.zk.topics.create("orders", random_uuid(), {0: [0, 1], 1: [0, 1]}, {})
        states = {key: LeaderIsrAndControllerEpoch(TOLD, CONTROLLER_EPOCH) for key in (ONE, TWO)}
        self.zk.topics.create_partition_states(states, ANY_VERSION)
        self.manager = ZkAlterPartitionManager(self.zk, self.scheduler, self.clock)
        self.manager.start()
        self.outcomes: list[LeaderAndIsr | ApiError] = []

    def submit(self, partition: TopicPartition, wanted: LeaderAndIsr) -> None:
        self.manager.submit(IsrChange(partition, bytes(16), wanted, CONTROLLER_EPOCH, {}, self.outcomes.append))

    def isr(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.zk.topics.partition_states([partition])[partition].leader_and_isr.isr

    def code(self, place: int) -> ErrorCode:
        outcome = self.outcomes[place]
        assert isinstance(outcome, ApiError)
        return outcome.code


ALONE = TOLD._replace(isr=(0,))


def test_it_writes_later_and_tells_the_controller_once_for_many() -> None:
    leader = Leader()
    leader.submit(ONE, ALONE)
    leader.submit(TWO, ALONE)
    assert not leader.outcomes, "a request handler does not wait for the store"
    leader.scheduler.tick()
    assert leader.outcomes == [ALONE.with_partition_epoch(1)] * 2
    assert (leader.isr(ONE), leader.isr(TWO)) == ((0,), (0,))
    (notice,) = leader.zk.isr_change_notifications()
    assert leader.zk.partitions_of_isr_changes([notice]) == {ONE, TWO}
    leader.scheduler.tick(70_000)
    assert leader.zk.isr_change_notifications() == [notice]


def test_changes_without_end_are_told_of_every_five_seconds() -> None:
    leader = Leader()
    for version in range(25):
        leader.submit(ONE, ALONE.with_partition_epoch(version))
        leader.scheduler.tick(1000)
    assert len(leader.zk.isr_change_notifications()) == 5


def test_a_change_soon_after_a_notice_waits_for_the_next_one() -> None:
    leader = Leader()
    leader.submit(ONE, ALONE)
    leader.scheduler.tick()
    leader.submit(TWO, ALONE)
    leader.scheduler.tick(4000)
    assert len(leader.zk.isr_change_notifications()) == 1
    leader.scheduler.tick(3500)
    later = leader.zk.isr_change_notifications()[1:]
    assert leader.zk.partitions_of_isr_changes(later) == {TWO}


def test_a_write_of_somebody_else_wins() -> None:
    leader = Leader()
    leader.zk.topics.update_leader_and_isr({ONE: TOLD.new_leader(1)}, CONTROLLER_EPOCH, ANY_VERSION)
    leader.submit(ONE, ALONE)
    leader.submit(GONE, ALONE)
    leader.scheduler.tick()
    assert [leader.code(0), leader.code(1)] == [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert leader.isr(ONE) == (0, 1)


def test_a_write_whose_answer_was_lost_counts() -> None:
    leader = Leader()
    state = LeaderIsrAndControllerEpoch(ALONE, CONTROLLER_EPOCH)
    assert leader.zk.topics.update_partition_states({ONE: state}) == {ONE: 1}
    assert leader.zk.topics.update_partition_states({ONE: state}) == {ONE: 1}


def test_an_unreachable_store_is_tried_again() -> None:
    leader = Leader()

    def unreachable() -> None:
        raise StoreUnavailableError("/", "connection loss")

    leader.session.before_batch = unreachable
    leader.submit(ONE, ALONE)
    leader.scheduler.tick()
    assert not leader.outcomes
    leader.submit(TWO, ALONE)
    leader.scheduler.tick(1000)
    assert leader.outcomes == [ALONE.with_partition_epoch(1)] * 2
