"""Fixtures of the fuzz tests."""

from collections.abc import Iterator

import pytest

from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server, own_server, server, shared_servers, topic

__all__ = ["client", "own_server", "server", "shared_servers", "topic"]


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    """A connection to the shared server."""
    with RawClient(server) as connected:
        yield connected
