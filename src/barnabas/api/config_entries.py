"""Settings as the API shows them: the value, its source, and the other values that would apply.

Called by the configs and topics handlers. Pure functions over the tables of `barnabas.config`.

Kafka: ConfigHelper.createTopicConfigEntry, createBrokerConfigEntry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS, find_key
from barnabas.config.config_key import PASSWORD, ConfigKey
from barnabas.config.dynamic_settings import DYNAMIC_ONLY_KEYS, BrokerSettings, is_dynamic, synonyms_of
from barnabas.config.log_config import topic_values
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from barnabas.protocol.codes import ConfigSource

Wanted = Callable[[str], bool]


def _all(_name: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A setting that gives, or would give, the value: the first of a list is the one in force."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    """One setting of a topic or broker. value: None when it has none, or when it is a secret."""

    key: ConfigKey
    value: str | None
    source: ConfigSource
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]


def topic_entries(
    settings: BrokerSettings, overrides: Mapping[str, str], wanted: Wanted = _all
) -> list[DescribedSetting]:
    """Return every wanted setting of a topic with these overrides, on a broker with these settings."""
    values = topic_values(settings.current, overrides)
    entries = []
    for name, topic_key in TOPIC_CONFIG_KEYS.items():
        if wanted(name):
            value = topic_key.key.text(values[name])
            own = (ConfigSynonym(name, value, ConfigSource.TOPIC),) if name in overrides else ()
            synonyms = own + (_synonyms(settings, topic_key.synonyms[0].name) if topic_key.synonyms else ())
            entries.append(_entry(topic_key.key, value, synonyms, is_read_only=False))
    return entries


def broker_entries(
    settings: BrokerSettings, advertised_listeners: str | None, wanted: Wanted = _all
) -> list[DescribedSetting]:
    """Return every wanted setting of this broker: those of the table, and others that are set (a listener's, a
    plug-in's).

    advertised_listeners: the listeners that answers name now; None before the broker knows them.
    """
    entries = []
    for name, key in BROKER_CONFIG_KEYS.items():
        if wanted(name) and (not key.is_internal or settings.current.is_set(name)):
            value, synonyms = settings.current.text(name), _synonyms(settings, name)
            if name == "advertised.listeners" and not synonyms and advertised_listeners is not None:
                synonyms = _listeners_given_at_start(settings)
                value = advertised_listeners if synonyms else value
            entries.append(_entry(key, value, synonyms, is_read_only=not is_dynamic(name)))
    others = {**settings.current.originals, **_dynamic_only(settings.of_cluster), **_dynamic_only(settings.of_broker)}
    for name, value in others.items():
        if name not in BROKER_CONFIG_KEYS and wanted(name):
            key = _key_of(name)
            # A secret is never shown, not even to a client that may set it.
            shown = None if key.is_sensitive else value
            entries.append(_entry(key, shown, _synonyms(settings, name), is_read_only=True))
    return entries


def default_broker_entries(settings: BrokerSettings, wanted: Wanted = _all) -> list[DescribedSetting]:
    """Return every wanted setting that was changed for all brokers."""
    entries = []
    for name, value in settings.of_cluster.items():
        if wanted(name):
            key = _key_of(name)
            shown = None if key.is_sensitive else value
            synonyms = tuple(
                synonym
                for synonym in _synonyms(settings, name)
                if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
            )
            entries.append(_entry(key, shown, synonyms, is_read_only=not is_dynamic(name)))
    return entries


def _entry(
    key: ConfigKey, value: str | None, synonyms: tuple[ConfigSynonym, ...], *, is_read_only: bool
) -> DescribedSetting:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return DescribedSetting(key, value, source, is_read_only, synonyms)


def _dynamic_only(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name in DYNAMIC_ONLY_KEYS}


def _key_of(name: str) -> ConfigKey:
    """Return the definition of a setting; one that no table knows may be a secret."""
    key = find_key(name) or DYNAMIC_ONLY_KEYS.get(name)
    return PASSWORD(name, None) | "" if key is None else key._replace(name=name)


def _synonyms(settings: BrokerSettings, name: str) -> tuple[ConfigSynonym, ...]:
    """Return the sources that give, or would give, the value of a broker setting.

    The order: changed for this broker, changed for all brokers, set in the file, the default; within each, by which of
    the setting's names was used. As in Kafka, sources of a name come only after a source of the name itself:
    `log.retention.hours` is shown only together with a `log.retention.ms`.
    """
    sources = (
        (settings.of_broker, ConfigSource.DYNAMIC_BROKER),
        (settings.of_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (settings.static.originals, ConfigSource.STATIC_BROKER),
        (_DEFAULTS, ConfigSource.DEFAULT),
    )
    names = synonyms_of(name)
    is_sensitive = _key_of(name).is_sensitive
    synonyms = [
        ConfigSynonym(synonym, texts[synonym], source)
        for texts, source in sources
        for synonym in names
        if synonym in texts
    ]
    first = next((place for place, synonym in enumerate(synonyms) if synonym.name == name), len(synonyms))
    shown = synonyms[first:]
    return tuple(replace(synonym, value=None) for synonym in shown) if is_sensitive else tuple(shown)


def _listeners_given_at_start(settings: BrokerSettings) -> tuple[ConfigSynonym, ...]:
    """Return `listeners` of the file or the command line, which decides what is advertised when nothing else does.

    Kafka shows an `advertised.listeners` that is not set as null, by default, whatever Metadata answers. The source
    here is never a dynamic one, even when `listeners` was changed while the broker runs: tools older than
    IncrementalAlterConfigs send back every dynamic setting that they were shown. That would pin the advertised
    listeners, and later changes of `listeners` would no longer be advertised.
    """
    listeners = settings.static.originals.get("listeners")
    return () if listeners is None else (ConfigSynonym("listeners", listeners, ConfigSource.STATIC_BROKER),)


_DEFAULTS: Mapping[str, str] = {
    name: text for name, key in BROKER_CONFIG_KEYS.items() if (text := key.text(key.default)) is not None
}
