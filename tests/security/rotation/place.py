"""The brokers whose security is changed: their settings, connections to them, and the operator's changes.

Made by tests and the campaign, and used on their thread. Listeners: PLAINTEXT, for the operator, who is a super user
there; and two of SASL_SSL. Sessions of CLIENTS do not end by themselves. Those of SHORT do: with SCRAM-SHA-512 after a
time that is given, with SCRAM-SHA-256 after one that no test waits for. A client can log in again on its connection
only where sessions end.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from barnabas.clients.admin import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramAlteration,
    ScramMechanism,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import DescribeAclsRequest, DescribeAclsResponse
from tests.security.conftest import Certificates
from tests.support.raw_client import RawClient
from tests.support.sasl_exchange import SaslTlsRawClient
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

CLIENTS, SHORT = "CLIENTS", "SHORT"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
SECONDS = 300
"""Longer than anything takes on a machine that is far too busy."""
TOKEN_SECRET = "the-secret-of-all-tokens"
CERTIFICATE_NAMES = ("localhost", "127.0.0.1")
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

eventually = partial(wait_until, seconds=SECONDS)
"""The wait for what is a matter of moments."""


def properties(certificates: Certificates, key_store: Path, session_ms: int) -> dict[str, str]:
    """The settings of each broker, ours and Apache Kafka's. session_ms: of SHORT with SCRAM-SHA-512."""
    short = f"listener.name.{SHORT.lower()}"
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{CLIENTS}:SASL_SSL,{SHORT}:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.trust_pem),
        "sasl.enabled.mechanisms": f"{SHA_256},{SHA_512}",
        **{
            f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": _SCRAM_LOGIN
            for listener in (CLIENTS, SHORT)
            for mechanism in (SHA_256, SHA_512)
        },
        f"{short}.{SHA_256.lower()}.connections.max.reauth.ms": "3600000",
        f"{short}.{SHA_512.lower()}.connections.max.reauth.ms": str(session_ms),
        "connection.failed.authentication.delay.ms": "1",
        "delegation.token.secret.key": TOKEN_SECRET,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "num.partitions": "2",
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }


class Place:
    """Running brokers, whose ids are their numbers. tls_listeners: those whose certificates are replaced."""

    def __init__(
        self,
        brokers: Sequence[ServerProcess],
        port_of: Callable[[int, str], int],
        certificates: Certificates,
        directory: Path,
        *,
        replication_factor: int = 1,
        tls_listeners: Sequence[str] = (CLIENTS, SHORT),
    ) -> None:
        """port_of: of a broker and a listener. directory: for new certificates."""
        self.brokers = brokers
        self.certificates = certificates
        self.directory = directory
        self.replication_factor = replication_factor
        self.tls_listeners = tls_listeners
        self.port_of = port_of
        self._context = certificates.authority.client_context()

    @property
    def numbers(self) -> range:
        """The numbers of the brokers."""
        return range(len(self.brokers))

    # -- connections

    def servers(self, listener: str = CLIENTS) -> str:
        """The bootstrap servers of a listener."""
        return ",".join(f"{self.brokers[each].host}:{self.port_of(each, listener)}" for each in self.numbers)

    def connect(self, broker: int = 0, listener: str = SHORT) -> SaslTlsRawClient:
        """A new connection, which has not logged in."""
        return SaslTlsRawClient(self.brokers[broker], self.port_of(broker, listener), self._context)

    @contextmanager
    def logged_in(
        self, user: str, password: str, broker: int = 0, *, is_token: bool = False
    ) -> Iterator[SaslTlsRawClient]:
        """A session of SHORT that does not end while a test runs, unless with its token."""
        with self.connect(broker) as client:
            answer = client.log_in(user, password, SHA_256, is_token=is_token)
            assert answer.error_code == ErrorCode.NONE, answer
            yield client

    def login_error(self, broker: int, user: str, password: str, *, is_token: bool = False) -> int:
        """The error code of a login on a new connection."""
        with self.connect(broker) as client:
            return client.log_in(user, password, SHA_256, is_token=is_token).error_code

    def await_login(self, user: str, password: str, expected: ErrorCode, *, is_token: bool = False) -> None:
        """Log in to each broker until the outcome is as expected: a change is in force a moment after its answer."""

        def error(broker: int) -> int:
            return self.login_error(broker, user, password, is_token=is_token)

        eventually(lambda: all(error(number) == expected for number in self.numbers))

    def session_ms(self, broker: int, token: str, password: str) -> int:
        """How long a session by a token lasts; 0 if the token has ended."""
        with self.connect(broker) as client:
            answer = client.log_in(token, password, SHA_256, is_token=True)
            return answer.session_lifetime_ms if answer.error_code == ErrorCode.NONE else 0

    def served_certificate(self, broker: int, listener: str) -> bytes | None:
        """The certificate that a new connection gets."""
        with self.connect(broker, listener) as client:
            assert isinstance(client.socket, ssl.SSLSocket)
            return client.socket.getpeercert(binary_form=True)

    # -- the operator

    def admin(self) -> Admin:
        """The operator's admin client."""
        return Admin(self.servers("PLAINTEXT"))

    def set_password(self, user: str, password: str | None) -> None:
        """Set a user's password for both mechanisms; None removes the user."""
        with self.admin() as admin:
            admin.alter_user_scram_credentials([ScramAlteration(user, each, password) for each in MECHANISMS])

    def add_user(self, user: str, password: str) -> None:
        """Add a user, who can log in to each broker when this returns."""
        self.set_password(user, password)
        self.await_login(user, password, ErrorCode.NONE)

    def add_entries(self, *bindings: AclBinding) -> None:
        """Add entries to access control lists, and wait until every broker knows them."""
        with self.admin() as admin:
            assert not any(admin.create_acls(bindings).values())
        for broker in self.numbers:
            eventually(lambda: all(self._knows(broker, binding) for binding in bindings))  # noqa: B023

    def _knows(self, broker: int, binding: AclBinding) -> bool:
        pattern, entry = binding
        request = DescribeAclsRequest(*pattern, entry.principal, entry.host, entry.operation, entry.permission_type)
        with RawClient(self.brokers[broker]) as client:
            return bool(client.call(request, 3, DescribeAclsResponse).resources)

    def remove_entries(self, *bindings: AclBinding) -> None:
        """Remove entries from access control lists."""
        filters = [
            AclBindingFilter(ResourcePatternFilter(*pattern), AccessControlEntryFilter(*entry))
            for pattern, entry in bindings
        ]
        with self.admin() as admin:
            deleted = admin.delete_acls(filters)
        assert all(len(each.acls) == 1 for each in deleted.values()), deleted

    def set_key_store(self, broker: int, listener: str, path: Path) -> None:
        """Set the key store of one listener. Raises ApiError: the broker refuses it."""
        name = f"listener.name.{listener.lower()}.ssl.keystore.location"
        with self.admin() as admin:
            change = ConfigChange(name, ConfigOperation.SET, str(path))
            admin.incremental_alter_configs(ConfigResource.broker(broker), [change])


def entry(
    user: str,
    operation: AclOperation,
    name: str,
    kind: ResourceType = ResourceType.TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    """An entry of a list about one resource."""
    pattern = ResourcePattern(kind, name, PatternType.LITERAL)
    return AclBinding(pattern, AccessControlEntry(f"User:{user}", "*", operation, permission))
