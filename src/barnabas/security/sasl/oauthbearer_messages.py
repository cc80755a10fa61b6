"""The first message of a client of OAUTHBEARER (RFC 7628), and the server's answer to a token that it rejects.

Called on the thread of the channel. Pure; no lock. No error quotes the message, which holds the token. Kafka:
OAuthBearerClientInitialResponse, OAuthBearerSaslServer.jsonErrorResponse.

    n,a=alice,^Aauth=Bearer eyJhbGciOi...^Atraceid=7^A^A     "a=alice," may be missing; ^A is the byte 1
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from barnabas.security.sasl.scram_messages import SASL_NAME

_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<user>{SASL_NAME}))?,\x01"
    # Bounded, because each turn of a group is dear, and the client has not logged in yet.
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01){0,64})\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")


class MessageMalformed(ValueError):
    """The error for a message that is none of OAUTHBEARER."""


class ClientMessage(NamedTuple):
    """The first message of a client. authorization_id: the user that it wants to be; empty: that of the token."""

    token: str
    authorization_id: str

    @classmethod
    def parse(cls, data: bytes) -> ClientMessage:
        """Parse a message; extensions are checked and dropped. Raises MessageMalformed."""
        found = _FIRST.fullmatch(data.decode("utf-8", "replace"))
        if found is None:
            raise MessageMalformed("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
        if "auth" not in pairs:
            raise MessageMalformed("Invalid OAUTHBEARER client first message: 'auth' not specified")
        auth = _AUTH.fullmatch(pairs["auth"])
        if auth is None or auth["scheme"].lower() != "bearer":
            raise MessageMalformed("Invalid OAUTHBEARER client first message: invalid 'auth' format")
        return cls(auth["token"], found["user"] or "")

    def __repr__(self) -> str:
        return f"ClientMessage({self.authorization_id!r}, token hidden)"


def error_answer(status: str, scope: str | None = None) -> str:
    """Return the JSON by which a client learns that its token is rejected. scope: what the token would need."""
    if scope is None:
        return f'{{"status":"{status}"}}'
    return f'{{"status":"{status}", "scope":{json.dumps(scope)}}}'
