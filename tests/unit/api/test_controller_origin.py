"""Where the controller's requests may come from."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from barnabas.api.authorize import Authorizer
from barnabas.api.controller_origin import ControllerOrigin
from barnabas.api.request import ConnectionContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode

OTHER_BROKER = "10.0.0.9"


def is_let_in(
    client: str, *, local: str = "10.0.0.5", privileged: bool = True, control_plane: bool = False, allowed: bool | None
) -> bool:
    """allowed: what the authorizer says; None: there is none."""
    context = ConnectionContext(
        f"{local}:9092-{client}:50000-7", client, "LISTENER", "PLAINTEXT", from_privileged_listener=privileged
    )
    request: Any = SimpleNamespace(
        connection=context,
        handler=SimpleNamespace(api_key=ApiKey.STOP_REPLICA),
        header=SimpleNamespace(client_id="c"),
    )
    authorizer: Authorizer | None = None if allowed is None else MagicMock(authorize=lambda *_: [allowed])
    origin = ControllerOrigin(authorizer, OTHER_BROKER.__eq__, has_control_plane=control_plane)
    with suppress(ApiError):
        origin.require(request)
        return True
    with pytest.raises(ApiError) as refusal:
        origin.require(request)
    assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return False


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.0.0.5", "::ffff:10.0.0.5"]
)
def test_this_machine_is_let_in(address: str) -> None:
    assert is_let_in(address, allowed=None)


def test_this_machine_by_ipv6_is_let_in() -> None:
    assert is_let_in("fe80::1%eth0", local="fe80::1%eth0", allowed=None)


@pytest.mark.parametrize("address", ["10.0.0.6", "192.168.1.1", "fe80::2", "not an address"])
def test_machines_without_a_broker_need_an_authorizer_or_a_control_plane(address: str) -> None:
    assert not is_let_in(address, allowed=None)
    assert is_let_in(address, allowed=True)
    assert is_let_in(address, control_plane=True, allowed=None)


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
