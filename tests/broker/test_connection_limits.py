"""How many connections there may be, on a listener, of an address, in all, and how fast they may come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from tests.support.listener_servers import ListenerServer
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.server_fixtures import MODES
from tests.support.settings_client import ALL_BROKERS, SettingsClient, eventually

FEW = 2
CONNECTIONS = 5
OTHER_ADDRESS = "127.0.0.2"


@pytest.fixture(scope="module", params=MODES)
def limited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListenerServer]:
    """A server with a listener for clients, one thread each, so that it is known whose connection is the oldest."""
    server = ListenerServer(
        request.param,
        tmp_path_factory.mktemp("limited"),
        {"CLIENTS": "127.0.0.1", "FEW": "127.0.0.1"},
        num_network_threads="1",
        listener_name_few_max_connections=str(FEW),
        listener_name_plaintext_max_connections="1000",  # otherwise those of the broker hold for it alone, too
        quota_window_num="3",
    )
    with server.running():
        yield server


@pytest.fixture
def settings(limited: ListenerServer) -> Iterator[SettingsClient]:
    """Changes settings, which are taken back."""
    client = SettingsClient(limited.server)
    yield client
    client.set(ALL_BROKERS, max_connections=None)


def is_served(client: RawClient) -> bool:
    """Whether a connection is answered, or was closed."""
    try:
        client.supported_versions()
    except (ConnectionClosed, OSError):
        return False
    return True


def test_a_full_listener_lets_the_next_one_wait_until_there_is_room(limited: ListenerServer) -> None:
    with contextlib.ExitStack() as clients:
        first, _ = (clients.enter_context(limited.connect("FEW")) for _ in range(FEW))
        assert is_served(first)
        waiting = clients.enter_context(limited.connect("FEW"))
        waiting.socket.sendall(waiting.encode(waiting.fetch_request("none", 0), 12))
        other = clients.enter_context(limited.connect("CLIENTS"))
        assert [is_served(client) for client in (first, other) * 20] == [True] * 40
        assert waiting.is_silent()
        first.close()
        waiting.receive_frame()


def test_when_there_are_too_many_the_oldest_of_clients_are_closed_and_brokers_come_in(
    limited: ListenerServer, settings: SettingsClient
) -> None:
    with contextlib.ExitStack() as open_clients:
        clients = [open_clients.enter_context(limited.connect("CLIENTS")) for _ in range(CONNECTIONS)]
        assert [is_served(client) for client in clients] == [True] * CONNECTIONS
        clients.reverse()
        assert [is_served(client) for client in clients] == [True] * CONNECTIONS  # now in the order of their use
        settings.set(ALL_BROKERS, max_connections="3")
        assert clients[0].is_closed_by_broker()
        # More of the brokers' own come in, and make those go that are left.
        brokers = [open_clients.enter_context(limited.connect("PLAINTEXT")) for _ in range(CONNECTIONS)]
        assert [is_served(broker) for broker in brokers] == [True] * CONNECTIONS
        for client in clients[1:]:
            assert client.is_closed_by_broker()
        waiting = open_clients.enter_context(limited.connect("CLIENTS"))
        waiting.socket.sendall(waiting.encode(waiting.fetch_request("none", 0), 12))
        assert [is_served(broker) for broker in brokers * 4] == [True] * 4 * CONNECTIONS
        assert waiting.is_silent()
        settings.set(ALL_BROKERS, max_connections="1000")
        waiting.receive_frame()


def limit_rate(limited: ListenerServer, rate: float | None) -> None:
    """Connections a second of OTHER_ADDRESS."""
    entity = [AlterClientQuotasRequest.EntityData("ip", OTHER_ADDRESS)]
    change = AlterClientQuotasRequest.OpData("connection_creation_rate", rate or 0.0, rate is None)
    with limited.connect("PLAINTEXT") as client:
        request = AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData(entity, [change])], False)
        (entry,) = client.call(request, 1, AlterClientQuotasResponse).entries
    assert entry.error_code == ErrorCode.NONE, entry


def test_an_address_that_connects_too_often_is_turned_away_and_no_other(limited: ListenerServer) -> None:
    def comes_in(own_address: str) -> bool:
        with limited.connect("CLIENTS", own_address=own_address) as client:
            return is_served(client)

    assert [comes_in(OTHER_ADDRESS) for _ in range(20)] == [True] * 20
    limit_rate(limited, 1)
    eventually(lambda: not comes_in(OTHER_ADDRESS))
    assert [comes_in("127.0.0.1") for _ in range(20)] == [True] * 20
    limit_rate(limited, None)
    eventually(lambda: all(comes_in(OTHER_ADDRESS) for _ in range(5)))
