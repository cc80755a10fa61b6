"""The settings of SASL of one listener.

Made by `broker/` when the listener is opened or checked; immutable. Kafka: BrokerSecurityConfigs, JaasContext.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.config.broker_config_keys import LISTENER_PREFIX
from barnabas.config.config_values import ConfigValues
from barnabas.config.secret import Secret
from barnabas.config.setting import Settings, setting

_LOGIN = ".sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class SaslConfig(Settings):
    """All settings. logins: mechanism, in upper case -> login context, in Java's notation.

    login_of_no_mechanism: a login context without the prefix of a mechanism, which has no effect, as in Kafka.
    """

    enabled_mechanisms: tuple[str, ...] = setting("sasl.enabled.mechanisms")
    max_receive_bytes: int = setting("sasl.server.max.receive.size")
    login_of_no_mechanism: Secret | None = setting("sasl.jaas.config", Secret.of)
    logins: Mapping[str, Secret] = field(default_factory=dict)

    @classmethod
    def of(cls, config: ConfigValues, listener_name: str) -> SaslConfig:
        """Read the settings of a listener: those behind its prefix override the others.

        A login context has the prefixes of its listener and its mechanism:
        `listener.name.<listener>.<mechanism>.sasl.jaas.config`.
        """
        prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."
        logins = {
            name[len(prefix) : -len(_LOGIN)].upper(): Secret(text)
            for name, text in config.originals.items()
            if name.startswith(prefix) and name.endswith(_LOGIN) and len(name) > len(prefix) + len(_LOGIN)
        }
        return cls.from_kafka_config(config.of_listener(listener_name), logins=logins)
