"""Mutated requests over sockets: whatever arrives, the broker answers or closes that connection, and lives on.

The decoders are fuzzed by themselves in tests/wire; here the whole way is: frame reader, parser, handlers, answers.
"""

from __future__ import annotations

import random
import struct

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.cluster import DescribeClusterRequest
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.inter_broker import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest
from barnabas.protocol.messages.transactions import DescribeProducersRequest, InitProducerIdRequest
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.record_reader import Record
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch, record_bytes
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, make_server
from tests.support.server_process import ServerProcess

MAY_STAY_SILENT = {ApiKey.PRODUCE, ApiKey.FETCH}
"""A mutant may ask for no acknowledgement, or for a long wait."""
CONTROLLER_REQUESTS = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}
PATIENCE_SECONDS, SILENCE_SECONDS = 20.0, 0.02
BYSTANDER, TARGET = "bystander", "target"
EARLIEST = -2

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="others may fuzz Apache Kafka")


def _requests(client: RawClient, api_key: ApiKey, version: int, chance: random.Random) -> Message:
    """A valid request of this version that a broker of one node takes, and that creates or deletes nothing."""
    if api_key is ApiKey.PRODUCE:
        return client.produce_request(TARGET, _records(version, chance), version, acks=chance.choice([1, -1]))
    if api_key is ApiKey.FETCH:
        return client.fetch_request(TARGET, 0, version, max_wait_ms=1, max_bytes=5000, partition_max_bytes=3000)
    if api_key is ApiKey.LIST_OFFSETS:
        place = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=chance.choice([-1, -2, 1_700_000_000_000]))
        return ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(TARGET, [place])])
    if api_key is ApiKey.CREATE_TOPICS:
        # not to be created for three reasons, so that no mutant makes a million partitions
        settings = [CreateTopicsRequest.CreatableTopicConfig("no.such.setting", "1000")]
        new = CreateTopicsRequest.CreatableTopic("new", 3, 2, [], settings)
        return CreateTopicsRequest([new], 1000, validate_only=version >= 1)
    if api_key is ApiKey.DELETE_TOPICS and version >= 6:
        return DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState("no-such-topic")], [], 1000)
    if api_key in CONTROLLER_REQUESTS:
        return _controller_request(api_key, version)
    simple: dict[ApiKey, Message] = {
        ApiKey.METADATA: MetadataRequest([MetadataRequest.MetadataRequestTopic(name=TARGET)]),
        ApiKey.FIND_COORDINATOR: (
            FindCoordinatorRequest("group") if version < 4 else FindCoordinatorRequest(coordinator_keys=["group", "b"])
        ),
        ApiKey.API_VERSIONS: ApiVersionsRequest("client", "1.0"),
        ApiKey.DELETE_TOPICS: DeleteTopicsRequest([], ["no-such-topic", "nor-this"], 1000),
        ApiKey.DELETE_RECORDS: DeleteRecordsRequest(
            [DeleteRecordsRequest.DeleteRecordsTopic(TARGET, [DeleteRecordsRequest.DeleteRecordsPartition(0, 0)])], 1000
        ),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    TARGET, [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, leader_epoch=0)]
                )
            ]
        ),
        ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(None, 1000),
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest(
            [DescribeConfigsRequest.DescribeConfigsResource(2, TARGET, ["retention.ms"])]
        ),
        ApiKey.ALTER_CONFIGS: AlterConfigsRequest(
            [
                AlterConfigsRequest.AlterConfigsResource(
                    2, TARGET, [AlterConfigsRequest.AlterableConfig("flush.ms", "9")]
                )
            ]
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    2, TARGET, [IncrementalAlterConfigsRequest.AlterableConfig("cleanup.policy", 2, "delete")]
                )
            ]
        ),
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsRequest(
            [DescribeLogDirsRequest.DescribableLogDirTopic(TARGET, [0, 1])] if chance.random() < 0.5 else None
        ),
        ApiKey.DESCRIBE_PRODUCERS: DescribeProducersRequest([DescribeProducersRequest.TopicRequest(TARGET, [0, 1])]),
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterRequest(),
    }
    return simple[api_key]


def _controller_request(api_key: ApiKey, version: int) -> Message:
    """An order of a controller long deposed, about a partition that is not here: no mutant may depose the real one."""
    topic = "no-such-topic"
    if api_key is ApiKey.LEADER_AND_ISR:
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader=7, isr=[7], replicas=[7, 8])
        told = LeaderAndIsrRequest(controller_id=7)
        if version < 2:
            state.topic_name = topic
            told.ungrouped_partition_states = [state]
        else:
            told.topic_states = [LeaderAndIsrRequest.LeaderAndIsrTopicState(topic, partition_states=[state])]
        return told
    if api_key is ApiKey.STOP_REPLICA:
        if version == 0:
            return StopReplicaRequest(ungrouped_partitions=[StopReplicaRequest.StopReplicaPartitionV0(topic, 1)])
        if version < 3:
            return StopReplicaRequest(topics=[StopReplicaRequest.StopReplicaTopicV1(topic, [0, 1])])
        stopped = StopReplicaRequest.StopReplicaPartitionState(1, delete_partition=True)
        return StopReplicaRequest(topic_states=[StopReplicaRequest.StopReplicaTopicState(topic, [stopped])])
    broker = UpdateMetadataRequest.UpdateMetadataBroker(7, v0_host="h") if version == 0 else _broker_with_an_endpoint()
    return UpdateMetadataRequest(controller_id=7, live_brokers=[broker])


def _broker_with_an_endpoint() -> UpdateMetadataRequest.UpdateMetadataBroker:
    return UpdateMetadataRequest.UpdateMetadataBroker(
        7, endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(9, "h")]
    )


def _records(version: int, chance: random.Random) -> bytes:
    values = [b"v" * chance.randrange(1, 40) for _ in range(chance.randrange(1, 5))]
    codec = chance.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
    if version >= 3:
        return make_batch(values, codec)
    records = [Record(offset, 0, None, value, ()) for offset, value in enumerate(values)]
    return encode_message_set(0 if version < 2 else 1, records, codec)


def _mutate(frame: bytes, chance: random.Random) -> bytes:
    """Change a few bytes behind api key and version; the size prefix is put right, mostly."""
    body = bytearray(frame[4:])
    for _ in range(chance.choice([1, 1, 2, 5])):
        position = chance.randrange(8, len(body)) if len(body) > 8 else len(body) - 1
        match chance.randrange(6):
            case 0:
                body[position] ^= 1 << chance.randrange(8)
            case 1:
                body[position] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                body[position : position + 4] = struct.pack(">i", chance.choice([-1, -2, 2**31 - 1, 2**20, 0]))
            case 3:
                del body[position : position + chance.randrange(1, 9)]
            case 4:
                body[position:position] = chance.randbytes(chance.randrange(1, 9))
            case _:
                body[position:position] = body[position : position + chance.randrange(1, 30)]
    size = len(body) if chance.random() < 0.95 else chance.randrange(2 * len(body))
    return struct.pack(">i", size) + bytes(body)


def _send_mutant(server: ServerProcess, api_key: int, mutant: bytes) -> str:
    """Send it over a connection of its own: `answered`, `closed` or `silent`."""
    whole = struct.unpack_from(">i", mutant)[0] == len(mutant) - 4
    with RawClient(server) as client:
        patient = whole and api_key not in MAY_STAY_SILENT
        client.socket.settimeout(PATIENCE_SECONDS if patient else SILENCE_SECONDS)
        try:
            client.socket.sendall(mutant)
            client.receive_frame()
        except (ConnectionClosed, BrokenPipeError):
            return "closed"
        except TimeoutError:
            assert not patient, f"no answer to {mutant.hex()}"
            return "silent"
    return "answered"


def _fuzz(server: ServerProcess, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with RawClient(server) as client:
        for name in (BYSTANDER, TARGET):
            client.create_topic(name)
        client.produce_values(BYSTANDER, b"untouched", b"records")
        before = record_bytes(client.fetch(BYSTANDER, 0))
        served = client.supported_versions()
        outcomes = {"answered": 0, "closed": 0, "silent": 0}
        for number in range(rounds):
            for key, (lowest, highest) in served.items():
                version = chance.randint(lowest, min(highest, request_class(key).max_version))
                request = _requests(client, ApiKey(key), version, chance)
                mutant = _mutate(client.encode(request, version, number), chance)
                outcomes[_send_mutant(server, key, mutant)] += 1
        assert outcomes["answered"] > 0 < outcomes["closed"]
        assert record_bytes(client.fetch(BYSTANDER, 0)) == before
        assert client.produce_values(BYSTANDER, b"and alive") == 2
        earliest = client.list_offset(TARGET, EARLIEST).offset  # a mutant of DeleteRecords may delete
        assert client.fetch(TARGET, earliest).error_code == ErrorCode.NONE
    assert "Traceback" not in server.log_text()


@pytest.mark.parametrize("mode", MODES)
def test_a_sample_of_mutants(mode: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    server = make_server(mode, tmp_path_factory.mktemp("fuzz"), auto_create_topics_enable="false")
    with server.running():
        _fuzz(server, rounds=60, seed=20261121)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_many_mutants(mode: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    server = make_server(mode, tmp_path_factory.mktemp("fuzz"), auto_create_topics_enable="false")
    with server.running():
        _fuzz(server, rounds=1500, seed=seed)
