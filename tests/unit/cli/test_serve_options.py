"""What `barnabas serve` makes of its options."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.api.config_entries import broker_entries
from barnabas.cli.main import COMMANDS, barnabas
from barnabas.cli.serve import EXIT_WRONG_SETTINGS, _secrets_in, read_config
from barnabas.config.config_error import ConfigError
from barnabas.config.dynamic_settings import BrokerSettings
from barnabas.config.server_defaults import LONE_BROKER_DEFAULTS
from barnabas.protocol.codes import ConfigSource


def test_without_a_file_it_starts_as_kafkas_shipped_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = read_config(None, (), None, ())
    assert config.integer("broker.id") == 0
    assert config.integer("offsets.topic.replication.factor") == 1
    assert config.integer("transaction.state.log.min.isr") == 1
    assert config.integer("group.initial.rebalance.delay.ms") == 0
    assert config.log_dirs == [str(tmp_path / "barnabas-data")]
    assert config.string("listeners") == "PLAINTEXT://:9092"


@pytest.mark.parametrize(
    ("options", "is_cluster"),
    [
        (("zookeeper.connect=a:2181",), True),
        (("zookeeper.connect=a:2181", "metadata.store=zookeeper"), True),
        (("zookeeper.connect=a:2181", "metadata.store=embedded"), False),
        (("zookeeper.connect=",), False),
        ((), False),
    ],
)
def test_without_a_file_a_cluster_has_kafkas_own_replication(options: tuple[str, ...], is_cluster: bool) -> None:
    config = read_config(None, options, None, ())
    factors = [config.integer(name) for name in LONE_BROKER_DEFAULTS]
    assert factors == ([3, 2, 3] if is_cluster else [1, 1, 1])
    given = read_config(None, (*options, "offsets.topic.replication.factor=2"), None, ())
    assert given.integer("offsets.topic.replication.factor") == 2


def test_a_file_gets_kafkas_own_defaults(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nlog.dirs=/somewhere\n")
    config = read_config(str(file), (), None, ())
    assert config.integer("broker.id") == 3
    assert config.integer("offsets.topic.replication.factor") == 3
    assert config.log_dirs == ["/somewhere"]


def test_options_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nlog.dirs=/somewhere\nlisteners=PLAINTEXT://:9092\n")
    config = read_config(
        str(file),
        ("broker.id=4", "log.retention.ms=1", "log.retention.ms = 2"),
        str(tmp_path / "data"),
        ("PLAINTEXT://127.0.0.1:0",),
    )
    assert config.integer("broker.id") == 4
    assert config.integer("log.retention.ms") == 2
    assert config.log_dirs == [str(tmp_path / "data")]
    assert config.string("listeners") == "PLAINTEXT://127.0.0.1:0"


@pytest.mark.parametrize("override", ["num.partitions", "=3", ""])
def test_malformed_overrides_are_named(override: str) -> None:
    with pytest.raises(ConfigError, match=r"--override takes NAME=VALUE"):
        read_config(None, (override,), None, ())


def test_an_empty_data_dir_is_refused() -> None:
    result = CliRunner().invoke(barnabas, ["serve", "--data-dir", ""])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert result.stderr == "barnabas: --data-dir takes the path of a directory, not ''\n"


def test_wrong_settings_end_with_one_line_and_a_status() -> None:
    result = CliRunner().invoke(barnabas, ["serve", "--override", "num.partition=3"])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert result.stderr == (
        "barnabas: Unknown setting num.partition in the command line; did you mean num.partitions?\n"
    )


def test_settings_that_promise_protection_end_with_one_line_and_a_status() -> None:
    policy = "create.topic.policy.class.name=org.example.Policy"
    result = CliRunner().invoke(barnabas, ["serve", "--override", policy])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert result.stderr.startswith("barnabas: Settings promise protection that this version does not have. ")
    assert f"{policy}: there is no Java to load the class, so it would refuse nothing" in result.stderr
    assert result.stderr.count("\n") == 1


TOLD = "PLAINTEXT://told:9"


@pytest.mark.parametrize(
    ("overrides", "listen", "told", "value", "source", "synonyms"),
    [
        # Nothing but the default: as with Apache Kafka, there is no value.
        ((), None, TOLD, None, ConfigSource.DEFAULT, []),
        ((), "PLAINTEXT://:0", TOLD, TOLD, ConfigSource.STATIC_BROKER, [("listeners", "PLAINTEXT://:0")]),
        (
            ("listeners=PLAINTEXT://:0",),
            None,
            TOLD,
            TOLD,
            ConfigSource.STATIC_BROKER,
            [("listeners", "PLAINTEXT://:0")],
        ),
        # Before the controller has told the broker of itself.
        ((), "PLAINTEXT://:0", None, None, ConfigSource.DEFAULT, []),
        (
            ("advertised.listeners=PLAINTEXT://here:9",),
            "PLAINTEXT://:0",
            TOLD,
            "PLAINTEXT://here:9",
            ConfigSource.STATIC_BROKER,
            [("advertised.listeners", "PLAINTEXT://here:9")],
        ),
    ],
)
def test_advertised_listeners_come_from_where_they_were_set(
    overrides: tuple[str, ...],
    listen: str | None,
    told: str | None,
    value: str | None,
    source: ConfigSource,
    synonyms: list[tuple[str, str]],
) -> None:
    config = read_config(None, overrides, None, () if listen is None else (listen,))
    entries = {entry.key.name: entry for entry in broker_entries(BrokerSettings.of(config), told)}
    advertised = entries["advertised.listeners"]
    assert (advertised.value, advertised.source) == (value, source)
    assert [(synonym.name, synonym.value) for synonym in advertised.synonyms] == synonyms


def test_advertised_listeners_that_follow_from_changed_listeners_do_not_look_changed() -> None:
    """A tool that sends back all dynamic settings would pin them: later listeners would not be advertised."""
    names = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT"
    static = read_config(None, (names,), None, ("PLAINTEXT://:9",))
    settings = BrokerSettings.of(static).with_broker({"listeners": "PLAINTEXT://:9,SECOND://:0"})
    entries = {entry.key.name: entry for entry in broker_entries(settings, TOLD)}
    assert entries["listeners"].source is ConfigSource.DYNAMIC_BROKER
    assert (entries["advertised.listeners"].value, entries["advertised.listeners"].source) == (
        TOLD,
        ConfigSource.STATIC_BROKER,
    )


def test_a_missing_file_is_named() -> None:
    result = CliRunner().invoke(barnabas, ["serve", "--config", "/nowhere/server.properties"])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert result.stderr == "barnabas: cannot read /nowhere/server.properties: No such file or directory\n"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(barnabas, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: barnabas {name}")


def test_the_list_of_commands_imports_none_of_them() -> None:
    result = CliRunner().invoke(barnabas, [])
    for name, (_, help_line) in COMMANDS.items():
        assert f"  {name}" in result.output
        assert help_line in result.output


def test_a_password_in_an_option_is_warned_of(tmp_path: Path) -> None:
    options = ("num.partitions=3", "listener.name.x.plain.sasl.jaas.config=SECRET", "ssl.key.password=SECRET")
    assert _secrets_in(options) == ["listener.name.x.plain.sasl.jaas.config", "ssl.key.password"]
    fails = ("--override", "ssl.key.password=SECRET", "--fault-pipes", "none")
    result = CliRunner().invoke(barnabas, ["serve", "--data-dir", str(tmp_path), *fails])
    assert result.exit_code == EXIT_WRONG_SETTINGS
    assert "warning: the value of --override ssl.key.password shows in the list of processes" in result.stderr
    assert "SECRET" not in result.output


@pytest.mark.parametrize("level", ["trace", "TRACE", "debug", "error"])
def test_the_level_of_the_log_may_be_any_of_kafkas(level: str) -> None:
    done = CliRunner().invoke(barnabas, ["serve", "--log-level", level, "--override", "num.partition=3"])
    assert done.exit_code == EXIT_WRONG_SETTINGS
    assert "did you mean num.partitions?" in done.output
