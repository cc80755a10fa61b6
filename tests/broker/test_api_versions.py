"""ApiVersions: what a client asks first, and must be able to read whatever it asked for (KIP-35, KIP-511)."""

import struct

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.versions import SERVED, each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import AGAINST_KAFKA


@each_version(ApiKey.API_VERSIONS)
def test_every_version_lists_the_apis(client: RawClient, version: int) -> None:
    request = ApiVersionsRequest("raw-client", "1.0")
    answer = client.call(request, version, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.NONE
    listed = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert listed[ApiKey.API_VERSIONS] == (0, 4)
    assert all(lowest <= highest for lowest, highest in listed.values())


@pytest.mark.skipif(AGAINST_KAFKA, reason="our ceilings are those of 4.x")
def test_served_versions(client: RawClient) -> None:
    listed = client.supported_versions()
    assert {key: listed.get(key) for key in SERVED} == SERVED
    if not AGAINST_KAFKA:
        assert listed.keys() == SERVED.keys(), "every API that is served stands in tests/broker/versions.py"


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_unknown_version_is_answered_in_v0(client: RawClient, version: int) -> None:
    """The header of the request is one we cannot know, so only its first eight bytes may be relied on."""
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, 4) + b"test\x00"
    body = b"\x05name\x04v.1\x00"
    client.socket.sendall(struct.pack(">i", len(header + body)) + header + body)
    frame = client.receive_frame()
    assert struct.unpack_from(">i", frame) == (77,)
    answer, end = ApiVersionsResponse.decode(frame, 0, 4)
    assert end == len(frame)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(e.min_version, e.max_version) for e in answer.api_keys if e.api_key == ApiKey.API_VERSIONS] == [(0, 4)]

    assert client.supported_versions()[ApiKey.API_VERSIONS] == (0, 4), "the connection goes on"


@pytest.mark.parametrize("name", ["", "-starts-with-dash", "blank inside", "ends-with-dot."])
def test_invalid_software_name(client: RawClient, name: str) -> None:
    answer = client.call(ApiVersionsRequest(name, "1.0"), 3, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
