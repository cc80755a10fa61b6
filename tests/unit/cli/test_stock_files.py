"""The files that Apache Kafka 3.9 ships start with one switch, and say which without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.serve import read_config
from barnabas.config.config_error import ConfigError
from barnabas.config.kept_settings import kept_settings
from barnabas.config.listeners import ListenersConfig
from barnabas.zk.zookeeper.zookeeper_config import ZookeeperConfig

ZOOKEEPER = """
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
#log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
"""config/server.properties without its comments."""

KRAFT = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""config/kraft/server.properties without its comments."""

SWITCH = "metadata.store=embedded"


@pytest.fixture(params=[ZOOKEEPER, KRAFT], ids=["zookeeper", "kraft"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(request.param)
    return str(path)


def test_without_the_switch_a_message_names_it_or_zookeeper_is_used(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(KRAFT)
    with pytest.raises(ConfigError, match=r"--override metadata\.store=embedded"):
        read_config(str(path), (), None, ())
    path.write_text(ZOOKEEPER)
    assert ZookeeperConfig.from_kafka_config(read_config(str(path), (), None, ())).servers == "localhost:2181"


def test_with_the_switch_one_broker_listens_for_clients(file: str) -> None:
    config = read_config(file, (SWITCH,), None, ())
    assert config.integer("broker.id") in (0, 1)
    assert [end_point.listener_name for end_point in ListenersConfig.from_kafka_config(config).listening] == [
        "PLAINTEXT"
    ]
    assert [end_point.listener_name for end_point in ListenersConfig.from_kafka_config(config).advertised] == [
        "PLAINTEXT"
    ]
    assert not ZookeeperConfig.from_kafka_config(config).connect
    assert not config.unknown


def test_a_controller_without_a_broker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(KRAFT.replace("process.roles=broker,controller", "process.roles=controller"))
    with pytest.raises(ConfigError, match="no controllers without a broker"):
        read_config(str(path), (SWITCH,), None, ())


def test_names_nobody_knows_are_kept_in_a_file_and_refused_in_an_option(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.retention.hour=1\nmetric.reporters=x\nmy.reporter.url=http://x\n")
    config = read_config(str(path), (), None, ())
    assert config.unknown == {
        "log.retention.hour": f"Unknown setting log.retention.hour in {path}; did you mean log.retention.hours?",
        "my.reporter.url": f"Unknown setting my.reporter.url in {path}",
    }
    assert config.integer("log.retention.hours") == 168
    assert kept_settings(config).keys() == {"metric.reporters"}
    for override in ("log.retention.hour=2", "num.partition=3"):
        with pytest.raises(ConfigError, match=r"^Unknown setting .* in the command line; did you mean"):
            read_config(str(path), (override,), None, ())


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_one_name_of_the_id_is_enough(name: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=5\nnode.id=5\n")
    for file in (None, str(path)):
        config = read_config(file, (f"{name}=1",), None, ())
        assert (config.integer("node.id"), config.integer("broker.id")) == (1, 1)
    with pytest.raises(ConfigError, match="must be equal"):
        read_config(None, ("node.id=1", "broker.id=2"), None, ())


def test_values_that_a_configuration_provider_would_fill_in_are_not_taken_literally(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("config.providers=env\nconfig.providers.env.class=org.example.Env\nlog.dirs=${env:DATA}\n")
    with pytest.raises(ConfigError, match=r"log\.dirs refers to the configuration provider env"):
        read_config(str(path), (), None, ())
    path.write_text("log.dirs=/data/${env:DATA}\n")
    assert read_config(str(path), (), None, ()).log_dirs == ["/data/${env:DATA}"]
