"""The table of states, and what a request makes of each."""

from __future__ import annotations

import pytest

from barnabas.coordinator.runtime.record import encode_record
from barnabas.coordinator.transaction.decisions import (
    Decision,
    EndTerms,
    InitTerms,
    Known,
    Next,
    Refused,
    decide_add,
    decide_end,
    decide_end_with_next_epoch,
    decide_init,
)
from barnabas.coordinator.transaction.transaction_log import (
    FLEXIBLE_VALUE_VERSION,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from barnabas.coordinator.transaction.transaction_metadata import (
    PREVIOUS_STATES,
    IllegalTransactionTransition,
    ProducerIdAndEpoch,
    TransactionMetadata,
    TransactionState,
    completed,
    dead,
    decided,
    decided_with_next_epoch,
    fenced,
    with_next_epoch,
)
from barnabas.protocol.errors import DecodeError, EncodeError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition

PLACES = frozenset({TopicPartition("a", 0), TopicPartition("b", 2)})
STATES = {state.shown_name: state for state in TransactionState}


def value(state: str = "Empty", *, epoch: int = 3, last_epoch: int = -1, previous_id: int = -1) -> TransactionMetadata:
    partitions = PLACES if state in ("Ongoing", "PrepareCommit", "PrepareAbort") else frozenset()
    return TransactionMetadata("id", 7, epoch, 500, STATES[state], 40, partitions, 30, previous_id, last_epoch)


def known(metadata: TransactionMetadata, pending: str | None = None, *, failed: bool = False) -> Known:
    return Known(metadata, None if pending is None else STATES[pending], failed)


def init(what: Known, expected: tuple[int, int] | None = None) -> Decision:
    terms = InitTerms(900, None if expected is None else ProducerIdAndEpoch(*expected), 50)
    return decide_init(what, terms, lambda: 8)


ALLOWED = {
    "Empty": "Empty CompleteCommit CompleteAbort",
    "Ongoing": "Ongoing Empty CompleteCommit CompleteAbort",
    "PrepareCommit": "Ongoing",
    "PrepareAbort": "Ongoing PrepareEpochFence Empty CompleteCommit CompleteAbort",
    "CompleteCommit": "PrepareCommit",
    "CompleteAbort": "PrepareAbort",
    "Dead": "Empty CompleteAbort CompleteCommit",
    "PrepareEpochFence": "Ongoing",
}
"""Kafka's TransactionMetadata.VALID_PREVIOUS_STATES."""


def test_states_follow_each_other_as_in_kafka() -> None:
    allowed = {STATES[after]: {STATES[name] for name in names.split()} for after, names in ALLOWED.items()}
    assert allowed == PREVIOUS_STATES
    numbers = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"]
    assert [STATES[name].value for name in [*numbers, "PrepareEpochFence"]] == list(range(8))


def test_a_transition_that_the_table_lacks_is_refused() -> None:
    for state in ("Ongoing", "PrepareCommit", "PrepareAbort"):
        with pytest.raises(IllegalTransactionTransition):
            with_next_epoch(value(state), timeout_ms=1, last_epoch=-1, now_ms=1)
        with pytest.raises(IllegalTransactionTransition):
            dead(value(state))
    for state in ("Empty", "CompleteCommit", "CompleteAbort"):
        with pytest.raises(IllegalTransactionTransition):
            decided(value(state), is_commit=True, now_ms=1)
        with pytest.raises(IllegalTransactionTransition):
            decided(value(state), is_commit=False, now_ms=1)
        with pytest.raises(IllegalTransactionTransition):
            decided_with_next_epoch(value(state), is_commit=True, now_ms=1)
        with pytest.raises(IllegalTransactionTransition):
            fenced(value(state), is_raised_already=False)
    with pytest.raises(IllegalTransactionTransition):
        completed(value("Ongoing"), 1)
    with pytest.raises(IllegalTransactionTransition):
        with_next_epoch(value(epoch=32766), timeout_ms=1, last_epoch=-1, now_ms=1)


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
@pytest.mark.parametrize(
    ("fields", "expected", "answer"),
    [
        ({}, None, (7, 4, -1)),
        ({}, (7, 3), (7, 4, 3)),
        ({"epoch": 4, "last_epoch": 3}, (7, 3), (7, 4, 3)),  # repeated
        ({"epoch": -1}, (5, 5), (7, 0, -1)),  # a new id: nothing contradicts
        ({"epoch": 32766}, None, (8, 0, -1)),
        ({"epoch": 32766}, (7, 32766), (8, 0, 32766)),
        ({"epoch": 0, "last_epoch": 32766, "previous_id": 6}, (6, 32766), (7, 0, 32766)),  # repeated
    ],
)
def test_a_producer_gets_its_next_epoch(
    state: str, fields: dict[str, int], expected: tuple[int, int] | None, answer: tuple[int, int, int]
) -> None:
    decision = init(known(value(state, **fields)), expected)
    assert isinstance(decision, Next)
    found = decision.metadata
    assert (found.producer_id, found.producer_epoch, found.last_epoch) == answer
    assert (found.state, found.partitions) == (TransactionState.EMPTY, frozenset())
    assert (found.timeout_ms, found.updated_ms, found.start_ms) == (900, 50, -1)


@pytest.mark.parametrize("expected", [(7, 2), (7, 9), (6, 3), (6, 32766)])
def test_another_producer_is_fenced(expected: tuple[int, int]) -> None:
    assert init(known(value()), expected) == Refused(ErrorCode.PRODUCER_FENCED)


def test_an_open_transaction_is_fenced_once() -> None:
    decision = init(known(value("Ongoing")))
    assert isinstance(decision, Next)
    assert (decision.metadata.state, decision.metadata.producer_epoch) == (TransactionState.PREPARE_EPOCH_FENCE, 4)
    again = init(known(value("Ongoing"), failed=True))
    assert isinstance(again, Next)
    assert again.metadata.producer_epoch == 3, "raised by the attempt that failed"
    concurrent = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert init(known(value("PrepareCommit"))) == init(known(value("PrepareAbort"))) == concurrent
    assert init(known(value(), "Empty"), (6, 3)) == concurrent, "asked before who the producer is, as in Kafka"


ENDS = [
    ("Empty", ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ("PrepareCommit", ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE),
    ("PrepareAbort", ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS),
    ("CompleteCommit", ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    ("CompleteAbort", ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
]


@pytest.mark.parametrize(("state", "of_commit", "of_abort"), ENDS)
def test_the_end_in_each_state(state: str, of_commit: ErrorCode, of_abort: ErrorCode) -> None:
    producer = ProducerIdAndEpoch(7, 3)
    for is_commit, error in ((True, of_commit), (False, of_abort)):
        assert decide_end(known(value(state)), EndTerms(producer, is_commit, True, 50)) == Refused(error)


def end_v2(what: Known, producer: tuple[int, int], *, is_commit: bool) -> Decision:
    return decide_end_with_next_epoch(what, EndTerms(ProducerIdAndEpoch(*producer), is_commit, True, 50), lambda: 8)


V2_ENDS = [
    # By state: the answers to a repeated abort and commit, and to a commit of the present epoch.
    ("Empty", ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
    ("CompleteAbort", ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    ("CompleteCommit", ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
]
"""The table in Kafka's TransactionCoordinator.endTransaction. An abort of the present epoch raises the epoch."""


@pytest.mark.parametrize(("state", "of_abort", "of_commit"), V2_ENDS)
def test_the_end_that_raises_the_epoch_in_each_state(state: str, of_abort: ErrorCode, of_commit: ErrorCode) -> None:
    assert end_v2(known(value(state)), (7, 2), is_commit=False) == Refused(of_abort)
    assert end_v2(known(value(state)), (7, 2), is_commit=True) == Refused(of_commit)
    assert end_v2(known(value(state)), (7, 3), is_commit=True) == Refused(ErrorCode.INVALID_TXN_STATE)
    begun = end_v2(known(value(state)), (7, 3), is_commit=False)
    assert isinstance(begun, Next)
    metadata = begun.metadata
    assert (metadata.state, metadata.producer_epoch, metadata.start_ms) == (TransactionState.PREPARE_ABORT, 4, 50)
    for stranger, error in (
        ((7, 1), "PRODUCER_FENCED"),
        ((7, 4), "PRODUCER_FENCED"),
        ((9, 3), "INVALID_PRODUCER_ID_MAPPING"),
    ):
        assert end_v2(known(value(state)), stranger, is_commit=False) == Refused(ErrorCode[error])


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_raises_the_epoch_until_the_producer_id_has_none_left(is_commit: bool) -> None:
    ended = end_v2(known(value("Ongoing")), (7, 3), is_commit=is_commit)
    assert isinstance(ended, Next)
    metadata = ended.metadata
    assert (metadata.next_producer, metadata.last_epoch, metadata.start_ms) == ((7, 4), 3, 30)
    concurrent = Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    for producer in ((7, 3), (7, 4), (8, 0)):
        assert end_v2(known(metadata), producer, is_commit=is_commit) == concurrent
        assert decide_add(known(metadata), ProducerIdAndEpoch(*producer), PLACES, 60, client_version=2) == concurrent
        assert init(known(metadata), producer) == concurrent
    assert end_v2(known(completed(metadata, 60)), (7, 3), is_commit=is_commit) == Refused(ErrorCode.NONE)

    last = end_v2(known(value("Ongoing", epoch=32766)), (7, 32766), is_commit=is_commit)
    assert isinstance(last, Next)
    metadata = last.metadata
    assert (metadata.producer_id, metadata.producer_epoch, metadata.next_producer) == (7, 32767, (8, 0))
    complete = completed(metadata, 60)
    assert (complete.producer_id, complete.producer_epoch, complete.next_producer_id) == (8, 0, -1)
    assert end_v2(known(complete), (7, 32766), is_commit=is_commit) == Refused(ErrorCode.NONE)
    assert end_v2(known(complete), (6, 32766), is_commit=is_commit) == Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_a_producer_that_was_fenced_with_the_last_epoch_gets_no_other() -> None:
    aborted = completed(
        decided(fenced(value("Ongoing", epoch=32766), is_raised_already=False), is_commit=False, now_ms=1), 2
    )
    assert aborted.producer_epoch == 32767
    assert end_v2(known(aborted), (7, 32766), is_commit=False) == Refused(ErrorCode.PRODUCER_FENCED)


def test_partitions_are_added_once() -> None:
    producer, more = ProducerIdAndEpoch(7, 3), frozenset({TopicPartition("c", 0)})
    begun = decide_add(known(value("CompleteAbort")), producer, PLACES, 50)
    assert isinstance(begun, Next)
    metadata = begun.metadata
    assert (metadata.state, metadata.partitions, metadata.start_ms) == (TransactionState.ONGOING, PLACES, 50)
    assert decide_add(known(metadata), producer, PLACES, 60) == Refused(ErrorCode.NONE)
    grown = decide_add(known(metadata), producer, more, 60)
    assert isinstance(grown, Next)
    assert (grown.metadata.partitions, grown.metadata.start_ms, grown.metadata.updated_ms) == (PLACES | more, 50, 60)


@pytest.mark.parametrize("state", [*(name for name in ALLOWED if name not in ("Dead", "PrepareEpochFence"))])
def test_values_survive_the_log(state: str) -> None:
    assert decode_value("id", encode_value(value(state))) == value(state)
    flexible = value(state, previous_id=6)._replace(client_version=2, next_producer_id=8)
    assert decode_value("id", encode_value(flexible, FLEXIBLE_VALUE_VERSION)) == flexible


def test_what_is_encoded_in_line_is_what_the_codec_makes() -> None:
    for state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.DEAD):
        metadata = value()._replace(state=state, partitions=frozenset())
        by_codec = TransactionLogValue(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            transaction_timeout_ms=metadata.timeout_ms,
            transaction_status=state.value,
            transaction_partitions=None if state is TransactionState.EMPTY else [],
            transaction_last_update_timestamp_ms=metadata.updated_ms,
            transaction_start_timestamp_ms=metadata.start_ms,
        )
        assert encode_value(metadata) == encode_record(by_codec, 0)
        assert decode_value("id", encode_value(metadata)) == metadata._replace(previous_producer_id=-1, last_epoch=-1)
    assert decode_key(encode_key("\N{SNOWMAN}" * 10_000)) == "\N{SNOWMAN}" * 10_000
    with pytest.raises(EncodeError):
        encode_key("x" * 40_000)


def test_the_bytes_are_kafkas() -> None:
    assert encode_key("id") == bytes.fromhex("0000 0002") + b"id"
    written = "0000 0000000000000007 0003 000001f4 01 00000002 0001 61 00000001 00000000 0001 62 00000001 00000002"
    times = "0000000000000028 000000000000001e"
    assert encode_value(value("Ongoing")) == bytes.fromhex(written + times)
    assert encode_value(value()) == bytes.fromhex("0000 0000000000000007 0003 000001f4 00 ffffffff" + times)
    # v1 with a tagged field, the producer id before: as Kafka 4 writes it.
    tagged = "0001 0000000000000007 0003 000001f4 00 00" + times + "01 00 08 0000000000000006"
    assert decode_value("id", bytes.fromhex(tagged)) == value(previous_id=6)
    assert decode_key(encode_key("id")) == "id"
    with pytest.raises(DecodeError):
        decode_key(bytes.fromhex("0001 0002") + b"id")
    for damaged in (b"", b"\0", bytes.fromhex("0002"), encode_value(value())[:-1]):
        with pytest.raises(DecodeError):
            decode_value("id", damaged)
