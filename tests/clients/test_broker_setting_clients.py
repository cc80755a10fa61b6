"""Other people's admin clients change settings of a running broker, and see them hold."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from kafka import KafkaAdminClient
from kafka.admin import AlterConfigOp
from kafka.admin import ConfigResource as PythonConfigResource

from tests.support.server_fixtures import MODES, Server, make_server
from tests.support.settings_client import BROKER, SettingsClient, eventually

SECONDS = 60
DYNAMIC_BROKER_CONFIG = 2


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose settings these tests change."""
    server = make_server(MODES[0], tmp_path_factory.mktemp("settings"), num_io_threads="8")
    with server.running():
        yield server


def handlers(server: Server) -> str | None:
    return SettingsClient(server).describe(BROKER, "0", ["num.io.threads"])["num.io.threads"].value


def test_confluent_kafka(own: Server) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap_servers})

    def set_handlers(count: str) -> None:
        changes = [ConfigEntry("num.io.threads", count, incremental_operation=AlterConfigOpType.SET)]
        resource = ConfigResource(ResourceType.BROKER, "0", incremental_configs=changes)
        admin.incremental_alter_configs([resource])[resource].result(SECONDS)

    set_handlers("12")
    eventually(lambda: handlers(own) == "12")
    resource = ConfigResource(ResourceType.BROKER, "0")
    entry = admin.describe_configs([resource])[resource].result(SECONDS)["num.io.threads"]
    source: object = entry.source  # a number, whatever its type hint says
    assert (entry.value, source, entry.is_read_only, entry.is_default) == ("12", DYNAMIC_BROKER_CONFIG, False, False)
    with pytest.raises(KafkaException, match="value should not be greater than double the current value 12"):
        set_handlers("100")
    with pytest.raises(KafkaException, match="Not a number of type INT"):
        set_handlers("many")
    set_handlers("8")
    eventually(lambda: handlers(own) == "8")


def test_kafka_python(own: Server) -> None:
    admin = KafkaAdminClient(bootstrap_servers=own.bootstrap_servers)
    try:
        everybody = {"background.threads": (AlterConfigOp.SET, "12")}
        admin.alter_configs([PythonConfigResource("BROKER", "0", {"num.io.threads": (AlterConfigOp.SET, "9")})])
        admin.alter_configs([PythonConfigResource("BROKER", "0", everybody)])

        def described() -> str:
            return json.dumps(admin.describe_configs([PythonConfigResource("BROKER", "0")]), default=str)

        # The answer to AlterConfigs means that the change is stored; the broker takes it over a moment later.
        eventually(lambda: handlers(own) == "9")
        eventually(lambda: "background.threads" in described())
        assert "num.io.threads" in described()
        assert "log.cleaner.backoff.ms" not in described(), "only what was set is shown"
        gone = dict.fromkeys(("num.io.threads", "background.threads"), (AlterConfigOp.DELETE, None))
        admin.alter_configs([PythonConfigResource("BROKER", "0", gone)])
        eventually(lambda: handlers(own) == "8")
    finally:
        admin.close()
