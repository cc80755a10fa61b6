"""A question of the test kit to one broker of a cluster, over the protocol of its listener: which brokers does it know?

Called by Cluster on the test's thread, which waits. Our Admin would ask any broker of the cluster; here it has to be
this one. No state, no lock.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.protocol.headers import decode_response_header, response_header_version
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.rpc.request_frame import request_frame
from barnabas.testing.broker_security import MECHANISM, BrokerSecurity

if TYPE_CHECKING:
    from barnabas.testing.broker_process import BrokerProcess

_METADATA_VERSION: Final = 12
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2

_Response = TypeVar("_Response", bound=Message)


def known_brokers(broker: BrokerProcess, timeout_seconds: float) -> set[int]:
    """Return the ids of the brokers that one broker tells clients of. Raises OSError: it does not answer."""
    security = broker.security
    with socket.create_connection((broker.host, broker.port), timeout_seconds) as plain:
        if security is None or security.certificates is None:
            return _ask(plain, security)
        with security.tls_client().protected(plain, broker.host) as encrypted:
            return _ask(encrypted, security)


def _ask(connection: socket.socket, security: BrokerSecurity | None) -> set[int]:
    if security is not None and security.has_users:
        _exchange(connection, SaslHandshakeRequest(mechanism=MECHANISM), _HANDSHAKE_VERSION, SaslHandshakeResponse)
        token = f"\0{security.user}\0{security.password}".encode()
        answer = _exchange(
            connection, SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION, SaslAuthenticateResponse
        )
        if answer.error_code:
            raise PermissionError(f"the broker refuses its own user {security.user}: {answer.error_message}")
    metadata = _exchange(connection, MetadataRequest(topics=[]), _METADATA_VERSION, MetadataResponse)
    return {node.node_id for node in metadata.brokers}


def _exchange(connection: socket.socket, request: Message, version: int, response: type[_Response]) -> _Response:
    connection.sendall(b"".join(map(bytes, request_frame(request, version, 1, "test-kit"))))
    with connection.makefile("rb") as answers:
        (length,) = struct.unpack("!i", answers.read(4))
        answer = answers.read(length)
    _, offset = decode_response_header(answer, response_header_version(request.api_key, version))
    decoded, _ = response.decode(answer, version, offset)
    return decoded
