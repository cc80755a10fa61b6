"""The manager of delegation tokens: creates, renews and expires them in the store, and keeps the broker's cache.

Made by `broker` when `delegation.token.secret.key` is set. Handlers call it on request handlers' threads, the notices
and the check for expired tokens run on the scheduler's, and Processors ask for credentials. `_lock` serialises all
changes: a notice that is read while a token is being changed must not bring the earlier state back. It is taken before
the cache's lock. Kafka: DelegationTokenManager, DelegationTokenManagerZk.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from barnabas.config.config_values import ConfigValues
from barnabas.config.setting import Settings, computed, setting
from barnabas.metadata.change_notice_listener import ChangeNoticeListener
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.uuid import random_uuid, uuid_to_string
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.security.delegation_token import DelegationToken, TokenCache, TokenInformation, token_hmac
from barnabas.security.principal import Principal
from barnabas.security.sasl.scram_mechanism import ScramFormatter, TokenCredential
from barnabas.zk.znodes.token_znodes import TokenZnodes
from barnabas.zk.znodes.znode_json import ZnodeFormatError

logger = logging.getLogger(__name__)


def _secret_key(config: ConfigValues) -> str | None:
    # KIP-681 renamed the setting; the new name comes first.
    names = ("delegation.token.secret.key", "delegation.token.master.key")
    return next((secret for secret in map(config.optional_string, names) if secret), None)


class TokenConfig(Settings):
    """The settings of delegation tokens. secret_key: signs them, and is never shown; None: there are no tokens."""

    secret_key: str | None = computed(_secret_key, "delegation.token.secret.key", "delegation.token.master.key")
    max_lifetime_ms: int = setting("delegation.token.max.lifetime.ms")
    expiry_time_ms: int = setting("delegation.token.expiry.time.ms")
    expiry_check_interval_ms: int = setting("delegation.token.expiry.check.interval.ms")

    def __repr__(self) -> str:
        return f"TokenConfig(secret_key=[hidden], max_lifetime_ms={self.max_lifetime_ms})"


class DelegationTokenManager:
    """The tokens of the cluster. Every change may raise StoreError."""

    def __init__(self, config: TokenConfig, znodes: TokenZnodes, cache: TokenCache, clock: Clock) -> None:
        """Raises ValueError: the settings have no secret key, and without one anybody could make tokens."""
        if config.secret_key is None:
            raise ValueError("Delegation tokens need delegation.token.secret.key")
        self._secret_key = config.secret_key
        self._config = config
        self._znodes = znodes
        self._cache = cache
        self._clock = clock
        self._lock = threading.Lock()
        self._notices: ChangeNoticeListener | None = None

    # -- life

    def start(self, scheduler: Scheduler) -> None:
        """Load all tokens, follow their changes, and remove expired ones from time to time."""
        self._znodes.make_sure_paths_exist()
        self._notices = ChangeNoticeListener(
            self._znodes.notices, self._token_changed, scheduler, self._clock, "delegation-token-changes"
        )
        self._notices.start(self._load)
        interval_ms = self._config.expiry_check_interval_ms
        scheduler.schedule("delete-expired-tokens", self.remove_expired, delay_ms=interval_ms, period_ms=interval_ms)

    def stop(self) -> None:
        """Stop following changes. When this returns, no notice is being read."""
        if self._notices is not None:
            self._notices.stop()

    def _load(self) -> None:
        with self._lock:
            ids = self._znodes.ids()
            logger.info("Loading the token cache. Total token count: %d", len(ids))
            for token_id in ids:
                try:
                    self._take_from_store(token_id)
                except ZnodeFormatError:
                    logger.exception("Ignoring the delegation token %s", token_id)

    def _token_changed(self, notice: bytes) -> None:
        token_id = notice.decode()
        with self._lock:
            self._take_from_store(token_id)

    def _take_from_store(self, token_id: str) -> None:
        information = self._znodes.read(token_id)
        if information is None:
            self._cache.remove(token_id)
        else:
            self._cache.put(self._signed(information))

    def _signed(self, information: TokenInformation) -> DelegationToken:
        return DelegationToken(information, token_hmac(information.token_id, self._secret_key))

    # -- changes

    def create(self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int) -> DelegationToken:
        """Create a token and return it. max_lifetime_ms: from 1 on, at most the setting's; any other: the setting's."""
        limit_ms = self._config.max_lifetime_ms
        lifetime_ms = limit_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, limit_ms)
        token_id = uuid_to_string(random_uuid())
        with self._lock:
            now_ms = self._clock.milliseconds()
            max_timestamp_ms = now_ms + lifetime_ms
            information = TokenInformation(
                token_id=token_id,
                owner=owner,
                requester=requester,
                renewers=tuple(renewers),
                issue_timestamp_ms=now_ms,
                max_timestamp_ms=max_timestamp_ms,
                expiry_timestamp_ms=min(max_timestamp_ms, now_ms + self._config.expiry_time_ms),
            )
            token = self._write(information)
        logger.info("Created a delegation token: %s for owner: %s", token_id, owner)
        return token

    def renew(self, principal: str, hmac: bytes, renew_period_ms: int) -> int:
        """Let a token live for another period, the setting's if it is negative. Return its new expiry timestamp (ms).

        Raises ApiError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
        """
        period_ms = self._config.expiry_time_ms if renew_period_ms < 0 else renew_period_ms
        with self._lock:
            information = self._of(principal, hmac)
            expiry_ms = self._set_expiry(information, period_ms)
        logger.info("Delegation token renewed for token: %s for owner: %s", information.token_id, information.owner)
        return expiry_ms

    def expire(self, principal: str, hmac: bytes, period_ms: int) -> int:
        """Let a token end after a period, at once if it is negative. Return its new expiry timestamp (ms).

        Raises ApiError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
        """
        with self._lock:
            information = self._of(principal, hmac)
            if period_ms < 0:
                # A token that has expired and is not removed yet is removed as well.
                self._remove(information.token_id)
                expiry_ms = self._clock.milliseconds()
            else:
                expiry_ms = self._set_expiry(information, period_ms)
        logger.info("Updated expiry time for token: %s for owner: %s", information.token_id, information.owner)
        return expiry_ms

    def remove_expired(self) -> None:
        """Remove the tokens whose time is over."""
        with self._lock:
            now_ms = self._clock.milliseconds()
            for token in self._cache.all():
                information = token.information
                if information.is_expired(now_ms):
                    logger.info(
                        "Delegation token expired for token: %s for owner: %s", information.token_id, information.owner
                    )
                    self._remove(information.token_id)

    def _of(self, principal: str, hmac: bytes) -> TokenInformation:
        """Return the token with this HMAC, which the principal may change. Raises ApiError as `renew`."""
        token = self._cache.by_hmac(hmac)
        if token is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.information.may_be_renewed_by(principal):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token.information

    def _set_expiry(self, information: TokenInformation, period_ms: int) -> int:
        now_ms = self._clock.milliseconds()
        if information.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        expiry_ms = min(information.max_timestamp_ms, now_ms + period_ms)
        self._write(information._replace(expiry_timestamp_ms=expiry_ms))
        return expiry_ms

    def _write(self, information: TokenInformation) -> DelegationToken:
        token = self._signed(information)
        # The store first: a token that it did not take must not let anybody in.
        self._znodes.write(information)
        self._cache.put(token)
        return token

    def _remove(self, token_id: str) -> None:
        # The store first here, too: a token that is still there would come back at the next start.
        self._znodes.remove(token_id)
        self._cache.remove(token_id)

    # -- reading

    def credential(self, mechanism: ScramFormatter, token_id: str) -> TokenCredential | None:
        """Return the credential for a login by a token, or None for one that is unknown or has expired. Never waits."""
        information = self._cache.information(token_id)
        credential = self._cache.credential(token_id, mechanism.name)
        # Kafka lets a token in until the check for expired ones has removed it, which may take an hour.
        if information is None or credential is None or information.is_expired(self._clock.milliseconds()):
            return None
        owner = Principal.parse(information.owner).name
        expires_ms = min(information.expiry_timestamp_ms, information.max_timestamp_ms)
        return TokenCredential(owner, credential, expires_ms)

    def tokens(self, is_visible: Callable[[TokenInformation], bool]) -> list[DelegationToken]:
        """Return the tokens that a caller may see."""
        return [token for token in self._cache.all() if is_visible(token.information)]
