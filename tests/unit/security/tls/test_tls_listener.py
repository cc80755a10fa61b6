"""Key stores of listeners: what is read, what is refused in which words, and what a running listener takes over."""

from __future__ import annotations

import logging
import os
import ssl
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.secret import Secret
from barnabas.runtime.clock import SystemClock
from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig
from barnabas.security.tls.tls_listener import TlsListener
from tests.support.certificates import PASSWORD, CertificateAuthority, Identity
from tests.support.memory_network import MemoryNetwork
from tests.support.requirements import need_program

AUTHORITY = CertificateAuthority()
SERVER = AUTHORITY.issue("server")
KEY_PASSWORD = "password-of-the-key"
TRUSTED = TrustStoreConfig(type="PEM", certificates=Secret(AUTHORITY.pem))


def listener(config: TlsConfig) -> TlsListener:
    return TlsListener("SSL", config, SystemClock())


def pem_file(path: Path, identity: Identity = SERVER) -> KeyStoreConfig:
    return KeyStoreConfig(type="PEM", location=str(identity.write_pem(path)))


def served_subject(tls: TlsListener) -> dict[str, str]:
    """The subject of the certificate that a client gets, by a whole handshake in memory."""
    server, end = MemoryNetwork().pair()
    transport = tls.transport(server)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = AUTHORITY.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    while not transport.ready:
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        if outgoing.pending:
            end.send(outgoing.read())
        transport.handshake()
        incoming.write(end.take())
    certificate: Any = client.getpeercert()
    return {name: value for part in certificate["subject"] for name, value in part}


def stores(directory: Path) -> dict[str, KeyStoreConfig]:
    chain, key = SERVER.certificate_pem, SERVER.key_pem()
    return {
        "PEM file": pem_file(directory / "server.pem"),
        "PEM file with an encrypted key": KeyStoreConfig(
            type="PEM",
            location=str(SERVER.write_pem(directory / "encrypted.pem", KEY_PASSWORD)),
            key_password=Secret(KEY_PASSWORD),
        ),
        "PEM in settings": KeyStoreConfig(type="PEM", key=Secret(key), certificate_chain=Secret(chain)),
        "PEM on one line": KeyStoreConfig(
            type="PEM", key=Secret(key.replace("\n", " ")), certificate_chain=Secret(chain.replace("\n", " "))
        ),
        "encrypted PEM in settings": KeyStoreConfig(
            type="PEM",
            key=Secret(SERVER.key_pem(KEY_PASSWORD)),
            certificate_chain=Secret(chain),
            key_password=Secret(KEY_PASSWORD),
        ),
        "PKCS12": KeyStoreConfig(
            type="PKCS12", location=str(SERVER.write_pkcs12(directory / "server.p12")), password=Secret(PASSWORD)
        ),
        "PKCS12 by the type JKS": KeyStoreConfig(
            type="JKS", location=str(SERVER.write_pkcs12(directory / "server.jks")), password=Secret(PASSWORD)
        ),
    }


def test_a_key_store_of_any_form_serves(tmp_path: Path) -> None:
    for form, store in stores(tmp_path).items():
        assert served_subject(listener(TlsConfig(keystore=store)))["commonName"] == "server", form


def wrong_stores(directory: Path) -> dict[str, tuple[KeyStoreConfig, str]]:
    key, chain = Secret(SERVER.key_pem()), Secret(SERVER.certificate_pem)
    encrypted = Secret(SERVER.key_pem(KEY_PASSWORD))
    other = Secret(AUTHORITY.issue("other").certificate_pem)
    secret = Secret("a-wrong-password")
    pem = str(SERVER.write_pem(directory / "server.pem"))
    pkcs12 = str(SERVER.write_pkcs12(directory / "server.p12"))
    (directory / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (directory / "empty.pem").write_text("nothing")
    return {
        "none": (KeyStoreConfig(), "Listener SSL uses TLS and has no key store"),
        "no file": (KeyStoreConfig(type="PEM", location="/no/such.pem"), "/no/such.pem cannot be read: No such file"),
        "password of PEM": (KeyStoreConfig(type="PEM", location=pem, password=secret), "cannot be specified with PEM"),
        "no password": (KeyStoreConfig(type="PKCS12", location=pkcs12), "key store password is not specified"),
        "password alone": (KeyStoreConfig(password=secret), "not specified, but key store password is specified"),
        "wrong password": (
            KeyStoreConfig(type="PKCS12", location=pkcs12, password=secret),
            "ssl.keystore.password is wrong, or the file is no PKCS12 store",
        ),
        "JKS": (
            KeyStoreConfig(type="JKS", location=str(directory / "old.jks"), password=secret),
            f"-srckeystore {directory}/old.jks -destkeystore {directory}/old.jks.p12 -deststoretype PKCS12; then",
        ),
        "PEM as PKCS12": (KeyStoreConfig(type="PKCS12", location=pem, password=secret), "set ssl.keystore.type=PEM"),
        "other type": (KeyStoreConfig(type="BKS", location=pem, password=secret), "ssl.keystore.type=BKS"),
        "no key": (KeyStoreConfig(type="PEM", location=str(directory / "empty.pem")), "one private key in PEM"),
        "key alone": (KeyStoreConfig(type="PEM", key=key), "certificate chain is not specified"),
        "chain alone": (KeyStoreConfig(type="PEM", certificate_chain=chain), "private key is not specified"),
        "key as JKS": (KeyStoreConfig(key=key, certificate_chain=chain), "only for PEM, but key store type is JKS"),
        "both": (KeyStoreConfig(type="PEM", key=key, certificate_chain=chain, location=pem), "Both SSL key store"),
        "other key": (KeyStoreConfig(type="PEM", key=key, certificate_chain=other), "does not belong to the first"),
        "encrypted key without password": (
            KeyStoreConfig(type="PEM", key=encrypted, certificate_chain=chain),
            "the private key is encrypted, and ssl.key.password is not set",
        ),
        "encrypted key with a wrong password": (
            KeyStoreConfig(type="PEM", key=encrypted, certificate_chain=chain, key_password=secret),
            "ssl.key.password is wrong",
        ),
        "no certificate": (KeyStoreConfig(type="PEM", key=key, certificate_chain=Secret("x")), "none is there"),
        "broken certificate": (
            KeyStoreConfig(
                type="PEM",
                key=key,
                certificate_chain=Secret("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"),
            ),
            "a certificate cannot be read",
        ),
    }


def test_a_wrong_key_store_is_refused_with_a_sentence(tmp_path: Path) -> None:
    for name, (store, message) in wrong_stores(tmp_path).items():
        with pytest.raises(ConfigError) as caught:
            listener(TlsConfig(keystore=store))
        assert message in caught.value.message, name
        assert "a-wrong-password" not in repr(caught.value) + repr(store), name
        assert "BEGIN" not in repr(caught.value) + repr(store), name


@pytest.mark.parametrize(
    ("trust", "message"),
    [
        (TrustStoreConfig(certificates=Secret("x")), "only for PEM, but trust store type is JKS"),
        (TrustStoreConfig(type="PEM", certificates=Secret("x")), "at least one certificate is expected"),
        (TrustStoreConfig(type="PEM", certificates=Secret("x"), location="/x"), "Both SSL trust store location"),
        (TrustStoreConfig(type="PEM", location="/x", password=Secret("x")), "cannot be specified for PEM format"),
        (TrustStoreConfig(password=Secret("x")), "SSL trust store is not specified"),
        (TrustStoreConfig(type="PEM", location="/no/such.pem"), "cannot be read"),
        (TrustStoreConfig(crl_location="/x"), "need the authorities that have signed them in a trust store"),
        (replace(TRUSTED, crl_location="/no/such.pem"), "ssl.crl.location=/no/such.pem cannot be read"),
        (replace(TRUSTED, crl_location=__file__), "an 'X509 CRL' in PEM is expected"),
        (
            TrustStoreConfig(type="PEM", certificates=Secret(SERVER.certificate_pem), crl_location="/x"),
            "the trust store lacks authorities, which revocation lists need up to the root: CN=test authority",
        ),
    ],
)
def test_a_wrong_trust_store_is_refused_with_a_sentence(trust: TrustStoreConfig, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        listener(TlsConfig(keystore=pem_file(tmp_path / "server.pem"), truststore=trust))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enabled_protocols": ("TLSv1.1",)}, "Invalid value TLSv1.1 for configuration ssl.enabled.protocols"),
        ({"cipher_suites": ("NO_SUCH",)}, "NO_SUCH is no cipher suite's name"),
        ({"cipher_suites": ("TLS_ECDHE_RSA_WITH_NO_SUCH",)}, "ssl.cipher.suites"),
        ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "cannot be chosen one by one"),
        (
            {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",), "enabled_protocols": ("TLSv1.3",)},
            "none of these suites belongs to a version",
        ),
        ({"principal_mapping_rules": "RULE:"}, "ssl.principal.mapping.rules: Invalid rule"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        listener(TlsConfig(keystore=pem_file(tmp_path / "server.pem"), **settings))


def test_versions_and_cipher_suites_are_limited(tmp_path: Path) -> None:
    keystore = pem_file(tmp_path / "server.pem")
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    limited = listener(TlsConfig(keystore=keystore, cipher_suites=suites))._loaded.context
    assert limited.maximum_version == ssl.TLSVersion.TLSv1_2
    # OpenSSL lists the suites of TLS 1.3 always; the version rules them out.
    names = [each["name"] for each in limited.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert names == ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"]
    newest = listener(TlsConfig(keystore=keystore, enabled_protocols=("TLSv1.3",)))._loaded.context
    assert (newest.minimum_version, newest.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)


@pytest.mark.java
def test_java_key_stores_serve_once_converted(tmp_path: Path) -> None:
    """keytool's own PKCS12, and the conversion that the message about JKS names."""
    keytool = need_program("keytool")
    made = "-genkeypair -alias k -keyalg EC -dname CN=java -ext san=dns:localhost -storetype JKS -keystore k.jks"
    passwords = ["-storepass", PASSWORD, "-keypass", PASSWORD]
    subprocess.run([keytool, *made.split(), *passwords], cwd=tmp_path, check=True, capture_output=True)
    jks = KeyStoreConfig(type="JKS", location=str(tmp_path / "k.jks"), password=Secret(PASSWORD))
    with pytest.raises(ConfigError) as caught:
        listener(TlsConfig(keystore=jks))
    command = caught.value.message.partition("keytool ")[2].partition(";")[0].split()
    passwords = ["-srcstorepass", PASSWORD, "-deststorepass", PASSWORD]
    subprocess.run([keytool, *command, *passwords], cwd=tmp_path, check=True, capture_output=True)
    store = KeyStoreConfig(type="PKCS12", location=str(tmp_path / "k.jks.p12"), password=Secret(PASSWORD))
    assert listener(TlsConfig(keystore=store))._loaded.key_store.certificate.subject == "CN=java"


def test_an_expired_certificate_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        listener(TlsConfig(keystore=pem_file(tmp_path / "old.pem", AUTHORITY.issue("old", days=-1))))
    assert "has expired at" in caplog.text


# -- new keys


def test_a_file_that_has_changed_is_used_by_new_handshakes(tmp_path: Path) -> None:
    config = TlsConfig(keystore=pem_file(tmp_path / "server.pem"))
    tls = listener(config)
    assert not tls.reload(config), "nothing has changed"
    before = tls._loaded.key_store.chain
    renewed = AUTHORITY.issue("server", names=("localhost", "127.0.0.1", "more.example"))
    os.utime(renewed.write_pem(tmp_path / "server.pem"), ns=(1, 1))
    assert tls.reload(config)
    assert tls._loaded.key_store.chain != before
    assert served_subject(tls)["commonName"] == "server"


@pytest.mark.parametrize(
    ("identity", "allowed", "message"),
    [
        (AUTHORITY.issue("another"), {"allow_dn_changes": True}, "Keystore DistinguishedName does not match"),
        (
            AUTHORITY.issue("server", names=("localhost",)),
            {"allow_san_changes": True},
            "Keystore SubjectAltNames do not match: the new certificate lacks 0x87:7f000001",
        ),
    ],
)
def test_a_certificate_of_other_names_is_refused(
    identity: Identity, allowed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    old = TlsConfig(keystore=pem_file(tmp_path / "server.pem"))
    tls = listener(old)
    new = TlsConfig(keystore=pem_file(tmp_path / "new.pem", identity))
    for change in (tls.check, tls.reload):
        with pytest.raises(ConfigError, match=message):
            change(new)
    assert tls._loaded.config is old
    assert tls.reload(replace(new, **allowed))


def test_a_broken_file_leaves_the_old_key(tmp_path: Path) -> None:
    config = TlsConfig(keystore=pem_file(tmp_path / "server.pem"))
    tls = listener(config)
    (tmp_path / "server.pem").write_text("half")
    with pytest.raises(ConfigError):
        tls.reload(config)
    assert served_subject(tls)["commonName"] == "server"


def test_a_trust_store_cannot_be_added(tmp_path: Path) -> None:
    keystore = pem_file(tmp_path / "server.pem")
    tls = listener(TlsConfig(keystore=keystore))
    trust = TrustStoreConfig(type="PEM", certificates=Secret(AUTHORITY.pem))
    with pytest.raises(ConfigError, match="Cannot add SSL truststore"):
        tls.check(TlsConfig(keystore=keystore, truststore=trust))
