"""A broker of the test kit whose port another program has taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import BrokerFailed, BrokerProcess, broker_process
from barnabas.testing.server_ports import ephemeral_ports, free_port


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as other_program:
        other_program.bind(("127.0.0.1", 0))
        other_program.listen()
        yield other_program.getsockname()[1]


def test_a_first_start_goes_to_another_port(taken_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter((taken_port, taken_port, free := free_port()))
    monkeypatch.setattr(broker_process, "with_free_ports", lambda _: f"PLAINTEXT://127.0.0.1:{next(ports)}")
    broker = BrokerProcess(str(tmp_path / "data"))
    try:
        assert broker.start().port == free
        assert broker.log_text().count("Address already in use") >= 2
        assert broker.restart().port == free
        assert free not in ephemeral_ports()
    finally:
        broker.kill()


def test_a_port_of_the_users_is_not_tried_again(taken_port: int, tmp_path: Path) -> None:
    broker = BrokerProcess(str(tmp_path / "data"), listen=f"PLAINTEXT://127.0.0.1:{taken_port}")
    with pytest.raises(BrokerFailed, match="Address already in use"):
        broker.start()
    assert broker.log_text().count(f"failed to bind to 127.0.0.1:{taken_port}") == 1
