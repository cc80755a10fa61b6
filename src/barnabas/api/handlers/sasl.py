"""SaslHandshake: v0-1. SaslAuthenticate: v0-2: on a listener that does not ask for SASL, or too late.

Brief. Authentication belongs to the connection, before any request reaches a handler; a client whose SASL request does
come here is configured for another listener than it connected to. SaslHandshake v1: SaslAuthenticate follows
(KIP-152). SaslAuthenticate v1: session lifetime (KIP-368). v2: flexible.

Kafka: KafkaApis.handleSaslHandshakeRequest, handleSaslAuthenticateRequest; the text is its own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NoReturn

from barnabas.api.brief import BRIEF
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

logger = logging.getLogger(__name__)


class SaslApi:
    """Tells clients that they need not, or cannot, authenticate here."""

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (
            Handler(ApiKey.SASL_HANDSHAKE, self.sasl_handshake, brief=BRIEF),
            Handler(ApiKey.SASL_AUTHENTICATE, self.sasl_authenticate, brief=BRIEF),
        )

    def sasl_handshake(self, request: Request[SaslHandshakeRequest]) -> None:
        """Refuse. Raises ApiError: ILLEGAL_SASL_STATE."""
        _refuse(request, f"the mechanism {request.body.mechanism!r}")

    def sasl_authenticate(self, request: Request[SaslAuthenticateRequest]) -> None:
        """Refuse. Raises ApiError: ILLEGAL_SASL_STATE."""
        _refuse(request, "an exchange")


def _refuse(request: Request[Any], what: str) -> NoReturn:
    """Log what the client should do. Raises ApiError: ILLEGAL_SASL_STATE, always."""
    connection = request.connection
    logger.warning(
        "Refused SASL on connection %s: client %r begins %s, but listener %s speaks %s. Set the client's "
        "security.protocol to %s, or use another listener",
        connection.connection_id,
        request.header.client_id,
        what,
        connection.listener_name,
        connection.security_protocol,
        connection.security_protocol,
    )
    raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication")
