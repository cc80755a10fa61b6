"""The client of ZooKeeper that the store uses: kazoo's, with this project's TLS and login.

Made by `zk.zookeeper.zookeeper_store`, on the caller's thread; the connections are made on kazoo's own thread.
`FirstConnection` is written there and read where the store starts: its table is replaced by one assignment, and its
event is set.

What kazoo lacks, and this adds:

    TLS     key stores of type PKCS12, the versions and cipher suites of the settings, names that are verified by
            default; and answers that wait decrypted in OpenSSL, of which `select` knows nothing
    login   DIGEST-MD5 without a further package, tried again after a failure: kazoo gives the session up for good
    reasons why no server could be reached; those that waiting does not heal end the start at once
    sockets that have a path, of a store on this machine

A request is sent when the login has succeeded, and never before: kazoo reports the connection earlier, but its queue
of requests waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from barnabas.security.tls.tls_contexts import TlsClient, TlsRefused
from barnabas.transport import unix_sockets
from barnabas.zk.zookeeper.digest_login import DigestLogin, LoginRefused
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig

LOGGER_NAME: Final = "barnabas.zk.kazoo"
_SETTINGS_OF: Final = {
    "PROTOCOL_VERSION": "zookeeper.ssl.protocol, zookeeper.ssl.enabled.protocols",
    "ismatch": "zookeeper.ssl.endpoint.identification.algorithm",
    "VERIFY_FAILED": "zookeeper.ssl.truststore.location",
    "CERTIFICATE": "zookeeper.ssl.keystore.location",
    "UNEXPECTED_EOF": "zookeeper.connect: has this port TLS?",
}
"""A part of a reason's text -> the settings that decide; the first that fits counts."""
_UNUSED_HOST: Final = "127.0.0.1"
"""What kazoo is told to look up where the server is a socket with a path: an address, which needs no look-up."""
_RECONNECTION: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}


class FirstConnection:
    """The wait for the first connection, and the reasons why there is none yet."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._is_made = False
        self._reasons: dict[str, str] = {}
        self._refused: frozenset[str] = frozenset()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait until a connection is made, or every server has refused one. Return whether one is made."""
        self._ended.wait(timeout_seconds)
        return self._is_made

    @property
    def is_refused(self) -> bool:
        """Whether every server has refused the connection, so that waiting on is useless."""
        return self._ended.is_set() and not self._is_made

    @property
    def reasons(self) -> str:
        """The last reason of each server that could not be reached: `host:port: reason; ...`."""
        return "; ".join(f"{server}: {reason}" for server, reason in self._reasons.items())

    def made(self) -> None:
        """End the wait: there is a connection."""
        self._is_made = True
        self._ended.set()

    def failed(self, server: str, reason: str) -> None:
        """Note why a server was not reached."""
        self._reasons = {**self._reasons, server: reason}

    def refused(self, server: str, reason: str, servers: Sequence[str]) -> None:
        """Note a reason that does not go away by waiting. servers: all that could be reached instead."""
        self.failed(server, reason)
        self._refused |= {server}
        if self._refused.issuperset(servers):
            self._ended.set()


def new_client(config: ZookeeperConfig, first: FirstConnection) -> KazooClient:
    """Return a client that is not started. Raises ConfigError: a key store, or a setting, cannot be used."""
    tls = config.tls.new_client()
    client = KazooClient(
        hosts=config.servers if config.socket_path is None else _UNUSED_HOST,
        timeout=config.session_timeout_ms / 1_000,
        connection_retry=_RECONNECTION,
        handler=_Handler(tls, config.socket_path),
        logger=logging.getLogger(LOGGER_NAME),
    )
    # kazoo has no parameter for the class of its connection.
    client._connection = _Connection(client, config, first)  # noqa: SLF001
    return client


class _Handler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's sockets, with TLS, or to the socket of a store on this machine."""

    def __init__(self, tls: TlsClient | None, socket_path: str | None) -> None:
        super().__init__()
        self._tls = tls
        self._socket_path = socket_path

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_tls: Any
    ) -> Any:
        """Connect. hostname: as the settings name the server. Raises OSError, TlsRefused."""
        if self._socket_path is not None:
            return unix_sockets.connect(self._socket_path)
        connected = super().create_connection(address, timeout=timeout)
        if self._tls is None:
            return connected
        connected.settimeout(timeout)
        try:
            return self._tls.protected(connected, hostname or address[0])
        except BaseException:
            connected.close()
            raise

    def select(self, readers: Any, writers: Any, others: Any, timeout: float | None = None) -> Any:
        """Wait until a socket is ready. One with answers that are decrypted already is: nothing else would tell."""
        ready = [each for each in readers if hasattr(each, "pending") and each.pending()]
        return (ready, [], []) if ready else super().select(readers, writers, others, timeout)


class _Connection(ConnectionHandler):  # type: ignore[misc] # kazoo has no types
    """kazoo's connection, with a login."""

    def __init__(self, client: KazooClient, config: ZookeeperConfig, first: FirstConnection) -> None:
        """Raises ConfigError: the login is malformed."""
        user = config.user
        # Of these options kazoo only looks whether there are any: the login is this class's.
        options = None if user is None else {"mechanism": "DIGEST-MD5"}
        super().__init__(client, client._conn_retry.copy(), logger=client.logger, sasl_options=options)  # noqa: SLF001
        self._user = user
        self._at_path = None if config.socket_path is None else config.servers
        self._first = first

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        """Connect to a server, start or continue the session there, and log in. Raises what kazoo tries again after."""
        server = self._at_path or f"{host}:{port}"
        try:
            connected = super()._connect(host, hostip, port)
        except (TlsRefused, LoginRefused) as error:
            text = f"{error}{_named_settings(str(error))}"
            self._first.refused(server, text, [f"{host}:{port}" for host, port in self.client.hosts])
            raise self.handler.timeout_exception(f"{server}: {text}") from error
        except Exception as error:
            self._first.failed(server, f"{str(error) or type(error).__name__}{_named_settings(str(error))}")
            raise
        self._first.made()
        return connected

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """Log in. Raises LoginRefused, and what kazoo raises when the connection is lost."""
        assert self._user is not None
        login = DigestLogin(self._user)
        try:
            # ZooKeeper speaks first, when it is asked to by an empty answer.
            challenge = self._exchange_token(1, b"", timeout)
            login.verify(self._exchange_token(2, login.answer(challenge), timeout))
        except AuthFailedError:
            raise LoginRefused(f"the user {self._user.name} or the password is wrong") from None

    def _exchange_token(self, xid: int, token: bytes, timeout: float) -> bytes | None:
        self._submit(SASL(token), timeout, xid)
        header, buffer, offset = self._read_header(timeout)
        if header.err:
            raise AuthFailedError
        answer: bytes | None = SASL.deserialize(buffer, offset)[0]
        return answer


def _named_settings(reason: str) -> str:
    return next((f" ({names})" for part, names in _SETTINGS_OF.items() if part in reason), "")
