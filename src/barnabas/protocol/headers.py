"""Request and response headers, and the whole frame of a response.

The Processor parses request headers; handlers' answers are framed here (`response_frame` is on the hot path); clients
use the other direction. Pure functions on bytes; a `RequestHeader` belongs to its request.

- Request header v0: API key, version, correlation id; only for ControlledShutdown v0.
- Request header v1: and a client id.
- Request header v2: and tagged fields. The client id keeps its two-byte length, so that a server can read it before it
  knows whether the version is flexible.
- Response header v0: correlation id. ApiVersions answers always have it: a client must be able to read them before it
  knows any version (KIP-511).
- Response header v1: and tagged fields.

Kafka: RequestHeader, ResponseHeader, ApiMessageType.requestHeaderVersion and responseHeaderVersion.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Any, Final

from barnabas.protocol.codec import Buffer
from barnabas.protocol.codec_runtime import AS_JAVA, skip_tagged_fields
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.message_index import MESSAGES
from barnabas.protocol.messages.message import Message
from barnabas.runtime.machine_numbers import request_start

if TYPE_CHECKING:
    from mypy_extensions import i64

_REQUEST_START: Final = Struct(">hhi")
_REQUEST_START_AND_LENGTH: Final = Struct(">hhih")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_BODY_IF_NO_CLIENT_ID: Final = 10
_NO_SIZE: Final = b"\0\0\0\0"
_NO_TAGS: Final = b"\0"

_NEVER: Final = 1 << 15
# By API key, of all keys up to the largest known one.
_FLEXIBLE_FROM: Final[list[int]] = [_NEVER] * (max(MESSAGES) + 1)
for _key, _entry in MESSAGES.items():
    if _entry.flexible_from is not None:
        _FLEXIBLE_FROM[_key] = _entry.flexible_from
_CONTROLLED_SHUTDOWN: Final = 7
_API_VERSIONS: Final = 18
"""The keys of `ApiKey` as literals, which compiled code compares without an object."""


class RequestHeader:
    """The fields before the body of a request."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id", "header_version")

    def __init__(
        self, api_key: i64, api_version: i64, correlation_id: int, client_id: str | None, header_version: i64
    ) -> None:
        self.api_key: i64 = api_key
        self.api_version: i64 = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.header_version: i64 = header_version

    def __repr__(self) -> str:
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r}, header_version={self.header_version})"
        )


def request_header_version(api_key: int, version: int) -> int:
    """Return the header version of a request; 1 for an API without messages here."""
    if _is_flexible(api_key, version):
        return 2
    return 0 if api_key == _CONTROLLED_SHUTDOWN and version == 0 else 1


def _is_flexible(api_key: i64, version: i64) -> bool:
    return 0 <= api_key < len(_FLEXIBLE_FROM) and version >= _FLEXIBLE_FROM[api_key]


def response_header_version(api_key: int, version: int) -> int:
    """Return the header version of a response: 1 where flexible, except for ApiVersions."""
    return 1 if api_key != _API_VERSIONS and request_header_version(api_key, version) == 2 else 0


def parse_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """Read the header that begins a frame (behind its size prefix); return it and the offset of the body.

    An API key without messages is read as far as header v1 allows: the caller decides. Raises DecodeError for bytes
    that are no header.
    """
    if isinstance(buffer, bytes) and len(buffer) > _BODY_IF_NO_CLIENT_ID:
        frame: bytes = buffer
        api_key, api_version, correlation_id, length = request_start(frame)
        position: i64 = _BODY_IF_NO_CLIENT_ID
        if length > 0:
            position += length
        is_flexible = 0 <= api_key < len(_FLEXIBLE_FROM) and api_version >= _FLEXIBLE_FROM[api_key]
        # Clients hardly ever send tagged fields: a zero byte says so.
        if position < len(frame) and not (is_flexible and frame[position]) and api_key != _CONTROLLED_SHUTDOWN:
            client_id = None
            if length >= 0:
                try:
                    client_id = frame[_BODY_IF_NO_CLIENT_ID:position].decode()
                except UnicodeDecodeError:
                    client_id = str(frame[_BODY_IF_NO_CLIENT_ID:position], "utf-8", AS_JAVA)  # as in Kafka
            if is_flexible:
                return RequestHeader(api_key, api_version, correlation_id, client_id, 2), position + 1
            return RequestHeader(api_key, api_version, correlation_id, client_id, 1), position
    return _parse_unusual_header(buffer)


def _parse_unusual_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """Read a header of any version. Raises DecodeError for malformed bytes."""
    try:
        api_key, api_version, correlation_id = _REQUEST_START.unpack_from(buffer, 0)
        # The only request without a client id, of brokers before Kafka 0.9.
        if api_version == 0 and api_key == _CONTROLLED_SHUTDOWN:
            return RequestHeader(api_key, api_version, correlation_id, None, 0), _REQUEST_START.size
        (length,) = _INT16.unpack_from(buffer, _REQUEST_START.size)
        position = _BODY_IF_NO_CLIENT_ID
        client_id = None
        if length >= 0:
            position += length
            client_id = str(buffer[_BODY_IF_NO_CLIENT_ID:position], "utf-8", AS_JAVA)
        is_flexible = _is_flexible(api_key, api_version)
        if is_flexible:
            position = skip_tagged_fields(buffer, position)
    except (error, IndexError) as short:
        raise DecodeError(f"request header ends early: {len(buffer)} bytes") from short
    if position > len(buffer):
        raise DecodeError(f"request header ends early: {len(buffer)} bytes of {position}")
    return RequestHeader(api_key, api_version, correlation_id, client_id, 2 if is_flexible else 1), position


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, header_version: int | None = None
) -> bytes:
    """Write a request header; its version follows from the API's unless given."""
    if header_version is None:
        header_version = request_header_version(api_key, api_version)
    if header_version == 0:
        return _REQUEST_START.pack(api_key, api_version, correlation_id)
    tags = b"\0" if header_version >= 2 else b""
    if client_id is None:
        return _REQUEST_START_AND_LENGTH.pack(api_key, api_version, correlation_id, -1) + tags
    encoded = client_id.encode()
    return _REQUEST_START_AND_LENGTH.pack(api_key, api_version, correlation_id, len(encoded)) + encoded + tags


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    """Write a response header."""
    return _INT32.pack(correlation_id) + (b"\0" if header_version >= 1 else b"")


def decode_response_header(buffer: Buffer, header_version: int) -> tuple[int, int]:
    """Read a response header; return the correlation id and the offset of the body.

    Raises DecodeError when the header ends early.
    """
    try:
        (correlation_id,) = _INT32.unpack_from(buffer, 0)
        position = _INT32.size
        if header_version >= 1:
            position = skip_tagged_fields(buffer, position)
    except (error, IndexError) as short:
        raise DecodeError(f"response header ends early: {len(buffer)} bytes") from short
    if position > len(buffer):
        raise DecodeError(f"response header ends early: {len(buffer)} bytes of {position}")
    return correlation_id, position


def response_frame(header: RequestHeader, response: Message, version: int | None = None) -> tuple[list[Any], int]:
    """Write a whole response frame: size prefix, header, body; return its pieces and their total size in bytes.

    Prefix, header and everything up to the first records are one piece: a response without records is a single one.
    `version`: of the body when it is not the request's (ApiVersions of an unknown version is answered in v0). Raises
    EncodeError when the version cannot express the response.
    """
    if version is None:
        version = header.api_version
    # The size is not known yet: four bytes are kept for it, and filled in once the body is written.
    start = _NO_SIZE + header.correlation_id.to_bytes(4, "big", signed=True)
    if header.header_version >= 2 and header.api_key != _API_VERSIONS:
        start = start + _NO_TAGS
    out = bytearray(start)
    pieces: list[Any] = response.encoders[version](response, out)
    size = len(out)
    if len(pieces) > 1:
        # `len` of records in a file is their size in the file: nothing is read here.
        size = sum(map(len, pieces))
    out[:4] = (size - 4).to_bytes(4, "big")
    return pieces, size
