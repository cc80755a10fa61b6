"""From frames to requests: what is understood, what is answered in another version, what closes the connection."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.handlers.api_versions import ApiVersionsApi
from barnabas.api.registry import Registry
from barnabas.api.request import Handler, Request
from barnabas.api.request_parser import RequestParser
from barnabas.metadata.cluster_features import ClusterFeatures
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode, InvalidRequest
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.message import Message
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.zk.kafka_zk_client import KafkaZkClient
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel, connection


def refuse(request: Request[Any]) -> None:
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")


def break_down(request: Request[Any]) -> None:
    raise ValueError("a defect")


def refuse_oddly(request: Request[Any]) -> None:
    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "a defect in /var/lib/barnabas")


def features() -> ClusterFeatures:
    return ClusterFeatures(KafkaZkClient(InlineStore(MockClock()).new_session(), MockClock()))


def make(handle: Any = refuse) -> tuple[RequestParser, Apis, ActionQueue]:
    registry: Registry
    api_versions = ApiVersionsApi(lambda: registry, features())
    registry = Registry(
        [
            *api_versions.handlers(),
            Handler(ApiKey.DESCRIBE_CLUSTER, handle, versions=(0, 1)),
        ]
    )
    actions = ActionQueue()
    return RequestParser(registry), Apis(actions, lambda: 17), actions


def frame(api_key: int, version: int, body: bytes, client_id: str | None = "tester") -> bytes:
    return encode_request_header(api_key, version, 5, client_id) + body


def encoded(message: Message, version: int) -> bytes:
    return b"".join(bytes(piece) for piece in message.encode(version))


def parse(parser: RequestParser, data: bytes, channel: RecordingChannel) -> Request[Any]:
    return parser.parse(data, connection(), channel=channel, received_ns=1)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_the_table_in_every_version(version: int) -> None:
    parser, apis, _ = make()
    channel = RecordingChannel()
    body = encoded(ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7"), version)
    request = parse(parser, frame(18, version, body), channel)
    assert request.brief
    apis.handle(request)
    answer = channel.answer()
    assert answer.error_code == ErrorCode.NONE
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4), (60, 0, 1)]
    expected = "kcat" if version >= 3 else "unknown"
    assert request.connection.client_software_name == expected


def test_an_unknown_version_of_api_versions_is_answered_in_the_layout_of_version_0() -> None:
    parser, apis, _ = make()
    channel = RecordingChannel()
    apis.handle(parse(parser, frame(18, 99, b"whatever comes in version 99"), channel))
    assert channel.frames == [
        bytes.fromhex("0000001000000005002300000001001200000004"),
    ]


def test_software_names_that_could_forge_metrics_are_refused() -> None:
    parser, apis, _ = make()
    channel = RecordingChannel()
    body = encoded(ApiVersionsRequest(client_software_name="evil\nname", client_software_version="1"), 3)
    request = parse(parser, frame(18, 3, body), channel)
    apis.handle(request)
    assert channel.answer().error_code == ErrorCode.INVALID_REQUEST
    assert request.connection.client_software_name == "unknown"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "unreadable request header of 0 bytes"),
        (b"\x00\x12\x00", "unreadable request header of 3 bytes"),
        (frame(9999, 3, b""), "unknown API key 9999"),
        (frame(60, 7, b""), "unsupported version 7 of DESCRIBE_CLUSTER: versions 0 to 1"),
        (frame(60, -1, b""), "unsupported version -1 of DESCRIBE_CLUSTER"),
        (frame(60, 0, b""), "unreadable body of DESCRIBE_CLUSTER v0 from client 'tester'"),
    ],
)
def test_what_is_no_request_is_refused_by_name(data: bytes, complaint: str) -> None:
    parser, _, _ = make()
    with pytest.raises(InvalidRequest, match=complaint):
        parse(parser, data, RecordingChannel())


@pytest.mark.parametrize(
    ("handle", "code", "message"),
    [
        (refuse, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you"),
        (break_down, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message),
        (refuse_oddly, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message),
    ],
)
def test_what_a_handler_raises_becomes_its_error_answer(
    handle: Any, code: ErrorCode, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    parser, apis, actions = make(handle)
    channel = RecordingChannel()
    released: list[str] = []
    request = parser.parse(
        frame(60, 0, encoded(DescribeClusterRequest(), 0)),
        connection(),
        channel=channel,
        received_ns=1,
        release=lambda: released.append("frame"),
    )
    actions.add(lambda: released.append("action"))
    apis.handle(request)
    answer = channel.answer()
    assert (answer.error_code, answer.error_message) == (code, message)
    assert ("a defect" in caplog.text) == (code is ErrorCode.UNKNOWN_SERVER_ERROR)
    assert released == ["frame", "action"]
    assert request.local_complete_ns == 17


def test_a_request_is_answered_once() -> None:
    parser, _, _ = make()
    channel = RecordingChannel()
    request = parse(parser, frame(60, 0, encoded(DescribeClusterRequest(), 0)), channel)
    request.respond(DescribeClusterResponse())
    request.no_response()
    request.close_connection()
    request.respond(DescribeClusterResponse())
    assert channel.events == ["send"]
