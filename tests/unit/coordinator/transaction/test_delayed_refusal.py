"""A leader that adds a partition too early is told when the transaction before has ended, or after a while."""

from __future__ import annotations

from barnabas.coordinator.transaction.held_back_answers import WAIT_MS, DelayedRefusal
from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.lock_order import check_no_lock_held
from tests.unit.coordinator.transaction.transaction_harness import ID, PLACES, TransactionBroker

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


class Leader:
    """Asks the coordinator, and remembers its answers."""

    def __init__(self, broker: TransactionBroker) -> None:
        self._broker = broker
        self.answers: list[ErrorCode] = []

    def ask(self, producer: ProducerIdAndEpoch) -> DelayedRefusal:
        refusal = DelayedRefusal(self._answered, self._broker.scheduler)
        self._broker.service.add_partitions(ID, producer, PLACES, refusal.answer, client_version=2, waiter=refusal)
        self._broker.replicas.actions.run_all()
        return refusal

    def _answered(self, error: ErrorCode) -> None:
        check_no_lock_held("answering")
        self.answers.append(error)


def ended(broker: TransactionBroker, leader: Leader) -> ProducerIdAndEpoch:
    """The producer after a transaction whose markers are not written."""
    first = broker.producer()
    leader.ask(first)
    assert leader.answers.pop() is NONE
    return broker.end_with_next_epoch(first, commit=True).producer


def test_the_refusal_comes_with_the_end_and_the_next_question_is_granted() -> None:
    broker = TransactionBroker()
    leader = Leader(broker)
    following = ended(broker, leader)
    leader.ask(following)
    leader.ask(following)
    assert leader.answers == []
    broker.send_markers()
    assert leader.answers == [CONCURRENT, CONCURRENT]
    leader.ask(following)
    assert leader.answers.pop() is NONE
    # The expiries were cancelled.
    broker.scheduler.tick(WAIT_MS)
    assert leader.answers == [CONCURRENT, CONCURRENT]


def test_the_refusal_comes_after_a_while_and_nothing_is_kept() -> None:
    broker = TransactionBroker()
    leader = Leader(broker)
    following = ended(broker, leader)
    for asked in range(1, 4):
        leader.ask(following)
        broker.scheduler.tick(WAIT_MS - 1)
        assert len(leader.answers) == asked - 1
        broker.scheduler.tick(1)
        assert leader.answers == [CONCURRENT] * asked
        entry = broker.table.get(ID)
        assert entry is not None
        assert len(entry.waiters) == 1
    broker.send_markers()
    assert leader.answers == [CONCURRENT] * 3


def test_other_answers_are_not_held_back() -> None:
    broker = TransactionBroker()
    leader = Leader(broker)
    producer = broker.producer()
    leader.ask(ProducerIdAndEpoch(producer.producer_id, producer.epoch + 1))
    leader.ask(ProducerIdAndEpoch(producer.producer_id + 1, producer.epoch))
    assert leader.answers == [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_a_transition_between_the_refusal_and_its_report_is_not_missed() -> None:
    broker = TransactionBroker()
    answers: list[ErrorCode] = []
    refusal = DelayedRefusal(answers.append, broker.scheduler)
    refusal.again()
    refusal.answer(CONCURRENT)
    broker.scheduler.tick(WAIT_MS)
    assert answers == [CONCURRENT]
