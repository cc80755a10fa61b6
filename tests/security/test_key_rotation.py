"""Key stores that change while the broker runs: by settings, by files, and not by those that Kafka refuses."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from tests.security.conftest import Certificates, ssl_broker
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.certificates import PASSWORD
from tests.support.settings_client import BROKER, OK, SET, SettingsClient
from tests.support.tls_client import TlsRawClient

BROKER_ID = "0"
LOCATION, TYPE = "listener.name.ssl.ssl.keystore.location", "listener.name.ssl.ssl.keystore.type"


@pytest.fixture(scope="module")
def own(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasProcess]:
    directory = tmp_path_factory.mktemp("rotation")
    key_store = certificates.server.write_pem(directory / "server.pem")
    broker = ssl_broker(directory / "broker", certificates, ssl_keystore_location=str(key_store))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def settings(own: BarnabasProcess) -> SettingsClient:
    return SettingsClient(own)


def served(own: BarnabasProcess, certificates: Certificates) -> bytes | None:
    """The certificate that new connections get."""
    with TlsRawClient(own, "SSL", certificates.authority.client_context()) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        return client.socket.getpeercert(binary_form=True)


def wait_until_served(own: BarnabasProcess, certificates: Certificates, expected: bytes) -> None:
    """Changes of settings are taken over after their answer. Each handshake is a pause; the log names the change."""
    for _ in range(2_000):
        if served(own, certificates) == expected:
            return
    raise AssertionError(own.log_text()[-2000:])


def test_another_file_is_used_by_new_connections(
    own: BarnabasProcess, settings: SettingsClient, certificates: Certificates, tmp_path: Path
) -> None:
    renewed = certificates.authority.issue("server", names=("localhost", "127.0.0.1", "more.example"))
    with TlsRawClient(own, "SSL", certificates.authority.client_context()) as established:
        location = str(renewed.write_pem(tmp_path / "renewed.pem"))
        assert settings.change(BROKER, BROKER_ID, (LOCATION, SET, location)) == OK
        wait_until_served(own, certificates, renewed.certificate_der)
        assert established.supported_versions()
    wait_for_log_line(own, "Listener SSL uses a new TLS context: certificate of CN=server")


def test_a_changed_file_is_read_when_its_path_is_set_again(
    own: BarnabasProcess, settings: SettingsClient, certificates: Certificates, tmp_path: Path
) -> None:
    names = ("localhost", "127.0.0.1", "more.example")
    first, second = (certificates.authority.issue("server", names=names) for _ in range(2))
    file = first.write_pem(tmp_path / "server.pem")
    assert settings.change(BROKER, BROKER_ID, (LOCATION, SET, str(file))) == OK
    wait_until_served(own, certificates, first.certificate_der)
    # Replaced and not rewritten, as tools that renew certificates do.
    second.write_pem(tmp_path / "new.pem").replace(file)
    assert served(own, certificates) == first.certificate_der
    assert settings.change(BROKER, BROKER_ID, (LOCATION, SET, str(file))) == OK
    wait_until_served(own, certificates, second.certificate_der)


def test_a_certificate_of_another_name_is_refused(
    own: BarnabasProcess, settings: SettingsClient, certificates: Certificates, tmp_path: Path
) -> None:
    before = served(own, certificates)
    other = certificates.authority.issue("other", names=("localhost", "127.0.0.1", "more.example"))
    error, message = settings.change(BROKER, BROKER_ID, (LOCATION, SET, str(other.write_pem(tmp_path / "other.pem"))))
    assert error == ErrorCode.INVALID_REQUEST
    assert "Keystore DistinguishedName does not match" in (message or "")
    assert served(own, certificates) == before


def test_a_file_that_is_no_key_store_is_refused(
    own: BarnabasProcess, settings: SettingsClient, certificates: Certificates, tmp_path: Path
) -> None:
    before = served(own, certificates)
    (tmp_path / "half.pem").write_text(certificates.server.key_pem())
    error, message = settings.change(BROKER, BROKER_ID, (LOCATION, SET, str(tmp_path / "half.pem")))
    assert error == ErrorCode.INVALID_REQUEST
    assert "at least one certificate in PEM is expected" in (message or "")
    assert served(own, certificates) == before


def test_passwords_are_refused_in_words(own: BarnabasProcess, settings: SettingsClient) -> None:
    error, message = settings.change(
        BROKER, BROKER_ID, ("listener.name.ssl.ssl.key.password", SET, PASSWORD), validate_only=False
    )
    assert error in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
    assert "Password encoder secret not configured" in (message or "")
    assert PASSWORD not in own.log_text()


def test_key_stores_of_all_listeners_are_refused(settings: SettingsClient, tmp_path: Path) -> None:
    error, message = settings.change(BROKER, BROKER_ID, ("ssl.keystore.location", SET, str(tmp_path)))
    assert error == ErrorCode.INVALID_REQUEST
    assert "only per-listener using the listener prefix" in (message or "")
