"""Fixtures of the cases: one broker of each kind for all of them, and a topic of four partitions for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from barnabas.clients.admin import Admin, NewTopic
from tests.clients.each_broker.each_broker import BROKERS, eventually, make_broker

PARTITIONS = 4
"""The partitions of a topic, as in kafka-python's suite."""


@pytest.fixture(scope="session", params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running broker with groups and transactions. The cases keep apart by names."""
    server = make_broker(request.param, tmp_path_factory.mktemp("cases"))
    server.start()
    yield server.bootstrap_servers
    server.close()


@pytest.fixture(scope="session")
def admin(broker: str) -> Iterator[Admin]:
    """An admin client of the broker."""
    with Admin(broker) as admin:
        yield admin


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other case uses."""
    return f"{request.function.__name__[5:80]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A new topic of four partitions, which the broker describes: with KRaft, it learns of it after its answer."""
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    eventually(lambda: name in admin.list_topics(), bool)
    return name
