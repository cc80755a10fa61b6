"""The command line of a broker of the test kit: its settings, and its addresses after a start."""

from __future__ import annotations

from barnabas.testing import BrokerProcess
from barnabas.testing.broker_command import Setting


def test_settings_are_written_as_in_a_properties_file() -> None:
    settings: dict[str, Setting] = {
        "num_partitions": 3,
        "log.cleaner.enable": False,
        "authorizer_names": ("a", "b"),
        "log_level": "x",
    }
    words = BrokerProcess("data", settings, python=("python9",), log_level="error").command()
    assert words[:4] == ["python9", "-m", "barnabas", "serve"]
    assert words[words.index("--log-level") + 1] == "error"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--override"] == [
        "num.partitions=3",
        "log.cleaner.enable=false",
        "authorizer.names=a,b",
        "log.level=x",
    ]


def test_a_restart_keeps_the_ports_of_the_first_start() -> None:
    broker = BrokerProcess("data", listen="A://127.0.0.1:0,B://127.0.0.1:0")
    command = broker.command()
    assert command[command.index("--listen") + 1] == "A://127.0.0.1:0,B://127.0.0.1:0"
    broker.addresses = ["A://127.0.0.1:5001", "B://127.0.0.1:5002"]
    command = broker.command()
    assert command[command.index("--listen") + 1] == "A://127.0.0.1:5001,B://127.0.0.1:5002"


def test_a_setting_changed_between_two_starts_is_in_the_next_command() -> None:
    broker = BrokerProcess("data")
    broker.settings["num_partitions"] = 7
    assert broker.command()[-2:] == ["--override", "num.partitions=7"]


def test_a_listener_keeps_its_underscores() -> None:
    name = "listener.name.sasl_ssl.plain.sasl.jaas.config"
    words = BrokerProcess("data", {name: "x", "num_partitions": 3}).command()
    assert f"{name}=x" in words
    assert "num.partitions=3" in words
