"""A pipeline from Apache Kafka 3.9 to Apache Kafka 3.9: exactly once, and at least once, as docs/pipelines.md says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas_spark.pipeline.pipeline_error import RunFailed
from tests.spark.pipeline.pipeline_in_session import PipelineInSession, orders
from tests.support.apache_kafka import ApacheKafka, need_apache_kafka

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    need_apache_kafka()
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), {"transaction.state.log.num.partitions": "2"})
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_pipeline_on_apache_kafka(spark: SparkSession, kafka: ApacheKafka, tmp_path: Path, delivery: str) -> None:
    """A micro-batch that fails, and one that is written again after a crash."""
    shop = PipelineInSession(spark, tmp_path, kafka.bootstrap_servers, f"from-{delivery}", f"to-{delivery}")
    shop.create(shop.source, shop.target)
    shop.delivery = delivery
    shop.produce([*orders(range(25)), b"no order"])
    with pytest.raises(RunFailed, match=rf"micro-batch 2, .*{shop.source}-0, offset 25: the value is no JSON"):
        shop.run()
    assert shop.written() == list(range(20))
    dead_letters = f"bad-{delivery}"
    shop.create(dead_letters)
    shop.choice += f"\n    dead_letters: {dead_letters}"
    shop.run()
    assert shop.written() == list(range(25))
    shop.forget_commit(2)
    shop.produce(orders(range(25, 30)))
    shop.run()
    repeated = list(range(20, 25)) if delivery == "at-least-once" else []
    assert shop.written() == sorted([*range(30), *repeated])
