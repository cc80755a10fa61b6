"""Connection ids can be taken apart again, IPv6 included."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.network.connection_id import ConnectionId

hosts = st.one_of(st.ip_addresses().map(str))
ports = st.integers(0, 65535)


@given(hosts, ports, hosts, ports, st.integers(0, 2**31 - 1))
def test_round_trip(local: str, local_port: int, remote: str, remote_port: int, sequence: int) -> None:
    made = ConnectionId(local, local_port, remote, remote_port, sequence)
    assert ConnectionId.parse(str(made)) == made


def test_form() -> None:
    assert str(ConnectionId("10.0.0.1", 9092, "10.0.0.2", 40000, 7)) == "10.0.0.1:9092-10.0.0.2:40000-7"


@pytest.mark.parametrize("text", ["", "a:1", "a:1-b:2", "a:1-b:x-3"])
def test_nonsense(text: str) -> None:
    with pytest.raises(ValueError, match="no connection id"):
        ConnectionId.parse(text)
