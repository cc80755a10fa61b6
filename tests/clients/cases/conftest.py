"""Fixtures of the cases: one broker of ours for all of them, and a topic of four partitions for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from barnabas.clients.admin import Admin, NewTopic
from tests.support.server_fixtures import make_server

PARTITIONS = 4
"""The partitions of a topic, as in kafka-python's suite."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running broker with groups and transactions. The cases keep apart by names."""
    server = make_server(
        "inline",
        tmp_path_factory.mktemp("cases"),
        transaction_state_log_num_partitions="3",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
    )
    with server.running():
        yield f"{server.host}:{server.port}"


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
    """A new topic of four partitions."""
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    return name
