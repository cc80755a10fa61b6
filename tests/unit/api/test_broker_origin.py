"""Where the markers of transactions may come from."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from barnabas.api.brief import NeedsHandlerThread
from barnabas.api.origins import BrokerOrigin
from barnabas.api.request import ConnectionContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from barnabas.transport.channel.authenticator import ANONYMOUS
from tests.support.broker_origins import broker_senders
from tests.unit.api.permissions_harness import CLUSTER, Permissions

OTHER_BROKER = "10.0.0.9"
ALICE, BROKERS = "User:alice", "User:broker"
Check = Literal["require", "require_broker_or_operator", "require_to_controller", "require_follower"]
CHECKS: tuple[Check, ...] = ("require", "require_broker_or_operator", "require_to_controller", "require_follower")
ACT, ALTER = AclOperation.CLUSTER_ACTION, AclOperation.ALTER


def is_let_in(
    client: str,
    *,
    listener: str = "BROKERS",
    allowed: AclOperation | None = None,
    open_to_all: bool,
    check: Check = "require_broker_or_operator",
    principal: str = ANONYMOUS,
    own: str = ANONYMOUS,
    brief: bool = False,
) -> bool:
    """allowed: what the authorizer allows on the cluster; open_to_all: there is no authorizer."""
    request: Any = SimpleNamespace(
        connection=ConnectionContext(f"10.0.0.5:9092-{client}:50000-7", client, listener, "PLAINTEXT", principal),
        brief=brief,
        handler=SimpleNamespace(api_key=ApiKey.WRITE_TXN_MARKERS),
        header=SimpleNamespace(client_id="c"),
    )
    permissions = () if allowed is None else ((allowed, ResourceType.CLUSTER, CLUSTER),)
    origin = BrokerOrigin(
        None if open_to_all else Permissions(*permissions),
        broker_senders(OTHER_BROKER.__eq__, own=own),
        listener_name="BROKERS",
    )
    require = getattr(origin, check)
    with suppress(ApiError):
        require(request)
        return True
    with pytest.raises(ApiError) as refusal:
        require(request)
    assert refusal.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return False


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "10.0.0.5"])
def test_this_machine_needs_no_authorizer(client: str) -> None:
    assert is_let_in(client, open_to_all=True)
    assert not is_let_in(client, listener="CLIENTS", open_to_all=True), "but the brokers' own listener"


def test_the_machine_of_a_registered_broker_needs_no_authorizer() -> None:
    assert is_let_in(OTHER_BROKER, open_to_all=True)
    assert not is_let_in(OTHER_BROKER, listener="CLIENTS", open_to_all=True)
    assert not is_let_in(OTHER_BROKER, open_to_all=False)


def test_other_machines_need_an_authorizer() -> None:
    assert not is_let_in("10.0.0.6", open_to_all=True)
    assert not is_let_in("10.0.0.6", open_to_all=False)
    assert is_let_in("10.0.0.6", allowed=ACT, open_to_all=False)


def test_who_acts_for_the_cluster_comes_by_the_brokers_listener() -> None:
    assert not is_let_in("10.0.0.6", listener="CLIENTS", allowed=ACT, open_to_all=False)


def test_an_operator_may_abort_a_hanging_transaction_from_anywhere() -> None:
    assert is_let_in("10.0.0.6", listener="CLIENTS", allowed=ALTER, open_to_all=False)


def test_an_operator_acts_for_the_cluster_in_nothing_else() -> None:
    assert not is_let_in("10.0.0.5", allowed=ALTER, open_to_all=False, check="require")
    assert is_let_in("10.0.0.5", allowed=ACT, open_to_all=False, check="require")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("client", ["127.0.0.1", OTHER_BROKER, "10.0.0.6"])
def test_without_an_authorizer_only_the_brokers_user_is_a_broker(client: str, check: Check) -> None:
    assert is_let_in(client, open_to_all=True, check=check, principal=BROKERS, own=BROKERS)
    assert not is_let_in(client, open_to_all=True, check=check, principal=ALICE, own=BROKERS)
    assert not is_let_in(client, open_to_all=True, check=check, principal=ANONYMOUS, own=BROKERS)
    assert not is_let_in(client, open_to_all=True, check=check, listener="CLIENTS", principal=BROKERS, own=BROKERS)


@pytest.mark.parametrize("check", CHECKS)
def test_without_authentication_the_address_decides(check: Check) -> None:
    assert is_let_in("127.0.0.1", open_to_all=True, check=check)
    assert is_let_in(OTHER_BROKER, open_to_all=True, check=check)
    assert not is_let_in("10.0.0.6", open_to_all=True, check=check)


def test_an_authorizer_decides_on_any_listener_who_asks_the_controller() -> None:
    assert is_let_in("10.0.0.6", listener="CLIENTS", allowed=ACT, open_to_all=False, check="require_to_controller")
    assert not is_let_in("10.0.0.6", listener="CLIENTS", open_to_all=False, check="require_to_controller")


def test_a_network_thread_looks_no_follower_up() -> None:
    with pytest.raises(NeedsHandlerThread):
        is_let_in(OTHER_BROKER, open_to_all=True, check="require_follower", brief=True)
