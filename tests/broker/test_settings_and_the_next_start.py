"""Every setting that can be changed: a value that the next start cannot use is refused, or does not stop the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.dynamic_settings import DYNAMIC_ONLY_KEYS, is_dynamic
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.keys.plugin_keys import AUTHORIZER_SETTINGS
from barnabas.metadata.stored_configs import ConfigRepository
from barnabas.runtime.clock import SystemClock
from barnabas.security.password_encoder import StoredPasswords
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.embedded_store import EmbeddedStore
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_fixtures import AGAINST_KAFKA
from tests.support.settings_client import ALL_BROKERS, BROKER, OK, SET, SettingsClient

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="looks at our own starts")

USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.x.plain.sasl.jaas.config": USERS,
    "password.encoder.secret": "a secret of the test",
}
OF_LISTENERS = (
    "sasl.jaas.config",
    "plain.sasl.jaas.config",
    "scram-sha-256.sasl.jaas.config",
    "plain.connections.max.reauth.ms",
    "plain.sasl.server.callback.handler.class",
    "sasl.enabled.mechanisms",
    "sasl.plain.users",
)
BAD_VALUES = ("garbage", "-77", "")


def broker_in(directory: Path) -> BarnabasProcess:
    broker = BarnabasProcess(directory, PROPERTIES)
    broker.more_listeners = ("X://127.0.0.1:0",)
    return broker


def dynamic_names() -> list[str]:
    """Every dynamic setting: of the broker, of a listener that is open, and of a mechanism there."""
    names = [name for name in BROKER_CONFIG_KEYS if is_dynamic(name)]
    behind_prefix = [f"listener.name.x.{name}" for name in (*names, *OF_LISTENERS)]
    return [*names, *DYNAMIC_ONLY_KEYS, *AUTHORIZER_SETTINGS, *dict.fromkeys(behind_prefix)]


SAMPLE = [f"listener.name.x.{name}" for name in OF_LISTENERS]


@pytest.mark.parametrize(
    ("names", "least_refused"),
    [(SAMPLE, 10), pytest.param(dynamic_names(), 300, marks=pytest.mark.slow)],
    ids=["logins", "all"],
)
def test_no_accepted_value_stops_the_next_start(names: list[str], least_refused: int, tmp_path: Path) -> None:
    broker = broker_in(tmp_path)
    accepted: dict[tuple[str, str], str] = {}
    refused = 0
    with broker.running():
        settings = SettingsClient(broker)
        for name in names:
            for entity in ("0", ALL_BROKERS):
                for value in BAD_VALUES:
                    if settings.change(BROKER, entity, (name, SET, value)) == OK:
                        accepted[entity, name] = value
                    else:
                        refused += 1
        assert settings.change(BROKER, "0", ("listener.name.x.plain.sasl.jaas.config", SET, "garbage")) != OK
        assert settings.change(BROKER, "0", ("listener.name.x.plain.sasl.jaas.config", SET, USERS)) == OK
    assert refused >= least_refused
    log_before = broker.log_text()
    broker.start()
    try:
        assert SettingsClient(broker).change(BROKER, "0", ("background.threads", SET, "11")) == OK
        ignored = broker.log_text()[len(log_before) :].count("Ignoring a setting of the metadata store")
        assert ignored == 0, f"accepted and then ignored: {sorted(accepted)}"
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.x.plain.sasl.jaas.config", "garbage"),
        ("listener.name.x.ssl.keystore.location", "/no/such/file.pem"),
        ("sasl.enabled.mechanisms", "NONSENSE"),
        ("num.io.threads", "many"),
    ],
)
def test_what_slipped_through_is_left_out(tmp_path: Path, name: str, value: str) -> None:
    """Written by another program, or right when it was written: the other settings hold."""
    broker = broker_in(tmp_path)
    with broker.running():
        pass
    store = EmbeddedStore(str(broker.data_dir), SystemClock())
    store.start()
    zk_client = KafkaZkClient(store.new_session(), SystemClock())
    repository = ConfigRepository(zk_client)
    encoder = StoredPasswords(KafkaConfig.parse({"password.encoder.secret": PROPERTIES["password.encoder.secret"]}))
    repository.change_broker_config("0", encoder.encoded({"background.threads": "13", name: value}))
    store.close()
    with broker.running():
        shown = SettingsClient(broker).describe(BROKER, "0", ["background.threads"])
        assert shown["background.threads"].value == "13"
    log = broker.log_text()
    if name != "listener.name.x.ssl.keystore.location":  # which a listener without TLS does not read
        assert "Ignoring a setting of the metadata store" in log
        assert "Traceback" not in log
