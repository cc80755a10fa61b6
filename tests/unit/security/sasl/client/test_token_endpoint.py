"""Tokens of an identity provider: what is asked, how often, what is tried again, and what is refused in which words."""

from __future__ import annotations

import base64
import logging
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.settings.secured_channels import token_source
from barnabas.config.secret import Secret
from barnabas.security.sasl.client.token_endpoint import NoToken, TokenEndpoint, TokenRequest, TokenRules
from tests.support.certificates import CertificateAuthority
from tests.support.identity_provider import IdentityProvider, TokenAnswer, unsecured_token
from tests.support.mock_clock import MockClock

SECRET = "secret of/the client"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(b"") as running:
        yield running


class Client:
    """An endpoint with a clock of its own, which `pause` moves on."""

    def __init__(self, provider: IdentityProvider, rules: TokenRules | None = None, **more: Any) -> None:
        self.clock = MockClock()
        self.pauses: list[float] = []
        request = TokenRequest(provider.token_url, "the id", Secret(SECRET), **more)
        self.token = TokenEndpoint(request, rules or TokenRules(), self.clock, self._pause, lambda: 0.5)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds * 1000)

    def issue(self, number: int, life_s: int = 100) -> str:
        """A token that is valid from now on for `life_s`."""
        now_s = self.clock.milliseconds() / 1000
        return unsecured_token(sub="alice", exp=now_s + life_s, iat=now_s, number=number)


@pytest.mark.parametrize(("encodes_header", "sent"), [(False, SECRET), (True, "secret+of%2Fthe+client")])
def test_a_token_is_asked_for_by_the_client_s_credentials(
    provider: IdentityProvider, encodes_header: bool, sent: str
) -> None:
    client = Client(provider, scope="read write", encodes_header=encodes_header)
    token = client.issue(1)
    provider.answer_token = lambda: TokenAnswer.with_token(token)
    assert client.token() == client.token() == token
    (post,) = provider.token_posts
    assert post.form == {"grant_type": "client_credentials", "scope": "read write"}
    name = "the+id" if encodes_header else "the id"
    assert base64.b64decode(post.authorization.removeprefix("Basic ")).decode() == f"{name}:{sent}"


def end_refresh() -> None:
    """Wait for the end of the thread that fetches the next token, if it runs."""
    for thread in threading.enumerate():
        if thread.name == "token-refresh":
            thread.join()


def test_the_next_token_is_fetched_before_the_old_one_ends_and_no_login_waits(provider: IdentityProvider) -> None:
    client = Client(provider)
    first = client.issue(1)
    provider.answer_token = lambda: TokenAnswer.with_token(first)
    assert client.token() == first
    client.clock.advance(82_000)  # of 100 s, 80 %, and by chance half of 5 % more
    assert client.token() == first
    end_refresh()
    assert len(provider.token_posts) == 1
    client.clock.advance(1_000)
    provider.answer_token = lambda: TokenAnswer(400)
    assert client.token() == first
    end_refresh()
    assert len(provider.token_posts) == 2
    second = client.issue(2)
    provider.answer_token = lambda: TokenAnswer.with_token(second)
    assert client.token() == first
    end_refresh()
    assert client.token() == second
    client.clock.advance(100_000)
    third = client.issue(3)
    provider.answer_token = lambda: TokenAnswer.with_token(third)
    assert client.token() == third


@pytest.mark.parametrize(
    ("life_s", "rules", "after_s"),
    [
        (3600, TokenRules(), 2970),
        (1000, TokenRules(), 700),
        (400, TokenRules(), 100),
        (365, TokenRules(refresh_window_factor=0.1), 60),
        (359, TokenRules(), 296),
        (3600, TokenRules(refresh_window_jitter=0.0), 2880),
    ],
)
def test_a_token_is_replaced_at_kafka_s_time(
    provider: IdentityProvider, life_s: int, rules: TokenRules, after_s: int
) -> None:
    client = Client(provider, rules)
    token = client.issue(1, life_s)
    provider.answer_token = lambda: TokenAnswer.with_token(token)
    client.token()
    for wait_s, asked in ((after_s - 1, 1), (2, 2)):
        client.clock.advance(wait_s * 1000)
        client.token()
        end_refresh()
        assert len(provider.token_posts) == asked


def test_errors_that_may_pass_are_tried_again_for_a_time(provider: IdentityProvider) -> None:
    client = Client(provider, TokenRules(retry_backoff_ms=100, retry_backoff_max_ms=1_000))
    token = client.issue(1)
    answers = iter([TokenAnswer(503), TokenAnswer(429), TokenAnswer.with_token(token)])
    provider.answer_token = lambda: next(answers)
    assert client.token() == token
    assert client.pauses == [0.1, 0.2]
    client = Client(provider, TokenRules(retry_backoff_ms=100, retry_backoff_max_ms=1_000))
    provider.answer_token = lambda: TokenAnswer(503)
    with pytest.raises(NoToken, match="HTTP status 503"):
        client.token()
    assert client.pauses == [0.1, 0.2, 0.4, pytest.approx(0.3)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (TokenAnswer(401, b'{"error":"invalid_client"}'), r"gives no token: HTTP status 401 \(invalid_client\)"),
        (TokenAnswer(302, location="http://127.0.0.1:1/"), "HTTP status 302"),
        (TokenAnswer(200, b"<html>"), 'the answer is no JSON with "access_token"'),
        (TokenAnswer(200, b'{"access_token": ""}'), 'the answer is no JSON with "access_token"'),
        (TokenAnswer.with_token("opaque"), "it has 1 parts, and a signed token"),
        (TokenAnswer.with_token("a.b.c"), "a part is no JSON in base64"),
        (TokenAnswer.with_token(unsecured_token(sub="alice")), "no expiration time"),
        (TokenAnswer.with_token(unsecured_token(sub="alice", exp=1)), "expired"),
        (TokenAnswer.with_token(unsecured_token(exp=1e10)), "the claim 'sub' names no user"),
        (TokenAnswer.with_token(unsecured_token(sub="a", exp=1e10, scope=[1])), "the claim 'scope' is malformed"),
    ],
)
def test_other_errors_end_the_login_at_once_and_show_no_secret(
    provider: IdentityProvider, answer: TokenAnswer, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = Client(provider, scope="read")
    provider.answer_token = lambda: answer
    with pytest.raises(NoToken, match=message) as caught:
        client.token()
    assert len(provider.token_posts) == 1
    for shown in (repr(caught.value), repr(client.token), caplog.text):
        assert SECRET not in shown
        assert "eyJ" not in shown, "a token"


def settings(**more: Any) -> dict[str, Any]:
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"} | more


def test_the_login_context_names_the_client_and_whom_it_trusts(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("provider").write_pem(tmp_path / "provider.pem"))
    trust = authority.write_pem(tmp_path / "trust.pem")
    stranger = CertificateAuthority("other").write_pem(tmp_path / "other.pem")
    with IdentityProvider(b"", context) as provider:
        token = unsecured_token(sub="alice", exp=1e10)
        provider.answer_token = lambda: TokenAnswer.with_token(token)
        for trusted in (trust, stranger):
            jaas = Secret(
                f'{MODULE} required clientId="the id" clientSecret="{SECRET}" scope="read"'
                f' ssl.truststore.location="{trusted}";'
            )
            config = ClientConfig(
                **settings(sasl_oauthbearer_token_endpoint_url=provider.token_url, sasl_jaas_config=jaas)
            )
            assert SECRET not in repr(config)
            source = token_source(config, jaas)
            if trusted is trust:
                assert source() == token
                continue
            with pytest.raises(NoToken, match="certificate verify failed"):
                source()
    assert [post.form["scope"] for post in provider.token_posts] == ["read"]


def test_a_file_has_the_token_of_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    config = ClientConfig(**settings(sasl_oauthbearer_token_endpoint_url=file.as_uri()))
    source = token_source(config, None)
    with pytest.raises(NoToken, match=r"has no token: .*No such file"):
        source()
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert source() == token


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "needs sasl_oauthbearer_token or sasl_oauthbearer_token_endpoint_url"),
        ({"sasl_oauthbearer_token_endpoint_url": "ftp://x/"}, "must be https://"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://x/"}, "needs sasl_oauthbearer_client_credentials_client_id"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://x/", "sasl_oauthbearer_token": "t"}, "choose one"),
        (
            {"sasl_oauthbearer_token_endpoint_url": "https://x/", "sasl_jaas_config": f"{MODULE} required;"},
            "sasl_jaas_config with clientId and clientSecret",
        ),
        (
            {"sasl_oauthbearer_token_endpoint_url": "https://x/", "sasl_jaas_config": "x.PlainLoginModule required;"},
            "OAUTHBEARER takes OAuthBearerLoginModule",
        ),
        ({"sasl_login_callback_handler_class": "com.example.Mine"}, "sasl_login_callback_handler_class must be"),
    ],
)
def test_settings_that_lack_something_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClientConfig(**settings(**more))
