"""The states of a connection's login, as a table: which event leads where, and which request may come when.

Pure data, read by SaslServerAuthenticator. Kafka: SaslServerAuthenticator.SaslState.

    INITIAL ─► HANDSHAKE_OR_VERSIONS ─(ApiVersions)─► HANDSHAKE ─(SaslHandshake)─► AUTHENTICATE ─► COMPLETE
                        └────────────(SaslHandshake)──────────────────────────────────►

A login that follows another one on the same connection (KIP-368) begins in HANDSHAKE. If it chooses another mechanism,
its next request fails it, and not the handshake itself: as in Kafka, whose clients and metrics expect that.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from barnabas.protocol.api_keys import ApiKey


class SaslState(Enum):
    """What the client has to send next."""

    INITIAL = "a first request"
    HANDSHAKE_OR_VERSIONS = "SaslHandshake or ApiVersions"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "a token"
    OTHER_MECHANISM = "anything: the login fails, since its mechanism is not that of the first login"
    COMPLETE = "nothing: the login has succeeded"
    FAILED = "nothing: the login has failed"


class SaslEvent(Enum):
    """What the client has sent, as far as the state depends on it."""

    REQUEST = "a request, not a token of GSSAPI"
    VERSIONS_ANSWERED = "ApiVersions of a known version"
    MECHANISM_CHOSEN = "SaslHandshake with an enabled mechanism"
    MECHANISM_CHANGED = "SaslHandshake with another mechanism than that of the first login"
    LOGGED_IN = "the last token of the exchange"
    REJECTED = "anything that ends the login"


TRANSITIONS: Final[Mapping[tuple[SaslState, SaslEvent], SaslState]] = {
    (SaslState.INITIAL, SaslEvent.REQUEST): SaslState.HANDSHAKE_OR_VERSIONS,
    (SaslState.HANDSHAKE_OR_VERSIONS, SaslEvent.VERSIONS_ANSWERED): SaslState.HANDSHAKE,
    (SaslState.HANDSHAKE_OR_VERSIONS, SaslEvent.MECHANISM_CHOSEN): SaslState.AUTHENTICATE,
    (SaslState.HANDSHAKE, SaslEvent.MECHANISM_CHOSEN): SaslState.AUTHENTICATE,
    (SaslState.HANDSHAKE, SaslEvent.MECHANISM_CHANGED): SaslState.OTHER_MECHANISM,
    (SaslState.AUTHENTICATE, SaslEvent.LOGGED_IN): SaslState.COMPLETE,
    **{
        (state, SaslEvent.REJECTED): SaslState.FAILED
        for state in SaslState
        if state not in (SaslState.COMPLETE, SaslState.FAILED)
    },
}
"""(state, event) -> the next state. A pair that is not here cannot happen."""

REQUESTS: Final[Mapping[SaslState, frozenset[int]]] = {
    SaslState.HANDSHAKE_OR_VERSIONS: frozenset((int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE))),
    SaslState.HANDSHAKE: frozenset((int(ApiKey.SASL_HANDSHAKE),)),
    SaslState.AUTHENTICATE: frozenset((int(ApiKey.SASL_AUTHENTICATE),)),
}
"""State -> the keys of the APIs whose requests may come."""
