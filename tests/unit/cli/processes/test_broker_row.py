"""What each broker of `serve --processes` is started with, and what rules out a row."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.main import barnabas
from barnabas.cli.processes.broker_row import check_brokers, check_directories, check_row, settings_of
from barnabas.cli.serve import EXIT_WRONG_SETTINGS, read_config
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import listeners_of
from barnabas.config.server_defaults import LONE_BROKER_DEFAULTS


def config_of(*overrides: str, data_dir: str = "/data") -> KafkaConfig:
    return read_config(None, overrides, data_dir, ())


def test_brokers_have_ports_and_directories_in_a_row() -> None:
    config = config_of(
        "listeners=PLAINTEXT://:9092,SSL://[::1]:9192",
        "advertised.listeners=PLAINTEXT://a.example:19092,SSL://a.example:19192",
        "metrics.listen=127.0.0.1:9404",
        "num.partitions=5",
    )
    config = KafkaConfig.parse({**config.originals, "log.dirs": "/one,/two"})
    assert settings_of(config, 3, "unix:/x") == {
        "broker.id": "3",
        "metadata.store": "zookeeper",
        "zookeeper.connect": "unix:/x",
        "zookeeper.ssl.client.enable": "false",
        "zookeeper.set.acl": "false",
        "log.dirs": "/one/broker-3,/two/broker-3",
        "listeners": "PLAINTEXT://:9095,SSL://[::1]:9195",
        "advertised.listeners": "PLAINTEXT://a.example:19095,SSL://a.example:19195",
        "metrics.listen": "127.0.0.1:9407",
        **LONE_BROKER_DEFAULTS,
    }


def test_without_the_settings_there_are_no_advertised_listeners_and_no_metrics() -> None:
    settings = settings_of(config_of(), 0, "unix:/x")
    assert settings.keys().isdisjoint(("advertised.listeners", "metrics.listen"))
    assert settings["listeners"] == "PLAINTEXT://:9092"
    assert settings_of(config_of("metrics.listen=:0"), 1, "unix:/x")["metrics.listen"] == ":0"


def test_internal_topics_have_one_replica_unless_the_user_wants_more(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("offsets.topic.replication.factor=2\n")
    settings = settings_of(read_config(str(file), (), None, ()), 0, "unix:/x")
    assert settings["offsets.topic.replication.factor"] == "2"
    assert settings["transaction.state.log.replication.factor"] == "1"


def test_a_broker_takes_its_own_settings_over_those_of_all() -> None:
    """What the parent puts behind the user's overrides wins, and can be parsed."""
    common = ("listeners=PLAINTEXT://:9092", "log.dirs=/elsewhere", "metadata.store=embedded")
    own = settings_of(config_of(*common), 1, "unix:/x")
    config = read_config(None, (*common, *(f"{name}={value}" for name, value in own.items())), None, ())
    assert (config.integer("broker.id"), config.string("metadata.store")) == (1, "zookeeper")
    assert config.string("zookeeper.connect") == "unix:/x"
    assert config.integer("offsets.topic.replication.factor") == 1


@given(st.lists(st.integers(1, 65_535), min_size=1, max_size=4, unique=True), st.integers(1, 12))
def test_a_row_that_is_accepted_shares_no_port_and_one_that_is_refused_would(ports: list[int], count: int) -> None:
    names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    listeners = ",".join(f"{name}://:{port}" for name, port in zip(names, ports, strict=False))
    config = config_of(f"listeners={listeners}", "inter.broker.listener.name=PLAINTEXT")
    wanted = [port + broker_id for port in ports for broker_id in range(count)]
    fits = len(set(wanted)) == len(wanted) and max(wanted) <= 65_535
    try:
        check_row(config, (), count)
    except ConfigError:
        assert not fits
        return
    assert fits
    bound = []
    for broker_id in range(count):
        own = (f"{name}={value}" for name, value in settings_of(config, broker_id, "unix:/x").items())
        broker = config_of("inter.broker.listener.name=PLAINTEXT", *own)
        bound += [each.port for each in listeners_of(broker)]
    assert sorted(bound) == sorted(wanted)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("broker.id=7", "broker.id=7 and --processes 3: the brokers have the ids 0 to 2. Leave broker.id out"),
        ("node.id=7", "node.id=7 and --processes 3: the brokers have the ids 0 to 2. Leave node.id out"),
        ("zookeeper.connect=zk:2181", "zookeeper.connect=zk:2181 and --processes 3: the brokers of one machine keep"),
        ("zookeeper.sasl.jaas.config=x", "zookeeper.sasl.jaas.config and --processes 3: there is no ZooKeeper"),
        ("listeners=PLAINTEXT://:0", "Set it, for example PLAINTEXT://:9092"),
        ("listeners=PLAINTEXT://:65534", "would end at 65536, and the last port is 65535. Set 65533 or less"),
        ("listeners=PLAINTEXT://:9092,SSL://:9094", "these rows overlap. Set ports that are at least 3 apart"),
        ("default.replication.factor=4", "default.replication.factor=4 and --processes 3: set at most 3"),
        ("transaction.state.log.min.isr=4", "transaction.state.log.min.isr=4 and --processes 3: set at most 3"),
        ("metrics.listen=:9093", "metrics.listen=:9093 with --processes 3: each address is the first of 3 in a row"),
    ],
)
def test_what_rules_out_a_row_is_told_with_its_value_and_what_would_be_right(override: str, message: str) -> None:
    result = CliRunner().invoke(barnabas, ["serve", "--processes", "3", "--override", override])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_there_is_at_least_one_broker() -> None:
    result = CliRunner().invoke(barnabas, ["serve", "--processes", "0"])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert "'--processes': 0 is not in the range x>=1" in result.stderr


def test_brokers_with_partitions_are_not_left_out() -> None:
    check_brokers({0, 1}, 2)
    check_brokers(set(), 1)
    with pytest.raises(ConfigError, match=r"--processes 2: the brokers 2, 4 have partitions.*Start --processes 5"):
        check_brokers({0, 4, 2}, 2)


def test_the_directory_of_a_single_broker_is_refused_with_the_command_that_moves_it(tmp_path: Path) -> None:
    for name in ("orders-0/0.log", "meta.properties", "metadata.sqlite", "metadata.sqlite-wal", ".lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    config = config_of(data_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=r"has the data of a single broker \(meta.properties\)") as refused:
        check_directories(config, 2)
    subprocess.run(refused.value.message.rpartition("of the row: ")[2], shell=True, check=True)
    check_directories(config, 2)
    assert {file.name for file in tmp_path.iterdir()} == {"broker-0", "metadata.sqlite", "metadata.sqlite-wal"}
    assert {file.name for file in (tmp_path / "broker-0").iterdir()} == {"orders-0", "meta.properties", ".lock"}


def test_a_single_broker_refuses_the_directory_of_a_row(tmp_path: Path) -> None:
    (tmp_path / "broker-0").mkdir()
    (tmp_path / "broker-0" / "meta.properties").touch()
    result = CliRunner().invoke(barnabas, ["serve", "--data-dir", str(tmp_path)])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert "Start them with --processes, or name another directory" in result.stderr
