"""The SASL mechanisms that are offered: a row each, with all that listeners, brokers and clients have to know of it.

Read by the listeners of brokers, for the logins between brokers, and by the settings of clients and of Spark. It is
immutable. A row names the modules of the mechanism's two sides, which are imported when a listener or a client is made
that uses the mechanism: they cost the others nothing. Every reader rejects a mechanism that has no row.

Kafka: PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, and the providers that they register with Java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from barnabas.security.sasl.client.client_authenticator import PasswordUser, SaslLogin
    from barnabas.security.sasl.sasl_server import MechanismSettings, ServedMechanism


class SaslMechanism(NamedTuple):
    """One row of the table: what a mechanism needs, on a listener and in a client."""

    name: str
    login_module: str
    """The Java class, without its package, that a login context names."""
    server: str
    """The module of the server's side. Its `serve` takes MechanismSettings and returns a ServedMechanism."""
    client: str
    """The module of the client's side. Its `login` takes the mechanism's name and the credential, and returns a
    SaslLogin."""
    takes_token: bool = False
    """Whether the client's credential is a function that returns a token; otherwise it is a PasswordUser."""
    has_long_tokens: bool = False
    """Whether a client's message may be longer than LOGIN_FRAME_BYTES."""
    has_handlers: bool = False
    """Whether a listener may name the Java class that is to check the logins (`config.protection`)."""

    @property
    def is_for_brokers(self) -> bool:
        """Whether brokers may log in to each other by this mechanism: a broker has a password, and no token."""
        return not self.takes_token

    def serve(self, settings: MechanismSettings) -> ServedMechanism:
        """Make the server's side for a listener.

        Raises ConfigError: the settings lack the users or the keys of the mechanism, or contradict each other.
        """
        served: ServedMechanism = import_module(self.server).serve(settings)
        return served

    def login(self, credential: PasswordUser | Callable[[], str]) -> SaslLogin:
        """Return the login of a client. credential: as `takes_token` says."""
        login: SaslLogin = import_module(self.client).login(self.name, credential)
        return login


_SASL: Final = "barnabas.security.sasl"
MECHANISMS: Final[Mapping[str, SaslMechanism]] = {
    each.name: each
    for each in (
        SaslMechanism("PLAIN", "PlainLoginModule", f"{_SASL}.plain_server", f"{_SASL}.client.plain_client"),
        *(
            SaslMechanism(name, "ScramLoginModule", f"{_SASL}.scram_server", f"{_SASL}.client.scram_client")
            for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        ),
        SaslMechanism(
            "OAUTHBEARER",
            "OAuthBearerLoginModule",
            f"{_SASL}.oauth_listener",
            f"{_SASL}.client.oauthbearer_client",
            takes_token=True,
            has_long_tokens=True,
            has_handlers=True,
        ),
    )
}
"""Name -> mechanism, in the order in which messages list them."""
NOT_OFFERED: Final[Mapping[str, str]] = {"GSSAPI": "Kerberos (GSSAPI)"}
"""A mechanism of Kafka's without a row -> its name in messages."""
