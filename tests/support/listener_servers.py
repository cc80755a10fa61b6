"""A server with several listeners, ours or Apache Kafka, and where each of them is.

For the tests of listeners, planes and connection limits. PLAINTEXT is always among them, and is the brokers' own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barnabas.transport.channel.authenticator import ANONYMOUS, Authenticator, PlaintextAuthenticator, plaintext_channel
from barnabas.transport.channel.transport_layer import TransportLayer
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server, make_server
from tests.support.server_process import free_port


class ListenerServer:
    """`hosts` by listener name, besides PLAINTEXT; `properties` with `_` for `.`."""

    def __init__(self, mode: str, directory: Path, hosts: Mapping[str, str], **properties: str) -> None:
        names = ("PLAINTEXT", *hosts)
        protocols = ",".join(f"{name}:PLAINTEXT" for name in names)
        wanted = {"listener_security_protocol_map": protocols, "inter_broker_listener_name": "PLAINTEXT", **properties}
        self._ports: dict[str, int] = {}
        self._hosts = {"PLAINTEXT": "127.0.0.1", **hosts}
        if mode == "apache-kafka":
            self._ports = {name: free_port() for name in names}
            wanted["listeners"] = ",".join(self._listener(name, port) for name, port in self._ports.items())
        self.server: Server = make_server(mode, directory, **wanted)
        if isinstance(self.server, ApacheKafka):
            self.server.port = self._ports["PLAINTEXT"]
        else:
            self.server.more_listeners = tuple(self._listener(name, 0) for name in hosts)

    def address(self, listener: str) -> tuple[str, int]:
        """Where a listener is."""
        ports = self._ports if isinstance(self.server, ApacheKafka) else self.server.ports
        return self._hosts[listener], ports[listener]

    def connect(self, listener: str, *, own_address: str | None = None) -> RawClient:
        """A connection to a listener."""
        return RawClient(self.server, address=self.address(listener), own_address=own_address)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Started inside the block, stopped after it, however it was left."""
        self.server.start()
        try:
            yield
        finally:
            self.server.close()

    def _listener(self, name: str, port: int) -> str:
        host = self._hosts[name]
        return f"{name}://{f'[{host}]' if ':' in host else host}:{port}"


# -- a client that is known by its address

ALICE, ALICES_ADDRESS = "User:alice", "127.0.0.2"


def channel_by_address(stream_socket: Any) -> tuple[TransportLayer, Authenticator]:
    """A ChannelBuilder that knows alice by her address."""
    transport, _ = plaintext_channel(stream_socket)
    authenticator = PlaintextAuthenticator()
    authenticator.principal = ALICE if stream_socket.getpeername()[0] == ALICES_ADDRESS else ANONYMOUS
    return transport, authenticator
