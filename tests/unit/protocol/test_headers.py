"""Request and response headers in all versions, and whole response frames."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    parse_request_header,
    request_header_version,
    response_frame,
    response_header_version,
)
from barnabas.protocol.message_index import MESSAGES, request_class, response_class
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.produce import ProduceResponse


@pytest.mark.parametrize(
    ("api_key", "version", "request_version", "response_version"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.API_VERSIONS, 99, 2, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (12345, 0, 1, 0),
    ],
)
def test_versions_of_headers(api_key: int, version: int, request_version: int, response_version: int) -> None:
    assert request_header_version(api_key, version) == request_version
    assert response_header_version(api_key, version) == response_version
    client_id = None if request_version == 0 else "client"
    raw = encode_request_header(api_key, version, 77, client_id)
    header, end = parse_request_header(memoryview(raw + b"body"))
    assert end == len(raw)
    assert (header.api_key, header.api_version, header.correlation_id) == (api_key, version, 77)
    assert (header.client_id, header.header_version) == (client_id, request_version)


def test_golden_request_header() -> None:
    raw = encode_request_header(ApiKey.METADATA, 9, 258, "me")
    assert raw == b"\0\x03\0\x09\0\0\x01\x02\0\x02me\0"
    assert encode_request_header(ApiKey.METADATA, 8, 258, None) == b"\0\x03\0\x08\0\0\x01\x02\xff\xff"


@pytest.mark.parametrize("kind", [bytes, memoryview])
@pytest.mark.parametrize("version", [1, 9])
def test_a_client_id_that_is_not_utf8_is_read_as_in_java(version: int, kind: type) -> None:
    raw = encode_request_header(ApiKey.PRODUCE, version, 1, "cabcd").replace(b"cabcd", b"c\xed\xa0\x80\xff")
    header, end = parse_request_header(kind(raw + b"body"))
    assert (header.client_id, end) == ("c\ufffd\ufffd", len(raw))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    raw = encode_request_header(ApiKey.PRODUCE, 9, 1, "c")[:-1] + b"\x02\x00\x01a\x05\x02bc"
    assert parse_request_header(raw + b"body")[1] == len(raw)
    assert decode_response_header(b"\0\0\0\x07\x01\x00\x01abody", 1) == (7, 8)


@pytest.mark.parametrize("version", [0, 1, 9])
def test_every_cut_of_a_header_is_a_decode_error(version: int) -> None:
    raw = encode_request_header(ApiKey.PRODUCE, version, 1, "client")
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            parse_request_header(raw[:end])


def test_response_headers_round_trip() -> None:
    assert decode_response_header(encode_response_header(-5, 0), 0) == (-5, 4)
    assert decode_response_header(encode_response_header(-5, 1), 1) == (-5, 5)


def test_a_response_without_records_is_one_piece() -> None:
    response = ProduceResponse(throttle_time_ms=9)
    for version, prefix in ((8, b"\0\0\0\x0c\0\0\0\x07"), (9, b"\0\0\0\x0b\0\0\0\x07\0")):
        header, _ = parse_request_header(encode_request_header(ApiKey.PRODUCE, version, 7, "c"))
        pieces, size = response_frame(header, response)
        (piece,) = pieces
        assert bytes(piece) == prefix + b"".join(response.encode(version))
        assert size == len(piece)


def test_records_are_pieces_of_their_own() -> None:
    records = memoryview(b"0123456789")
    partitions = [FetchResponse.PartitionData(number, records=records) for number in range(2)]
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse("t", partitions=partitions)])
    pieces, size = response_frame(RequestHeader(1, 12, 7, "c", 2), response)
    assert [piece is records for piece in pieces] == [False, True, False, True, False]
    whole = b"".join(pieces)
    assert size == len(whole) == 4 + int.from_bytes(whole[:4])
    correlation_id, position = decode_response_header(whole[4:], 1)
    assert correlation_id == 7
    assert FetchResponse.decode(whole, 12, 4 + position) == (response, size)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    header, _ = parse_request_header(encode_request_header(ApiKey.API_VERSIONS, 99, 3, "c"))
    (piece,), _ = response_frame(header, ApiVersionsResponse(error_code=35), version=0)
    assert bytes(piece) == b"\0\0\0\x0a\0\0\0\x03\0\x23\0\0\0\0"


def test_the_index_agrees_with_the_classes() -> None:
    for api_key, entry in MESSAGES.items():
        request, response = request_class(api_key), response_class(api_key)
        assert request.api_key == response.api_key == api_key
        assert request.flexible_from == response.flexible_from == entry.flexible_from
        assert (request.min_version, request.max_version) == (response.min_version, response.max_version)
        assert (request.min_version, request.max_version) == entry.versions
