"""SCRAM: the example of RFC 7677, Kafka's text of a credential, proofs and messages that are rejected."""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.sasl.scram_mechanism import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ClientFinal,
    ClientFirst,
    ScramError,
    ScramFormatter,
    ServerFinal,
    ServerFirst,
    StoredScramCredential,
    auth_message,
    escape_name,
    unescape_name,
)

# RFC 7677, section 3.
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_exchange_of_rfc_7677() -> None:
    first, server, final = (
        ClientFirst.parse(CLIENT_FIRST),
        ServerFirst.parse(SERVER_FIRST),
        ClientFinal.parse(CLIENT_FINAL),
    )
    assert (first.user, first.nonce, first.authorization_id, first.is_token) == (
        "user",
        "rOprNGfwEbeRWgbNEkqO",
        "",
        False,
    )
    assert final.channel_binding == b"n,,"
    salted = SCRAM_SHA_256.salted_password("pencil", server.salt, server.iterations)
    credential = StoredScramCredential.of_salted_password(SCRAM_SHA_256, salted, server.salt, server.iterations)
    said = auth_message(first, server, final)
    assert SCRAM_SHA_256.client_proof(salted, said) == final.proof
    assert SCRAM_SHA_256.is_valid_proof(credential.stored_key, said, final.proof)
    signature = SCRAM_SHA_256.server_signature(credential.server_key, said)
    assert ServerFinal(None, signature).to_bytes() == SERVER_FINAL
    assert ServerFinal.parse(SERVER_FINAL) == ServerFinal(None, signature)
    # What this side writes is what the RFC writes.
    assert ClientFirst.make("user", first.nonce).to_bytes() == CLIENT_FIRST
    assert ServerFirst.make(server.nonce, server.salt, 4096).text.encode() == SERVER_FIRST
    assert ClientFinal.without_proof("n,,", server.nonce).to_bytes(final.proof) == CLIENT_FINAL


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_proof_of_another_exchange_proves_nothing(mechanism: ScramFormatter) -> None:
    salted = mechanism.salted_password("secret", b"salt", 4096)
    credential = StoredScramCredential.of_salted_password(mechanism, salted, b"salt", 4096)
    proof = mechanism.client_proof(salted, b"this exchange")
    assert len(proof) == mechanism.digest_bytes
    assert mechanism.is_valid_proof(credential.stored_key, b"this exchange", proof)
    assert not mechanism.is_valid_proof(credential.stored_key, b"that exchange", proof)
    flipped = bytes([proof[0] ^ 1]) + proof[1:]
    for bad in (flipped, proof[:-1], proof + b"\0", b"", b"\0" * len(proof)):
        assert not mechanism.is_valid_proof(credential.stored_key, b"this exchange", bad)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_credential_goes_through_its_text_and_hides_its_keys(mechanism: ScramFormatter) -> None:
    credential = StoredScramCredential.of_password(mechanism, "pass,word=ü", 4096)
    text = credential.to_text()
    assert [part.partition("=")[0] for part in text.split(",")] == ["salt", "stored_key", "server_key", "iterations"]
    assert StoredScramCredential.parse(text) == credential
    shown = f"{credential!r} {credential} {[credential]}"
    for key in credential[:3]:
        assert repr(key) not in shown
        assert b64encode(key).decode() not in shown


def test_the_text_of_a_known_credential() -> None:
    # The password and the salt of RFC 7677; other servers publish the same two keys.
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = SCRAM_SHA_256.salted_password("pencil", salt, 4096)
    assert StoredScramCredential.of_salted_password(SCRAM_SHA_256, salted, salt, 4096).to_text() == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=4096,salt=QQ==",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=x",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=-1",
        "salt=QQ==,stored_key=Q!secret,server_key=QQ==,iterations=4096",
        "salt=QQ==,stored_key=QQ==,server_key=QQ==,iterations=4096,password=secret",
    ],
)
def test_a_malformed_credential_is_rejected_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        StoredScramCredential.parse(text)
    assert "secret" not in str(caught.value)
    assert "QQ==" not in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=,r=nonce",
        b"y,,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"n,,m=ext,n=user,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=us=2cer,r=nonce",
        b"n,,n=user,r=non ce",
        b"n,,n=user,r=nonce,",
        b"n,,n=user,r=nonce,1=x",
        b"n,,n=user,r=nonce\n",
        b"n,,n=us\xffer,r=nonce",
        "n,,n=üser,r=nonce".encode(),
        b"n,,n=us\0er,r=nonce",
        CLIENT_FIRST[2:],
        # More parts than any client sends; half a megabyte of them took 0.3 s.
        b"n,,n=user,r=nonce" + b",a=b" * 65,
        b"n,,n=" + b"=2C" * 257 + b",r=nonce",
    ],
)
def test_a_malformed_first_message_is_rejected(message: bytes) -> None:
    with pytest.raises(ScramError, match="Invalid SCRAM client first message format"):
        ClientFirst.parse(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"c=biws,r=nonce", b"c=biws,r=nonce,p=secret", b"c=biws,p=QQ==", b"c=b,r=nonce,p=QQ==", SERVER_FIRST],
)
def test_a_malformed_final_message_is_rejected_without_being_quoted(message: bytes) -> None:
    with pytest.raises(ScramError) as caught:
        ClientFinal.parse(message)
    assert str(caught.value) == "Invalid SCRAM client final message format"


@pytest.mark.parametrize(
    "message",
    [b"", b"r=n,s=QQ==,i=0", b"r=n,s=QQ==,i=-1", b"r=n,s=QQ==,i=4096x", b"r=n,s=Q,i=1", b"r=n,s=QQ==,i=" + b"9" * 10],
)
def test_a_malformed_answer_of_a_server_is_rejected(message: bytes) -> None:
    with pytest.raises(ScramError):
        ServerFirst.parse(message)
    with pytest.raises(ScramError):
        ServerFinal.parse(message)


def test_what_a_server_may_say_last() -> None:
    assert ServerFinal.parse(b"e=invalid-proof") == ServerFinal("invalid-proof", b"")
    assert ServerFinal.parse(b"v=QQ==,x=later") == ServerFinal(None, b"A")
    assert ServerFinal("invalid-proof", b"").to_bytes() == b"e=invalid-proof"


def test_extensions_and_an_authorization_id_are_kept() -> None:
    first = ClientFirst.parse(b"n,a=alice,n=alice,r=nonce,tokenauth=TRUE,other=1")
    assert first.authorization_id == "alice"
    assert first.is_token
    assert first.extensions == {"tokenauth": "TRUE", "other": "1"}
    assert ClientFirst.make("id", "n", {"tokenauth": "true"}).to_bytes() == b"n,,n=id,r=n,tokenauth=true"


@given(st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1))
def test_every_name_survives_its_escape(name: str) -> None:
    assert unescape_name(escape_name(name)) == name
    assert ClientFirst.parse(ClientFirst.make(name, "nonce").to_bytes()).user == name


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_parsed_or_rejected(message: bytes) -> None:
    for parse in (ClientFirst.parse, ServerFirst.parse, ClientFinal.parse, ServerFinal.parse):
        with contextlib.suppress(ScramError):
            parse(message)
