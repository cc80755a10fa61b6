"""What RequestMetrics makes of requests: stages by Kafka's rules, names, errors, where they went."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.metrics.metrics_registry import Sample
from barnabas.network.requests.error_counts import note_errors
from barnabas.network.requests.request_metrics import RequestMetrics, request_name
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import DeleteAclsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.unit.network.network_harness import FETCH, METADATA, MILLISECOND, PRODUCE, finished, handler


def samples(metrics: RequestMetrics) -> dict[str, Sample]:
    return {sample.name.mbean: sample for sample in metrics.samples()}


def time_of(metrics: RequestMetrics, name: str, request: str = "Produce") -> tuple[int, float]:
    """Count and largest percentile of a stage."""
    sample = samples(metrics)[f"kafka.network:type=RequestMetrics,name={name},request={request}"]
    assert sample.distribution is not None
    return sample.distribution.count, sample.distribution.percentiles[-1]


def test_the_stages_of_a_request_that_went_the_long_way() -> None:
    metrics = RequestMetrics()
    metrics.record(finished(PRODUCE, stages_ms=(3, 5, 200, 7, 11), throttle_ms=900))
    expected = {
        "RequestQueueTimeMs": 3,
        "LocalTimeMs": 5,
        "RemoteTimeMs": 200,
        "ThrottleTimeMs": 900,
        "ResponseQueueTimeMs": 7,
        "ResponseSendTimeMs": 11,
        "TotalTimeMs": 226,
        "RequestBytes": 100,
        "ResponseBytes": 50,
    }
    for name, value in expected.items():
        assert time_of(metrics, name) == pytest.approx((1, value), rel=1 / 16), name
    path = "barnabas.network:type=RequestPath,name=RequestsPerSec,request=Produce,listener=PLAINTEXT,plane=data-plane"
    assert samples(metrics)[f"{path},path=queue"].value == 1
    assert f"{path},path=inline" not in samples(metrics)


@given(
    st.lists(st.tuples(*[st.one_of(st.just(0.0), st.floats(0, 0.2), st.floats(0, 5000))] * 5), min_size=1, max_size=20),
    st.integers(0, 3),
    st.tuples(st.integers(0, 200_000), st.integers(0, 200_000)),
)
def test_every_request_is_in_every_histogram_whichever_way_it_took(
    requests: list[tuple[float, ...]], processors: int, sizes: tuple[int, int]
) -> None:
    metrics = RequestMetrics()
    for number, stages_ms in enumerate(requests):
        metrics.record(finished(METADATA, stages_ms=stages_ms, processor_id=number % (processors + 1), sizes=sizes))
        if number % 7 == 3:
            metrics.retire_all_but([0])
            metrics.tick(5)
    stages = (
        "RequestQueueTimeMs",
        "LocalTimeMs",
        "RemoteTimeMs",
        "ResponseQueueTimeMs",
        "ResponseSendTimeMs",
    )
    for position, name in enumerate(stages):
        count, largest = time_of(metrics, name, "Metadata")
        assert count == len(requests)
        exact = max(stages_ms[position] for stages_ms in requests)
        assert largest == pytest.approx(exact, rel=0, abs=exact / 16 + 0.0011)
    assert time_of(metrics, "TotalTimeMs", "Metadata")[0] == len(requests)
    assert time_of(metrics, "RequestBytes", "Metadata") == pytest.approx((len(requests), sizes[0]), rel=1 / 16)
    assert time_of(metrics, "ResponseBytes", "Metadata") == pytest.approx((len(requests), sizes[1]), rel=1 / 16)
    assert time_of(metrics, "ThrottleTimeMs", "Metadata") == (len(requests), 0)
    assert sum(s.value for name, s in samples(metrics).items() if "RequestPath" in name) == len(requests)


def test_a_request_whose_connection_went_first_has_no_times_that_it_did_not_have() -> None:
    metrics = RequestMetrics()
    request = finished(PRODUCE, stages_ms=(1, 2, 3, 0, 0))
    request.response_dequeued_ns = 0
    metrics.record(request)
    assert time_of(metrics, "ResponseQueueTimeMs") == (1, 0)
    assert time_of(metrics, "TotalTimeMs") == pytest.approx((1, 6), rel=1 / 16)


def test_conversions_are_the_exception() -> None:
    metrics = RequestMetrics()
    for _ in range(3):
        metrics.record(finished(PRODUCE))
    converted = finished(PRODUCE)
    converted.note_conversion(2 * MILLISECOND, 1000)
    converted.note_conversion(3 * MILLISECOND, 3000)
    metrics.record(converted)
    assert time_of(metrics, "MessageConversionsTimeMs") == pytest.approx((4, 5), rel=1 / 16)
    assert time_of(metrics, "TemporaryMemoryBytes") == pytest.approx((4, 4000), rel=1 / 16)


def test_fetches_count_twice_as_fetch_and_as_whose_they_are() -> None:
    metrics = RequestMetrics()
    metrics.record(finished(FETCH, FetchRequest(replica_id=-1)))
    metrics.record(finished(FETCH, FetchRequest(replica_id=2), version=12))
    metrics.record(finished(FETCH, FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=2)), version=15))
    counts = {name: time_of(metrics, "TotalTimeMs", name)[0] for name in ("Fetch", "FetchConsumer", "FetchFollower")}
    assert counts == {"Fetch": 3, "FetchConsumer": 1, "FetchFollower": 2}
    requests = "kafka.network:type=RequestMetrics,name=RequestsPerSec"
    found = samples(metrics)
    assert found[f"{requests},request=Fetch,version=9"].value == 1
    assert found[f"{requests},request=FetchFollower,version=15"].value == 1
    assert "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs,request=Fetch" in found
    assert "kafka.network:type=RequestMetrics,name=MessageConversionsTimeMs,request=FetchConsumer" not in found


def test_errors_are_counted_by_their_names_none_among_them() -> None:
    answer = ProduceResponse.TopicProduceResponse
    partition = ProduceResponse.PartitionProduceResponse
    produced = ProduceResponse(
        [answer("a", b"", [partition(0, 0), partition(1, 6)]), answer("b", b"", [partition(0, -1)])]
    )
    metadata = MetadataResponse(
        topics=[
            MetadataResponse.MetadataResponseTopic(
                error_code=3, partitions=[MetadataResponse.MetadataResponsePartition(error_code=5)]
            )
        ]
    )
    metrics = RequestMetrics()
    metrics.record(finished(PRODUCE, ProduceRequest(), produced))
    metrics.record(finished(PRODUCE, ProduceRequest(acks=0), None))
    metrics.record(finished(FETCH, FetchRequest(), FetchResponse(error_code=70), version=4))
    metrics.record(finished(FETCH, FetchRequest(), FetchResponse(error_code=70), version=12))
    metrics.record(finished(METADATA, MetadataRequest(), metadata))
    kind = "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request="
    errors = {name.removeprefix(kind): s.value for name, s in samples(metrics).items() if name.startswith(kind)}
    assert errors == {
        "Produce,error=NONE": 1,
        "Produce,error=NOT_LEADER_OR_FOLLOWER": 1,
        "Produce,error=UNKNOWN_SERVER_ERROR": 1,
        "Fetch,error=FETCH_SESSION_ID_NOT_FOUND": 1,
        "Metadata,error=UNKNOWN_TOPIC_OR_PARTITION": 1,
        "Metadata,error=LEADER_NOT_AVAILABLE": 1,
    }


def test_an_answer_that_cannot_be_read_costs_its_client_nothing(caplog: pytest.LogCaptureFixture) -> None:
    metrics = RequestMetrics()
    for _ in range(2):
        metrics.record(finished(METADATA, None, MetadataResponse(topics=[object()])))  # type: ignore[list-item]
    assert time_of(metrics, "TotalTimeMs", "Metadata")[0] == 2
    assert len(caplog.records) == 1


def test_a_large_answer_is_counted_and_dropped_with_the_body_of_its_request() -> None:
    """By the thread that has made it: a Processor would take 20 ms to free 100,000 structs."""
    asked = MetadataRequest([MetadataRequest.MetadataRequestTopic(name="orders")] * 2)
    missing = MetadataResponse.MetadataResponseTopic(error_code=3, name="orders")
    request = finished(METADATA, asked, MetadataResponse(topics=[missing] * 2))
    note_errors(request)
    assert request.notes is not None
    assert request.notes.errors == {3: 2}
    assert (request.response, request.body.topics or [], len(asked.topics or [])) == (None, [], 2)


def test_of_a_deletion_of_acls_the_filters_errors_count() -> None:
    result = DeleteAclsResponse.DeleteAclsFilterResult
    matched = [DeleteAclsResponse.DeleteAclsMatchingAcl(error_code=31)]
    metrics = RequestMetrics()
    of = handler(ApiKey.DELETE_ACLS, 3)
    metrics.record(finished(of, None, DeleteAclsResponse(filter_results=[result(matching_acls=matched)]), version=2))
    errors = [name for name in samples(metrics) if "ErrorsPerSec" in name]
    assert errors == ["kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=DeleteAcls,error=NONE"]


def test_versions_nobody_knows_share_one_metric_and_deprecated_ones_name_the_client() -> None:
    metrics = RequestMetrics()
    of = handler(ApiKey.API_VERSIONS, 4)
    for version in (4, 5, 6, 32767):
        metrics.record(finished(of, version=version))
    metrics.record(finished(METADATA, version=3))
    metrics.record(finished(METADATA, None, MetadataResponse(), version=3))
    requests = "kafka.network:type=RequestMetrics,name=RequestsPerSec"
    found = samples(metrics)
    assert found[f"{requests},request=ApiVersions,version=4"].value == 1
    assert found[f"{requests},request=ApiVersions,version=unknown"].value == 3
    deprecated = [name for name in found if "Deprecated" in name]
    client = "clientSoftwareName=old-client,clientSoftwareVersion=0.1"
    kind = "kafka.network:type=RequestMetrics,name=DeprecatedRequestsPerSec"
    assert deprecated == [f"{kind},request=Metadata,version=3,{client}"]
    assert found[deprecated[0]].value == 2


def test_rates_and_weights_follow_the_ticks_and_a_processor_s_counts_outlive_it() -> None:
    metrics = RequestMetrics()
    for processor_id in range(4):
        metrics.record(finished(PRODUCE, processor_id=processor_id))
    metrics.tick(5)
    metrics.retire_all_but([1])
    metrics.record(finished(PRODUCE, processor_id=1))
    metrics.tick(5)
    sample = samples(metrics)["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"]
    assert sample.value == 5
    assert sample.rates is not None
    assert sample.rates.one_minute > 0


def test_apis_have_kafka_s_names() -> None:
    names = [request_name(key) for key in (ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN)]
    assert names == ["OffsetForLeaderEpoch", "AddPartitionsToTxn"]
