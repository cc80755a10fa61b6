"""Settings that are checked, kept and shown, and that nothing acts on: with the reason why.

The one table of them: docs/configuration.md is made from it, the broker names at start what a file sets of them, and a
test proves that every other setting is read somewhere. Who begins to act on a setting takes it off. Immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.server_defaults import SERVER_DEFAULTS

if TYPE_CHECKING:
    from barnabas.config.kafka_config import KafkaConfig

_BY_REASON: Final = (
    (
        "it belongs to KRaft's metadata quorum",
        """
        broker.heartbeat.interval.ms broker.session.timeout.ms controller.listener.names
        controller.quorum.append.linger.ms controller.quorum.bootstrap.servers
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.quorum.voters eligible.leader.replicas.enable initial.broker.registration.timeout.ms
        metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
        metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms process.roles
        server.max.startup.time.ms zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size
        """,
    ),
    (
        "there is no ZooKeeper",
        """
        zookeeper.clientCnxnSocket zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
        zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable
        zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
        zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type
        zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location
        zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
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
        "there are no transactions yet",
        """
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
        transaction.state.log.load.buffer.size transaction.state.log.min.isr transaction.state.log.num.partitions
        transaction.state.log.replication.factor transaction.state.log.segment.bytes transactional.id.expiration.ms
        """,
    ),
    (
        "there are no TLS, SASL and authorizers yet",
        """
        authorizer.class.name connections.max.reauth.ms delegation.token.expiry.check.interval.ms
        delegation.token.expiry.time.ms delegation.token.master.key delegation.token.max.lifetime.ms
        delegation.token.secret.key password.encoder.cipher.algorithm password.encoder.iterations
        password.encoder.key.length password.encoder.keyfactory.algorithm password.encoder.old.secret
        password.encoder.secret principal.builder.class sasl.client.callback.handler.class sasl.enabled.mechanisms
        sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
        sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
        sasl.mechanism.inter.broker.protocol sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
        sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
        sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class sasl.server.max.receive.size
        ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
        ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
        ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
        ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider ssl.secure.random.implementation
        ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
        ssl.truststore.type
        """,
    ),
    (
        "there is no tiered storage",
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
        "one broker has nobody to replicate with",
        """
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
        inter.broker.protocol.version num.replica.alter.log.dirs.threads num.replica.fetchers
        replica.fetch.backoff.ms replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
        replica.fetch.wait.max.ms replica.selector.class replica.socket.receive.buffer.bytes
        replica.socket.timeout.ms replication.quota.window.num replication.quota.window.size.seconds
        unclean.leader.election.interval.ms
        """,
    ),
    (
        "there is no Java to load it",
        """
        alter.config.policy.class.name alter.config.policy.kraft.compatibility.enable auto.include.jmx.reporter
        client.quota.callback.class create.topic.policy.class.name kafka.metrics.polling.interval.secs
        kafka.metrics.reporters metric.reporters metrics.recording.level security.providers
        """,
    ),
    ("records are always kept in format 2", "log.message.format.version"),
    ("nobody receives clients' metrics", "telemetry.max.bytes"),
    ("nothing in development is offered", "unstable.api.versions.enable unstable.feature.versions.enable"),
)

KEPT_KEYS: Final[Mapping[str, str]] = {name: why for why, names in _BY_REASON for name in names.split()}
"""Name -> why nothing acts on it."""


def kept_settings(config: KafkaConfig) -> list[str]:
    """What was set of these, and to something else than it would be anyway."""
    return sorted(
        name
        for name, text in config.originals.items()
        if name in KEPT_KEYS
        and config.value(name) != BROKER_CONFIG_KEYS[name].default
        and SERVER_DEFAULTS.get(name) != text
    )
