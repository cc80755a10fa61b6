"""Where the controller's requests may come from."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from barnabas.api.origins import ControllerOrigin, RefusedOrders, require_broker
from barnabas.api.request import ConnectionContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.transport.channel.authenticator import ANONYMOUS
from tests.support.broker_origins import broker_senders

OTHER_BROKER = "10.0.0.9"
ALICE, BROKERS, SECOND_BROKER = "User:alice", "User:broker", "User:CN=second"


def is_let_in(
    client: str,
    *,
    local: str = "10.0.0.5",
    privileged: bool = True,
    control_plane: bool = False,
    allowed: bool | None,
    for_want_of_lists: bool = False,
    principal: str = ANONYMOUS,
    own: str = ANONYMOUS,
    refused: RefusedOrders | None = None,
) -> bool:
    """allowed: what the authorizer says; None: there is none. own: the principal of this broker."""
    context = ConnectionContext(
        f"{local}:9092-{client}:50000-7",
        client,
        "LISTENER",
        "PLAINTEXT",
        principal,
        from_privileged_listener=privileged,
    )
    request: Any = SimpleNamespace(
        connection=context,
        handler=SimpleNamespace(api_key=ApiKey.STOP_REPLICA),
        header=SimpleNamespace(client_id="c"),
    )
    authorizer: Any = None
    if allowed is not None:
        authorizer = MagicMock(
            authorize=lambda *_: [allowed], allows_for_want_of_lists=lambda *_: allowed and for_want_of_lists
        )
    senders = broker_senders(OTHER_BROKER.__eq__, own=own, others=frozenset([SECOND_BROKER]))
    refusals = refused or RefusedOrders(lambda: None)
    origin = ControllerOrigin(authorizer, senders, refusals, has_control_plane=control_plane)
    with suppress(ApiError):
        origin.require(request)
        return True
    with pytest.raises(ApiError) as refusal:
        origin.require(request)
    assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return False


def test_a_connection_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """A client may send such requests without end: each was a line of the log."""
    caplog.set_level("WARNING")
    assert not is_let_in("10.0.0.6", allowed=None)  # which asks twice
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.0.0.5", "::ffff:10.0.0.5"]
)
def test_this_machine_is_let_in(address: str) -> None:
    assert is_let_in(address, allowed=None)


def test_this_machine_by_ipv6_is_let_in() -> None:
    assert is_let_in("fe80::1%eth0", local="fe80::1%eth0", allowed=None)


@pytest.mark.parametrize("address", ["10.0.0.6", "192.168.1.1", "fe80::2", "not an address"])
@pytest.mark.parametrize("control_plane", [False, True])
def test_machines_without_a_broker_need_an_authorizer(address: str, control_plane: bool) -> None:
    assert not is_let_in(address, control_plane=control_plane, allowed=None)
    assert is_let_in(address, control_plane=control_plane, allowed=True)
    assert not is_let_in(address, control_plane=control_plane, allowed=True, for_want_of_lists=True)


def test_the_machine_of_a_registered_broker_is_let_in() -> None:
    assert is_let_in(OTHER_BROKER, allowed=None)
    assert not is_let_in(OTHER_BROKER, privileged=False, allowed=None), "but the brokers' own listener"
    assert not is_let_in(OTHER_BROKER, allowed=False), "but the authorizer's permission"


@pytest.mark.parametrize("control_plane", [False, True])
@pytest.mark.parametrize("allowed", [None, True])
def test_ordinary_listeners_take_none(control_plane: bool, allowed: bool | None) -> None:
    assert not is_let_in("127.0.0.1", privileged=False, control_plane=control_plane, allowed=allowed)


def test_the_authorizer_may_refuse() -> None:
    assert not is_let_in("127.0.0.1", allowed=False)
    assert not is_let_in("127.0.0.1", control_plane=True, allowed=False)


@pytest.mark.parametrize("control_plane", [False, True])
@pytest.mark.parametrize("client", ["127.0.0.1", OTHER_BROKER, "10.0.0.6"])
@pytest.mark.parametrize("decides", [False, True])
def test_a_user_is_no_broker_wherever_it_comes_from(client: str, control_plane: bool, decides: bool) -> None:
    """decides: an authorizer is there, which allows everything that no list is about."""

    def passes(principal: str) -> bool:
        allowed = True if decides else None
        return is_let_in(
            client,
            control_plane=control_plane,
            allowed=allowed,
            for_want_of_lists=True,
            principal=principal,
            own=BROKERS,
        )

    assert passes(BROKERS), "its login is the proof, not its address"
    assert passes(SECOND_BROKER), "as super.users says"
    assert not passes(ALICE)
    assert not passes(ANONYMOUS), "where brokers log in, a client without a login is none"


def test_a_user_to_whom_lists_allow_it_acts_for_the_cluster() -> None:
    assert is_let_in("10.0.0.6", allowed=True, principal=ALICE, own=BROKERS)


def test_a_connection_is_asked_once() -> None:
    asked: list[str] = []

    def is_address(address: str) -> bool:
        asked.append(address)
        return True

    request: Any = SimpleNamespace(
        connection=ConnectionContext(f"10.0.0.5:9092-{OTHER_BROKER}:50000-7", OTHER_BROKER, "LISTENER", "PLAINTEXT")
    )
    for _ in range(3):
        require_broker(request, broker_senders(is_address))
    assert asked == [OTHER_BROKER]


@pytest.mark.parametrize(
    ("client", "principal", "own", "is_own"),
    [
        ("127.0.0.1", ANONYMOUS, ANONYMOUS, True),
        ("10.0.0.6", ANONYMOUS, ANONYMOUS, False),
        ("10.0.0.6", BROKERS, BROKERS, True),
        ("127.0.0.1", ALICE, BROKERS, False),
    ],
)
def test_the_refusal_of_the_broker_itself_is_told_from_others(
    client: str, principal: str, own: str, is_own: bool
) -> None:
    told: list[str] = []
    refused = RefusedOrders(lambda: told.append("own"))
    assert not is_let_in(client, allowed=False, principal=principal, own=own, refused=refused)
    assert principal in refused.last
    assert bool(told) == bool(refused.of_own) == is_own
