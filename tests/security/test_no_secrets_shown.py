"""A broker whose file is full of secrets shows none: in the list of processes, its log, its settings, a crash dump.

The settings come from a file: a password in `--override` shows in the list of processes, of which the broker warns.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from barnabas.clients.admin import Admin, ConfigChange, ConfigOperation, ConfigResource
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.protocol.errors import ErrorCode
from tests.security.conftest import Certificates
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES

KEY_PASSWORD, PLAIN_PASSWORD = "secret-of-the-key", "secret-of-alice"
TOKENS_SECRET, ENCODER_SECRET, OTHER_PASSWORD = "secret-of-all-tokens", "secret-of-the-encoder", "secret-of-bob"
LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,OTHER://127.0.0.1:0"
SECRETS = (KEY_PASSWORD, PLAIN_PASSWORD, TOKENS_SECRET, ENCODER_SECRET, OTHER_PASSWORD)


def secret_settings(certificates: Certificates, directory: Path) -> dict[str, str]:
    """Settings with a secret of each kind."""
    key_store = certificates.server.write_pem(directory / "encrypted.pem", KEY_PASSWORD)
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,OTHER:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "ssl.key.password": KEY_PASSWORD,
        "listener.name.other.ssl.keystore.key": certificates.server.key_pem().replace("\n", " "),
        "listener.name.other.ssl.keystore.certificate.chain": certificates.server.certificate_pem.replace("\n", " "),
        "listener.name.other.ssl.keystore.location": "",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PLAIN_PASSWORD}";'
        ),
        "listener.name.other.sasl.plain.users": f"bob:{OTHER_PASSWORD}",
        "delegation.token.secret.key": TOKENS_SECRET,
        "password.encoder.secret": ENCODER_SECRET,
        "broker.id": "0",
    }


class ConfiguredByFile(BarnabasProcess):
    """A broker whose settings are in a file, and that writes the stacks of its threads when it crashes."""

    def _data_place(self) -> list[str]:
        file = self.directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        return [*super()._data_place(), "--config", str(file)]

    def launch(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        super().launch([*command, "--log-level", "debug"], os.environ | {"PYTHONFAULTHANDLER": "1"})

    settings: Mapping[str, str] = {}


@pytest.fixture
def broker(certificates: Certificates, tmp_path: Path) -> Iterator[ConfiguredByFile]:
    process = ConfiguredByFile(tmp_path)
    process.settings = SERVER_PROPERTIES | secret_settings(certificates, tmp_path)
    process.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in ("SASL", "TLS", "OTHER"))
    process.start()
    yield process
    process.close()


def assert_hidden(text: str, certificates: Certificates) -> None:
    for secret in (*SECRETS, *certificates.server.key_pem().splitlines()[1:-1]):
        assert secret not in text


def test_a_running_and_a_crashed_broker(broker: ConfiguredByFile, certificates: Certificates) -> None:
    assert_hidden(Path(f"/proc/{broker.pid}/cmdline").read_text(), certificates)
    with SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])) as client:
        assert client.log_in("alice", PLAIN_PASSWORD).error_code == ErrorCode.NONE
    with Admin(f"{broker.host}:{broker.port}") as admin:
        resource = ConfigResource.broker(0)
        shown = repr(admin.describe_configs(resource))
        assert "ssl.keystore.location" in shown
        assert_hidden(shown, certificates)
        # A wrong password is refused, and neither the answer nor the log has it.
        wrong = ConfigChange("listener.name.tls.ssl.key.password", ConfigOperation.SET, OTHER_PASSWORD)
        with pytest.raises(Exception, match="password") as refused:
            admin.incremental_alter_configs(resource, [wrong])
        assert_hidden(str(refused.value), certificates)
    broker.send_signal(signal.SIGABRT)
    assert broker.wait(SECONDS) == -signal.SIGABRT
    log = broker.log_text()
    assert "Fatal Python error: Aborted" in log
    assert_hidden(log, certificates)


def test_settings_in_a_traceback(certificates: Certificates, tmp_path: Path) -> None:
    """Tools that report errors show the values of variables: `repr` of all that holds settings hides the secrets."""
    given = SERVER_DEFAULTS | secret_settings(certificates, tmp_path) | {"listeners": LISTENERS}
    config = KafkaConfig.parse(given, "the test")
    for_listener, for_mechanism = config.of_listener("OTHER"), config.of_mechanism("SASL", "PLAIN")
    try:
        raise ValueError(f"{config!r}, {for_listener!r}, {for_mechanism!r}")
    except ValueError as error:
        del given
        assert_hidden(
            "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()), certificates
        )
