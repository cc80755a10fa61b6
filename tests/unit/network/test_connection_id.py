"""Connection ids look as Kafka's do, IPv6 included."""

from __future__ import annotations

import pytest

from barnabas.network.connections.connection_table import ConnectionId


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (ConnectionId("10.0.0.1", 9092, "10.0.0.2", 40000, 7), "10.0.0.1:9092-10.0.0.2:40000-7"),
        (ConnectionId("::1", 9092, "fe80::2", 40000, 0), "::1:9092-fe80::2:40000-0"),
    ],
)
def test_form(made: ConnectionId, text: str) -> None:
    assert str(made) == text
