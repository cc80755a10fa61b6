"""The request log: Kafka's JSON, without records and without secrets, and nothing at all unless it is asked for."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator

import pytest

from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext, Handler, RequestNotes
from barnabas.api.request_log import LOGGER_NAME, RequestLog, description, message_json
from barnabas.api.request_parser import RequestParser
from barnabas.network.requests.request_metrics import RequestMetrics
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.quotas import AlterUserScramCredentialsRequest
from tests.support.recording_channel import RecordingChannel, connection

START = 5_000_000_000
MICROSECOND = 1000


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[RequestLog]:
    with caplog.at_level(logging.DEBUG, LOGGER_NAME):
        yield RequestLog()


def produce_frame(version: int) -> bytes:
    data = ProduceRequest.PartitionProduceData(3, b"x" * 70)
    body = ProduceRequest("tx", -1, 1500, [ProduceRequest.TopicProduceData(name="t", partition_data=[data])])
    return b"".join([encode_request_header(ApiKey.PRODUCE, version, 42, "me"), *map(bytes, body.encode(version))])


def run(log: RequestLog, version: int) -> None:
    handler = Handler(ApiKey.PRODUCE, lambda request: None)
    context = ConnectionContext("127.0.0.1:9092-127.0.0.1:5-0", "127.0.0.1", "PLAINTEXT", "PLAINTEXT")
    context.client_software_name, context.client_software_version = "raw", "2"
    parser = RequestParser(Registry([handler]), log)
    request = parser.parse(produce_frame(version), context, channel=RecordingChannel(), received_ns=START)
    request.body.topic_data[0].partition_data[0].records = None  # the handler takes them, and the frame goes
    partition = ProduceResponse.PartitionProduceResponse(3, 0, 17)
    request.response = ProduceResponse([ProduceResponse.TopicProduceResponse("t", b"", [partition])])
    request.dequeued_ns = START + 250 * MICROSECOND
    request.local_complete_ns = START + 1250 * MICROSECOND
    request.response_complete_ns = START + 4250 * MICROSECOND
    request.response_dequeued_ns = START + 4260 * MICROSECOND
    request.sent_ns = START + 5000 * MICROSECOND + 999
    request.throttle_time_ms = 7
    RequestMetrics(log).record(request)


def test_a_request_in_kafka_s_words(log: RequestLog, caplog: pytest.LogCaptureFixture) -> None:
    run(log, 9)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("kafka.request.logger", logging.DEBUG)
    prefix, _, text = record.getMessage().partition(":")
    assert prefix == "Completed request"
    line = json.loads(text)
    assert list(line) == [
        *("isForwarded", "requestHeader", "request", "response", "connection", "totalTimeMs", "requestQueueTimeMs"),
        *("localTimeMs", "remoteTimeMs", "throttleTimeMs", "responseQueueTimeMs", "sendTimeMs", "securityProtocol"),
        *("principal", "listener", "clientInformation"),
    ]
    assert line["requestHeader"] == {
        "requestApiKey": 0,
        "requestApiVersion": 9,
        "correlationId": 42,
        "clientId": "me",
        "requestApiKeyName": "PRODUCE",
    }
    assert line["request"] == {
        "transactionalId": "tx",
        "acks": -1,
        "timeoutMs": 1500,
        "topicData": [{"name": "t", "partitionData": [{"index": 3, "recordsSizeInBytes": 70}]}],
    }
    assert line["response"]["responses"][0]["partitionResponses"][0]["baseOffset"] == 17
    times = {name: value for name, value in line.items() if name.endswith("TimeMs")}
    assert times == {
        "totalTimeMs": 5.0,
        "requestQueueTimeMs": 0.25,
        "localTimeMs": 1.0,
        "remoteTimeMs": 3.0,
        "throttleTimeMs": 7,
        "responseQueueTimeMs": 0.01,
        "sendTimeMs": 0.74,
    }
    assert line["clientInformation"] == {"softwareName": "raw", "softwareVersion": "2"}
    assert (line["principal"], line["listener"]) == ("User:ANONYMOUS", "PLAINTEXT")


@pytest.mark.interpreted
def test_what_conversions_took_is_told_where_there_were_any() -> None:
    handler = Handler(ApiKey.PRODUCE, lambda request: None)
    request = RequestParser(Registry([handler])).parse(produce_frame(9), connection(), RecordingChannel(), 1)
    request.response_complete_ns = request.local_complete_ns = request.response_dequeued_ns = request.sent_ns = 1
    request.notes = RequestNotes()
    assert "messageConversionsTime" not in description(request, request.notes)
    request.notes.conversions_ns, request.notes.temporary_memory_bytes = 1_234_567, 99
    described = description(request, request.notes)
    assert (described["messageConversionsTime"], described["temporaryMemoryBytes"]) == (1.234, 99)


def test_old_versions_are_marked(log: RequestLog, caplog: pytest.LogCaptureFixture) -> None:
    run(log, 6)
    header = json.loads(caplog.messages[0].partition(":")[2])["requestHeader"]
    assert header["requestApiVersionDeprecated"] is True


def test_nothing_is_noted_unless_it_is_on_and_it_can_be_switched(caplog: pytest.LogCaptureFixture) -> None:
    log = RequestLog()
    assert not log.enabled
    run(log, 9)
    assert caplog.messages == []
    with caplog.at_level(logging.DEBUG, LOGGER_NAME):
        log.refresh()
        run(log, 9)
    log.refresh()
    run(log, 9)
    assert len(caplog.messages) == 1


def test_what_is_secret_does_not_show() -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = IncrementalAlterConfigsRequest.AlterableConfig
    settings = {"ssl.keystore.password": 4, "log.retention.ms": 4, "no.such.setting": 4, "retention.ms": 2}
    request = IncrementalAlterConfigsRequest(
        resources=[resource(kind, "0", [config(name, 0, "v")]) for name, kind in settings.items()]
    )
    shown = [each["configs"][0]["value"] for each in message_json(request, 1)["resources"]]
    assert shown == ["[hidden]", "v", "[hidden]", "v"]
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="u", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
    )
    scram = message_json(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
    assert scram["upsertions"][0]["saltedPassword"] == "[hidden]"


def test_names_types_and_absent_fields_are_kafka_s() -> None:
    fetch = FetchRequest(
        max_wait_ms=5, topics=[FetchRequest.FetchTopic(topic_id=struct.pack(">QQ", 0, 5), partitions=[])]
    )
    shown = message_json(fetch, 13)
    assert shown["maxWaitMs"] == 5
    assert shown["topics"] == [{"topicId": "AAAAAAAAAAAAAAAAAAAABQ", "partitions": []}]
    assert "clusterId" not in shown  # tagged, and nothing but its default
    assert "replicaState" not in message_json(fetch, 17)
    versions = message_json(ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiVersion(ApiKey.FETCH, 4, 17)]), 3)
    assert json.dumps(versions["apiKeys"]) == '[{"apiKey": 1, "minVersion": 4, "maxVersion": 17}]'
