"""The part that hands changed settings of security to the listeners and to the connections between brokers.

Called by DynamicBrokerConfig, one change at a time; has no state, so no lock. Kafka: the ListenerReconfigurable parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.channels.inter_broker_security import InterBrokerConfig, InterBrokerSecurity
from barnabas.broker.channels.listener_channels import ListenerChannels
from barnabas.config.config_values import ConfigValues
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.listeners import ListenersConfig
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler

if TYPE_CHECKING:
    from barnabas.security.sasl.sasl_server import LoginParts
    from barnabas.security.sasl.scram_mechanism import ScramFormatter


class DynamicSecurity:
    """A part that reconfigures the channels of listeners."""

    def __init__(self, channels: ListenerChannels, between_brokers: InterBrokerSecurity) -> None:
        self._channels = channels
        self._between_brokers = between_brokers

    @property
    def settings(self) -> frozenset[str]:
        """The names of the settings that this part follows.

        `listeners` is among them: a listener that is closed is forgotten, a new one is checked. The mechanisms of SASL
        and their users count for listeners that are opened later, as in Kafka.
        """
        from barnabas.security.sasl.sasl_config import SaslConfig
        from barnabas.security.tls.tls_config import KeyStoreConfig, TlsConfig, TrustStoreConfig

        return (
            TlsConfig.dynamic_names()
            | KeyStoreConfig.dynamic_names()
            | TrustStoreConfig.dynamic_names()
            | SaslConfig.dynamic_names()
            | InterBrokerConfig.dynamic_names()
            | ListenersConfig.dynamic_names()
        )

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check the listeners of the proposed settings. Raises ConfigError: one of them could not be served."""
        self.check_files(proposed)

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Take over changed key stores; a listener whose new one cannot be used keeps the old one."""
        self._channels.reconfigure(current)
        self._between_brokers.reload(current)

    def check_files(self, current: KafkaConfig) -> None:
        """Check key stores whose files have changed (FollowsFiles). Raises ConfigError: one cannot be used."""
        self._channels.validate(current)
        self._between_brokers.check(current)

    def reload_files(self, current: KafkaConfig) -> None:
        """Take over key stores whose files have changed (FollowsFiles)."""
        self._channels.reload(current)
        self._between_brokers.reload(current)


def check_security_of_start(config: ConfigValues, clock: Clock, scheduler: Scheduler) -> None:
    """Check the listeners and logins of a start with these settings, as the start itself does.

    Asks no identity provider for its keys: a setting is not wrong because its provider does not answer now. The start
    itself asks once, and reports what it gets.
    Raises ConfigError: a listener could not be served, or this broker could not reach the others.
    """

    def logins() -> LoginParts:
        from barnabas.security.sasl.sasl_server import LoginParts

        return LoginParts(_NoCredentials(), _no_versions, clock, scheduler, asks_providers=False)

    channels = ListenerChannels(lambda: config, clock, logins)
    channels.validate(config)
    InterBrokerSecurity(config, "")


def _no_versions(request: ApiVersionsRequest | None, version: int) -> ApiVersionsResponse:  # noqa: ARG001 - a Protocol's names
    """Return an empty answer: the listeners of a check have no connections."""
    return ApiVersionsResponse()


class _NoCredentials:
    """The credentials of the listeners of a check: there are none."""

    def of_user(self, mechanism: ScramFormatter, user: str) -> None:
        """Return None."""

    def of_token(self, mechanism: ScramFormatter, token_id: str) -> None:
        """Return None."""
