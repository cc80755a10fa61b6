"""OAUTHBEARER on the broker: messages, signed and unsecured tokens, keys that change, settings that say too little."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.channels.dynamic_security import check_security_of_start
from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.protection import ProtectionMissing
from barnabas.security.sasl import signed_tokens
from barnabas.security.sasl.oauth_config import SIGNED_HANDLERS, UNSECURED_HANDLER, OAuthConfig
from barnabas.security.sasl.oauth_listener import OAuthBearerServer
from barnabas.security.sasl.sasl_config import SaslConfig
from barnabas.security.sasl.sasl_listener import SaslListener
from barnabas.security.sasl.sasl_server import Login, LoginParts, LoginRejected
from barnabas.security.sasl.signed_tokens import (
    LONGEST_DOCUMENT_BYTES,
    SignedTokenValidator,
    SigningKeys,
    fetch_document,
)
from barnabas.security.sasl.token_claims import (
    MessageMalformed,
    OAuthBearerMessage,
    TokenInvalid,
    TokenValidator,
    UnsecuredTokenValidator,
)
from tests.support.identity_provider import AUDIENCE, ISSUER, SigningKey, key_set, unsecured_token
from tests.support.mock_clock import START_MILLISECONDS, MockClock
from tests.support.mock_scheduler import MockScheduler
from tests.support.sasl_exchange import Credentials, versions

URL = "https://identity.example.com/jwks"
NOW_S = START_MILLISECONDS // 1000
KEY = SigningKey("first")
OTHER = SigningKey("second")
ELLIPTIC = SigningKey("curve", "ES256", is_named=False)
UNNAMED = SigningKey("unnamed", "RS512", is_named=False)


def first_message(token: str, user: str = "", extensions: str = "") -> bytes:
    return f"n,{f'a={user}' if user else ''},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


class Provider:
    """The keys of a listener, and the document from which they are fetched."""

    def __init__(self, *keys: SigningKey, **config: Any) -> None:
        self.clock = MockClock()
        self.scheduler = MockScheduler(self.clock)
        self.document: bytes | None = key_set(*keys)
        self.fetches = 0
        settings = {"jwks_url": URL, "expected_audience": (AUDIENCE,), "expected_issuer": ISSUER} | config
        self.config = OAuthConfig(**settings)
        self.keys = SigningKeys(self.config, self.scheduler, self.clock, self.fetch)
        self.validator = SignedTokenValidator(self.keys, self.config, self.clock)

    def fetch(self, url: str) -> bytes:
        assert url == URL
        self.fetches += 1
        if self.document is None:
            raise OSError("the provider is down")
        return self.document

    def started(self) -> Provider:
        self.keys.load()
        self.keys.start()
        return self

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.scheduler.tick()


def refused(validator: TokenValidator, token: str) -> str:
    """The reason for which a token is refused, which must not quote the token."""
    with pytest.raises(TokenInvalid) as caught:
        validator.validate(token)
    assert caught.value.answer == '{"status":"invalid_token"}'
    assert caught.value.__cause__ is None
    for part in token.split("."):
        assert len(part) < 10 or part not in str(caught.value)
    return str(caught.value)


# -- messages


def test_a_first_message_has_a_token_perhaps_a_user_and_extensions() -> None:
    assert OAuthBearerMessage.parse(first_message("a.b.c")) == ("a.b.c", "")
    assert OAuthBearerMessage.parse(first_message("a.b.c", "alice", "traceid=7\x01")) == ("a.b.c", "alice")
    assert "a.b.c" not in repr(OAuthBearerMessage.parse(first_message("a.b.c")))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01",
        b"n,,\x01auth=Bearer a,b\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,\x01auth=Bearer a\x01x1=y\x01\x01",
        b"n,b=alice,\x01auth=Bearer a\x01\x01",
        b"n,a=al=ice,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        # More parts than any client sends; half a megabyte of them took 0.2 s.
        b"n,,\x01" + b"a=b\x01" * 64 + b"auth=Bearer a\x01\x01",
        b"n,a=" + b"=2C" * 257 + b",\x01auth=Bearer a\x01\x01",
    ],
)
def test_malformed_messages_are_rejected(message: bytes) -> None:
    with pytest.raises(MessageMalformed, match="Invalid OAUTHBEARER client first message"):
        OAuthBearerMessage.parse(message)
    server = OAuthBearerServer(UnsecuredTokenValidator({}, MockClock(), "x"))
    with pytest.raises(LoginRejected) as caught:
        server.evaluate(message)
    assert caught.value.told is None
    assert server.login is None


@given(st.binary(max_size=80))
def test_no_bytes_log_in(data: bytes) -> None:
    server = OAuthBearerServer(UnsecuredTokenValidator({}, MockClock(), "x"))
    for message in (data, b"n,,\x01auth=Bearer " + data + b"\x01\x01"):
        try:
            server.evaluate(message)
        except LoginRejected:
            server = OAuthBearerServer(UnsecuredTokenValidator({}, MockClock(), "x"))
        assert server.login is None


# -- the exchange


def test_a_valid_token_is_a_login_that_ends_with_it() -> None:
    server = OAuthBearerServer(Provider(KEY).started().validator)
    assert server.evaluate(first_message(KEY.token(NOW_S))) == b""
    assert server.login == Login("alice", expires_ms=(NOW_S + 3600) * 1000)


def test_a_rejected_token_is_answered_and_then_ends_the_login() -> None:
    validator = Provider(KEY).started().validator
    for last in (b"\x01", first_message(KEY.token(NOW_S))):
        server = OAuthBearerServer(validator)
        assert server.evaluate(first_message(KEY.token(NOW_S - 7200))) == b'{"status":"invalid_token"}'
        with pytest.raises(LoginRejected, match="expired 3600000 ms ago") as caught:
            server.evaluate(last)
        assert caught.value.told == '{"status":"invalid_token"}'
        assert server.login is None


def test_another_user_than_the_token_s_is_rejected() -> None:
    server = OAuthBearerServer(Provider(KEY).started().validator)
    with pytest.raises(LoginRejected, match=r"authorization id \(bob\) that is different"):
        server.evaluate(first_message(KEY.token(NOW_S), "bob"))
    assert server.login is None
    OAuthBearerServer(Provider(KEY).started().validator).evaluate(first_message(KEY.token(NOW_S), "alice"))


# -- signed tokens


@pytest.mark.parametrize("key", [KEY, OTHER, ELLIPTIC, UNNAMED], ids=lambda key: key.key_id)
def test_tokens_of_each_key(key: SigningKey) -> None:
    validator = Provider(KEY, OTHER, ELLIPTIC, UNNAMED).started().validator
    assert validator.validate(key.token(NOW_S)) == ("alice", (NOW_S + 3600) * 1000)
    assert validator.validate(key.token(NOW_S, aud=["other", AUDIENCE])).user == "alice"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "other"}, "Audience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example.com"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": None}, "no expiration"),
        ({"exp": "tomorrow"}, "exp"),
        ({"iat": None}, "no time of issue"),
        ({"iat": NOW_S + 31}, "valid only in"),
        ({"nbf": NOW_S + 31}, "valid only in"),
        ({"iat": NOW_S - 5, "exp": NOW_S - 10}, "after its expiration"),
        ({"sub": None}, "names no user"),
        ({"sub": "  "}, "names no user"),
        ({"sub": 7}, "names no user"),
        ({"scope": ["a", "a"]}, "malformed"),
    ],
)
def test_wrong_claims_are_refused(claims: dict[str, Any], reason: str) -> None:
    assert reason in refused(Provider(KEY).started().validator, KEY.token(NOW_S, **claims))


def test_clocks_may_differ_a_little() -> None:
    validator = Provider(KEY).started().validator
    for claims in ({"exp": NOW_S - 29}, {"iat": NOW_S + 30}, {"nbf": NOW_S + 30}):
        assert validator.validate(KEY.token(NOW_S, **{"iat": NOW_S - 100} | claims)).user == "alice"


def test_the_user_may_be_in_another_claim() -> None:
    validator = Provider(KEY, user_claim="email").started().validator
    assert validator.validate(KEY.token(NOW_S, email="alice@example.com")).user == "alice@example.com"
    assert "'email'" in refused(validator, KEY.token(NOW_S))


def test_an_audience_that_is_not_expected_is_refused() -> None:
    validator = Provider(KEY, expected_audience=(), expected_issuer=None).started().validator
    assert "audience" in refused(validator, KEY.token(NOW_S))
    assert validator.validate(KEY.token(NOW_S, aud=None, iss=None)).user == "alice"


def test_tokens_that_the_provider_has_not_signed_are_refused() -> None:
    validator = Provider(KEY).started().validator
    token = KEY.token(NOW_S)
    header, claims, signature = token.split(".")
    impostor = SigningKey("first")
    assert "Signature" in refused(validator, impostor.token(NOW_S))
    assert "alg, 'none'" in refused(validator, unsecured_token(sub="alice", exp=NOW_S + 60, iat=NOW_S))
    refused(validator, f"{header}.{claims}.")
    refused(validator, f"{header}.{KEY.token(NOW_S, sub='root').split('.')[1]}.{signature}")
    # The public key as the secret of an HMAC.
    forged = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').decode().rstrip("=")
    mac = hmac.digest(json.dumps(KEY.public).encode(), f"{forged}.{claims}".encode(), hashlib.sha256)
    assert "alg, 'HS256'" in refused(
        validator, f"{forged}.{claims}." + base64.urlsafe_b64encode(mac).decode().rstrip("=")
    )
    # What is read before the signature is short.
    long_header = base64.urlsafe_b64encode(b'{"alg":"RS256"' + b',"a":1' * 2000 + b"}").decode().rstrip("=")
    assert "header has more than" in refused(validator, f"{long_header}.{claims}.{signature}")
    for nonsense in ("", "a", "a.b.c", "..", "e30.e30.e30", "eyJhbGciOjF9.e30.e30"):
        refused(validator, nonsense)


@given(st.text(st.sampled_from("abceyJ0.-_="), max_size=60))
def test_no_text_is_a_token(text: str) -> None:
    with pytest.raises(TokenInvalid):
        PROVIDER.validator.validate(text)


PROVIDER = Provider(KEY).started()


# -- keys


def test_an_unknown_key_is_fetched_soon_and_not_too_often() -> None:
    provider = Provider(KEY).started()
    provider.document = key_set(KEY, OTHER)
    assert "no key 'second'" in refused(provider.validator, OTHER.token(NOW_S))
    assert provider.fetches == 1, "no login waits for a fetch"
    provider.scheduler.tick()
    assert provider.validator.validate(OTHER.token(NOW_S)).user == "alice"
    for number in range(100):
        refused(provider.validator, SigningKey.token(_renamed(OTHER, f"unknown-{number}"), NOW_S))
        provider.pass_ms(10)
    assert provider.fetches == 2
    provider.pass_ms(10_000)
    refused(provider.validator, _renamed(OTHER, "unknown").token(NOW_S))
    provider.scheduler.tick()
    assert provider.fetches == 3


def _renamed(key: SigningKey, key_id: str) -> SigningKey:
    renamed = SigningKey.__new__(SigningKey)
    renamed.__dict__.update(key.__dict__ | {"key_id": key_id})
    return renamed


def test_keys_are_fetched_again_and_old_ones_end() -> None:
    provider = Provider(KEY, refresh_ms=60_000).started()
    provider.document = key_set(OTHER)
    provider.pass_ms(59_999)
    assert provider.validator.validate(KEY.token(NOW_S)).user == "alice"
    provider.pass_ms(1)
    assert "no key 'first'" in refused(provider.validator, KEY.token(NOW_S))
    assert provider.validator.validate(OTHER.token(NOW_S)).user == "alice"


def test_a_failed_fetch_keeps_the_keys_and_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider(KEY, refresh_ms=60_000).started()
    provider.document = None
    provider.pass_ms(60_000)
    for backoff_ms in (100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000):
        before = provider.fetches
        provider.pass_ms(backoff_ms - 1)
        assert provider.fetches == before
        provider.pass_ms(1)
        assert provider.fetches == before + 1
    assert provider.validator.validate(KEY.token(NOW_S)).user == "alice"
    assert "the old ones are used" in caplog.text
    provider.document = key_set(OTHER)
    provider.pass_ms(10_000)
    assert provider.validator.validate(OTHER.token(NOW_S)).user == "alice"
    provider.keys.close()
    fetches = provider.fetches
    provider.pass_ms(600_000)
    assert provider.fetches == fetches


def test_a_token_without_a_key_id_needs_the_only_key() -> None:
    assert Provider(KEY).started().keys.find(None, "RS256") is not None
    assert Provider(KEY, OTHER).started().keys.find(None, "RS256") is None
    assert Provider(KEY).started().keys.find(None, "ES256") is None, "it is a key of another algorithm"


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": []}',
        b'{"keys": 7}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA"}, 7]}',
    ],
)
def test_a_document_without_keys_stops_the_start(document: bytes) -> None:
    provider = Provider(KEY)
    provider.document = document
    with pytest.raises(ConfigError, match="the keys cannot be fetched"):
        provider.keys.load()


def test_a_provider_that_cannot_be_reached_is_named_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(OSError, match=f"^no connection to {address}: Connection refused$"):
        fetch_document(f"http://{address}/keys")


def test_a_check_of_settings_asks_no_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider may be down now, or silent, and the check is made for each stored setting."""
    asked: list[str] = []
    monkeypatch.setattr(signed_tokens, "_download", asked.append)
    clock = MockClock()

    def check(url: str) -> None:
        given = {
            "listeners": "EXTERNAL://:9093,PLAINTEXT://:9092",
            "listener.security.protocol.map": "EXTERNAL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(tmp_path),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": url,
        }
        check_security_of_start(KafkaConfig.parse(given), clock, MockScheduler(clock))

    check("https://identity.example.com/keys")
    assert asked == []
    for wrong in ("ftp://identity.example.com/keys", (tmp_path / "absent").as_uri()):
        with pytest.raises(ConfigError, match="the keys cannot be fetched"):
            check(wrong)


def test_keys_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key set.json"
    path.write_bytes(key_set(KEY))
    assert fetch_document(path.as_uri()) == key_set(KEY)
    path.write_bytes(b"x" * (LONGEST_DOCUMENT_BYTES + 1))
    with pytest.raises(ValueError, match="larger than"):
        fetch_document(path.as_uri())
    with pytest.raises(OSError, match="absent"):
        fetch_document((tmp_path / "absent").as_uri())
    with pytest.raises(ValueError, match="begins with https"):
        fetch_document("ftp://127.0.0.1/keys")


# -- unsecured tokens


def test_unsecured_tokens_are_believed_until_they_expire() -> None:
    clock = MockClock()
    options = {"unsecuredValidatorPrincipalClaimName": "name", "unsecuredValidatorRequiredScope": "read write"}
    validator = UnsecuredTokenValidator(options, clock, "x")
    token = unsecured_token(name="bob", exp=NOW_S + 10, scope="write read other")
    assert validator.validate(token) == ("bob", (NOW_S + 10) * 1000)
    with pytest.raises(TokenInvalid, match="'write' is missing") as caught:
        validator.validate(unsecured_token(name="bob", exp=NOW_S + 10, scope=["read"]))
    assert caught.value.answer == '{"status":"insufficient_scope", "scope":"read write"}'
    assert "unsecured tokens only" in refused(validator, KEY.token(NOW_S))
    clock.advance(10_000)
    assert "expired" in refused(validator, token)


# -- settings


def listener(**settings: str) -> SaslListener:
    """A listener EXTERNAL with OAUTHBEARER; names with `_` for `.`."""
    clock = MockClock()
    given = {
        "listeners": "EXTERNAL://:9093,PLAINTEXT://:9092",
        "listener.security.protocol.map": "EXTERNAL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    config = KafkaConfig.parse(given | {name.replace("_", "."): value for name, value in settings.items()})
    parts = LoginParts(Credentials(), versions, clock, MockScheduler(clock))
    return SaslListener("EXTERNAL", SaslConfig.of(config, "EXTERNAL"), parts)


HANDLER = "listener_name_external_oauthbearer_sasl_server_callback_handler_class"


def test_a_listener_says_which_tokens_it_accepts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match=r"needs the keys that sign its tokens: set sasl\.oauthbearer\.jwks"):
        listener()
    with pytest.raises(ConfigError, match=r"needs the keys that sign its tokens"):
        listener(**{HANDLER: SIGNED_HANDLERS[0]})
    listener(**{HANDLER: UNSECURED_HANDLER})
    assert "any client can be any user" in caplog.text
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(KEY))
    for setting in (
        "sasl_oauthbearer_jwks_endpoint_url",
        "listener_name_external_oauthbearer_sasl_oauthbearer_jwks_endpoint_url",
    ):
        listener(**{setting: path.as_uri()})
        listener(**{setting: path.as_uri(), HANDLER: SIGNED_HANDLERS[1]})
    with pytest.raises(ConfigError, match="believes every token"):
        listener(**{HANDLER: UNSECURED_HANDLER, "sasl_oauthbearer_expected_audience": "kafka"})
    with pytest.raises(ConfigError, match="the keys cannot be fetched"):
        listener(sasl_oauthbearer_jwks_endpoint_url=(tmp_path / "absent").as_uri())


def test_classes_that_are_not_here_are_refused() -> None:
    with pytest.raises(ProtectionMissing, match="no Java to load the class"):
        listener(**{HANDLER: "org.example.Handler"})
    with pytest.raises(ConfigError, match="no Java to load the class"):
        listener(listener_name_external_plain_sasl_server_callback_handler_class=SIGNED_HANDLERS[0])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('unsecuredValidatorScope="x"', "unknown option unsecuredValidatorScope"),
        ('unsecuredValidatorAllowableClockSkewMs="x"', "is a number of milliseconds"),
    ],
)
def test_wrong_options_of_unsecured_tokens(options: str, reason: str) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    login = {"listener_name_external_oauthbearer_sasl_jaas_config": f"{module} required {options};"}
    with pytest.raises(ConfigError, match=reason):
        listener(**{HANDLER: UNSECURED_HANDLER}, **login)


def test_nothing_of_a_token_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = KEY.token(NOW_S, aud="other")
    refused(Provider(KEY).started().validator, token)
    refused(Provider(OTHER).started().validator, token)
    for part in token.split("."):
        assert part not in caplog.text
