"""How a client reaches the broker of the matrix, and what each library's exam is asked to do with the connection.

An exam creates its topic by the library's admin client, writes `IN_TRANSACTION` in a transaction and `PLAIN_VALUES`
without one, reads all six as a member of a group that reads committed records, commits, and returns what it has read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

IN_TRANSACTION = ["t0", "t1", "t2"]
PLAIN_VALUES = ["p0", "p1", "p2"]
VALUES = [*IN_TRANSACTION, *PLAIN_VALUES]
SECONDS = 120
"""The longest wait for one of a library's calls."""

DELEGATION_TOKEN = "delegation token"
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, DELEGATION_TOKEN)


class Login(NamedTuple):
    """The security of one connection. mechanism: None without SASL."""

    protocol: str
    mechanism: str | None
    bootstrap: str
    user: str
    """The id of the token, for a login by delegation token."""
    password: str
    """The user's password, the HMAC of the delegation token, or the token of OAUTHBEARER."""
    token_end_s: float
    """When the token of OAUTHBEARER expires, in seconds since 1970."""
    trust_pem: str

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol.endswith("SSL")

    @property
    def is_by_token(self) -> bool:
        """Whether the login is by delegation token, over SCRAM."""
        return self.mechanism == DELEGATION_TOKEN

    @property
    def sasl_mechanism(self) -> str | None:
        """The mechanism as the protocol names it."""
        return "SCRAM-SHA-512" if self.is_by_token else self.mechanism


Exam: TypeAlias = Callable[[Login, str], list[str]]
"""Takes the login and the name of a new topic, which is the group's and the transactional id too."""
