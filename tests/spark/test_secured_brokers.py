"""The source, the sink and pipelines at a broker with TLS and SASL: they work, and show no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.testing import BrokerProcess, broker
from barnabas.testing.broker_security import BrokerSecurity
from tests.spark.committed_records import committed_values

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PARTITIONS = 2


@pytest.fixture(scope="module")
def secured() -> Iterator[BrokerProcess]:
    with broker(security="sasl_ssl", num_partitions=PARTITIONS) as running:
        yield running


def security_of(running: BrokerProcess) -> BrokerSecurity:
    assert running.security is not None
    return running.security


def plaintext_address(running: BrokerProcess) -> str:
    """The broker's other listener, for clients that only look at results."""
    return next(each for each in running.addresses if each.startswith("PLAINTEXT://")).removeprefix("PLAINTEXT://")


def new_topic(running: BrokerProcess, name: str) -> str:
    with Admin(running.bootstrap_servers, config=ClientConfig(**security_of(running).keywords)) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    return name


def connection(running: BrokerProcess) -> dict[str, str]:
    """The options by which Spark connects: the settings of Java's clients, as for Spark's Kafka connector."""
    settings = {f"kafka.{name}": value for name, value in security_of(running).java.items()}
    return settings | {"kafka.bootstrap.servers": running.bootstrap_servers}


def connection_without_files(running: BrokerProcess) -> dict[str, str]:
    """The same with PEM in the options themselves (KIP-651)."""
    options = connection(running)
    authority = Path(options.pop("kafka.ssl.truststore.location")).read_text()
    client = Path(options.pop("kafka.ssl.keystore.location")).read_text()
    key, separator, certificates = client.partition("-----BEGIN CERTIFICATE-----")
    return options | {
        "kafka.ssl.truststore.certificates": authority,
        "kafka.ssl.keystore.key": key,
        "kafka.ssl.keystore.certificate.chain": separator + certificates,
    }


def values_of(frame: DataFrame) -> list[str]:
    return sorted(row.text for row in frame.selectExpr("cast(value as string) text").collect())


def rows(spark: SparkSession, numbers: range) -> DataFrame:
    return spark.range(numbers.start, numbers.stop, 1, PARTITIONS).selectExpr("concat('row ', id) as value")


def expected(numbers: range) -> list[str]:
    return sorted(f"row {number}" for number in numbers)


def test_batches_are_written_and_read(spark: SparkSession, secured: BrokerProcess) -> None:
    topic = new_topic(secured, "batches")
    inline = connection_without_files(secured)
    rows(spark, range(100)).write.format("barnabas").mode("append").options(**connection(secured), topic=topic).save()
    once = {"txnAppId": "secured", "txnVersion": "1"}
    writer = rows(spark, range(100, 150)).write.format("barnabas").mode("append")
    writer.options(**inline, **once, topic=topic).save()
    read = spark.read.format("barnabas").options(**inline, subscribe=topic).load()
    assert values_of(read) == expected(range(150))


def test_a_stream_copies_exactly_once_and_commits_its_offsets(
    spark: SparkSession, secured: BrokerProcess, tmp_path: Path
) -> None:
    source, target = new_topic(secured, "source"), new_topic(secured, "target")
    options = connection(secured)
    rows(spark, range(80)).write.format("barnabas").mode("append").options(**options, topic=source).save()
    reader = spark.readStream.format("barnabas").options(**options, subscribe=source, commitGroupId="copier")
    records = reader.option("startingOffsets", "earliest").schema("value binary").load()
    writer = records.writeStream.format("barnabas").options(**options, topic=target, exactlyOnce="true")
    query = writer.option("checkpointLocation", os.fspath(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    assert query.exception() is None
    copied = committed_values(plaintext_address(secured), target, PARTITIONS)
    assert copied == [value.encode() for value in expected(range(80))]
    with Admin(secured.bootstrap_servers, config=ClientConfig(**security_of(secured).keywords)) as admin:
        assert admin.list_group_offsets("copier")


def test_neither_plans_nor_errors_show_a_secret(
    spark: SparkSession, secured: BrokerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, password, guessed = new_topic(secured, "secrets"), security_of(secured).password, "a-guessed-password"
    options = connection(secured)
    wrong = {name: value.replace(password, guessed) for name, value in options.items()}
    read = spark.read.format("barnabas").options(**options, subscribe=topic).load()
    read.explain(extended=True)
    with pytest.raises(PySparkException) as caught:
        spark.read.format("barnabas").options(**wrong, subscribe=topic).load().collect()
    assert "SaslAuthenticationError" in str(caught.value)
    with pytest.raises(PySparkException) as written:
        rows(spark, range(1)).write.format("barnabas").mode("append").options(**wrong, topic=topic).save()
    assert "SaslAuthenticationError" in str(written.value)
    shown = capfd.readouterr()
    assert "barnabas" in shown.out.lower()
    for text in (shown.out, shown.err, str(caught.value), str(written.value)):
        assert password not in text
        assert guessed not in text


PIPELINE = """\
name: secured
brokers: {brokers}
connection:
{connection}
sources:
  orders: {{topic: {source}, schema: id BIGINT, dead_letters: {bad}, options: {{startingOffsets: earliest}}}}
sinks:
  out: {{from: orders, topic: {target}}}
"""


@pytest.mark.slow
def test_a_pipeline_connects_by_the_file_s_connection(secured: BrokerProcess, tmp_path: Path) -> None:
    source, target, bad = (new_topic(secured, name) for name in ("orders", "large", "bad"))
    with Producer(secured.bootstrap_servers, **security_of(secured).keywords) as producer:
        for value in (b'{"id": 1}', b"{bad"):
            producer.send(source, value).result(60)
    password = security_of(secured).password
    options = connection(secured)
    del options["kafka.bootstrap.servers"]
    lines = [f"  {name}: '{value}'".replace(password, "${env:KAFKA_PASSWORD}") for name, value in options.items()]
    file = tmp_path / "secured.yaml"
    file.write_text(
        PIPELINE.format(
            brokers=secured.bootstrap_servers, connection="\n".join(lines), source=source, target=target, bad=bad
        )
    )

    def run(secret: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "barnabas", "pipeline", "run", os.fspath(file)]
        environment = os.environ | {"KAFKA_PASSWORD": secret}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    done = run("a-guessed-password")
    assert done.returncode == 1
    assert "cannot be used: Authentication with" in done.stderr
    assert "a-guessed-password" not in done.stdout + done.stderr
    done = run(password)
    assert done.returncode == 0, done.stderr
    assert committed_values(plaintext_address(secured), target, PARTITIONS) == [b'{"id":1}']
    assert committed_values(plaintext_address(secured), bad, PARTITIONS) == [b"{bad"]
    log = (tmp_path / "checkpoints" / "secured" / "spark" / "spark.log").read_text()
    assert password not in done.stdout + done.stderr + log
