"""`barnabas certs init`, and a broker of the test kit with TLS: what they make works in clients, as it is printed."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from barnabas.cli.main import barnabas
from barnabas.testing import BrokerProcess, broker
from tests.support.certificates import strict_context

SECONDS = 60


def test_init_makes_files_and_prints_settings(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    arguments = ["certs", "init", str(directory), "--host", "broker.example", "--host", "10.0.0.7", "--client", "alice"]
    done = CliRunner().invoke(barnabas, arguments)
    assert done.exit_code == 0, done.output
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert {name: mode & 0o077 for name, mode in modes.items()} == {
        "ca.pem": 0o044 & ~_umask(),
        "ca-key.pem": 0,
        "server.pem": 0,
        "client.pem": 0,
    }
    for line in (
        f"ssl.keystore.location={directory}/server.pem",
        f"ssl.truststore.location={directory}/ca.pem",
        f"ssl.ca.location={directory}/ca.pem",
        f"ssl.key.location={directory}/client.pem",
    ):
        assert line in done.stdout.splitlines()
    assert "BEGIN" not in done.output
    # The certificates are signed by the authority, and say what was asked for.
    subjects = {}
    for name in ("server", "client"):
        context = strict_context((directory / "ca.pem").read_text())
        context.load_cert_chain(directory / f"{name}.pem")
        subjects[name] = ssl._ssl._test_decode_cert(str(directory / f"{name}.pem"))  # type: ignore[attr-defined]
    assert subjects["server"]["subjectAltName"] == (("DNS", "broker.example"), ("IP Address", "10.0.0.7"))
    assert (("commonName", "alice"),) in subjects["client"]["subject"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_init_replaces_no_file(tmp_path: Path) -> None:
    (tmp_path / "client.pem").write_text("precious")
    done = CliRunner().invoke(barnabas, ["certs", "init", str(tmp_path)])
    assert done.exit_code != 0
    assert f"{tmp_path}/client.pem exists already" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["client.pem"]


def test_a_broker_of_the_test_kit_speaks_tls() -> None:
    with broker(security="ssl", ssl_client_auth="required", num_partitions=1) as running:
        assert running.certificates is not None
        settings = {"bootstrap.servers": running.bootstrap_servers, **running.certificates.librdkafka_settings}
        producer = Producer(settings)
        producer.produce("t", b"over TLS")
        assert producer.flush(SECONDS) == 0
        consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            message = consumer.poll(SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            assert message.value() == b"over TLS"
        finally:
            consumer.close()
        place = running.certificates.directory
        assert place.exists()
    assert not place.exists(), "they are removed with the data"


def test_what_the_test_kit_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="known are 'plaintext', 'ssl', 'sasl_plaintext', 'sasl_ssl'"):
        BrokerProcess(str(tmp_path / "data"), security="tls")
    with pytest.raises(ValueError, match="cannot be given together with `security`"):
        BrokerProcess(str(tmp_path / "data"), security="ssl", listen="PLAINTEXT://127.0.0.1:1")
