"""Fixtures of the client tests."""

from tests.support.server_fixtures import server, shared_servers, topic

__all__ = ["server", "shared_servers", "topic"]
