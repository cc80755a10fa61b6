"""Fixtures of the client tests."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from tests.support.server_fixtures import Server, server, shared_servers, topic

__all__ = ["server", "shared_servers", "topic"]


@pytest.fixture
def confluent(server: Server) -> AdminClient:
    """confluent-kafka's admin client."""
    return AdminClient({"bootstrap.servers": server.bootstrap_servers})


@pytest.fixture
def python(server: Server) -> Iterator[KafkaAdminClient]:
    """kafka-python's admin client."""
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    yield admin
    admin.close()
