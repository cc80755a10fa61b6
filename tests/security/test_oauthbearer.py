"""OAUTHBEARER on a running broker: signed and unsecured tokens, keys that change; our clients, librdkafka and Java."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import Admin
from barnabas.clients.authentication_errors import AuthenticationError, SaslAuthenticationError
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.sasl import SaslAuthenticateResponse
from barnabas.security.sasl.oauth_config import UNSECURED_HANDLER
from tests.security.secured_clients import address, barnabas, check_clients
from tests.support.apache_kafka import CONSOLE_PRODUCER, need_apache_kafka, run_tool
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_log import wait_for_log_line
from tests.support.identity_provider import (
    AUDIENCE,
    ISSUER,
    IdentityProvider,
    SigningKey,
    TokenAnswer,
    key_set,
    unsecured_token,
)
from tests.support.raw_client import SECONDS
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES

KEY = SigningKey("first")
LISTENERS = ("SIGNED", "UNSECURED")
INVALID = '{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(key_set(KEY)) as running:
        yield running


@pytest.fixture(scope="module", params=["inline", "queue"])
def broker(
    request: pytest.FixtureRequest, provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BarnabasProcess]:
    """A broker with a listener for signed tokens and one for unsecured tokens."""
    provider.document = key_set(KEY)
    signed = "listener.name.signed.oauthbearer.sasl.oauthbearer"
    properties = {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)]
        ),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "1",
        f"{signed}.jwks.endpoint.url": provider.url,
        f"{signed}.expected.audience": AUDIENCE,
        f"{signed}.expected.issuer": ISSUER,
        "listener.name.unsecured.oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER,
        "inline.requests.enable": str(request.param == "inline").lower(),
    }
    running = BarnabasProcess(tmp_path_factory.mktemp("oauth"), SERVER_PROPERTIES | properties)
    running.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in LISTENERS)
    running.start()
    yield running
    running.stop()
    assert "eyJ" not in running.log_text(), "a token is in the log"


def log_in(broker: BarnabasProcess, token: str, listener: str = "SIGNED") -> SaslAuthenticateResponse:
    """Log in by a token; the last answer. A client whose token is rejected acknowledges that."""
    with SaslRawClient(broker, address=(broker.host, broker.ports[listener])) as client:
        assert client.handshake("OAUTHBEARER").error_code == ErrorCode.NONE
        answer = client.authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        if not answer.auth_bytes:
            return answer
        assert bytes(answer.auth_bytes).decode() == INVALID
        answer = client.authenticate(b"\x01")
        assert client.is_closed_by_broker()
        return answer


def test_a_signed_token_is_a_session_that_ends_with_it(broker: BarnabasProcess) -> None:
    now = time.time()
    answer = log_in(broker, KEY.token(now, exp=int(now) + 1000))
    assert answer.error_code == ErrorCode.NONE
    assert 0 < answer.session_lifetime_ms <= 1_000_000


@pytest.mark.parametrize(
    ("claims", "reason"),
    [({"exp": 1}, "expired"), ({"aud": "other"}, "InvalidAudienceError"), ({"nbf": 1 << 40}, "valid only in")],
)
def test_a_rejected_token_has_one_line_in_the_log(broker: BarnabasProcess, claims: dict[str, Any], reason: str) -> None:
    answer = log_in(broker, KEY.token(time.time(), **claims))
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
    wait_for_log_line(broker, f"(SASL mechanism OAUTHBEARER: the token is rejected: {reason}")


def test_unsecured_tokens_are_for_the_listener_that_says_so(broker: BarnabasProcess) -> None:
    token = unsecured_token(sub="alice", exp=time.time() + 600)
    assert log_in(broker, token, "UNSECURED").error_code == ErrorCode.NONE
    assert log_in(broker, token).error_message == INVALID
    assert log_in(broker, KEY.token(time.time()), "UNSECURED").error_message == INVALID


def test_a_new_key_of_the_provider_is_found(broker: BarnabasProcess, provider: IdentityProvider) -> None:
    new = SigningKey("second")
    provider.document = key_set(KEY, new)
    deadline = time.monotonic() + 4 * SECONDS
    while log_in(broker, new.token(time.time())).error_code != ErrorCode.NONE:
        assert time.monotonic() < deadline, "the new key is not fetched"
        time.sleep(0.1)
    assert log_in(broker, KEY.token(time.time())).error_code == ErrorCode.NONE


def test_our_clients(broker: BarnabasProcess, topic: str) -> None:
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token": lambda: KEY.token(time.time()),
    }
    check_clients(address(broker, "SIGNED"), topic, settings)
    expired = settings | {"sasl_oauthbearer_token": KEY.token(1)}
    with (
        Admin(address(broker, "SIGNED"), config=ClientConfig(**expired)) as admin,  # type: ignore[arg-type]
        pytest.raises(SaslAuthenticationError, match="invalid_token"),
    ):
        admin.list_topics()


def test_our_clients_ask_the_provider_for_tokens(
    broker: BarnabasProcess, provider: IdentityProvider, topic: str
) -> None:
    provider.answer_token = lambda: TokenAnswer.with_token(KEY.token(time.time()))
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": provider.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "alice",
        "sasl_oauthbearer_client_credentials_client_secret": "hush",
    }
    check_clients(address(broker, "SIGNED"), topic, settings)
    provider.answer_token = lambda: TokenAnswer(401)
    with (
        Admin(address(broker, "SIGNED"), config=ClientConfig(**settings)) as admin,  # type: ignore[arg-type]
        pytest.raises(AuthenticationError, match="gives no token: HTTP status 401") as caught,
    ):
        admin.list_topics()
    assert "hush" not in str(caught.value)


def test_librdkafka(broker: BarnabasProcess, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    expires_s = time.time() + 3000
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": f"{broker.host}:{broker.ports['SIGNED']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (KEY.token(time.time(), exp=int(expires_s)), expires_s),
        }
    )
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(4 * SECONDS) == 0


@pytest.mark.java
@pytest.mark.slow
def test_java(broker: BarnabasProcess, tmp_path: Path, topic: str) -> None:
    need_apache_kafka()
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={module} required unsecuredLoginStringClaim_sub="alice";\n'
    )
    place = ("--bootstrap-server", address(broker, "UNSECURED"), "--topic", topic, "--producer.config", str(settings))
    with SaslRawClient(broker) as client:
        client.create_topic(topic)
        run_tool(CONSOLE_PRODUCER, *place, directory=tmp_path, input_text="v\n")
        assert client.fetch(topic, 0).high_watermark == 1


def kafka_s_file(path: Path, provider: IdentityProvider) -> Path:
    """The properties by which Kafka's tools ask a provider for tokens."""
    module = "org.apache.kafka.common.security.oauthbearer"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={module}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.token_url}\n"
        "sasl.login.connect.timeout.ms=5000\n"
        f'sasl.jaas.config={module}.OAuthBearerLoginModule required clientId="a b" clientSecret="hush" scope="read";\n'
    )
    return path


def test_commands_ask_the_provider_by_kafka_s_file(
    broker: BarnabasProcess, provider: IdentityProvider, tmp_path: Path
) -> None:
    provider.token_posts.clear()
    provider.answer_token = lambda: TokenAnswer.with_token(KEY.token(time.time()))
    place = ("--bootstrap-server", address(broker, "SIGNED"))
    config = ("--command-config", str(kafka_s_file(tmp_path / "client.properties", provider)))
    done = barnabas("topics", "list", *place, *config)
    assert done.returncode == 0, done.stderr
    (post,) = provider.token_posts
    assert post.form == {"grant_type": "client_credentials", "scope": "read"}


@pytest.mark.java
@pytest.mark.slow
def test_java_asks_the_provider_alike(
    broker: BarnabasProcess, provider: IdentityProvider, tmp_path: Path, topic: str
) -> None:
    need_apache_kafka()
    provider.token_posts.clear()
    provider.answer_token = lambda: TokenAnswer.with_token(KEY.token(time.time()))
    file = str(kafka_s_file(tmp_path / "client.properties", provider))
    with SaslRawClient(broker) as client:
        client.create_topic(topic)
        place = ("--bootstrap-server", address(broker, "SIGNED"), "--topic", topic, "--producer.config", file)
        run_tool(CONSOLE_PRODUCER, *place, directory=tmp_path, input_text="v\n")
        assert client.fetch(topic, 0).high_watermark == 1
    ours = barnabas("topics", "list", "--bootstrap-server", address(broker, "SIGNED"), "--command-config", file)
    assert ours.returncode == 0, ours.stderr
    of_java, of_ours = provider.token_posts
    assert of_java == of_ours
