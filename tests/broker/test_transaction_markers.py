"""WriteTxnMarkers over the wire: the markers that end transactions in partitions."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.inter_broker import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tests.broker.test_describe_producers import describe
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient, make_batch

Marker, Topic = WriteTxnMarkersRequest.WritableTxnMarker, WriteTxnMarkersRequest.WritableTxnMarkerTopic


@each_version(ApiKey.WRITE_TXN_MARKERS)
def test_markers_are_appended_to_the_partitions_that_exist(client: RawClient, topic: str, version: int) -> None:
    client.create_topic(topic, partitions=2)
    producer: dict[str, Any] = {"producer_id": 71, "producer_epoch": 2, "base_sequence": 0}
    assert client.produce(topic, make_batch([b"a"], **producer)).error_code == ErrorCode.NONE

    def mark(coordinator_epoch: int, epoch: int = 2) -> dict[str, dict[int, int]]:
        topics = [Topic(topic, [0, 1, 2]), Topic("no-such-topic", [0])]
        request = WriteTxnMarkersRequest([Marker(71, epoch, False, topics, coordinator_epoch)])
        (answer,) = client.call(request, version, WriteTxnMarkersResponse).markers
        assert answer.producer_id == 71
        return {
            each.name: {part.partition_index: part.error_code for part in each.partitions} for each in answer.topics
        }

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mark(5) == {topic: {0: 0, 1: 0, 2: unknown}, "no-such-topic": {0: unknown}}
    assert (client.end_offset(topic, 0), client.end_offset(topic, 1)) == (2, 1)
    (known,) = describe(client, topic, 0)[0].active_producers
    assert (known.producer_epoch, known.coordinator_epoch, known.current_txn_start_offset) == (2, 5, -1)
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(4)[topic] == {0: fenced, 1: fenced, 2: unknown}
    old = ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(5, epoch=1)[topic] == {0: old, 1: old, 2: unknown}
