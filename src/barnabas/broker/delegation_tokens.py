"""The delegation tokens of a broker: their manager, with a cache that holds SCRAM credentials for logins by token.

Called by `front_stage` on the main thread, before the first connection is accepted.
Kafka: the lines about DelegationTokenManager in KafkaServer.startup.
"""

from __future__ import annotations

from barnabas.broker.foundations import Foundations
from barnabas.metadata.delegation_tokens import DelegationTokenManager, TokenConfig
from barnabas.security.sasl.scram_credential import ScramCredential
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS
from barnabas.security.tokens.token_cache import TokenCache
from barnabas.zk.kafka_zk_client import KafkaZkClient


def start_delegation_tokens(foundations: Foundations, zk_client: KafkaZkClient) -> DelegationTokenManager | None:
    """Load the tokens in the store and follow their changes. Returns None without `delegation.token.secret.key`."""
    config = TokenConfig.from_kafka_config(foundations.static)
    if config.secret_key is None:
        return None
    manager = DelegationTokenManager(config, zk_client.tokens, TokenCache(_credentials), foundations.clock)
    manager.start(foundations.scheduler)
    foundations.lifecycle.on_stop("delegation tokens", manager.stop)
    return manager


def _credentials(password: str) -> dict[str, ScramCredential]:
    """Return the credentials of a token's password, with the fewest iterations: the password is long and random."""
    return {name: ScramCredential.of_password(each, password) for name, each in SCRAM_MECHANISMS.items()}
