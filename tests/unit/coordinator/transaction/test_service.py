"""Transactions over a real log: their lives, their markers, what a restart finds, and what expires."""

from __future__ import annotations

import pytest

from barnabas.coordinator.transaction.transaction_metadata import ProducerIdAndEpoch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from tests.unit.coordinator.transaction.transaction_harness import ID, PLACES, TransactionBroker
from tests.unit.replica.replica_harness import US

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_its_beginning_to_its_end(commit: bool) -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    assert broker.end(producer, commit=commit) is ErrorCode.INVALID_TXN_STATE
    assert broker.add(producer) is NONE
    assert broker.end(producer, commit=commit) is NONE
    assert (broker.end(producer, commit=commit), broker.add(producer), broker.init().error) == (CONCURRENT,) * 3
    broker.send_markers()
    (request,) = broker.transport.requests
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (*producer, commit)
    assert marker.coordinator_epoch == 0
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("a", [0]), ("b", [1])]
    assert broker.value.state.shown_name == ("CompleteCommit" if commit else "CompleteAbort")
    assert broker.end(producer, commit=commit) is NONE, "sent again"
    assert broker.end(producer, commit=not commit) is ErrorCode.INVALID_TXN_STATE
    assert broker.add(producer) is NONE
    again = broker.restarted()
    # Version 0 of the value has no room for the producer id before.
    assert again.value == broker.value._replace(previous_producer_id=-1)
    assert not again.has_markers


def test_requests_of_others_are_refused() -> None:
    broker = TransactionBroker()
    assert broker.add(ProducerIdAndEpoch(1, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = broker.producer()
    for ask in (broker.add, lambda who: broker.end(who, commit=True)):
        assert ask(producer._replace(producer_id=1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert ask(producer._replace(epoch=1)) is ErrorCode.PRODUCER_FENCED
    for timeout_ms in (0, -1, 900_001):
        assert broker.init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert broker.init(producer._replace(epoch=5)).error is ErrorCode.PRODUCER_FENCED
    broker.partitions.stop()
    assert broker.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_partitions_are_verified() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer, PLACES[0])
    verify = broker.service.verify
    assert verify(ID, producer, PLACES) == {PLACES[1]: ErrorCode.TRANSACTION_ABORTABLE}
    assert verify(ID, producer._replace(epoch=7), PLACES) == dict.fromkeys(PLACES, ErrorCode.PRODUCER_FENCED)
    assert verify("other", producer, PLACES) == dict.fromkeys(PLACES, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    broker.end(producer, commit=True)
    assert verify(ID, producer, PLACES) == dict.fromkeys(PLACES, CONCURRENT)


def test_a_successor_has_the_open_transaction_aborted_first() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    assert broker.init().error is CONCURRENT
    assert broker.end(producer, commit=True) is ErrorCode.PRODUCER_FENCED
    broker.send_markers()
    (marker,) = broker.transport.requests[-1].markers
    assert (marker.producer_epoch, marker.transaction_result) == (1, False)
    assert broker.producer() == producer._replace(epoch=2)


RETRIED = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS]


@pytest.mark.parametrize("error", RETRIED)
def test_a_marker_that_failed_is_sent_again_alone(error: ErrorCode) -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    broker.end(producer, commit=True)
    broker.transport.is_lost = True
    broker.send_markers()
    broker.transport.is_lost = False
    broker.transport.errors[PLACES[1]] = error
    broker.send_markers()
    assert broker.value.state.shown_name == "PrepareCommit"
    broker.transport.errors.clear()
    broker.send_markers()
    sent = [[topic.name for topic in request.markers[0].topics] for request in broker.transport.requests]
    assert sent == [["a", "b"], ["a", "b"], ["b"]]
    assert broker.value.state.shown_name == "CompleteCommit"


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_markers_are_given_up_when_another_has_taken_over(error: ErrorCode) -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    broker.end(producer, commit=True)
    broker.transport.errors[PLACES[0]] = error
    broker.send_markers()
    assert not broker.has_markers
    assert broker.value.state.shown_name == "PrepareCommit"


def test_partitions_without_leader_wait_and_deleted_ones_do_not() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer, PLACES[0], TopicPartition("deleted", 0))
    broker.announce(PLACES[0], -1)
    broker.end(producer, commit=True)
    broker.send_markers()
    assert not broker.transport.requests
    assert broker.has_markers
    broker.announce(PLACES[0], US)
    broker.send_markers()
    assert [each.name for each in broker.transport.requests[0].markers[0].topics] == [PLACES[0].topic]
    assert broker.value.state.shown_name == "CompleteCommit"


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_outcome_is_carried_out_after_a_restart(commit: bool) -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    broker.end(producer, commit=commit)
    again = broker.restarted()
    assert again.init().error is CONCURRENT
    again.send_markers()
    (marker,) = again.transport.requests[0].markers
    assert (marker.transaction_result, marker.coordinator_epoch) == (commit, 1)
    assert again.value.state.shown_name == ("CompleteCommit" if commit else "CompleteAbort")
    assert again.producer() == producer._replace(epoch=1)


def test_markers_of_a_partition_that_was_given_up_are_not_sent() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    broker.end(producer, commit=True)
    broker.loader.unload(broker.partitions.partition_for(ID), 1)
    broker.send_markers()
    assert not broker.transport.requests
    assert not broker.has_markers
    assert broker.add(producer) is ErrorCode.NOT_COORDINATOR


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    broker.clock.advance(1000)
    broker.expiry.abort_overdue()
    assert broker.value.state.shown_name == "Ongoing", "its time ends now"
    broker.clock.advance(1)
    broker.expiry.abort_overdue()
    assert broker.end(producer, commit=True) is ErrorCode.PRODUCER_FENCED
    broker.expiry.abort_overdue()
    assert broker.has_markers
    broker.send_markers()
    assert broker.value.state.shown_name == "CompleteAbort"
    assert broker.value.producer_epoch == 1


def test_an_idle_id_expires_and_one_in_use_does_not() -> None:
    broker = TransactionBroker(id_expiration_ms=5000)
    producer = broker.producer()
    broker.clock.advance(4999)
    broker.expiry.remove_expired()
    assert broker.table.get(ID) is not None
    broker.add(producer)
    broker.clock.advance(9000)
    broker.expiry.remove_expired()
    assert broker.value.state.shown_name == "Ongoing"
    broker.end(producer, commit=True)
    broker.send_markers()
    broker.clock.advance(5000)
    broker.expiry.remove_expired()
    assert broker.table.get(ID) is None
    assert broker.restarted().table.get(ID) is None, "the tombstone is in the log"


@pytest.mark.parametrize("commit", [True, False])
def test_each_transaction_of_version_2_has_its_epoch(commit: bool) -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    broker.add(producer)
    following = producer._replace(epoch=1)
    assert broker.end_with_next_epoch(producer, commit=commit) == (NONE, following)
    assert broker.end_with_next_epoch(producer, commit=commit).error is CONCURRENT
    broker.send_markers()
    (marker,) = broker.transport.requests[-1].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (*following, commit)
    assert broker.end_with_next_epoch(producer, commit=commit) == (NONE, following), "its answer was lost"
    assert broker.end_with_next_epoch(producer, commit=not commit).error is ErrorCode.INVALID_TXN_STATE
    assert broker.add(producer) is ErrorCode.PRODUCER_FENCED
    assert broker.add(following) is NONE


def test_a_transaction_that_has_not_begun_can_be_aborted() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    assert broker.end_with_next_epoch(producer, commit=True).error is ErrorCode.INVALID_TXN_STATE
    assert broker.end_with_next_epoch(producer, commit=False) == (NONE, producer._replace(epoch=1))
    broker.send_markers()
    assert not broker.transport.requests, "no partition needs a marker"
    assert broker.value.state.shown_name == "CompleteAbort"
    assert broker.add(producer._replace(epoch=1)) is NONE
