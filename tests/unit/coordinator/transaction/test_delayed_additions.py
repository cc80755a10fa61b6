"""A producer's partitions are added when its transaction before has ended; it waits for that, and not for ever."""

from __future__ import annotations

from barnabas.coordinator.transaction.held_back_answers import WAIT_MS, DelayedAdditions
from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch, TransactionState
from barnabas.protocol.errors import ErrorCode
from barnabas.runtime.lock_order import check_no_lock_held
from tests.unit.coordinator.transaction.transaction_harness import ID, PLACES, TransactionBroker

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


class Client:
    """A producer of transaction.version 0, with the answers to its additions."""

    def __init__(self) -> None:
        self.broker = TransactionBroker()
        self.producer = self.broker.producer()
        self.answers: list[ErrorCode] = []
        self._additions = DelayedAdditions(self.broker.service, self.broker.scheduler, self.broker.clock)

    def add(self, producer: ProducerIdAndEpoch | None = None) -> None:
        def answer(error: ErrorCode) -> None:
            check_no_lock_held("answering")
            self.answers.append(error)

        self._additions.add(ID, producer or self.producer, PLACES, answer)
        self.broker.replicas.actions.run_all()

    def end(self) -> None:
        """End a transaction; its markers are not written."""
        self.add()
        assert self.answers.pop() is NONE
        assert self.broker.end(self.producer, commit=True) is NONE

    @property
    def state(self) -> TransactionState:
        entry = self.broker.table.get(ID)
        assert entry is not None
        return entry.metadata.state


def test_partitions_are_added_when_the_transaction_before_has_ended() -> None:
    client = Client()
    client.end()
    client.add()
    client.broker.scheduler.tick(WAIT_MS - 1)
    assert client.answers == []
    client.broker.send_markers()
    assert client.answers == [NONE]
    assert client.state is TransactionState.ONGOING
    # The expiry was cancelled, and no other is left.
    client.broker.scheduler.tick(WAIT_MS)
    assert client.answers == [NONE]


def test_the_producer_is_refused_after_a_while_and_its_partitions_are_not_added_later() -> None:
    client = Client()
    client.end()
    client.add()
    client.broker.scheduler.tick(WAIT_MS)
    assert client.answers == [CONCURRENT]
    client.broker.send_markers()
    assert client.answers == [CONCURRENT]
    assert client.state is TransactionState.COMPLETE_COMMIT


def test_other_refusals_do_not_wait() -> None:
    client = Client()
    client.add(ProducerIdAndEpoch(client.producer.producer_id, client.producer.epoch + 1))
    client.add(ProducerIdAndEpoch(client.producer.producer_id + 1, client.producer.epoch))
    assert client.answers == [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
