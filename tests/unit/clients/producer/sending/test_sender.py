"""The sender's turns on a scripted network: what is sent, retried, split, failed, and what metadata is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.errors import ClientClosed, ClientTimeout
from barnabas.clients.producer.batches.producer_batch import ProducerBatch
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.records.record_batch import RecordBatch
from tests.support.scripted_selector import SentRequest
from tests.unit.clients.producer.producer_harness import SenderSetting


def batches_of(request: SentRequest) -> list[RecordBatch]:
    return [RecordBatch(bytes(data.records)) for data in request.body.topic_data[0].partition_data]


def state_of(batch: RecordBatch) -> tuple[int, int, int]:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def batch_of(request: SentRequest, partition: int = 0) -> RecordBatch:
    return RecordBatch(bytes(request.body.topic_data[0].partition_data[partition].records))


def test_sends_and_completes() -> None:
    setting = SenderSetting()
    futures = [setting.append(), setting.append()]
    setting.turns()
    request = setting.answer(base_offset=70)
    assert (request.body.acks, request.body.timeout_ms, request.header.api_version) == (-1, 30_000, 12)
    assert batch_of(request).count == 2
    assert [future.result(0).offset for future in futures] == [70, 71]


def test_batches_of_a_node_travel_together() -> None:
    setting = SenderSetting(leaders=(0, 1, 0), brokers=2)
    for partition in range(3):
        setting.append(partition=partition)
    setting.turns(8)
    sent = {
        request.connection_id: sorted(data.index for data in request.body.topic_data[0].partition_data)
        for request in setting.selector.sent
    }
    assert sent == {"0": [0, 2], "1": [1]}


def test_acks_0_completes_when_sent() -> None:
    setting = SenderSetting(acks=0)
    future = setting.append()
    setting.turns()
    assert future.result(0).offset == -1


def test_retries_after_a_wait_with_fresh_metadata() -> None:
    setting = SenderSetting()
    future = setting.append()
    setting.turns()
    before = setting.metadata_requests
    setting.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not setting.selector.sent
    setting.clock.advance(130)
    setting.turns(6)
    assert setting.metadata_requests > before
    setting.answer(base_offset=5)
    assert future.result(0).offset == 5


def not_the_leader(setting: SenderSetting, leader: tuple[int, int]) -> ProduceResponse:
    """The answer of a broker that names the current leader, and its address."""
    partition = ProduceResponse.PartitionProduceResponse(
        index=0,
        error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        base_offset=-1,
        current_leader=ProduceResponse.LeaderIdAndEpoch(*leader),
    )
    topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[partition])
    return ProduceResponse(responses=[topic], node_endpoints=[ProduceResponse.NodeEndpoint(leader[0], "b", 9093)])


def test_a_leader_that_the_answer_names_gets_the_retry_at_once() -> None:
    setting = SenderSetting()
    future = setting.append()
    setting.turns()
    epoch = setting.metadata_requests
    setting.leaders = (1,)
    setting.brokers = 2
    request = setting.selector.take()
    before_ns = setting.clock.nanoseconds()
    setting.selector.answer(request, not_the_leader(setting, (1, epoch + 1)))
    setting.turns(6)
    assert setting.metadata_requests == epoch, "its back-off is not over"
    assert [each.connection_id for each in setting.selector.sent] == ["1"]
    assert ("1", ("b", 9093)) in setting.selector.attempts
    assert setting.clock.nanoseconds() == before_ns
    setting.answer(base_offset=5)
    assert future.result(0).offset == 5


def test_a_leader_of_an_old_epoch_does_not_save_the_retry_its_wait() -> None:
    setting = SenderSetting()
    setting.append()
    setting.turns()
    setting.selector.answer(setting.selector.take(), not_the_leader(setting, (1, setting.metadata_requests)))
    setting.turns(6)
    assert not setting.selector.sent
    assert not any(connection_id == "1" for connection_id, _ in setting.selector.attempts)


def test_each_new_leader_saves_one_wait_only() -> None:
    setting = SenderSetting()
    setting.append()
    setting.turns()
    epoch = setting.metadata_requests + 1
    setting.selector.answer(setting.selector.take(), not_the_leader(setting, (1, epoch)))
    setting.turns(6)
    setting.selector.answer(setting.selector.take(), not_the_leader(setting, (1, epoch)))
    setting.turns(6)
    assert not setting.selector.sent, "the leader has failed once"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        (ErrorCode.INVALID_REQUIRED_ACKS, None),
    ],
)
def test_fatal_errors_fail(error: ErrorCode, text: str | None) -> None:
    setting = SenderSetting()
    future = setting.append()
    setting.turns()
    setting.answer(error, message=text)
    raised = future.exception(0)
    assert isinstance(raised, ApiError)
    assert raised.code is error
    assert raised.message == (text or error.message)


def test_attempts_are_limited() -> None:
    setting = SenderSetting(retries=1)
    future = setting.append()
    setting.turns()
    setting.answer(ErrorCode.KAFKA_STORAGE_ERROR)
    setting.clock.advance(150)
    setting.turns(6)
    setting.answer(ErrorCode.KAFKA_STORAGE_ERROR)
    assert future.exception(0).code is ErrorCode.KAFKA_STORAGE_ERROR


def test_record_errors_name_the_record() -> None:
    setting = SenderSetting()
    futures = [setting.append() for _ in range(2)]
    setting.turns()
    entry = ProduceResponse.BatchIndexAndErrorMessage(1, "null key")
    setting.answer(ErrorCode.INVALID_RECORD, message="bad batch", record_errors=[entry])
    assert [future.exception(0).message for future in futures] == [
        "Failed to append record because it was part of a batch which had one more more invalid records",
        "null key",
    ]


def test_a_batch_that_is_too_large_is_split_and_a_single_record_fails() -> None:
    setting = SenderSetting(batch_size=4000)
    futures = [setting.append(b"x" * 900) for _ in range(4)]
    setting.turns()
    setting.answer(ErrorCode.MESSAGE_TOO_LARGE)
    for offset in (10, 12):
        setting.turns()
        assert batch_of(setting.selector.sent[0]).count == 2
        setting.answer(base_offset=offset)
    assert [future.result(0).offset for future in futures] == [10, 11, 12, 13]
    single = setting.append(b"x" * 900)
    setting.turns()
    setting.answer(ErrorCode.MESSAGE_TOO_LARGE)
    assert single.exception(0).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("how", ["lost connection", "broker's timeout", "fewer replicas"])
def test_a_batch_that_may_be_stored_is_not_split(how: str) -> None:
    setting = SenderSetting(batch_size=4000, retry_backoff_ms=1, reconnect_backoff_ms=1)
    futures = [setting.append(b"x" * 900) for _ in range(4)]
    setting.turns()
    if how == "lost connection":
        setting.selector.take()
        setting.selector.disconnect("0")
    else:
        setting.answer(
            ErrorCode.REQUEST_TIMED_OUT if how == "broker's timeout" else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )
    for _ in range(3):
        setting.clock.advance(1_000)
        setting.turns(8)
    # The topic's limit was lowered meanwhile.
    setting.answer(ErrorCode.MESSAGE_TOO_LARGE)
    setting.turns(8)
    assert not setting.selector.sent, "no piece was sent"
    for future in futures:
        error = future.exception(0)
        assert error.code is ErrorCode.MESSAGE_TOO_LARGE
        assert "the 4 record(s) for t-0 may be stored all the same" in str(error)
    # The partition goes on, under a higher epoch.
    later = setting.append()
    setting.turns()
    assert state_of(batch_of(setting.selector.sent[0]))[1:] == (1, 0)
    setting.answer(base_offset=7)
    assert later.result(0).offset == 7


def test_a_batch_that_was_refused_by_its_number_may_be_split() -> None:
    setting = SenderSetting(batch_size=4000, retry_backoff_ms=1)
    first = setting.append()
    setting.turns()
    setting.answer()
    assert first.done()
    futures = [setting.append(b"x" * 900) for _ in range(4)]
    setting.turns()
    for error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.MESSAGE_TOO_LARGE):
        setting.answer(error)
        setting.clock.advance(1_000)
        setting.turns(8)
    for offset in (10, 12):
        setting.answer(base_offset=offset)
        setting.turns(8)
    assert [future.result(0).offset for future in futures] == [10, 11, 12, 13]


def test_without_sequence_numbers_a_batch_is_split_in_any_case() -> None:
    setting = SenderSetting(batch_size=4000, retry_backoff_ms=1, enable_idempotence=False)
    futures = [setting.append(b"x" * 900) for _ in range(4)]
    setting.turns()
    for error in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.MESSAGE_TOO_LARGE):
        setting.answer(error)
        setting.clock.advance(1_000)
        setting.turns(8)
    for offset in (10, 12):
        setting.answer(base_offset=offset)
        setting.turns(8)
    assert [future.result(0).offset for future in futures] == [10, 11, 12, 13]


def test_a_lost_connection_is_retried_and_finally_times_out() -> None:
    setting = SenderSetting(delivery_timeout_ms=30_000)
    future = setting.append()
    setting.turns()
    setting.selector.take()
    setting.selector.disconnect("0")
    setting.turns(3)
    assert not future.done()
    for _ in range(10):
        setting.clock.advance(3_001)
        setting.turns(6)
    assert isinstance(future.exception(0), ClientTimeout)
    assert "Expiring 1 record(s) for t-0:30" in str(future.exception(0))


def test_an_answer_after_expiry_changes_nothing() -> None:
    setting = SenderSetting(delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    future = setting.append()
    setting.turns()
    setting.clock.advance(30_000)
    setting.sender._send_producer_data(setting.client.now_ms())
    assert isinstance(future.exception(0), ClientTimeout)
    setting.answer(base_offset=3)
    assert isinstance(future.exception(0), ClientTimeout)
    assert not setting.accumulator.has_incomplete()


def test_the_poll_waits_no_longer_than_the_linger_and_the_first_expiry() -> None:
    setting = SenderSetting(linger_ms=40)
    setting.append()
    setting.turns(1)
    assert setting.selector.last_timeout_ms == 40
    idle = SenderSetting(delivery_timeout_ms=30_500, request_timeout_ms=30_000)
    idle.append()
    idle.turns()
    idle.clock.advance(29_000)
    idle.turns(1)
    assert idle.selector.last_timeout_ms <= 1_500


def test_one_in_flight_keeps_the_order_and_the_partition_goes_on_after_any_outcome() -> None:
    setting = SenderSetting(max_in_flight_requests_per_connection=1, batch_size=0)
    futures = [setting.append(b"%d" % i) for i in range(3)]
    setting.turns()
    assert len(setting.selector.sent) == 1
    setting.answer(ErrorCode.INVALID_RECORD)
    assert futures[0].exception(0) is not None
    setting.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not setting.selector.sent, "the retry waits, and what is behind it waits too"
    setting.clock.advance(130)
    setting.turns(4)
    setting.answer(base_offset=1)
    setting.turns()
    setting.answer(base_offset=2)
    assert [future.result(0).offset for future in futures[1:]] == [1, 2]


def test_an_unknown_leader_only_asks_for_metadata() -> None:
    setting = SenderSetting(leaders=(-1,))
    setting.append()
    before = setting.metadata_requests
    for _ in range(3):
        setting.turns(3)
        setting.clock.advance(150)
    assert setting.metadata_requests > before
    assert not setting.selector.sent
    setting.leaders = (0,)
    setting.clock.advance(1_000)
    setting.turns(8)
    assert len(setting.selector.sent) == 1


@pytest.mark.interpreted
def test_the_loop_survives_an_exception_and_closing_sends_what_is_left() -> None:
    setting = SenderSetting(linger_ms=60_000, delivery_timeout_ms=120_000)
    future = setting.append()
    polls = 0
    real_poll = setting.client.poll

    def poll(timeout_ms: int, now_ms: int, **options: bool) -> Any:
        nonlocal polls
        polls += 1
        if polls == 1:
            raise RuntimeError("once")
        if setting.selector.sent and setting.selector.sent[0].header.api_key == ApiKey.PRODUCE:
            setting.client.poll = real_poll  # type: ignore[method-assign]
            setting.answer(base_offset=9)
        return real_poll(timeout_ms, now_ms, **options)

    setting.client.poll = poll  # type: ignore[method-assign]
    setting.sender.initiate_close()
    setting.sender.run()
    assert future.result(0).offset == 9


@pytest.mark.interpreted
def test_what_cannot_be_encoded_or_sent_fails_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = SenderSetting(max_in_flight_requests_per_connection=1)
    with monkeypatch.context() as patch:
        patch.setattr(ProducerBatch, "close", lambda batch: 1 / 0)
        future = setting.append()
        setting.turns()
    assert isinstance(future.exception(0), ZeroDivisionError)
    with monkeypatch.context() as patch:
        patch.setattr(setting.client, "send", lambda request, now_ms: 1 / 0)
        future = setting.append()
        setting.turns()
    assert isinstance(future.exception(0), ZeroDivisionError)
    future = setting.append()
    setting.turns()
    setting.answer(base_offset=4)
    assert future.result(0).offset == 4
    assert not setting.accumulator.has_incomplete()


def test_forced_closing_fails_what_is_left() -> None:
    setting = SenderSetting()
    future = setting.append()
    setting.sender.force_close()
    setting.sender.run()
    assert isinstance(future.exception(0), ClientClosed)


# -- idempotence


def test_batches_are_numbered_after_a_producer_id_was_fetched() -> None:
    setting = SenderSetting(enable_idempotence=True, batch_size=0)
    for _ in range(3):
        setting.append()
    setting.turns(8)
    requests = [setting.answer(base_offset=i) for i in range(3)]
    states = [(batch_of(r).producer_id, batch_of(r).producer_epoch, batch_of(r).base_sequence) for r in requests]
    assert states == [(101, 0, 0), (101, 0, 1), (101, 0, 2)]
    assert setting.producer_ids == 1


def test_out_of_order_batches_are_retried_in_sequence() -> None:
    setting = SenderSetting(enable_idempotence=True, batch_size=0)
    setting.append()
    setting.turns(8)
    setting.answer(base_offset=0)
    futures = [setting.append() for _ in range(3)]
    setting.turns(8)
    assert len(setting.selector.sent) == 3
    setting.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    setting.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    setting.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    sequences = []
    for offset in range(1, 4):
        setting.clock.advance(1_500)
        setting.turns(8)
        assert len(setting.selector.sent) == 1, "a retry goes alone, the first one first"
        sequences.append(batch_of(setting.answer(base_offset=offset)).base_sequence)
    assert sequences == [1, 2, 3]
    assert [future.result(0).offset for future in futures] == [1, 2, 3]


def test_the_first_batch_of_a_partition_goes_alone_then_five_are_in_flight() -> None:
    setting = SenderSetting(batch_size=0, max_in_flight_requests_per_connection=5)
    for _ in range(8):
        setting.append()
    setting.turns(8)
    assert len(setting.selector.sent) == 1
    setting.answer(base_offset=0)
    setting.turns(8)
    assert [batch_of(request).base_sequence for request in setting.selector.sent] == [1, 2, 3, 4, 5]


def test_after_a_lost_batch_the_epoch_rises_and_the_partition_begins_again_from_0() -> None:
    setting = SenderSetting(leaders=(0, 0), batch_size=0)
    for partition in (0, 1):
        setting.append(partition=partition)
    setting.turns(8)
    setting.answer(base_offset=0)
    lost, kept, also_kept = setting.append(), setting.append(), setting.append()
    elsewhere = setting.append(partition=1)
    setting.turns(8)
    sent = [state_of(batch) for request in setting.selector.sent for batch in batches_of(request)]
    assert sent == [(101, 0, 1), (101, 0, 1), (101, 0, 2), (101, 0, 3)]
    setting.answer_each({0: ErrorCode.INVALID_RECORD})
    assert lost.exception(0) is not None
    assert elsewhere.done()
    setting.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    later = setting.append()
    setting.clock.advance(150)
    setting.turns(8)
    # The third batch is still in flight: it keeps its numbers until its answer has come.
    assert [state_of(batch_of(request)) for request in setting.selector.sent] == [(101, 0, 3)]
    setting.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    states = []
    for offset in range(1, 4):
        setting.clock.advance(150)
        setting.turns(8)
        states.append(state_of(batch_of(setting.answer(base_offset=offset))))
    assert states == [(101, 1, 0), (101, 1, 1), (101, 1, 2)]
    assert [future.result(0).offset for future in (kept, also_kept, later)] == [1, 2, 3]
    assert setting.producer_ids == 1


def test_an_unknown_fate_is_resolved_with_the_old_numbers() -> None:
    setting = SenderSetting(batch_size=0)
    setting.append()
    setting.turns(8)
    setting.answer(base_offset=0)
    futures = [setting.append(), setting.append()]
    setting.turns(8)
    sent = [batch_of(request).base_sequence for request in setting.selector.sent]
    setting.selector.sent.clear()
    setting.selector.disconnect("0")
    setting.turns(2)
    again = []
    for offset in (1, 2):
        setting.clock.advance(1_500)
        setting.turns(8)
        again.append(state_of(batch_of(setting.answer(base_offset=offset))))
    assert sent == [1, 2]
    assert again == [(101, 0, 1), (101, 0, 2)]
    assert [future.result(0).offset for future in futures] == [1, 2]


def test_an_expired_batch_is_a_gap_until_a_later_one_is_acknowledged() -> None:
    setting = SenderSetting(batch_size=0, request_timeout_ms=30_000, delivery_timeout_ms=30_000)
    setting.append()
    setting.turns(8)
    setting.answer(base_offset=0)
    expired = setting.append()
    setting.turns(4)
    setting.clock.advance(20_000)
    later = setting.append()
    setting.turns(4)
    assert len(setting.selector.sent) == 2
    setting.clock.advance(10_000)
    setting.sender._send_producer_data(setting.client.now_ms())
    waits = setting.append()
    setting.sender._send_producer_data(setting.client.now_ms())
    assert isinstance(expired.exception(0), ClientTimeout)
    assert len(setting.selector.sent) == 2, "the broker may not accept what comes behind the expired batch"
    setting.answer(base_offset=1)
    setting.answer(base_offset=2)
    assert later.result(0).offset == 2
    setting.turns(4)
    assert state_of(batch_of(setting.answer(base_offset=3))) == (101, 0, 3)
    assert waits.result(0).offset == 3


def test_the_poll_does_not_wait_when_an_expired_batch_held_up_the_next_one() -> None:
    setting = SenderSetting(batch_size=0, request_timeout_ms=30_000, delivery_timeout_ms=30_000)
    setting.append()
    setting.turns(8)
    setting.selector.sent.clear()
    setting.clock.advance(20_000)
    setting.append()
    setting.clock.advance(10_000)
    setting.turns(1)
    assert setting.selector.last_timeout_ms == 0
    setting.turns(6)
    setting.clock.advance(1_000)
    setting.turns(8)
    assert state_of(batch_of(setting.selector.take())) == (101, 1, 0)


def test_behind_the_last_epoch_comes_a_new_producer_id() -> None:
    setting = SenderSetting(batch_size=0)
    assert setting.sender._sequences is not None
    setting.sender._sequences.set_producer_id(101, 32_767)
    lost = setting.append()
    setting.turns(4)
    setting.answer(ErrorCode.INVALID_RECORD)
    assert lost.exception(0) is not None
    setting.append()
    setting.clock.advance(150)
    setting.turns(8)
    assert state_of(batch_of(setting.answer())) == (102, 0, 0)


def test_a_new_producer_id_waits_for_the_requests_under_the_old_one() -> None:
    """Nothing fences them: the broker could store an expired batch behind those of the new id."""
    setting = SenderSetting(leaders=(0, 1), brokers=2, batch_size=0, linger_ms=0, delivery_timeout_ms=30_000)
    assert setting.sender._sequences is not None
    setting.sender._sequences.set_producer_id(101, 32_767)
    for partition in (0, 1):
        setting.append(partition=partition)
        setting.turns(8)
        setting.answer(base_offset=0)
    expired = setting.append()
    # The batch has waited: it expires before its request does.
    setting.clock.advance(20_000)
    setting.turns(4)
    setting.clock.advance(10_000)
    setting.turns(4)
    assert isinstance(expired.exception(0), ClientTimeout)
    later, elsewhere = setting.append(), setting.append(partition=1)
    setting.turns(8)
    under_way, other = setting.selector.sent
    assert state_of(batch_of(under_way)) == (101, 32_767, 1)
    assert state_of(batch_of(other)) == (102, 0, 0), "another partition has nothing to wait for"
    assert setting.selector.last_timeout_ms > 0, "the sender does not spin"
    setting.answer(base_offset=1)
    setting.answer(base_offset=0)
    setting.turns(4)
    assert state_of(batch_of(setting.answer(base_offset=2))) == (102, 0, 0)
    assert later.result(0).offset == 2
    assert elsewhere.done()


def test_a_batch_that_a_later_one_has_overtaken_fails() -> None:
    """A broker that has lost the producer's state takes any number first: the order could not be kept."""
    setting = SenderSetting(batch_size=0)
    setting.append()
    setting.turns(8)
    setting.answer(base_offset=0)
    overtaken, stored = setting.append(), setting.append()
    setting.turns(8)
    setting.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    setting.answer(base_offset=1)
    setting.clock.advance(150)
    setting.turns(8)
    setting.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert stored.result(0).offset == 1
    assert overtaken.exception(0).code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_duplicate_counts_as_arrived() -> None:
    setting = SenderSetting(enable_idempotence=True)
    future = setting.append()
    setting.turns(8)
    setting.answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1)
    assert future.result(0).offset == -1


def test_without_permission_for_a_producer_id_records_fail() -> None:
    setting = SenderSetting(enable_idempotence=True)
    setting.producer_id_error = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    setting.clock.advance(1_000)
    sequences = setting.sender._sequences
    assert sequences is not None
    sequences.set_producer_id(-1, -1)
    future = setting.append()
    setting.turns(8)
    assert future.exception(0).code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
