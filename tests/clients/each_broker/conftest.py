"""Fixtures of the suite: a broker of each kind, one after the other, and a topic and an admin client for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.protocol.errors import ApiError
from tests.clients.each_broker.each_broker import BROKERS, EachBroker, eventually, make_broker, node_id_of


@pytest.fixture(params=BROKERS, scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EachBroker]:
    """A running broker. The tests of one broker run together: it stops before the next one starts."""
    server = make_broker(request.param, tmp_path_factory.mktemp(f"each-{request.param}"))
    server.start()
    yield EachBroker(request.param, server.bootstrap_servers, node_id_of(request.param))
    server.close()


@pytest.fixture
def admin(broker: EachBroker) -> Iterator[Admin]:
    """An admin client of the broker."""
    with Admin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for topics and groups that no other test uses."""
    return f"{request.function.__name__[5:80]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(admin: Admin, name: str) -> str:
    """A new topic of three partitions."""
    return create_topic(admin, name, 3)


@pytest.fixture
def one_partition(admin: Admin, name: str) -> str:
    """A new topic of one partition."""
    return create_topic(admin, name, 1)


def create_topic(admin: Admin, name: str, partitions: int, **configs: str) -> str:
    """Create a topic, with settings whose `.` is `_`, and return when the broker describes it."""
    wanted = NewTopic(name, partitions, 1, {setting.replace("_", "."): value for setting, value in configs.items()})

    def is_created() -> bool:
        try:
            admin.create_topics([wanted])
        except ApiError as error:
            # With ZooKeeper, a topic that nobody lists any more may still be in deletion.
            if "marked for deletion" not in str(error):
                raise
            return False
        return True

    eventually(is_created, bool)
    eventually(lambda: name in admin.list_topics(), bool)
    return name
