"""The topics that both sources read, on a broker of ours, and the two sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector.connector_session import connector_settings
from tests.spark.connector.topics import ComparedTopics, compared_topics
from tests.support.maven import counterparts_needed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def topics(request: pytest.FixtureRequest) -> Iterator[ComparedTopics]:
    """The topics that the queries of this module name, in its TOPICS."""
    with compared_topics(request.module.TOPICS) as made:
        yield made


@pytest.fixture(scope="session")
def connector(spark: SparkSession) -> SparkSession:
    """The session, which has the connector's jars: see `spark` in the directory above."""
    with counterparts_needed():
        connector_settings()
    return spark
