"""The settings that are checked, kept and shown, but that no part acts on, each with the reason.

This is the only table of such settings. docs/configuration.md is generated from it, a broker logs at start and at every
change which of these settings were given, and a test proves that a config class declares every other setting. A change
that makes a part act on a setting removes the setting from this table. Immutable. Kafka: no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import ConfigKey
from barnabas.config.dynamic_settings import base_name
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.keys.plugin_keys import AUTHORIZER_SETTINGS, is_of_plugin
from barnabas.config.server_defaults import SERVER_DEFAULTS

_NO_TIERS: Final = "there is no tiered storage"
_FORMAT_2: Final = "records are always kept in format 2"
_NO_PLUGINS: Final = "there is no Java to load plug-ins"

_BY_REASON: Final = (
    (
        "there is no KRaft quorum",
        """
        broker.heartbeat.interval.ms broker.session.timeout.ms
        controller.quorum.append.linger.ms controller.quorum.bootstrap.servers
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.quorum.voters eligible.leader.replicas.enable initial.broker.registration.timeout.ms
        metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
        metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms process.roles
        server.max.startup.time.ms unclean.leader.election.interval.ms zookeeper.metadata.migration.enable
        zookeeper.metadata.migration.min.batch.size
        """,
    ),
    (
        "there is one group coordinator, which works on the threads of requests and of the scheduler",
        "group.coordinator.append.linger.ms group.coordinator.new.enable group.coordinator.threads",
    ),
    (
        "there are no share groups yet",
        """
        group.share.delivery.count.limit group.share.enable group.share.heartbeat.interval.ms group.share.max.groups
        group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
        group.share.max.session.timeout.ms group.share.max.size group.share.min.heartbeat.interval.ms
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
        """,
    ),
    (
        "brokers log in to each other by a password, not by Kerberos or tokens",
        """
        sasl.client.callback.handler.class sasl.kerberos.kinit.cmd
        sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
        sasl.oauthbearer.token.endpoint.url
        """,
    ),
    (
        "TLS is OpenSSL's, and not Java's",
        "ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm",
    ),
    ("ssl.enabled.protocols decides which versions of TLS are used", "ssl.protocol"),
    (
        _NO_TIERS,
        """
        log.local.retention.bytes log.local.retention.ms remote.fetch.max.wait.ms
        remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
        remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
        remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
        remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
        """,
    ),
    (
        "there is no Java to load classes",
        """
        alter.config.policy.kraft.compatibility.enable auto.include.jmx.reporter kafka.metrics.polling.interval.secs
        kafka.metrics.reporters metric.reporters metrics.recording.level security.providers
        """,
    ),
    (_FORMAT_2, "log.message.format.version"),
    ("no part receives the metrics of clients", "telemetry.max.bytes"),
    ("nothing in development is offered", "unstable.api.versions.enable unstable.feature.versions.enable"),
)

KEPT_KEYS: Final[Mapping[str, str]] = {name: why for why, names in _BY_REASON for name in names.split()}
"""Name of a broker's setting -> why nothing acts on it."""

KEPT_TOPIC_KEYS: Final[Mapping[str, str]] = {
    "local.retention.bytes": _NO_TIERS,
    "local.retention.ms": _NO_TIERS,
    "message.format.version": _FORMAT_2,
    "remote.log.copy.disable": _NO_TIERS,
    "remote.log.delete.on.disable": _NO_TIERS,
    "remote.storage.enable": _NO_TIERS,
}
"""Name of a topic's setting -> why nothing acts on it."""


def why_nothing_acts(name: str) -> str | None:
    """Return why nothing acts on a broker's setting, also behind a listener's prefix; None if some part does."""
    if name in AUTHORIZER_SETTINGS:
        return None
    if is_of_plugin(name):
        return _NO_PLUGINS
    return KEPT_KEYS.get(base_name(name))


def documentation_of(key: ConfigKey) -> str:
    """Return the description of a broker's setting, which also says when nothing acts on it."""
    why = why_nothing_acts(key.name)
    return key.documentation if why is None else f"{key.documentation} Kept only: {why}."


def kept_settings(config: KafkaConfig) -> dict[str, str]:
    """Return the settings that were given, that change a default, and that nothing acts on: name -> why."""
    return {
        name: why
        for name, text in sorted(config.originals.items())
        if (why := why_nothing_acts(name)) is not None
        # A default that is written out changes nothing, and so misleads no reader; a plug-in's default is not known.
        and (is_of_plugin(name) or config.value(name) != BROKER_CONFIG_KEYS[base_name(name)].default)
        and SERVER_DEFAULTS.get(name) != text
    }


def by_reason(kept: Mapping[str, str]) -> str:
    """Return the text for a message about such settings: name, name (why); name (why)."""
    names_of: dict[str, list[str]] = {}
    for name, why in kept.items():
        names_of.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in names_of.items())
