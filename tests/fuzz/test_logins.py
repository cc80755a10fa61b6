"""A sample of the campaign of logins in every run of the tests, and handshakes that stop half-way.

`make fuzz-logins` runs the whole: 200,000 mutants.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.fuzz.login_campaign import LoginCampaign, run
from tests.fuzz.login_mutants import SECONDS, client_hello
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="others may fuzz Apache Kafka")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginCampaign]:
    """A running broker with a listener of each secured protocol; its log is searched at the end."""
    secured = LoginCampaign(tmp_path_factory.mktemp("login-fuzz"))
    with secured.running():
        yield secured


@pytest.mark.timeout(300)
def test_two_thousand_mutants(campaign: LoginCampaign) -> None:
    connections, files = campaign.connections, campaign.open_files
    campaign.send(2_000, 16)
    assert min(campaign.sent.values()) > 50, campaign.sent
    campaign.await_forgotten(connections, files)
    campaign.check_serves("after-two-thousand")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_hundred_thousand_mutants(campaign: LoginCampaign) -> None:
    run(campaign, 200_000, 1_600)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_thousand_half_handshakes_delay_nobody(campaign: LoginCampaign) -> None:
    broker = campaign.broker
    connections, files = campaign.connections, campaign.open_files
    hello = client_hello()
    half_open = []
    try:
        for number in range(1_000):
            connection = socket.create_connection((broker.host, broker.ports["TLS"]), SECONDS)
            half_open.append(connection)
            connection.sendall(hello[: 1 + number % (len(hello) - 1)])
        campaign.check_serves("beside-half-handshakes")
        with RawClient(broker) as client:
            began = time.monotonic()
            for _ in range(100):
                client.produce_values("beside-half-handshakes", b"v")
            assert time.monotonic() - began < SECONDS
    finally:
        for connection in half_open:
            connection.close()
    campaign.await_forgotten(connections, files)
