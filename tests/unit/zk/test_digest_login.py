"""The login to ZooKeeper trusts no server that does not prove the password, and no context that it cannot follow."""

from __future__ import annotations

import pytest

from barnabas.security.sasl.jaas import InvalidJaas
from barnabas.zk.zookeeper.digest_login import DigestLogin, LoginRefused, ZookeeperUser, user_of_login_context

CHALLENGE = b'realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess'
USER = ZookeeperUser('a "user"', "secret")


def answered() -> DigestLogin:
    login = DigestLogin(USER, lambda: "OA6MHXh6VqTrRd")
    login.answer(CHALLENGE)
    return login


def test_answer_names_the_user_and_the_fixed_uri() -> None:
    answer = DigestLogin(USER, lambda: "OA6MHXh6VqTrRd").answer(CHALLENGE).decode()
    assert answer.startswith('charset=utf-8,username="a \\"user\\"",realm="zk-sasl-md5",nonce="OA6MG9tEQGm2hh",')
    assert 'digest-uri="zookeeper/zk-sasl-md5"' in answer
    assert "secret" not in answer


def test_answer_of_the_rfc() -> None:
    """RFC 2831, section 4, whose digest-uri is that of another service: the digest alone depends on it."""
    import barnabas.zk.zookeeper.digest_login as module

    login = DigestLogin(ZookeeperUser("chris", "secret"), lambda: "OA6MHXh6VqTrRk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_URI", "imap/elwood.innosoft.com")
        answer = login.answer(
            b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
        )
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    login.verify(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (None, "it has no users"),
        (b"", "it has no users"),
        (b"nonsense", "does not offer DIGEST-MD5"),
        (b'realm="r",nonce="n"', "does not offer DIGEST-MD5"),
        (b'nonce="n",algorithm=md5-sess,qop="auth-conf"', "signed"),
    ],
)
def test_server_that_offers_no_login_is_refused(challenge: bytes | None, reason: str) -> None:
    with pytest.raises(LoginRefused, match=reason):
        DigestLogin(USER).answer(challenge)


@pytest.mark.parametrize("final", [None, b"", b"rspauth=", b"rspauth=ea40f60335c427b5527b84dbabcdffff", b"ok"])
def test_server_that_does_not_know_the_password_is_refused(final: bytes | None) -> None:
    with pytest.raises(LoginRefused, match="does not prove"):
        answered().verify(final)


def test_proof_before_the_challenge_is_refused() -> None:
    with pytest.raises(LoginRefused):
        DigestLogin(USER).verify(b"rspauth=")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "there is no Kerberos"),
        ('a.DigestLoginModule required username="kafka";', "username and password"),
        ('a.DigestLoginModule required username="kafka" password="pässword";', "ASCII only"),
        ("a.DigestLoginModule required", "semi-colon"),
    ],
)
def test_login_context_that_cannot_be_followed(text: str, reason: str) -> None:
    with pytest.raises(InvalidJaas, match=reason):
        user_of_login_context(text)
    assert "pässword" not in reason
