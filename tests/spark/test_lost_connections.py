"""A JVM that ends leaves no trace on the terminal of its session."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler

from barnabas_spark.session import hide_lost_connections

TOKEN = "token"


def ended_connection(server: AccumulatorTCPServer, message: bytes) -> None:
    """Serve one connection, which ends behind `message`."""
    with socket.create_connection(("127.0.0.1", server.server_address[1])) as connection:
        connection.sendall(message)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def server() -> AccumulatorTCPServer:
    server = AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, TOKEN)
    hide_lost_connections(server)
    return server


def test_a_connection_that_ends_is_no_error(server: AccumulatorTCPServer, capfd: pytest.CaptureFixture[str]) -> None:
    with server:
        ended_connection(server, TOKEN.encode() + struct.pack("!i", 0))
    assert capfd.readouterr().err == ""


def test_another_error_is_told(server: AccumulatorTCPServer, capfd: pytest.CaptureFixture[str]) -> None:
    with server:
        ended_connection(server, b"wrong" + struct.pack("!i", 0))
    assert "is not correct" in capfd.readouterr().err
