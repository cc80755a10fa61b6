"""A broker that refuses connections is told of once, and told of again when it accepts one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from barnabas.controller.network_broker_channel import BrokerReachability
from barnabas.transport.host_addresses import Probe, probe


def reachability(answers: Iterator[bool]) -> tuple[BrokerReachability, list[bool]]:
    told: list[bool] = []
    return BrokerReachability(lambda: next(answers), told.append), told


def test_two_refusals_in_a_row_mean_that_the_process_has_ended() -> None:
    looked, told = reachability(iter([True, False, True, True]))
    looked.on_connected()
    looked.on_connection_lost()
    looked.on_connection_lost()  # it listens again
    looked.on_connection_lost()
    assert told == []
    looked.on_connection_lost()
    assert told == [False]
    looked.on_connection_lost()  # asks no more
    assert told == [False]
    looked.on_connected()
    looked.on_connected()
    assert told == [False, True]


def test_a_connection_between_two_refusals_starts_the_count_anew() -> None:
    looked, told = reachability(iter([True, True]))
    looked.on_connected()
    looked.on_connection_lost()
    looked.on_connected()
    looked.on_connection_lost()
    assert told == []


def test_a_broker_that_has_not_listened_yet_is_not_dead() -> None:
    looked, told = reachability(iter([]))
    for _ in range(3):
        looked.on_connection_lost()
    assert told == []


def test_only_a_closed_port_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert probe("127.0.0.1", port) is Probe.ACCEPTED
    assert probe("127.0.0.1", port) is Probe.REFUSED
    assert probe("no-such-host.invalid", port) is Probe.UNKNOWN
