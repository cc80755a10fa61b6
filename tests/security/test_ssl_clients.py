"""Other people's clients over SSL, with and without a client certificate: they produce, and consume in a group."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from kafka import KafkaConsumer, KafkaProducer

from barnabas.security.tls.distinguished_name import parse_certificate
from tests.security.conftest import LISTENERS, Certificates
from tests.support.apache_kafka import CONSOLE_CONSUMER, CONSOLE_PRODUCER, run_tool
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import strict_context
from tests.support.requirements import need_program

SECONDS = 60
VALUES = [b"record %d" % number for number in range(100)] + [bytes(range(256)) * 2_000]


class Place(NamedTuple):
    """Where a client connects to, and with what. certificate: the client's own, if the listener asks for one."""

    bootstrap_servers: str
    topic: str
    trust: Path
    certificate: Path | None


@pytest.fixture
def place(ssl_server: BarnabasProcess, certificates: Certificates, topic: str, request: pytest.FixtureRequest) -> Place:
    """The listener without client certificates for one dispatch mode, the one that requires them for the other."""
    name = "SSL" if "inline" in request.node.name else "REQUIRED"
    assert name in LISTENERS
    certificate = certificates.client_pem if name == "REQUIRED" else None
    return Place(f"127.0.0.1:{ssl_server.ports[name]}", topic, certificates.trust_pem, certificate)


def over_librdkafka(place: Place) -> list[bytes]:
    settings = {
        "bootstrap.servers": place.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(place.trust),
    }
    if place.certificate is not None:
        settings |= {"ssl.certificate.location": str(place.certificate), "ssl.key.location": str(place.certificate)}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(place.topic, value, partition=0)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer(settings | {"group.id": place.topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([place.topic])
    found: list[bytes] = []
    try:
        while len(found) < len(VALUES):
            messages = consumer.consume(len(VALUES) - len(found), SECONDS)
            assert messages, f"{len(found)} records"
            for message in messages:
                assert message.error() is None, message.error()
                found.append(bytes(message.value() or b""))
    finally:
        consumer.close()
    return found


def over_kafka_python(place: Place) -> list[bytes]:
    settings = {
        "bootstrap_servers": place.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": str(place.trust),
        "ssl_certfile": place.certificate and str(place.certificate),
        "ssl_keyfile": place.certificate and str(place.certificate),
    }
    producer = KafkaProducer(**settings)
    futures = [producer.send(place.topic, value, partition=0) for value in VALUES]
    for future in futures:
        future.get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        place.topic,
        group_id=place.topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000,
        **settings,
    )
    try:
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()


def over_aiokafka(place: Place) -> list[bytes]:
    return asyncio.run(_over_aiokafka(place))


async def _over_aiokafka(place: Place) -> list[bytes]:
    context = strict_context(place.trust.read_text())
    if place.certificate is not None:
        context.load_cert_chain(place.certificate)
    settings = {"bootstrap_servers": place.bootstrap_servers, "security_protocol": "SSL", "ssl_context": context}
    producer = AIOKafkaProducer(**settings)
    await producer.start()
    try:
        for value in VALUES:
            await producer.send_and_wait(place.topic, value, partition=0)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(place.topic, group_id=place.topic, auto_offset_reset="earliest", **settings)
    await consumer.start()
    try:
        return [(await asyncio.wait_for(consumer.getone(), SECONDS)).value for _ in VALUES]
    finally:
        await consumer.stop()


@pytest.mark.parametrize("client", [over_librdkafka, over_kafka_python, over_aiokafka])
def test_records_reach_a_group(client: Callable[[Place], list[bytes]], place: Place) -> None:
    assert client(place) == VALUES


def test_kcat(place: Place) -> None:
    kcat = need_program("kcat")
    options = ["security.protocol=ssl", f"ssl.ca.location={place.trust}"]
    if place.certificate is not None:
        options += [f"ssl.certificate.location={place.certificate}", f"ssl.key.location={place.certificate}"]
    common = [kcat, "-b", place.bootstrap_servers, "-t", place.topic, "-p", "0"]
    common += [word for option in options for word in ("-X", option)]
    subprocess.run([*common, "-P"], input=b"a\nb\nc\n", check=True, capture_output=True, timeout=SECONDS)
    read = subprocess.run(
        [*common, "-C", "-o", "beginning", "-e", "-q"], check=True, capture_output=True, timeout=SECONDS
    )
    assert read.stdout == b"a\nb\nc\n"


@pytest.mark.java
def test_java_console_clients(place: Place, certificates: Certificates, tmp_path: Path) -> None:
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={place.trust}"]
    if place.certificate is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={place.certificate}"]
    (tmp_path / "client.properties").write_text("\n".join(lines))
    config = str(tmp_path / "client.properties")
    to = ["--bootstrap-server", place.bootstrap_servers, "--topic", place.topic]
    run_tool(CONSOLE_PRODUCER, *to, "--producer.config", config, directory=tmp_path, input_text="a\nb\nc\n")
    amount = ["--from-beginning", "--max-messages", "3", "--consumer.config", config]
    assert run_tool(CONSOLE_CONSUMER, *to, *amount, directory=tmp_path).splitlines() == ["a", "b", "c"]


@pytest.mark.java
def test_names_are_those_of_java(certificates: Certificates, tmp_path: Path) -> None:
    """Our form of a certificate's subject against Java's own, X500Principal.getName."""
    java = need_program("java")
    values = ["plain", "a, b", 'a+b=c<d>e#f;g"h\\i', "  two ", " ", "Jürgen 大", "#hash", "a/b:c", "x\x7fy"]
    kinds = [
        NameOID.COMMON_NAME, NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.TITLE,
        NameOID.STREET_ADDRESS, NameOID.SERIAL_NUMBER, NameOID.ORGANIZATION_NAME, NameOID.STATE_OR_PROVINCE_NAME,
    ]  # fmt: skip
    subjects = [
        x509.Name([x509.NameAttribute(kind, value, _ASN1Type.UTF8String)]) for kind in kinds for value in values
    ]
    several = [x509.NameAttribute(kind, "v") for kind in (NameOID.USER_ID, NameOID.COMMON_NAME, NameOID.TITLE)]
    subjects.append(x509.Name([x509.RelativeDistinguishedName(several)]))
    subjects.append(x509.Name([x509.NameAttribute(kind, "v") for kind in kinds]))
    subjects.append(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kafka é", _ASN1Type.BMPString)]))
    issued = [certificates.authority.issue(subject) for subject in subjects]
    (tmp_path / "all.pem").write_text("".join(each.certificate_pem for each in issued))
    (tmp_path / "Names.java").write_text(JAVA_NAMES)
    done = subprocess.run(
        [java, "-Dstdout.encoding=UTF-8", "-Dfile.encoding=UTF-8", "Names.java"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=2 * SECONDS,
    )
    expected = done.stdout.decode().split("\0")[:-1]
    assert [parse_certificate(each.certificate_der).subject for each in issued] == expected


JAVA_NAMES = """
import java.io.*;
import java.security.cert.*;

public class Names {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        try (InputStream in = new FileInputStream("all.pem")) {
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                out.print(((X509Certificate) each).getSubjectX500Principal().getName() + "\\0");
            }
        }
    }
}
"""
