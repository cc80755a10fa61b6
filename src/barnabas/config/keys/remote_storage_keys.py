"""Settings of tiered storage: known by name, so that a file that sets them is read; nothing uses them yet.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: RemoteLogManagerConfig.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, NotEmpty, Range, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, LONG_MAX

REMOTE_STORAGE_KEYS = (
    # KIP-405. This version has no remote tier: it keeps these settings, and refuses topics that ask for remote storage
    # (`log_config`).
    ConfigKey("remote.log.storage.system.enable", ConfigType.BOOLEAN, False, "Whether tiered storage is enabled."),
    ConfigKey(
        "remote.log.storage.manager.impl.prefix",
        ConfigType.STRING,
        "rsm.config.",
        "The prefix of the settings handed to the remote storage manager.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.metadata.manager.impl.prefix",
        ConfigType.STRING,
        "rlmm.config.",
        "The prefix of the settings handed to the remote metadata manager.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.storage.manager.class.name",
        ConfigType.STRING,
        None,
        "The Java class of the remote storage manager.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.storage.manager.class.path",
        ConfigType.STRING,
        None,
        "The path of the remote storage manager's classes.",
    ),
    ConfigKey(
        "remote.log.metadata.manager.class.name",
        ConfigType.STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "The Java class of the remote metadata manager.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.metadata.manager.class.path",
        ConfigType.STRING,
        None,
        "The path of the remote metadata manager's classes.",
    ),
    ConfigKey(
        "remote.log.metadata.manager.listener.name",
        ConfigType.STRING,
        None,
        "The listener that the remote metadata manager connects to.",
        NotEmpty(),
    ),
    ConfigKey(
        "remote.log.metadata.custom.metadata.max.bytes",
        ConfigType.INT,
        128,
        "The largest size of the custom metadata of a remote segment.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "remote.log.index.file.cache.total.size.bytes",
        ConfigType.LONG,
        1_073_741_824,
        "The disk space for cached indexes of remote segments.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.thread.pool.size",
        ConfigType.INT,
        10,
        "The number of threads that copy and delete remote segments.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.copier.thread.pool.size",
        ConfigType.INT,
        -1,
        "The number of threads that copy segments to remote storage; -1 follows remote.log.manager.thread.pool.size.",
        Range(1, or_equal=-1),
    ),
    ConfigKey(
        "remote.log.manager.expiration.thread.pool.size",
        ConfigType.INT,
        -1,
        "The number of threads that expire remote segments; -1 follows remote.log.manager.thread.pool.size.",
        Range(1, or_equal=-1),
    ),
    ConfigKey(
        "remote.log.manager.task.interval.ms",
        ConfigType.LONG,
        30_000,
        "How often the tasks of remote storage look for work.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.task.retry.backoff.ms",
        ConfigType.LONG,
        500,
        "The first pause before a failed task of remote storage is retried.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.task.retry.backoff.max.ms",
        ConfigType.LONG,
        30_000,
        "The longest pause before a failed task of remote storage is retried.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.task.retry.jitter",
        ConfigType.DOUBLE,
        0.2,
        "The random fraction of the pause before a failed task of remote storage is retried.",
        Range(0, 0.5),
    ),
    ConfigKey(
        "remote.log.reader.threads",
        ConfigType.INT,
        10,
        "The number of threads that read from remote storage.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.reader.max.pending.tasks",
        ConfigType.INT,
        100,
        "The number of remote reads that may wait; further ones are rejected.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "log.local.retention.ms",
        ConfigType.LONG,
        -2,
        "How long segments stay local after they were copied to remote storage; -2 follows log.retention.ms.",
        Range(-2),
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.local.retention.bytes",
        ConfigType.LONG,
        -2,
        "How many bytes stay local after they were copied to remote storage; -2 follows log.retention.bytes.",
        Range(-2),
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.copy.max.bytes.per.second",
        ConfigType.LONG,
        LONG_MAX,
        "The quota for copies to remote storage.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.copy.quota.window.num",
        ConfigType.INT,
        11,
        "The number of samples kept for the quota of copies to remote storage.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.copy.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of a sample of the quota of copies to remote storage.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.fetch.max.bytes.per.second",
        ConfigType.LONG,
        LONG_MAX,
        "The quota for reads from remote storage.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "remote.log.manager.fetch.quota.window.num",
        ConfigType.INT,
        11,
        "The number of samples kept for the quota of reads from remote storage.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.log.manager.fetch.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of a sample of the quota of reads from remote storage.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "remote.fetch.max.wait.ms",
        ConfigType.INT,
        500,
        "How long a fetch waits for remote data.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
)
