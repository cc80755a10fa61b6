"""Passwords that change while the broker runs: they act, outlive restarts and new secrets, and are shown nowhere."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from tests.security.conftest import Certificates, ssl_broker
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.certificates import Identity
from tests.support.settings_client import BROKER, OK, SET, SettingsClient
from tests.support.tls_client import TlsRawClient

KEY_PASSWORD = "what-opens-the-key"
SECRET, NEXT_SECRET = "secret-of-the-encoder", "next-secret-of-the-encoder"
PREFIX = "listener.name.ssl.ssl"


def served(broker: BarnabasProcess, certificates: Certificates) -> bytes | None:
    """The certificate that new connections get."""
    with TlsRawClient(broker, "SSL", certificates.authority.client_context()) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        return client.socket.getpeercert(binary_form=True)


def check_nothing_is_shown(broker: BarnabasProcess) -> None:
    """Search for the password, and for the secret of the encoder, wherever a broker could show them."""
    names = (f"{PREFIX}.key.password", "password.encoder.secret")
    shown = SettingsClient(broker).describe(BROKER, "0")
    assert [(shown[name].value, shown[name].is_sensitive) for name in names] == [(None, True)] * 2
    assert KEY_PASSWORD not in Path(f"/proc/{broker.pid}/cmdline").read_text()
    log = broker.log_text()
    for secret in (KEY_PASSWORD, SECRET):
        assert secret not in log
        assert secret not in repr(shown)
        for file in broker.data_dir.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes(), file


@pytest.fixture
def renewed(certificates: Certificates, tmp_path: Path) -> Identity:
    """A certificate like the server's, whose key is encrypted."""
    identity = certificates.authority.issue("server")
    identity.write_pem(tmp_path / "renewed.pem", KEY_PASSWORD)
    return identity


def test_a_password_acts_and_outlives_restarts(certificates: Certificates, renewed: Identity, tmp_path: Path) -> None:
    def started(**secrets: str) -> BarnabasProcess:
        running = ssl_broker(tmp_path / "broker", certificates, **secrets)
        running.start()
        return running

    broker = started(password_encoder_secret=SECRET)
    try:
        wrong = [(f"{PREFIX}.keystore.location", str(tmp_path / "renewed.pem")), (f"{PREFIX}.key.password", "wrong")]
        settings = SettingsClient(broker)
        error, message = settings.change(BROKER, "0", *((name, SET, value) for name, value in wrong))
        assert error == ErrorCode.INVALID_REQUEST
        assert "ssl.key.password is wrong" in (message or "")
        right = dict(wrong) | {f"{PREFIX}.key.password": KEY_PASSWORD}
        assert settings.change(BROKER, "0", *((name, SET, value) for name, value in right.items())) == OK
        wait_for_log_line(broker, "Listener SSL uses a new TLS context")
        assert served(broker, certificates) == renewed.certificate_der
        # Another setting changes: the password beside it stays.
        assert settings.change(BROKER, "0", ("log.cleaner.threads", SET, "2")) == OK
        check_nothing_is_shown(broker)
    finally:
        broker.stop()
    # `password.encoder.secret` is replaced in two starts; afterwards the old one is not needed.
    for secrets in (
        {"password_encoder_secret": NEXT_SECRET, "password_encoder_old_secret": SECRET},
        {"password_encoder_secret": NEXT_SECRET},
    ):
        broker = started(**secrets)
        try:
            assert served(broker, certificates) == renewed.certificate_der
            check_nothing_is_shown(broker)
        finally:
            broker.stop()
