"""A thousand clients that stop in the middle of a handshake or a login: other clients are served, idle expiry ends all.

The crowd stops at every stage of the way in: before the first byte, within the first TLS record, within a frame, after
SaslHandshake, between the messages of SCRAM; and the last three once more over TLS.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.security.conftest import PASSWORD, SASL_LISTENERS, Certificates, client_hello, sasl_properties
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_metrics import metric_value
from tests.support.raw_client import SECONDS, RawClient
from tests.support.sasl_exchange import SaslRawClient, SaslTlsRawClient, ScramDialogue, await_login
from tests.support.server_fixtures import SERVER_PROPERTIES
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("many_descriptors")]

CROWD = 1_000
IDLE_MS = 5_000
LONG_IDLE_MS = 600_000
SCRAM = "SCRAM-SHA-512"
OPEN = "kafka_server_socket_server_metrics_connection_count"


class Place(NamedTuple):
    """A running broker with SASL_PLAINTEXT and SASL_SSL, and what its clients need."""

    broker: BarnabasProcess
    context: ssl.SSLContext
    hello: bytes

    def over_tls(self) -> SaslTlsRawClient:
        """A new connection that has not logged in."""
        return SaslTlsRawClient(self.broker, self.broker.ports["SASLTLS"], self.context)

    def without_tls(self) -> SaslRawClient:
        """The same without TLS."""
        return SaslRawClient(self.broker, address=(self.broker.host, self.broker.ports["SASL"]))

    def open_connections(self) -> float:
        """The connections that the broker counts."""
        return metric_value(self.broker.ports["http"], OPEN)


@contextmanager
def running(certificates: Certificates, directory: Path, **more: str) -> Iterator[Place]:
    """Run a broker; property names with `_` for `.`."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    ours = {name: value for name, value in sasl_properties(certificates).items() if ".name.re" not in name}
    own = {"metrics.listen": "127.0.0.1:0", "num.network.threads": "2"}
    broker = BarnabasProcess(directory, SERVER_PROPERTIES | ours | own | given)
    broker.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in SASL_LISTENERS)
    with broker.running():
        with Admin(broker.bootstrap_servers) as admin:
            admin.alter_user_scram_credentials([ScramAlteration("alice", ScramMechanism.SCRAM_SHA_512, PASSWORD)])
        await_login(broker, "alice", PASSWORD, ScramMechanism.SCRAM_SHA_512, ErrorCode.NONE)
        yield Place(broker, certificates.authority.client_context(), client_hello(certificates))


# -- the ways to stop


def silent(place: Place, _number: int) -> RawClient:
    return RawClient(place.broker, address=(place.broker.host, place.broker.ports["SASLTLS"]))


def within_the_hello(place: Place, number: int) -> RawClient:
    client = silent(place, number)
    client.socket.sendall(place.hello[: 1 + number % len(place.hello)])
    return client


def within_a_frame(place: Place, number: int) -> RawClient:
    client = place.without_tls()
    frame = client.encode(SaslHandshakeRequest(SCRAM), 1, 1)
    client.socket.sendall(frame[: 1 + number % (len(frame) - 1)])
    return client


def after_the_handshake(client: SaslRawClient) -> SaslRawClient:
    assert client.handshake(SCRAM).error_code == ErrorCode.NONE
    return client


def between_the_messages(client: SaslRawClient) -> SaslRawClient:
    after_the_handshake(client)
    assert client.authenticate(ScramDialogue(SCRAM, "alice", PASSWORD).first_message()).error_code == ErrorCode.NONE
    return client


def within_a_message(client: SaslRawClient) -> SaslRawClient:
    after_the_handshake(client)
    first = ScramDialogue(SCRAM, "alice", PASSWORD).first_message()
    client.socket.sendall(client.encode(SaslAuthenticateRequest(first), 2, 2)[:-1])
    return client


Stop = Callable[[Place, int], RawClient]
STOPS: tuple[Stop, ...] = (
    silent,
    within_the_hello,
    within_a_frame,
    lambda place, _: after_the_handshake(place.without_tls()),
    lambda place, _: between_the_messages(place.without_tls()),
    lambda place, _: within_a_message(place.without_tls()),
    lambda place, _: place.over_tls(),
    lambda place, _: after_the_handshake(place.over_tls()),
    lambda place, _: between_the_messages(place.over_tls()),
    lambda place, _: within_a_message(place.over_tls()),
)


def crowd(place: Place, clients: ExitStack) -> list[RawClient]:
    """Open a thousand connections that stop, at each stage as many as at any other."""
    stops = itertools.islice(itertools.cycle(STOPS), CROWD)
    return [clients.enter_context(stop(place, number)) for number, stop in enumerate(stops)]


def is_closed(client: RawClient) -> bool:
    """Whether the broker has closed the connection. What it had sent before is read."""
    client.socket.setblocking(False)
    try:
        return client.socket.recv(65_536) == b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:  # reset, or closed in the middle of a handshake
        return True


# -- the tests


@pytest.mark.parametrize("inline", ["true", "false"])
def test_other_clients_are_served(certificates: Certificates, tmp_path: Path, inline: str) -> None:
    with (
        running(
            certificates, tmp_path, inline_requests_enable=inline, connections_max_idle_ms=str(LONG_IDLE_MS)
        ) as place,
        ExitStack() as clients,
    ):
        established = clients.enter_context(place.over_tls())
        assert established.log_in("alice", PASSWORD, SCRAM).error_code == ErrorCode.NONE
        established.create_topic("t")
        stopped = crowd(place, clients)
        assert place.open_connections() >= CROWD
        for number in range(100):
            assert established.produce_values("t", b"v") == number
        for client in (place.over_tls, place.without_tls) * 5:
            with client() as new:
                assert new.log_in("alice", PASSWORD, SCRAM).error_code == ErrorCode.NONE
                assert new.end_offset("t", 0) == 100
        assert not any(is_closed(client) for client in stopped)


def test_idle_expiry_takes_them_away(certificates: Certificates, tmp_path: Path) -> None:
    with (
        running(certificates, tmp_path, connections_max_idle_ms=str(IDLE_MS)) as place,
        ExitStack() as clients,
    ):
        established = clients.enter_context(place.over_tls())
        assert established.log_in("alice", PASSWORD, SCRAM).error_code == ErrorCode.NONE
        stopped = []
        for number, stop in enumerate(itertools.islice(itertools.cycle(STOPS), CROWD)):
            stopped.append(clients.enter_context(stop(place, number)))
            established.supported_versions()  # or it would be idle itself

        def all_closed() -> bool:
            established.supported_versions()
            stopped[:] = [client for client in stopped if not is_closed(client)]
            return not stopped

        wait_until(all_closed, SECONDS + 10 * IDLE_MS / 1000)
        # What is left: the established one, and the broker's own.
        wait_until(lambda: place.open_connections() < 20, SECONDS)
        established.supported_versions()


def test_an_address_has_its_share_of_them(certificates: Certificates, tmp_path: Path) -> None:
    """`max.connections.per.ip` bounds a crowd from one address, and clients of other addresses are not in its way."""
    share = CROWD // 2
    with (
        running(certificates, tmp_path, max_connections_per_ip=str(share)) as place,
        ExitStack() as clients,
    ):
        refused = 0
        for _ in range(CROWD):
            client = clients.enter_context(silent(place, 0))
            client.socket.sendall(place.hello)
            try:
                refused += client.socket.recv(1) == b""
            except ConnectionResetError:
                refused += 1
        assert CROWD - share <= refused < CROWD - share + 20  # the broker's own connections come from there, too
        listener = (place.broker.host, place.broker.ports["SASL"])
        with SaslRawClient(place.broker, address=listener, own_address="127.0.0.2") as elsewhere:
            assert elsewhere.log_in("alice", PASSWORD, SCRAM).error_code == ErrorCode.NONE
            elsewhere.supported_versions()
