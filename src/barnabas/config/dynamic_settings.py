"""Settings that may change while the broker runs: which ones, their synonyms, and how changes are laid over a file.

Pure functions over the table of broker settings, used by the checks of a change, by DescribeConfigs and by
BrokerSettings, the immutable result, which any thread reads. The messages are Kafka's. One difference: a name that no
table has is rejected; Kafka keeps it for its plug-ins. Kafka: DynamicBrokerConfig, DynamicConfig.Broker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_error import ConfigError, StepTooLarge
from barnabas.config.config_key import AT_LEAST_0, CLUSTER_WIDE, LONG, LONG_MAX, ConfigKey, ConfigType, Scope
from barnabas.config.config_values import ConfigValues
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.keys.plugin_keys import is_of_plugin

_LISTENER_SETTING = re.compile(r"listener\.name\.[^.]*\.(.*)")

DYNAMIC_ONLY_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        LONG("leader.replication.throttled.rate", LONG_MAX, AT_LEAST_0, CLUSTER_WIDE)
        | "The bytes per second that throttled replicas may read from leaders.",
        LONG("follower.replication.throttled.rate", LONG_MAX, AT_LEAST_0, CLUSTER_WIDE)
        | "The bytes per second that throttled replicas may fetch.",
        LONG("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, AT_LEAST_0, CLUSTER_WIDE)
        | "The bytes per second for moves between log directories.",
    )
}
"""Settings of a broker that can only be set by requests. Kafka: QuotaConfigs.brokerQuotaConfigs."""

# The following sets repeat facts about Kafka's own settings, which do not follow from types or scopes: they decide
# which of Kafka's messages a wrong change gets, and tools compare those messages.

STORES_OF_LISTENERS: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.truststore.certificates",
        "ssl.crl.location",  # ours
    }
)
"""Settings that may change for one listener and not for all. Kafka: SslConfigs.RECONFIGURABLE_CONFIGS."""

LISTENER_SETTINGS_FOR_ALL: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Settings of one listener that may be changed for all brokers at once. Kafka: ClusterLevelListenerConfigs."""

_OF_MECHANISMS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Settings that stand behind the prefixes of a listener and a SASL mechanism. Kafka: ListenerMechanismConfigs."""

_PASSWORDS: Final = tuple(
    name
    for name, key in BROKER_CONFIG_KEYS.items()
    if key.type is ConfigType.PASSWORD and key.scope is not Scope.READ_ONLY
)

_THREAD_COUNTS: Final = tuple(name for name, key in BROKER_CONFIG_KEYS.items() if key.is_thread_count)

# One value under several names, of which the first that is set counts. As in Kafka a change of one takes the others out
# of the merged settings, so that only the name that counts is left. The flush interval is one-sided: the scheduler's
# interval gives its default, but has a meaning of its own, and a change of it takes nothing out.
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    name: names
    for names in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in names
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}


def base_name(name: str) -> str:
    """Return the setting's name without a listener's prefix."""
    match = _LISTENER_SETTING.fullmatch(name)
    return match[1] if match else name


def is_dynamic(name: str) -> bool:
    """Tell whether DescribeConfigs shows the setting as one that can be changed."""
    key = BROKER_CONFIG_KEYS.get(name)
    return key is not None and key.scope is not Scope.READ_ONLY


def is_password(name: str) -> bool:
    """Tell whether the setting is a secret that can be changed. Kafka: DynamicBrokerConfig.isPasswordConfig."""
    return any(name.endswith(password) for password in _PASSWORDS)


def synonyms_of(name: str) -> tuple[str, ...]:
    """Return the names that can give the value of `name`, itself among them; the one that counts most comes first."""
    base = base_name(name)
    if base != name:
        return (name, next((setting for setting in _OF_MECHANISMS if base.endswith(setting)), base))
    return _SYNONYMS.get(name, (name,))


def apply_changes(settings: MutableMapping[str, str], changes: Mapping[str, str]) -> None:
    """Put `changes` into `settings`, and take out their synonyms: the latest change counts, whatever its name.

    `log.retention.ms=5000` over a file with `log.retention.hours=1` leaves the former only. A setting of one listener
    leaves the setting of all listeners in place. Kafka: DynamicBrokerConfig.overrideProps.
    """
    for name, value in changes.items():
        for synonym in _SYNONYMS.get(name, ()):
            settings.pop(synonym, None)
        settings[name] = value


def check_dynamic_settings(settings: Mapping[str, str], *, per_broker: bool) -> None:
    """Check each setting by itself; rules between settings are checked with the whole configuration.

    per_broker: the settings are for one broker, and not for all.

    Raises ConfigError: a setting is unknown, may not change while the broker runs or not at this level, or has a value
    that does not fit.
    """
    # The order is Kafka's: of several mistakes a client hears of the same one.
    _refuse(_read_only(settings), "Cannot update these configs dynamically")
    _refuse(
        STORES_OF_LISTENERS.intersection(settings),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        kind="HashSet",
    )
    for name, value in settings.items():
        _check_value(name, value)
    if not per_broker:
        _refuse(
            _for_one_broker(settings),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    unknown = [name for name in settings if not _is_known(name)]
    if unknown:
        raise ConfigError(f"Unknown Dynamic Configuration: {_set_of(unknown)}.", unknown[0])


def check_thread_counts(current: ConfigValues, proposed: ConfigValues) -> None:
    """Check every pool whose size changes.

    Raises StepTooLarge: a size is not at least half and at most double what it was. Raises ConfigError: it is zero.
    """
    for name in _THREAD_COUNTS:
        check_thread_count(name, current.integer(name), proposed.integer(name))


def check_thread_count(name: str, old: int, new: int) -> None:
    """Check one pool's new size. Raises as `check_thread_counts` does."""
    if new == old:
        return
    failed = f"Dynamic thread count update validation failed for {name}={new}"
    if new <= 0:
        raise ConfigError(f"{failed}, value should be at least 1", name)
    if new < old // 2:
        raise StepTooLarge(f"{failed}, value should be at least half the current value {old}", name)
    if new > old * 2:
        raise StepTooLarge(f"{failed}, value should not be greater than double the current value {old}", name)


def usable_settings(stored: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], list[str]]:
    """Return the settings of the store that can be used, and a complaint about each of the others, for the log.

    Kafka: fromPersistentProps and removeInvalidConfigs.
    """
    usable, complaints = {}, []
    for name, value in stored.items():
        try:
            check_dynamic_settings({name: value}, per_broker=per_broker)
        except ConfigError as error:
            complaints.append(error.message)
        else:
            usable[name] = value
    return usable, complaints


def _check_value(name: str, value: str) -> None:
    base = base_name(name)
    key = DYNAMIC_ONLY_KEYS.get(base) or (BROKER_CONFIG_KEYS[base] if is_dynamic(base) else None)
    if key is not None:
        key.parse(value)


def _is_known(name: str) -> bool:
    if is_of_plugin(name) or name in DYNAMIC_ONLY_KEYS:
        return True
    base = base_name(name)
    return base in BROKER_CONFIG_KEYS or (base != name and base.partition(".")[2] in BROKER_CONFIG_KEYS)


def _read_only(settings: Collection[str]) -> list[str]:
    return [name for name in settings if name in BROKER_CONFIG_KEYS and not is_dynamic(name)]


def _for_one_broker(settings: Collection[str]) -> list[str]:
    def is_for_one_broker(name: str) -> bool:
        base = base_name(name)
        if base != name:
            return base not in LISTENER_SETTINGS_FOR_ALL
        return is_dynamic(name) and BROKER_CONFIG_KEYS[name].scope is Scope.PER_BROKER

    return [name for name in settings if is_for_one_broker(name)]


# Kafka prints a Scala set, whose class depends on how it was made; small ones are "Set", filtered ones "HashSet".
def _refuse(names: Collection[str], why: str, *, kind: str = "Set") -> None:
    """Reject names, if there are any. kind: the class of Scala's set, which Kafka's message prints.

    Raises ConfigError: there are names.
    """
    if names:
        raise ConfigError(f"{why}: {_set_of(names, kind)}", min(names))


def _set_of(names: Collection[str], kind: str = "Set") -> str:
    return f"{kind}({', '.join(sorted(names))})"


_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A broker's current settings and their sources. `broker.settings.dynamic_broker_config` replaces them as a whole.

    static: from the file. of_cluster, of_broker: changes for all brokers and for this one. current: all together. The
    first source that has a setting counts: of_broker, of_cluster, the file, the defaults.
    """

    static: KafkaConfig
    of_cluster: Mapping[str, str]
    of_broker: Mapping[str, str]
    current: KafkaConfig

    @classmethod
    def of(
        cls, static: KafkaConfig, of_cluster: Mapping[str, str] = _NONE, of_broker: Mapping[str, str] = _NONE
    ) -> BrokerSettings:
        """Lay the changes over the file's settings. Raises ConfigError: the settings contradict one another."""
        current = static
        if of_cluster or of_broker:
            merged = dict(static.originals)
            apply_changes(merged, of_cluster)
            apply_changes(merged, of_broker)
            # Throttles exist as changes only: `KafkaConfig` would reject them as unknown settings of a file.
            in_files = {name: value for name, value in merged.items() if name not in DYNAMIC_ONLY_KEYS}
            current = KafkaConfig.parse(in_files, static.source, tolerated=static.unknown)
        return cls(static, of_cluster, of_broker, current)

    def throttle(self, name: str) -> int:
        """Return the rate of a throttle, in bytes a second: this broker's, or all brokers', or its default."""
        key = DYNAMIC_ONLY_KEYS[name]
        text = self.of_broker.get(name, self.of_cluster.get(name))
        rate = key.default if text is None else key.parse(text)
        assert isinstance(rate, int), name
        return rate

    def with_cluster(self, settings: Mapping[str, str]) -> BrokerSettings:
        """Return the settings with these changes for all brokers. Raises ConfigError as `of` does."""
        return BrokerSettings.of(self.static, settings, self.of_broker)

    def with_broker(self, settings: Mapping[str, str]) -> BrokerSettings:
        """Return the settings with these changes for this broker. Raises ConfigError as `of` does."""
        return BrokerSettings.of(self.static, self.of_cluster, settings)
