"""Connections of a NetworkClient whose sessions end: when it logs in again, and what its requests wait for."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.rpc.connection_states import Node, SessionRenewals
from barnabas.transport.channel.authenticator import PlaintextAuthenticator
from barnabas.transport.channel.kafka_channel import ChannelState
from tests.support.scripted_selector import all_versions
from tests.unit.rpc.network_client_harness import LIFE_MS, NODES, RENEWAL_MS, Setting, authenticator

NODE = Node(3, "d", 9092)


def logged_in() -> Setting:
    setting = Setting()
    setting.selector.authenticators["0"] = authenticator()
    setting.make_ready()
    return setting


def test_a_session_is_renewed_at_a_random_time_before_its_end() -> None:
    random = Random(7)
    first_due_ms = set()
    for _ in range(50):
        sessions = SessionRenewals(random)
        sessions.began(NODE, authenticator(), 1000)
        assert sessions.due(3, 1000 + RENEWAL_MS - 1) is None
        assert sessions.due(3, 1000 + LIFE_MS * 95 // 100) is not None
        first_due_ms.add(next(now for now in range(1000, 1000 + LIFE_MS) if sessions.due(3, now)))
    assert len(first_due_ms) > 25


def test_a_session_without_an_end_is_never_renewed() -> None:
    sessions = SessionRenewals(None)
    for each in (None, PlaintextAuthenticator(), authenticator(0)):
        sessions.began(NODE, each, 0)
    assert not sessions


def test_the_next_request_waits_for_the_login() -> None:
    setting = logged_in()
    setting.clock.advance(RENEWAL_MS - 1)
    assert setting.client.can_send_request(0, setting.now)
    setting.clock.advance(1)
    assert not setting.client.ready(NODES[0], setting.now)
    assert setting.selector.reauthenticating == {"0"}
    assert len(setting.selector.attempts) == 1, "it is the same connection"
    setting.poll()
    assert not setting.client.ready(NODES[0], setting.now)
    setting.selector.authenticators["0"] = authenticator()
    setting.selector.finish_reauthentication("0")
    setting.poll()
    setting.selector.answer(setting.selector.take(), all_versions(MetadataRequest))
    setting.poll()
    assert setting.client.ready(NODES[0], setting.now)
    setting.clock.advance(RENEWAL_MS)
    assert not setting.client.ready(NODES[0], setting.now), "the new session ends, too"


def test_requests_in_flight_are_answered_before_the_login() -> None:
    setting = logged_in()
    setting.send()
    setting.poll()
    setting.clock.advance(RENEWAL_MS)
    assert not setting.client.ready(NODES[0], setting.now)
    assert not setting.selector.reauthenticating
    setting.selector.answer(setting.selector.take(), MetadataResponse(brokers=[], topics=[]))
    setting.poll()
    assert [answer.disconnected for answer in setting.answers] == [False]
    assert not setting.client.ready(NODES[0], setting.now)
    assert setting.selector.reauthenticating == {"0"}


@pytest.mark.parametrize("state", [ChannelState.AUTHENTICATE, ChannelState.AUTHENTICATION_FAILED])
def test_a_login_that_fails_ends_the_connection(state: ChannelState) -> None:
    setting = logged_in()
    setting.clock.advance(RENEWAL_MS)
    assert not setting.client.ready(NODES[0], setting.now)
    setting.selector.disconnect("0", state)
    setting.poll()
    assert setting.client.connection_failed(NODES[0], setting.now)
    setting.selector.reauthenticating.clear()
    setting.selector.authenticators.clear()
    setting.clock.advance(10_000)
    assert not setting.client.ready(NODES[0], setting.now)
    assert len(setting.selector.attempts) == 2


def test_a_login_that_is_not_answered_times_out() -> None:
    setting = logged_in()
    setting.clock.advance(RENEWAL_MS)
    assert not setting.client.ready(NODES[0], setting.now)
    setting.clock.advance(60_000)
    setting.poll()
    assert setting.selector.closed == ["0"]
