"""The login to ZooKeeper: SASL's DIGEST-MD5 (RFC 2831), which ZooKeeper's DigestLoginModule takes.

Made for each connection by `zk.zookeeper.zookeeper_connection`, on kazoo's thread of the connection; used once. Both
sides prove that they know the password, and neither sends it:

    server  realm="zk-sasl-md5",nonce="...",charset=utf-8,algorithm=md5-sess
    client  username="kafka",nonce="...",cnonce="...",response=<digest of all of it and the password>
    server  rspauth=<the same, the other way round>

kazoo has this through the package pure-sasl, which takes a server that knows no SASL for one that asks again. The
digest is MD5, which no connection should be entrusted to: use TLS beside it where the network can be read.

ZooKeeper: DigestLoginModule, SaslServerCallbackHandler. Kafka: the section `Client` of a JAAS file.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.security.sasl.jaas import InvalidJaas, parse_login_module

_URI: Final = "zookeeper/zk-sasl-md5"
"""ZooKeeper's servers all have this name, whatever their host."""
_PAIR: Final = re.compile(r'\s*(?P<name>[\w-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^",\s]+))\s*(?:,|$)')
_MODULE: Final = "DigestLoginModule"


class LoginRefused(Exception):
    """ZooKeeper does not accept the login, or does not prove that it knows the password."""


class ZookeeperUser(NamedTuple):
    """The user as whom a broker logs in."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"ZookeeperUser({self.name}, password hidden)"


def user_of_login_context(text: str) -> ZookeeperUser:
    """Return the user of a login context in Java's notation. Raises InvalidJaas, which quotes no value."""
    module = parse_login_module(text)
    if module.short_name != _MODULE:
        raise InvalidJaas(
            f"{module.name}: this version logs in to ZooKeeper with org.apache.zookeeper.server.auth.{_MODULE} only "
            "(there is no Kerberos)"
        )
    user = ZookeeperUser(module.options.get("username", ""), module.options.get("password", ""))
    if not user.name or not user.password:
        raise InvalidJaas(f"{_MODULE} needs the options username and password")
    # The RFC and Java's servers differ in what they hash of other characters.
    if not (user.name + user.password).isascii():
        raise InvalidJaas(f"{_MODULE}: username and password may have characters of ASCII only")
    return user


class DigestLogin:
    """One login. new_nonce: gives a text that is never the same twice."""

    def __init__(self, user: ZookeeperUser, new_nonce: Callable[[], str] = lambda: secrets.token_hex(16)) -> None:
        self._user = user
        self._new_nonce = new_nonce
        self._expected = ""

    def answer(self, challenge: bytes | None) -> bytes:
        """Return the answer to the server's challenge. Raises LoginRefused: it is none of DIGEST-MD5."""
        if not challenge:
            raise LoginRefused("it has no users: no section `Server` in its JAAS file")
        asked = _pairs(challenge)
        if "nonce" not in asked or asked.get("algorithm") != "md5-sess":
            raise LoginRefused("it does not offer DIGEST-MD5")
        if "auth" not in asked.get("qop", "auth").split(","):
            raise LoginRefused("it wants its messages signed, which this version does not do (use TLS)")
        realm, nonce, own_nonce = asked.get("realm", ""), asked["nonce"], self._new_nonce()
        secret = self._secret(realm, nonce, own_nonce)
        self._expected = _digest(secret, nonce, own_nonce, "")
        fields = {
            "charset": "utf-8",
            "username": _quoted(self._user.name),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "nc": "00000001",
            "cnonce": _quoted(own_nonce),
            "digest-uri": _quoted(_URI),
            "maxbuf": "65536",
            "response": _digest(secret, nonce, own_nonce, "AUTHENTICATE"),
            "qop": "auth",
        }
        return ",".join(f"{name}={value}" for name, value in fields.items()).encode()

    def verify(self, final: bytes | None) -> None:
        """Check that the server knows the password, too. Raises LoginRefused: it does not."""
        proof = _pairs(final or b"").get("rspauth", "")
        if not self._expected or not hmac.compare_digest(proof, self._expected):
            raise LoginRefused("it does not prove that it knows the password")

    def _secret(self, realm: str, nonce: str, own_nonce: str) -> bytes:
        user = _md5(f"{self._user.name}:{realm}:{self._user.password}".encode())
        return user.digest() + f":{nonce}:{own_nonce}".encode()


def _digest(secret: bytes, nonce: str, own_nonce: str, method: str) -> str:
    uri = _md5(f"{method}:{_URI}".encode()).hexdigest()
    return _md5(f"{_md5(secret).hexdigest()}:{nonce}:00000001:{own_nonce}:auth:{uri}".encode()).hexdigest()


def _md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data)  # noqa: S324 - the mechanism is made of it


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pairs(text: bytes) -> Mapping[str, str]:
    """Read name=value,name="value". What is no such pair ends the reading, so that its fields are missing."""
    found: dict[str, str] = {}
    decoded, position = text.decode("utf-8", "replace"), 0
    while (match := _PAIR.match(decoded, position)) is not None and match.end() > position:
        quoted = match["quoted"]
        found[match["name"].lower()] = match["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = match.end()
    return found
