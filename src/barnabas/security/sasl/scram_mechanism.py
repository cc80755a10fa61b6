"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512: names, messages, mathematics, credentials (RFC 5802, RFC 7677).

Called by both sides of a login, and where a user's password becomes a credential. Immutable values, pure but for the
salt; any thread, no lock.

    SaltedPassword = PBKDF2(password, salt, iterations)          slow: once, where the credential is made
    ClientKey      = HMAC(SaltedPassword, "Client Key")          only the client knows it
    StoredKey      = H(ClientKey)                                kept by the server
    ServerKey      = HMAC(SaltedPassword, "Server Key")          kept by the server
    ClientProof    = ClientKey XOR HMAC(StoredKey, AuthMessage)  sent by the client
    ServerSignature = HMAC(ServerKey, AuthMessage)               sent by the server

The server checks a proof with two fast operations: H(ClientProof XOR HMAC(StoredKey, AuthMessage)) must be StoredKey.
AuthMessage is the text of the whole exchange, with both nonces, so a message of another login proves nothing.

The four messages of a login are parsed strictly:

    client first   n,,n=alice,r=fyko...                 user, the client's nonce; gs2 header `n,,`: no channel binding
    server first   r=fyko...3rfc,s=QSXC...,i=4096       both nonces, salt, iterations
    client final   c=biws,r=fyko...3rfc,p=v0X8...       the gs2 header again in base64, both nonces, the proof
    server final   v=rmF9...  or  e=invalid-proof       the server's signature, or an error

As in Kafka's messages, only ASCII is allowed in user names. Unlike Kafka, a mandatory extension (`m=`) is rejected, as
the RFC demands, and optional extensions count for the proof. A message that does not parse is never quoted in an error:
it may hold a proof.

Kafka: ScramMechanism, ScramFormatter, ScramCredential, ScramCredentialUtils, ScramMessages, ScramExtensions.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_VALUE_SAFE: Final = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_PLAIN: Final = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]*"
# Bounded: each turn of a group costs what a hundred characters of a class cost, and the client has not logged in yet.
SASL_NAME: Final = rf"(?=[^,]){_PLAIN}(?:=(?:2C|3D){_PLAIN}){{0,256}}"
"""A regular expression for a user name: not empty, comma and equals sign escaped, at most 256 of them."""
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE}){{0,64}}"
BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"
"""A regular expression for base64 with padding."""

_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<channel>{BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>{_VALUE_SAFE})|v=(?P<signature>{BASE64})){_EXTENSIONS}")

NO_CHANNEL_BINDING: Final = "n,,"
"""The gs2 header of a client without channel binding and without an authorization id."""


class ScramError(Exception):
    """The error for a message that breaks the rules of SCRAM, or proves nothing. Its text holds no secret."""


def _match(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    # Bytes that are not UTF-8 become U+FFFD, which no field allows.
    match = pattern.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise ScramError(f"Invalid SCRAM {name} message format")
    return match


class ClientFirst(NamedTuple):
    """The client's first message. bare: its text without the gs2 header, which counts for the proof."""

    gs2_header: str
    bare: str
    user: str
    nonce: str
    authorization_id: str
    """The user that the client wants to act as; empty: as itself. Not unescaped, as in Kafka."""
    extensions: Mapping[str, str]

    @classmethod
    def make(cls, user: str, nonce: str, extensions: Mapping[str, str] | None = None) -> ClientFirst:
        """Make the first message of a login as `user`."""
        extensions = extensions or {}
        ending = "".join(f",{name}={value}" for name, value in extensions.items())
        bare = f"n={escape_name(user)},r={nonce}{ending}"
        return cls(NO_CHANNEL_BINDING, bare, user, nonce, "", extensions)

    @classmethod
    def parse(cls, message: bytes) -> ClientFirst:
        """Parse the message. Raises ScramError: it is malformed, or demands channel binding or another extension."""
        match = _match(_CLIENT_FIRST, message, "client first")
        extensions = {}
        for extension in match["extensions"].split(",")[1:]:
            name, _, value = extension.partition("=")
            extensions[name] = value
        return cls(
            match["gs2"],
            match["bare"],
            unescape_name(match["name"]),
            match["nonce"],
            match["authzid"] or "",
            extensions,
        )

    @property
    def is_token(self) -> bool:
        """Whether the user is the id of a delegation token: Kafka's extension `tokenauth=true`."""
        return self.extensions.get("tokenauth", "").lower() == "true"

    def to_bytes(self) -> bytes:
        """Return the message."""
        return (self.gs2_header + self.bare).encode()


class ServerFirst(NamedTuple):
    """The server's first message. text: all of it, which counts for the proof. nonce: the client's and the server's."""

    text: str
    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def make(cls, nonce: str, salt: bytes, iterations: int) -> ServerFirst:
        """Make the message. `nonce`: the client's, followed by the server's."""
        return cls(f"r={nonce},s={b64encode(salt).decode()},i={iterations}", nonce, salt, iterations)

    @classmethod
    def parse(cls, message: bytes) -> ServerFirst:
        """Parse the message. Raises ScramError: it is malformed, or has no iterations."""
        match = _match(_SERVER_FIRST, message, "server first")
        iterations = int(match["iterations"])
        if not iterations:
            raise ScramError("Invalid SCRAM server first message format: invalid iterations 0")
        return cls(match[0], match["nonce"], b64decode(match["salt"]), iterations)


class ClientFinal(NamedTuple):
    """The client's last message. unproved: its text without the proof, which counts for the proof."""

    unproved: str
    channel_binding: bytes
    nonce: str
    proof: bytes

    @classmethod
    def without_proof(cls, gs2_header: str, nonce: str) -> ClientFinal:
        """Make the message, as far as the proof is computed from."""
        channel_binding = gs2_header.encode()
        return cls(f"c={b64encode(channel_binding).decode()},r={nonce}", channel_binding, nonce, b"")

    @classmethod
    def parse(cls, message: bytes) -> ClientFinal:
        """Parse the message. Raises ScramError: it is malformed."""
        match = _match(_CLIENT_FINAL, message, "client final")
        return cls(match["unproved"], b64decode(match["channel"]), match["nonce"], b64decode(match["proof"]))

    def to_bytes(self, proof: bytes) -> bytes:
        """Return the message with its proof."""
        return f"{self.unproved},p={b64encode(proof).decode()}".encode()

    def __repr__(self) -> str:
        return "ClientFinal(hidden)"


class ServerFinal(NamedTuple):
    """The server's last message: an error, or else a signature."""

    error: str | None
    signature: bytes

    @classmethod
    def parse(cls, message: bytes) -> ServerFinal:
        """Parse the message. Raises ScramError: it is malformed."""
        match = _match(_SERVER_FINAL, message, "server final")
        return cls(match["error"], b64decode(match["signature"] or ""))

    def to_bytes(self) -> bytes:
        """Return the message."""
        return f"e={self.error}".encode() if self.error is not None else b"v=" + b64encode(self.signature)


def auth_message(client_first: ClientFirst, server_first: ServerFirst, client_final: ClientFinal) -> bytes:
    """Return AuthMessage: what the proof and the server's signature are computed from."""
    return f"{client_first.bare},{server_first.text},{client_final.unproved}".encode()


def escape_name(user: str) -> str:
    """Return a user name as it stands in a message: `=` and `,` are escaped."""
    return user.replace("=", "=3D").replace(",", "=2C")


def unescape_name(name: str) -> str:
    """Return the user name of a message. The pattern of the message allows `=` in `=2C` and `=3D` only."""
    return name.replace("=2C", ",").replace("=3D", "=")


MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The bounds of Kafka for the iterations of a credential. The upper one bounds the work of a login for its client."""
SALT_BYTES: Final = 20

_CREDENTIAL_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")
_BASE64: Final = re.compile(BASE64)


class ScramFormatter(NamedTuple):
    """One mechanism, and its mathematics. name: in SASL. digest: in hashlib. code: in the requests of KIP-554."""

    name: str
    digest: str
    code: int

    @property
    def digest_bytes(self) -> int:
        """The size in bytes of a digest, and so of every key, proof and signature."""
        return hashlib.new(self.digest).digest_size

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return SaltedPassword. Takes milliseconds. As in Kafka, the password is not normalized by SASLprep."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)

    def stored_key(self, salted_password: bytes) -> bytes:
        """Return StoredKey."""
        return self._hash(self._client_key(salted_password))

    def server_key(self, salted_password: bytes) -> bytes:
        """Return ServerKey."""
        return hmac.digest(salted_password, b"Server Key", self.digest)

    def client_proof(self, salted_password: bytes, auth_message: bytes) -> bytes:
        """Return the ClientProof that a client sends."""
        signature = hmac.digest(self.stored_key(salted_password), auth_message, self.digest)
        return _xor(self._client_key(salted_password), signature)

    def is_valid_proof(self, stored_key: bytes, auth_message: bytes, proof: bytes) -> bool:
        """Return whether the sender of a proof knows the password. Compares in constant time."""
        if len(proof) != len(stored_key):
            return False
        client_key = _xor(proof, hmac.digest(stored_key, auth_message, self.digest))
        return hmac.compare_digest(self._hash(client_key), stored_key)

    def server_signature(self, server_key: bytes, auth_message: bytes) -> bytes:
        """Return the ServerSignature, by which a client sees that the server has its credential."""
        return hmac.digest(server_key, auth_message, self.digest)

    def _hash(self, data: bytes) -> bytes:
        # The constructor by name costs a third of `hashlib.new`.
        digest: bytes = getattr(hashlib, self.digest)(data).digest()
        return digest

    def _client_key(self, salted_password: bytes) -> bytes:
        return hmac.digest(salted_password, b"Client Key", self.digest)


SCRAM_SHA_256: Final = ScramFormatter("SCRAM-SHA-256", "sha256", 1)
SCRAM_SHA_512: Final = ScramFormatter("SCRAM-SHA-512", "sha512", 2)
SCRAM_MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
"""Name -> mechanism."""


class StoredScramCredential(NamedTuple):
    """What a server keeps of a user's password: made where the password is set, read by each login.

    Its keys are secret: with them a server can be impersonated, and a password guessed. The text is Kafka's form of a
    user's settings, so data directories and tools agree:
    `salt=c2FsdA==,stored_key=...,server_key=...,iterations=4096`.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(
        cls,
        mechanism: ScramFormatter,
        password: str,
        iterations: int = MIN_ITERATIONS,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> StoredScramCredential:
        """Make the credential of a password, with a new salt. Takes milliseconds."""
        salt = random_bytes(SALT_BYTES)
        return cls.of_salted_password(
            mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations
        )

    @classmethod
    def of_salted_password(
        cls, mechanism: ScramFormatter, salted_password: bytes, salt: bytes, iterations: int
    ) -> StoredScramCredential:
        """Make the credential of a SaltedPassword, the form in which AlterUserScramCredentials sends a password."""
        return cls(salt, mechanism.stored_key(salted_password), mechanism.server_key(salted_password), iterations)

    @classmethod
    def parse(cls, text: str) -> StoredScramCredential:
        """Parse Kafka's form. Raises ValueError: a field is missing, unknown, repeated or malformed."""
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in _CREDENTIAL_FIELDS or name in fields:
                raise ValueError(f"A SCRAM credential has the fields {', '.join(_CREDENTIAL_FIELDS)}, each once")
            fields[name] = value
        if len(fields) != len(_CREDENTIAL_FIELDS):
            raise ValueError(f"A SCRAM credential has the fields {', '.join(_CREDENTIAL_FIELDS)}, each once")
        iterations = fields["iterations"]
        if not (iterations.isascii() and iterations.isdigit()):
            raise ValueError("The iterations of a SCRAM credential are a number")
        salt, stored_key, server_key = (_decoded(fields[name]) for name in _CREDENTIAL_FIELDS[:3])
        return cls(salt, stored_key, server_key, int(iterations))

    def to_text(self) -> str:
        """Return Kafka's form."""
        salt, stored_key, server_key = (b64encode(each).decode() for each in self[:3])
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    def __repr__(self) -> str:
        return f"StoredScramCredential(iterations={self.iterations}, keys hidden)"


class TokenCredential(NamedTuple):
    """The credential of a delegation token. owner: the name of the principal that it stands for."""

    owner: str
    credential: StoredScramCredential
    expires_ms: int


class ScramCredentials(Protocol):
    """The credentials that logins are checked against. Any thread may ask; no call waits."""

    def of_user(self, mechanism: ScramFormatter, user: str) -> StoredScramCredential | None:
        """Return a user's credential; None if there is none."""

    def of_token(self, mechanism: ScramFormatter, token_id: str) -> TokenCredential | None:
        """Return the credential of a delegation token that is valid now; None if there is none."""


def _xor(first: bytes, second: bytes) -> bytes:
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).to_bytes(len(first), "big")


def _decoded(value: str) -> bytes:
    # The message has no value: it is a secret.
    if not _BASE64.fullmatch(value):
        raise ValueError("The salt and the keys of a SCRAM credential are base64")
    return b64decode(value)
