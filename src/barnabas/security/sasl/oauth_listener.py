"""OAUTHBEARER on one listener (RFC 7628): the validator of tokens, made of its settings, and the server of each login.

The validator is made with a SaslListener, on a thread that may wait for the identity provider; it is immutable, and all
logins share it.

Which tokens a listener accepts, it has to say: signed ones, by the URL of the keys, or unsecured ones, by the name of
Kafka's class for them. Kafka accepts unsecured tokens where nothing is said.

Kafka: OAuthBearerSaslServer, OAuthBearerValidatorCallbackHandler, VerificationKeyResolverFactory.
"""

from __future__ import annotations

import logging
from functools import partial

from barnabas.config.config_error import ConfigError
from barnabas.security.sasl.sasl_config import JWKS_URL, SIGNED_HANDLERS, UNSECURED_HANDLER
from barnabas.security.sasl.sasl_server import Login, LoginRejected, MechanismSettings, ServedMechanism, refused
from barnabas.security.sasl.token_claims import (
    MessageMalformed,
    OAuthBearerMessage,
    TokenInvalid,
    TokenValidator,
    UnsecuredTokenValidator,
)

logger = logging.getLogger(__name__)


def serve(settings: MechanismSettings) -> ServedMechanism:
    """Return OAUTHBEARER on a listener (`mechanisms`), with its keys; those of another machine if `asks_providers`.

    Raises ConfigError: the settings do not say which tokens are valid, contradict each other, or there are no keys.
    """
    config, handler, parts = settings.sasl.oauth, settings.handler, settings.parts
    name = f"{settings.prefix}sasl.server.callback.handler.class"
    if handler == UNSECURED_HANDLER:
        if config.jwks_url or config.expected_audience or config.expected_issuer:
            raise ConfigError(f"{name}={handler} believes every token: {JWKS_URL} and its kin have no effect", name)
        options = {} if settings.module is None else settings.module.options
        unsecured = UnsecuredTokenValidator(options, parts.clock, f"{settings.prefix}sasl.jaas.config")
        logger.warning(
            "Listener %s accepts unsecured tokens: any client can be any user. It is for development only",
            settings.listener_name,
        )
        return ServedMechanism(partial(OAuthBearerServer, unsecured))
    if handler is not None and handler not in SIGNED_HANDLERS:
        raise ConfigError(f"{name}={handler}: there is no Java to load the class; use {SIGNED_HANDLERS[0]}", name)
    if not config.jwks_url:
        raise ConfigError(
            f"OAUTHBEARER needs the keys that sign its tokens: set {JWKS_URL}. For development, {name}="
            f"{UNSECURED_HANDLER} accepts tokens without a signature, of everybody",
            JWKS_URL,
        )
    try:
        from barnabas.security.sasl.signed_tokens import (  # noqa: PLC0415 - needs the extra
            SignedTokenValidator,
            SigningKeys,
            is_remote,
        )
    except ImportError:
        raise ConfigError(f"{JWKS_URL} needs the package PyJWT: pip install 'barnabas[oauth]'", JWKS_URL) from None
    keys = SigningKeys(config, parts.scheduler, parts.clock)
    if parts.asks_providers or not is_remote(config.jwks_url):
        keys.load()
    return ServedMechanism(partial(OAuthBearerServer, SignedTokenValidator(keys, config, parts.clock)), keys)


class OAuthBearerServer:
    """The server of one login by a token that an identity provider has issued, on the thread of its channel.

    A rejected token is answered with an error in JSON. The client acknowledges the error, and the login fails: with the
    next message, whatever it is. Kafka would take another token then.
    """

    __slots__ = ("_error", "_validator", "login")

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._error: TokenInvalid | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Take the message with the token, or the acknowledgement of an error. Raises LoginRejected."""
        if self._error is not None:
            raise LoginRejected(f"the token is rejected: {self._error}", self._error.answer)
        try:
            message = OAuthBearerMessage.parse(token)
        except MessageMalformed as error:
            raise LoginRejected(str(error)) from None  # the cause's frames hold the token
        try:
            valid = self._validator.validate(message.token)
        except TokenInvalid as error:
            self._error = error.with_traceback(None)
            return error.answer.encode()
        if message.authorization_id not in ("", valid.user):
            raise refused(
                f"Authentication failed: Client requested an authorization id ({message.authorization_id}) that is "
                f"different from the token's principal name ({valid.user})"
            )
        self.login = Login(valid.user, expires_ms=valid.expires_ms)
        return b""
