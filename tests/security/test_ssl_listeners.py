"""SSL listeners of a broker: requests, large fetches, client certificates, and peers that do not speak TLS."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from tests.security.conftest import Certificates, client_hello
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.certificates import CertificateAuthority
from tests.support.raw_client import SECONDS, RawClient, make_batch
from tests.support.requirements import need_program
from tests.support.tls_client import TlsRawClient


@pytest.fixture
def client(ssl_server: BarnabasProcess, certificates: Certificates) -> Iterator[TlsRawClient]:
    with TlsRawClient(ssl_server, "SSL", certificates.authority.client_context()) as connected:
        yield connected


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_are_produced_and_fetched(
    ssl_server: BarnabasProcess, certificates: Certificates, topic: str, version: ssl.TLSVersion
) -> None:
    context = certificates.authority.client_context()
    context.minimum_version = context.maximum_version = version
    with TlsRawClient(ssl_server, "SSL", context) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.version() == version.name.replace("_", ".")
        client.create_topic(topic)
        assert [client.produce_values(topic, b"a value of one's own") for _ in range(5)] == list(range(5))
        answer = client.fetch(topic, 0)
        assert answer.error_code == ErrorCode.NONE
        assert answer.high_watermark == 5
        assert bytes(answer.records or b"").count(b"a value of one's own") == 5


def test_large_batches_and_fetches_come_whole(client: TlsRawClient, topic: str) -> None:
    """8 MB in batches of 1 MB less a header, fetched in one answer: files are read and encrypted in many slices."""
    client.create_topic(topic, configs={"max.message.bytes": "2000000"})
    values = [bytes([number]) * 1_000_000 for number in range(8)]
    batches = [make_batch([value], timestamp_ms=1) for value in values]
    for batch in batches:
        assert client.produce(topic, batch).error_code == ErrorCode.NONE
    records = client.fetch(topic, 0, max_bytes=20 << 20, partition_max_bytes=20 << 20).records
    data = bytes(records or b"")
    assert [value in data for value in values] == [True] * 8
    assert len(data) == sum(map(len, batches))


def test_pipelined_requests_are_answered_in_order(client: TlsRawClient) -> None:
    frames = [client.encode(ApiVersionsRequest(), 0, number) for number in range(200)]
    client.socket.sendall(b"".join(frames))
    assert [int.from_bytes(client.receive_frame()[:4], "big") for _ in frames] == list(range(200))


@pytest.mark.parametrize("listener", ["REQUESTED", "REQUIRED"])
def test_a_client_with_a_certificate_is_served(
    ssl_server: BarnabasProcess, certificates: Certificates, listener: str
) -> None:
    context = certificates.authority.client_context()
    context.load_cert_chain(certificates.client_pem)
    with TlsRawClient(ssl_server, listener, context) as client:
        assert client.supported_versions()


def test_a_client_without_a_certificate_is_served_where_none_is_required(
    ssl_server: BarnabasProcess, certificates: Certificates
) -> None:
    context = certificates.authority.client_context()
    with TlsRawClient(ssl_server, "REQUESTED", context) as client:
        assert client.supported_versions()
    assert not _is_served(ssl_server, "REQUIRED", context)
    wait_for_log_line(ssl_server, "the client has to present a certificate (ssl.client.auth=required)")


def _is_served(server: BarnabasProcess, listener: str, context: ssl.SSLContext) -> bool:
    """Whether a client gets an answer; either its handshake fails, or its first request."""
    try:
        with TlsRawClient(server, listener, context) as client:
            client.socket.sendall(client.encode(ApiVersionsRequest(), 0))
            return bool(client.socket.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.mark.parametrize("listener", ["REQUESTED", "REQUIRED"])
def test_a_client_of_an_unknown_authority_is_refused(
    ssl_server: BarnabasProcess, certificates: Certificates, listener: str
) -> None:
    stranger = CertificateAuthority("strangers").issue("mallory")
    context = certificates.authority.client_context(stranger, certificates.directory)
    assert not _is_served(ssl_server, listener, context)
    wait_for_log_line(ssl_server, "CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate")


@pytest.mark.parametrize("listener", ["REQUESTED", "REQUIRED"])
def test_a_client_whose_certificate_has_expired_is_refused(
    ssl_server: BarnabasProcess, certificates: Certificates, listener: str
) -> None:
    expired = certificates.authority.issue("alice", days=-1)
    context = certificates.authority.client_context(expired, certificates.directory)
    assert not _is_served(ssl_server, listener, context)
    wait_for_log_line(ssl_server, "CERTIFICATE_VERIFY_FAILED: certificate has expired")


def test_a_client_may_not_renegotiate(ssl_server: BarnabasProcess, certificates: Certificates) -> None:
    """Only TLS 1.2 has it; Python's ssl cannot ask for it."""
    address = f"{ssl_server.host}:{ssl_server.ports['SSL']}"
    command = [
        need_program("openssl"),
        "s_client",
        "-connect",
        address,
        "-tls1_2",
        "-CAfile",
        str(certificates.trust_pem),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as client:
        try:
            assert client.stdin is not None
            assert client.stdout is not None
            # The client writes this line behind its handshake: only then it listens for commands.
            shown = "".join(iter(client.stdout.readline, "---\n"))
            while "Verify return code" not in shown:
                line = client.stdout.readline()
                assert line, shown
                shown += line
            client.stdin.write("R\n")
            client.stdin.flush()
            told = client.communicate(timeout=SECONDS)[0]
        finally:
            client.kill()
    assert "Verify return code: 0 (ok)" in shown
    assert "RENEGOTIATING" in told
    assert "no renegotiation" in told
    wait_for_log_line(ssl_server, "Renegotiation requested, but it is not supported")
    with TlsRawClient(ssl_server, "SSL", certificates.authority.client_context()) as other:
        assert other.supported_versions()


def test_plaintext_clients_of_an_ssl_listener_are_told_in_the_log(ssl_server: BarnabasProcess) -> None:
    before = ssl_server.log_text().count("the peer does not speak TLS")
    with RawClient(ssl_server, address=(ssl_server.host, ssl_server.ports["SSL"])) as client:
        client.send(ApiVersionsRequest(), 0)
        # OpenSSL may answer with an alert before the close.
        with suppress(ConnectionResetError):
            while client.socket.recv(100):
                pass
    wait_for_log_line(ssl_server, "the peer does not speak TLS", before + 1)
    assert ssl_server.log_text().count("the peer does not speak TLS") == before + 1


def test_tls_clients_of_a_plaintext_listener_are_told_in_the_log(
    ssl_server: BarnabasProcess, certificates: Certificates
) -> None:
    before = ssl_server.log_text().count("these bytes begin a TLS handshake")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        TlsRawClient(ssl_server, "PLAINTEXT", certificates.authority.client_context())
    wait_for_log_line(ssl_server, "these bytes begin a TLS handshake", before + 1)


def test_handshakes_that_stop_half_way_do_not_delay_others(
    ssl_server: BarnabasProcess, certificates: Certificates
) -> None:
    hello = client_hello(certificates)
    address = (ssl_server.host, ssl_server.ports["SSL"])
    stopped = []
    try:
        for number in range(300):
            half = socket.create_connection(address, timeout=SECONDS)
            stopped.append(half)
            half.sendall(hello[: number % (len(hello) + 1)])
        for _ in range(5):
            with TlsRawClient(ssl_server, "SSL", certificates.authority.client_context()) as client:
                assert client.supported_versions()
    finally:
        for half in stopped:
            half.close()


def test_secrets_are_in_no_log(ssl_server: BarnabasProcess, certificates: Certificates) -> None:
    text = ssl_server.log_text()
    assert "BEGIN" not in text
    assert certificates.server.key_pem().splitlines()[2] not in text
