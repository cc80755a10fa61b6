"""One Spark session and one broker for all queries here, and none of these tests where Spark is not installed."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas.clients.admin import Admin, NewTopic
from barnabas.testing import broker
from tests.spark.connector import connector_session
from tests.support.maven import counterparts_needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if importlib.util.find_spec("pyspark") is None:
    if os.environ.get("CI"):
        raise RuntimeError("pyspark is not installed, and under CI no test is left out")
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    """Our broker; or, to compare, the one that KAFKA_BOOTSTRAP_SERVERS names."""
    other = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if other:
        yield other
        return
    with broker() as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests of the process, with the connector's jars if a test of this run needs them."""
    from barnabas_spark.session import QUICK_START, local_session

    settings = {}
    if any(connector_session.FIXTURE in getattr(item, "fixturenames", ()) for item in request.session.items):
        with counterparts_needed():
            settings = connector_session.connector_settings()
    work_dir = os.fspath(tmp_path_factory.mktemp("spark"))
    with local_session("barnabas-tests", work_dir, java_options=QUICK_START, settings=settings) as session:
        yield session


@pytest.fixture(scope="session")
def new_topic(bootstrap_servers: str) -> Callable[[int], str]:
    """Creates a topic of so many partitions."""
    numbers = itertools.count()
    run = os.getpid()

    def create(partitions: int) -> str:
        name = f"spark-{run}-{next(numbers)}"
        with Admin(bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
        return name

    return create
