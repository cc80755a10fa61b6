"""SaslHandshake: v0-1, and SaslAuthenticate: v0-2 (KIP-43, KIP-152, KIP-368).

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: SaslHandshakeRequest, SaslAuthenticateRequest and their responses, in common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec
from barnabas.protocol.schema import Int16, Int64, field


# v0: raw tokens follow, without headers; v1: the tokens travel in SaslAuthenticate (KIP-152).
# Never flexible: clients up to 2.4 choose the version of this request wrongly (KAFKA-9577).
class SaslHandshakeRequest(MessageSpec, api=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    mechanism: str = field("0+")


class SaslHandshakeResponse(MessageSpec, api=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    error_code: Int16 = field("0+")
    mechanisms: list[str] = field("0+")


# v0: KIP-152; v1: the time after which the client has to authenticate again (KIP-368); v2: flexible.
class SaslAuthenticateRequest(MessageSpec, api=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    auth_bytes: bytes = field("0+")


class SaslAuthenticateResponse(MessageSpec, api=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible="2+"):
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    auth_bytes: bytes = field("0+")
    session_lifetime_ms: Int64 = field("1+", ignorable=True)
