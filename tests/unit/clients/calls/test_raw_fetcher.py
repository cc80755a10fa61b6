"""Raw fetches on scripted brokers: what comes back, requests sent ahead, errors."""

from __future__ import annotations

import pytest

from barnabas.clients.calls.raw_fetcher import RawFetcher
from barnabas.clients.errors import ClientTimeout
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import SentRequest


def batch(base: int, size: int = 10) -> bytes:
    builder = RecordBatchBuilder(base_offset=base)
    builder.append(1, None, b"v" * size)
    return builder.build()


def fetcher_of(cluster: ScriptedCluster) -> RawFetcher:
    fetcher = RawFetcher("127.0.0.1:9092", clock=cluster.clock)
    fetcher._client = cluster.client()
    return fetcher


def test_returns_batches_as_they_are() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0) + batch(1)
    fetched = fetcher_of(cluster).fetch("t", 0, 1)
    assert bytes(fetched.records) == batch(1)
    assert (fetched.high_watermark, fetched.log_start_offset, fetched.last_stable_offset) == (2, 0, 2)
    fetched.release()
    empty = fetcher_of(ScriptedCluster({"t": [0]})).fetch("t", 0, 0, max_wait_ms=10)
    assert bytes(empty.records) == b""


def test_a_request_sent_ahead_is_taken_by_the_fetch_of_its_offset_only() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0) + batch(1)
    fetcher = fetcher_of(cluster)
    fetcher.send_ahead("t", 0, 0)
    assert not cluster.sent(ApiKey.FETCH), "nothing is known of the topic yet"
    fetcher.fetch("t", 0, 0)
    fetcher.send_ahead("t", 0, 1)
    assert bytes(fetcher.fetch("t", 0, 1).records) == batch(1)
    assert len(cluster.sent(ApiKey.FETCH)) == 2
    fetcher.send_ahead("t", 0, 1)
    assert bytes(fetcher.fetch("t", 0, 0).records) == batch(0) + batch(1)


def test_errors_that_pass_are_tried_again_and_others_raised() -> None:
    cluster = ScriptedCluster({"t": [0]})
    cluster.logs["t", 0] = batch(0)
    cluster.errors["t", 0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
    fetcher = fetcher_of(cluster)
    assert bytes(fetcher.fetch("t", 0, 0).records) == batch(0)
    cluster.selector.disconnect("0")
    assert bytes(fetcher.fetch("t", 0, 0).records) == batch(0)
    with pytest.raises(ApiError) as raised:
        fetcher.fetch("t", 0, 99)
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    cluster.errors["t", 0] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 10_000
    with pytest.raises(ApiError) as raised:
        fetcher.fetch("t", 0, 0)
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_topic_that_does_not_exist() -> None:
    cluster = ScriptedCluster({"nope": int(ErrorCode.INVALID_TOPIC_EXCEPTION)})
    with pytest.raises(ApiError, match="nope"):
        fetcher_of(cluster).fetch("nope", 0, 0)
    silent = ScriptedCluster({"t": [-1]})
    with pytest.raises(ClientTimeout):
        fetcher_of(silent).fetch("t", 0, 0)


def test_a_leader_that_an_answer_names_is_asked_without_new_metadata() -> None:
    cluster = ScriptedCluster({"t": [0]}, brokers=2)
    cluster.logs["t", 0] = batch(0)
    fetcher = fetcher_of(cluster)
    fetcher.fetch("t", 0, 0)
    cluster.topics["t"] = [1]
    answer_of = cluster.handlers[ApiKey.FETCH]

    def with_leader(request: SentRequest) -> FetchResponse:
        answer: FetchResponse = answer_of(request)
        if request.connection_id == "0":
            answer.responses[0].partitions[0].current_leader = FetchResponse.LeaderIdAndEpoch(1, 1)
        return answer

    cluster.handlers[ApiKey.FETCH] = with_leader
    cluster.handlers[ApiKey.METADATA] = lambda request: None
    assert bytes(fetcher.fetch("t", 0, 0).records) == batch(0)
    assert [each.connection_id for each in cluster.sent(ApiKey.FETCH)] == ["0", "0", "1"]


def test_a_fetch_without_an_answer_names_the_last_failure() -> None:
    cluster = ScriptedCluster({"t": [0]})
    fetcher = fetcher_of(cluster)
    fetcher.fetch("t", 0, 0, max_wait_ms=1)
    cluster.selector.disconnect("0")
    cluster.selector.refused.update({"0", "-1"})
    fetcher._client.poll(0)
    with pytest.raises(ClientTimeout, match=r"; the last failure: 127\.0\.0\.1:9092: refused"):
        fetcher.fetch("t", 0, 0)
