"""Messages whose bytes were laid out by hand from Kafka's protocol guide, piece by piece.

The differential tests compare far more, but with codecs made from the same definitions; these don't come from any.
"""

from __future__ import annotations

import pytest

from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.sasl import SaslHandshakeRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.transactions import DescribeProducersResponse, InitProducerIdRequest

_ID = bytes(range(16))
_MINUS_ONE = b"\xff" * 8


def _produce_request() -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(2, b"RECORDS")
    topic = ProduceRequest.TopicProduceData("tp", partition_data=[partition])
    return ProduceRequest(None, -1, 1500, [topic])


def _stopped() -> StopReplicaRequest.StopReplicaTopicV1:
    return StopReplicaRequest.StopReplicaTopicV1("t", [5])


GOLDEN: list[tuple[str, Message, int, bytes]] = [
    ("ApiVersions request v0 is empty", ApiVersionsRequest(), 0, b""),
    (
        "ApiVersions request v3: compact strings, tags",
        ApiVersionsRequest("kcat", "1.7"),
        3,
        b"\x05kcat\x041.7\0",
    ),
    (
        "ApiVersions response v0",
        ApiVersionsResponse(0, [ApiVersionsResponse.ApiVersion(18, 0, 4)]),
        0,
        b"\0\0\0\0\0\1\0\x12\0\0\0\4",
    ),
    (
        "ApiVersions response v3: features in a tagged field",
        ApiVersionsResponse(35, [ApiVersionsResponse.ApiVersion(0, 0, 13)], 7, finalized_features_epoch=3),
        3,
        b"\0\x23\x02\0\0\0\0\0\x0d\0\0\0\0\7\x01\x01\x08\0\0\0\0\0\0\0\3",
    ),
    ("Metadata request v0: all topics is an empty list", MetadataRequest([]), 0, b"\0\0\0\0"),
    ("Metadata request v1: all topics is null", MetadataRequest(None), 1, b"\xff\xff\xff\xff"),
    (
        "Metadata request v12: topic by id",
        MetadataRequest([MetadataRequest.MetadataRequestTopic(_ID, None)], allow_auto_topic_creation=False),
        12,
        b"\x02" + _ID + b"\0\0\0\0\0",
    ),
    (
        "Metadata response v1",
        MetadataResponse(
            brokers=[MetadataResponse.MetadataResponseBroker(5, "h", 9092)],
            controller_id=5,
            topics=[
                MetadataResponse.MetadataResponseTopic(
                    0,
                    "t",
                    partitions=[
                        MetadataResponse.MetadataResponsePartition(
                            partition_index=1, leader_id=5, replica_nodes=[5, 6], isr_nodes=[5]
                        )
                    ],
                )
            ],
        ),
        1,
        (
            b"\0\0\0\1"
            b"\0\0\0\5"
            b"\0\1h"
            b"\0\0\x23\x84"
            b"\xff\xff"  # brokers: id, host, port, no rack
            b"\0\0\0\5"  # controller
            b"\0\0\0\1"
            b"\0\0"
            b"\0\1t"
            b"\0"  # topics: error, name, is internal
            b"\0\0\0\1"
            b"\0\0"
            b"\0\0\0\1"
            b"\0\0\0\5"  # partitions: error, index, leader
            b"\0\0\0\2\0\0\0\5\0\0\0\6"
            b"\0\0\0\1\0\0\0\5"
        ),  # replicas, isr
    ),
    (
        "Produce request v0",
        _produce_request(),
        0,
        b"\xff\xff\0\0\x05\xdc\0\0\0\1\0\2tp\0\0\0\1\0\0\0\2\0\0\0\7RECORDS",
    ),
    (
        "Produce request v3: transactional id",
        _produce_request(),
        3,
        b"\xff\xff\xff\xff\0\0\x05\xdc\0\0\0\1\0\2tp\0\0\0\1\0\0\0\2\0\0\0\7RECORDS",
    ),
    (
        "Produce request v9: flexible",
        _produce_request(),
        9,
        b"\0\xff\xff\0\0\x05\xdc\2\3tp\2\0\0\0\2\x08RECORDS\0\0\0",
    ),
    (
        "Produce response v0",
        ProduceResponse(
            [
                ProduceResponse.TopicProduceResponse(
                    "t", partition_responses=[ProduceResponse.PartitionProduceResponse(1, 3, 256)]
                )
            ]
        ),
        0,
        b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\0\3\0\0\0\0\0\0\1\0",
    ),
    (
        "Produce response v8: the bad records, why, throttle time",
        ProduceResponse(
            [
                ProduceResponse.TopicProduceResponse(
                    "t",
                    partition_responses=[
                        ProduceResponse.PartitionProduceResponse(
                            0,
                            87,
                            -1,
                            record_errors=[ProduceResponse.BatchIndexAndErrorMessage(4, "no")],
                            error_message="bad",
                        )
                    ],
                )
            ],
            10,
        ),
        8,
        b"\0\0\0\1"
        b"\0\1t"
        b"\0\0\0\1"
        b"\0\0\0\0"
        b"\0\x57"
        + _MINUS_ONE
        * 3  # offset, time, log start
        + b"\0\0\0\1"
        b"\0\0\0\4"
        b"\0\2no"
        b"\0\3bad"
        b"\0\0\0\x0a",
    ),
    (
        "Fetch request v0: no max bytes yet",
        FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            topics=[
                FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition(3, -1, 9, partition_max_bytes=64)])
            ],
        ),
        0,
        b"\xff\xff\xff\xff\0\0\0\x64\0\0\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\3\0\0\0\0\0\0\0\x09\0\0\0\x40",
    ),
    (
        "Fetch response v12: tagged leader, records",
        FetchResponse(
            5,
            0,
            6,
            [
                FetchResponse.FetchableTopicResponse(
                    "t",
                    partitions=[
                        FetchResponse.PartitionData(
                            0, 0, 8, 7, 1, current_leader=FetchResponse.LeaderIdAndEpoch(2, 4), records=b"RR"
                        )
                    ],
                )
            ],
        ),
        12,
        (
            b"\0\0\0\5"
            b"\0\0"
            b"\0\0\0\6"
            b"\2"
            b"\2t"
            b"\2"
            b"\0\0\0\0"
            b"\0\0"
            b"\0\0\0\0\0\0\0\x08"
            b"\0\0\0\0\0\0\0\7"
            b"\0\0\0\0\0\0\0\1"  # high watermark, last stable, log start
            b"\1"
            b"\xff\xff\xff\xff"
            b"\3RR"  # no aborted transactions, preferred replica, records
            b"\1"
            b"\1\x09"
            b"\0\0\0\2\0\0\0\4\0"  # tag 1: leader and epoch
            b"\0"
            b"\0"
        ),
    ),
    (
        "ListOffsets request v0: how many offsets",
        ListOffsetsRequest(
            -1,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    "t", [ListOffsetsRequest.ListOffsetsPartition(0, timestamp=-1, max_num_offsets=1)]
                )
            ],
        ),
        0,
        b"\xff\xff\xff\xff\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + _MINUS_ONE + b"\0\0\0\1",
    ),
    (
        "ListOffsets response v0: a list of offsets",
        ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.ListOffsetsTopicResponse(
                    "t", [ListOffsetsResponse.ListOffsetsPartitionResponse(0, 0, old_style_offsets=[7, 0])]
                )
            ]
        ),
        0,
        b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\7" + bytes(8),
    ),
    ("FindCoordinator request v0", FindCoordinatorRequest("grp"), 0, b"\0\3grp"),
    (
        "FindCoordinator request v4: many keys",
        FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "bc"]),
        4,
        b"\1\3\2a\3bc\0",
    ),
    (
        "InitProducerId request v4",
        InitProducerIdRequest(None, 60_000),
        4,
        b"\0\0\0\xea\x60" + _MINUS_ONE + b"\xff\xff\0",
    ),
    (
        "CreateTopics request v5",
        CreateTopicsRequest(
            [CreateTopicsRequest.CreatableTopic("t", 4, 1, [], [CreateTopicsRequest.CreatableTopicConfig("k", None)])],
            9,
            True,
        ),
        5,
        b"\2\2t\0\0\0\4\0\1\1\2\2k\0\0\0\0\0\0\x09\1\0",
    ),
    ("SaslHandshake request v1", SaslHandshakeRequest("PLAIN"), 1, b"\0\5PLAIN"),
    (
        "LeaderAndIsr request v0: partitions not yet by topic",
        LeaderAndIsrRequest(
            1,
            controller_epoch=2,
            ungrouped_partition_states=[
                LeaderAndIsrRequest.LeaderAndIsrPartitionState(
                    topic_name="t",
                    partition_index=0,
                    controller_epoch=2,
                    leader=1,
                    leader_epoch=3,
                    isr=[1],
                    partition_epoch=4,
                    replicas=[1],
                )
            ],
            live_leaders=[LeaderAndIsrRequest.LeaderAndIsrLiveLeader(1, "h", 80)],
        ),
        0,
        (
            b"\0\0\0\1"
            b"\0\0\0\2"
            b"\0\0\0\1"
            b"\0\1t"
            b"\0\0\0\0"
            b"\0\0\0\2"
            b"\0\0\0\1"
            b"\0\0\0\3"
            b"\0\0\0\1\0\0\0\1"
            b"\0\0\0\4"
            b"\0\0\0\1\0\0\0\1"
            b"\0\0\0\1"
            b"\0\0\0\1"
            b"\0\1h"
            b"\0\0\0\x50"
        ),
    ),
    (
        "StopReplica request v1: topics without leader epochs, one mark for all",
        StopReplicaRequest(1, controller_epoch=2, broker_epoch=3, delete_partitions=True, topics=[_stopped()]),
        1,
        (
            b"\0\0\0\1"
            b"\0\0\0\2"
            b"\0\0\0\0\0\0\0\3"
            b"\1"  # delete
            b"\0\0\0\1"
            b"\0\1t"
            b"\0\0\0\1\0\0\0\5"
        ),
    ),
    (
        "UpdateMetadata request v0: a broker has one address",
        UpdateMetadataRequest(
            1,
            controller_epoch=2,
            live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(7, v0_host="h", v0_port=80)],
        ),
        0,
        b"\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\7\0\1h\0\0\0\x50",
    ),
    (
        "DeleteRecords request v1",
        DeleteRecordsRequest(
            [DeleteRecordsRequest.DeleteRecordsTopic("t", [DeleteRecordsRequest.DeleteRecordsPartition(1, -1)])], 9
        ),
        1,
        b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\1" + _MINUS_ONE + b"\0\0\0\x09",
    ),
    (
        "DeleteRecords response v2: flexible",
        DeleteRecordsResponse(
            0,
            [
                DeleteRecordsResponse.DeleteRecordsTopicResult(
                    "t", [DeleteRecordsResponse.DeleteRecordsPartitionResult(1, 256, 44)]
                )
            ],
        ),
        2,
        b"\0\0\0\0\2\2t\2\0\0\0\1\0\0\0\0\0\0\1\0\0\x2c\0\0\0",
    ),
    (
        "OffsetForLeaderEpoch request v3: a follower, and the epoch it knows",
        OffsetForLeaderEpochRequest(
            5,
            [
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    "t", [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(1, 8, 7)]
                )
            ],
        ),
        3,
        b"\0\0\0\5\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\0\0\0\x08\0\0\0\7",
    ),
    (
        "OffsetForLeaderEpoch response v0: the error comes first, no epoch",
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                    "t", [OffsetForLeaderEpochResponse.EpochEndOffset(6, 1)]
                )
            ]
        ),
        0,
        b"\0\0\0\1\0\1t\0\0\0\1\0\6\0\0\0\1" + _MINUS_ONE,
    ),
    ("DescribeLogDirs request v1: null is everything", DescribeLogDirsRequest(None), 1, b"\xff\xff\xff\xff"),
    (
        "DescribeLogDirs response v4: room",
        DescribeLogDirsResponse(
            results=[DescribeLogDirsResponse.DescribeLogDirsResult(0, "/d", total_bytes=512, usable_bytes=-1)]
        ),
        4,
        b"\0\0\0\0\0\0\2\0\0\3/d\1\0\0\0\0\0\0\2\0" + _MINUS_ONE + b"\0\0",
    ),
    (
        "IncrementalAlterConfigs request v1: delete has no value",
        IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    2, "t", [IncrementalAlterConfigsRequest.AlterableConfig("k", 1, None)]
                )
            ],
            True,
        ),
        1,
        b"\2\2\2t\2\2k\1\0\0\0\1\0",
    ),
    (
        "AlterConfigs request v0",
        AlterConfigsRequest(
            [AlterConfigsRequest.AlterConfigsResource(2, "t", [AlterConfigsRequest.AlterableConfig("k", "v")])]
        ),
        0,
        b"\0\0\0\1\2\0\1t\0\0\0\1\0\1k\0\1v\0",
    ),
    (
        "DescribeProducers response v0",
        DescribeProducersResponse(
            topics=[
                DescribeProducersResponse.TopicResponse(
                    "t",
                    [
                        DescribeProducersResponse.PartitionResponse(
                            0,
                            0,
                            active_producers=[DescribeProducersResponse.ProducerState(256, 1, 9, 2, -1, -1)],
                        )
                    ],
                )
            ]
        ),
        0,
        (
            b"\0\0\0\0\2\2t\2"
            b"\0\0\0\0\0\0\0"  # partition, error, no message
            b"\2"
            b"\0\0\0\0\0\0\1\0"
            b"\0\0\0\1"
            b"\0\0\0\x09"
            b"\0\0\0\0\0\0\0\2"
            b"\xff\xff\xff\xff" + _MINUS_ONE + b"\0\0\0\0"
        ),
    ),
]


@pytest.mark.parametrize(("message", "version", "raw"), [row[1:] for row in GOLDEN], ids=[row[0] for row in GOLDEN])
def test_bytes_laid_out_by_hand(message: Message, version: int, raw: bytes) -> None:
    assert b"".join(message.encode(version)) == raw
    assert message.decode(raw, version) == (message, len(raw))
