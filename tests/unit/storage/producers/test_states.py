"""What producers may append next, against a model that is as simple as Kafka's rules are when told; transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.end_transaction_marker import EndTransactionMarker
from barnabas.records.record_batch import HEADER, MAX_SEQUENCE, TRANSACTIONAL_MASK, BatchHeader
from barnabas.storage.log_append_info import AppendOrigin
from barnabas.storage.log_offset_metadata import LogOffsetMetadata
from barnabas.storage.producers.producer_states import CompletedTransaction, ProducerStates

CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION


def header(producer_id: int, epoch: int, sequence: int, last_delta: int, *, is_transactional: bool) -> BatchHeader:
    """The header of a batch, of which producer states look at these fields."""
    attributes = TRANSACTIONAL_MASK if is_transactional else 0
    fields = (0, 100, 0, 2, 0, attributes, last_delta, 0, 0, producer_id, epoch, sequence, last_delta + 1)
    return BatchHeader(HEADER.pack(*fields))


class Log:
    """Producer states with the offsets that a log would give."""

    def __init__(self) -> None:
        self.states = ProducerStates(TopicPartition("topic", 0), lambda: self.verifies)
        self.end = 0
        self.verifies = False

    def send(
        self,
        producer_id: int,
        epoch: int,
        sequence: int,
        count: int = 1,
        *,
        transactional: bool = False,
        origin: AppendOrigin = CLIENT,
        timestamp: int = 1000,
    ) -> int:
        """Append a batch; returns the first offset, of the earlier batch if it is a duplicate."""
        delta, first = count - 1, self.end
        batch = header(producer_id, epoch, sequence, delta, is_transactional=transactional)
        known = self.states.check_data(batch, first, origin)
        if known is not None:
            return known.first_offset
        place = LogOffsetMetadata(first, 0, first * 100)
        self.states.add_data(batch, place, first + delta, timestamp)
        self.end += count
        return first

    def end_transaction(
        self,
        producer_id: int,
        epoch: int,
        *,
        abort: bool = False,
        coordinator_epoch: int = 0,
        origin: AppendOrigin = COORDINATOR,
    ) -> tuple[CompletedTransaction | None, int]:
        """Append a marker; returns what it completed and the last stable offset behind it."""
        marker = EndTransactionMarker(abort, coordinator_epoch, 2000)
        completed = self.states.check_marker(producer_id, epoch, marker, self.end, origin)
        self.states.add_marker(producer_id, epoch, marker)
        self.end += 1
        if completed is None:
            return None, -1
        stable = self.states.last_stable_offset(completed)
        self.states.complete(completed)
        return completed, stable

    @property
    def unstable(self) -> int | None:
        first = self.states.first_unstable_offset
        return None if first is None else first.message_offset


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(ApiError) as raised:
        yield
    assert raised.value.code is code


@dataclass
class Model:
    """One producer, as KIP-98 tells it."""

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)

    def answer(self, epoch: int, sequence: int, count: int, offset: int) -> int | ErrorCode:
        last = (sequence + count - 1) % 2**31
        if epoch == self.epoch:
            for first_known, last_known, known_offset in self.batches[-5:]:
                if (first_known, last_known) == (sequence, last):
                    return known_offset
        if self.epoch >= 0:
            if epoch < self.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            expected = (self.batches[-1][1] + 1) % 2**31 if epoch == self.epoch else 0
            if sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, []
        self.batches.append((sequence, last, offset))
        return offset


STEPS = st.tuples(
    st.integers(0, 1),  # producer
    st.sampled_from([0, 0, 0, 0, 1, 2]),  # epoch
    st.sampled_from(["next", "next", "next", "again", "earlier", "any"]),
    st.integers(0, 7),
    st.integers(1, 4),  # records
    st.sampled_from([0, 3, MAX_SEQUENCE, MAX_SEQUENCE - 2]),
)


@given(st.lists(STEPS, max_size=40))
def test_sequences_epochs_and_duplicates_are_those_of_the_model(
    steps: list[tuple[int, int, str, int, int, int]],
) -> None:
    """Around the end of the sequence numbers as well."""
    log, models = Log(), {0: Model(), 1: Model()}
    sent: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for producer, epoch, kind, back, count, anywhere in steps:
        history, size = sent[producer], count
        if kind == "next" and history:
            sequence = sum(history[-1]) % 2**31
        elif kind in ("again", "earlier") and history:
            sequence, size = history[-1 - (0 if kind == "again" else back % len(history))]
        else:
            sequence = anywhere
        expected = models[producer].answer(epoch, sequence, size, log.end)
        end = log.end
        if isinstance(expected, ErrorCode):
            with refused(expected):
                log.send(producer, epoch, sequence, size)
            assert log.end == end
        else:
            assert log.send(producer, epoch, sequence, size) == expected
            if expected == end:
                history.append((sequence, size))


def test_sequences_wrap_around() -> None:
    log = Log()
    assert log.send(1, 0, MAX_SEQUENCE - 1, 4) == 0  # the last sequence number is 1
    assert log.states.entries[1].last_sequence == 1
    assert log.send(1, 0, MAX_SEQUENCE - 1, 4) == 0
    assert log.send(1, 0, 2) == 4
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.send(1, 0, 0)


def test_only_clients_are_held_to_sequences_and_only_followers_to_no_epoch() -> None:
    log = Log()
    log.send(1, 5, 0)
    assert log.send(1, 5, 7, origin=COORDINATOR) == 1
    assert log.send(1, 5, 7, origin=COORDINATOR) == 2  # no duplicate: offset commits have no sequence numbers
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.send(1, 4, 0, origin=COORDINATOR)
    assert log.send(1, 4, 99, origin=REPLICATION) == 3
    assert log.states.entries[1].producer_epoch == 4


def test_a_producer_nobody_knows_may_begin_anywhere() -> None:
    log = Log()
    assert log.send(1, 3, 42, 2) == 0
    assert log.send(1, 3, 44) == 2
    log.states.remove_expired(10_000, 1000)
    assert log.send(1, 2, 17) == 3


def test_kafka_9144_a_marker_keeps_its_producer_from_expiring() -> None:
    """Kafka forgot a producer by the age of its last batch, and took the marker of a deposed coordinator after that."""
    log = Log()
    log.send(1, 0, 0, transactional=True)
    log.end_transaction(1, 0, coordinator_epoch=4)
    log.states.remove_expired(2_500, 1_000)  # the batch is old enough, the marker is not
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        log.end_transaction(1, 0, coordinator_epoch=3)


def test_markers_fence_and_keep_sequences() -> None:
    log = Log()
    log.send(1, 0, 0, 3, transactional=True)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.send(1, 0, 3)
    assert log.end_transaction(1, 0, coordinator_epoch=4)[0] == CompletedTransaction(1, 0, 3, False)
    assert log.end_transaction(1, 0, coordinator_epoch=4) == (None, -1)  # nothing was written since
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        log.end_transaction(1, 0, coordinator_epoch=3)
    log.end_transaction(1, 0, coordinator_epoch=3, origin=REPLICATION)
    assert log.send(1, 0, 3, transactional=True) == 6
    log.end_transaction(1, 1, coordinator_epoch=4)  # the coordinator fences by the next epoch
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.send(1, 0, 4, transactional=True)
    assert log.states.entries[1].last_sequence == -1
    assert log.send(1, 1, 0) == 8


@pytest.mark.parametrize("first_to_end", [1, 2])
def test_unstable_until_decided_and_replicated(first_to_end: int) -> None:
    log = Log()
    log.send(1, 0, 0, 2, transactional=True)
    log.send(2, 0, 0, 2, transactional=True)
    assert log.unstable == 0
    completed, stable = log.end_transaction(first_to_end, 0, abort=True)
    assert completed == CompletedTransaction(first_to_end, 0 if first_to_end == 1 else 2, 4, True)
    assert stable == (2 if first_to_end == 1 else 0)
    assert log.unstable == 0
    log.states.remove_replicated(5)
    assert log.unstable == (2 if first_to_end == 1 else 0)
    _, stable = log.end_transaction(3 - first_to_end, 0)
    assert stable == 6
    log.states.remove_replicated(5)
    assert log.unstable == (2 if first_to_end == 1 else 0)
    log.states.remove_replicated(6)
    assert log.unstable is None


def test_the_time_of_the_oldest_open_transaction() -> None:
    log = Log()
    log.send(3, 0, 0, timestamp=5)
    assert log.states.oldest_open_timestamp == -1
    log.send(1, 0, 0, transactional=True, timestamp=1000)
    log.send(2, 0, 0, transactional=True, timestamp=700)
    assert log.states.oldest_open_timestamp == 1000
    log.send(1, 0, 1, transactional=True, timestamp=1200)
    assert log.states.oldest_open_timestamp == 1200, "its producer goes on writing"
    log.end_transaction(1, 0)
    assert log.states.oldest_open_timestamp == 700
    log.end_transaction(2, 0)
    assert log.states.oldest_open_timestamp == -1


def test_idle_producers_expire_but_not_within_a_transaction() -> None:
    log = Log()
    log.send(1, 0, 0, timestamp=1000)
    log.send(2, 0, 0, timestamp=1000, transactional=True)
    log.send(3, 0, 0, timestamp=1001)
    assert log.states.remove_expired(2000, 1000) == 1
    assert set(log.states.entries) == {2, 3}
    assert log.states.remove_expired(1_000_000, 1000) == 1
    log.end_transaction(2, 0)
    assert log.states.remove_expired(3000, 1000) == 1
    log.states.remove_replicated(log.end)
    assert log.states.is_empty


# -- verification (KIP-890)


def checked(log: Log, *args: int, origin: AppendOrigin = CLIENT) -> int:
    """Append a transactional batch as the log does; returns its first offset."""
    producer_id, epoch, sequence = args
    batch = header(producer_id, epoch, sequence, 0, is_transactional=True)
    known = log.states.check_transactional_data(batch, log.end, origin)
    if known is not None:
        return known.first_offset
    return log.send(producer_id, epoch, sequence, transactional=True, origin=origin)


def verify(log: Log, producer_id: int, epoch: int, sequence: int, now_ms: int = 0) -> None:
    verification = log.states.begin_verification(producer_id, epoch, sequence, now_ms)
    assert verification is not None
    log.states.end_verification(producer_id, epoch, verification)


@pytest.fixture
def verifying() -> Log:
    log = Log()
    log.verifies = True
    return log


@pytest.mark.parametrize("origin", [CLIENT, COORDINATOR])
def test_a_transaction_begins_with_a_verified_batch(verifying: Log, origin: AppendOrigin) -> None:
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 0, origin=origin)
    verification = verifying.states.begin_verification(7, 0, 0, 0)
    assert verification is not None
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 0, origin=origin)
    verifying.states.end_verification(7, 0, verification)
    assert checked(verifying, 7, 0, 0, origin=origin) == 0
    assert verifying.states.begin_verification(7, 0, 1, 0) is None, "its transaction is open here"
    assert checked(verifying, 7, 0, 1, origin=origin) == 1
    verifying.end_transaction(7, 0)
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 2, origin=origin)


def test_a_follower_takes_what_its_leader_has_verified(verifying: Log) -> None:
    assert checked(verifying, 7, 0, 0, origin=REPLICATION) == 0


def test_a_marker_between_question_and_append_ends_the_verification(verifying: Log) -> None:
    late = verifying.states.begin_verification(7, 0, 0, 0)
    assert late is not None
    verifying.end_transaction(7, 0, abort=True)
    assert not verifying.states.end_verification(7, 0, late)
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 0)
    # The same producer asks again, for its next transaction: the late answer must not count for that one.
    again = verifying.states.begin_verification(7, 0, 0, 0)
    assert again is not None
    verifying.states.end_verification(7, 0, late)
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 0)
    verifying.states.end_verification(7, 0, again)
    assert checked(verifying, 7, 0, 0) == 1


def test_the_next_transaction_of_a_producer_waits_for_the_marker_of_this_one(verifying: Log) -> None:
    verify(verifying, 7, 0, 0)
    assert checked(verifying, 7, 0, 0) == 0
    verification = verifying.states.begin_verification(7, 1, 0, 0)
    assert verification is not None, "the open transaction is that of epoch 0"
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 1, 0)
    assert checked(verifying, 7, 0, 1) == 1
    verifying.end_transaction(7, 1)
    verify(verifying, 7, 1, 0)
    assert checked(verifying, 7, 1, 0) == 3
    assert verifying.states.begin_verification(7, 0, 2, 0) is None
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        checked(verifying, 7, 0, 2)


def test_a_batch_that_adds_its_partition_is_asked_for_without_verification() -> None:
    log = Log()
    assert log.states.begin_verification(7, 0, 0, 0) is None
    assert log.states.begin_verification(7, 0, 0, 0, is_required=True) is not None


def test_a_producer_of_version_2_begins_at_sequence_0(verifying: Log) -> None:
    verification = verifying.states.begin_verification(7, 0, 3, 0, is_required=True)
    assert verification is not None
    verifying.states.end_verification(7, 0, verification)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        checked(verifying, 7, 0, 3)
    verify(verifying, 8, 0, 3)
    assert checked(verifying, 8, 0, 3) == 0, "one of an earlier version may begin anywhere"
    verify(verifying, 7, 0, 0)
    assert checked(verifying, 7, 0, 0) == 1


def test_a_verification_holds_for_its_epoch(verifying: Log) -> None:
    verify(verifying, 7, 0, 0)
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 1, 0)
    raised = verifying.states.begin_verification(7, 1, 0, 0)
    assert raised is not None
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 1, 0)
    verifying.states.end_verification(7, 1, raised)
    assert checked(verifying, 7, 1, 0) == 0


def test_an_epoch_that_is_not_confirmed_is_in_no_other_one_s_way(verifying: Log) -> None:
    assert verifying.states.begin_verification(7, 5, 0, 0) is not None
    verify(verifying, 7, 0, 0)
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 5, 0)
    assert checked(verifying, 7, 0, 0) == 0


def test_a_late_answer_about_an_older_epoch_has_no_effect(verifying: Log) -> None:
    late = verifying.states.begin_verification(7, 0, 0, 0)
    assert late is not None
    verify(verifying, 7, 1, 0)
    verifying.states.end_verification(7, 0, late)
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 0)
    assert checked(verifying, 7, 1, 0) == 0


def test_no_batch_overtakes_one_that_was_seen_before(verifying: Log) -> None:
    """Its retry would be out of order for ever."""
    verify(verifying, 7, 0, 5)
    verify(verifying, 7, 0, 4)
    verify(verifying, 7, 0, 6)
    for sequence in (5, 6):
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            checked(verifying, 7, 0, sequence)
    assert [checked(verifying, 7, 0, sequence) for sequence in (4, 5, 6)] == [0, 1, 2]


def test_a_stored_batch_is_answered_again_after_its_transaction(verifying: Log) -> None:
    verify(verifying, 7, 0, 0)
    assert checked(verifying, 7, 0, 0) == 0
    verifying.end_transaction(7, 0)
    assert checked(verifying, 7, 0, 0) == 0


def test_an_old_epoch_is_fenced_before_its_sequence_is_looked_at(verifying: Log) -> None:
    verifying.end_transaction(7, 3)
    verify(verifying, 7, 2, 0)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        checked(verifying, 7, 2, 1)


def test_without_the_setting_nothing_is_verified() -> None:
    log = Log()
    assert log.states.begin_verification(7, 0, 0, 0) is None
    assert checked(log, 7, 0, 0) == 0


def test_verifications_that_never_end_are_forgotten(verifying: Log) -> None:
    verify(verifying, 7, 0, 0, now_ms=1000)
    assert verifying.states.remove_expired(1999, 1000) == 0
    assert verifying.states.remove_expired(2000, 1000) == 0
    with refused(ErrorCode.INVALID_TXN_STATE):
        checked(verifying, 7, 0, 0)
