"""Settings of tiered storage: known by name, so that a file that sets them is read; nothing uses them yet.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: RemoteLogManagerConfig.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    NotEmpty,
    Range,
)

NO_TIERS: Final = "there is no tiered storage"

# KIP-405. A topic that asks for remote storage is refused (`log_config`).
REMOTE_STORAGE_KEYS = (
    BOOLEAN("remote.log.storage.system.enable", False, kept=NO_TIERS) | "Whether tiered storage is enabled.",
    STRING("remote.log.storage.manager.impl.prefix", "rsm.config.", NotEmpty(), kept=NO_TIERS)
    | "The prefix of the settings handed to the remote storage manager.",
    STRING("remote.log.metadata.manager.impl.prefix", "rlmm.config.", NotEmpty(), kept=NO_TIERS)
    | "The prefix of the settings handed to the remote metadata manager.",
    STRING("remote.log.storage.manager.class.name", None, NotEmpty(), kept=NO_TIERS)
    | "The Java class of the remote storage manager.",
    STRING("remote.log.storage.manager.class.path", None, kept=NO_TIERS)
    | "The path of the remote storage manager's classes.",
    STRING(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        NotEmpty(),
        kept=NO_TIERS,
    )
    | "The Java class of the remote metadata manager.",
    STRING("remote.log.metadata.manager.class.path", None, kept=NO_TIERS)
    | "The path of the remote metadata manager's classes.",
    STRING("remote.log.metadata.manager.listener.name", None, NotEmpty(), kept=NO_TIERS)
    | "The listener that the remote metadata manager connects to.",
    INT("remote.log.metadata.custom.metadata.max.bytes", 128, AT_LEAST_0, kept=NO_TIERS)
    | "The largest size of the custom metadata of a remote segment.",
    LONG("remote.log.index.file.cache.total.size.bytes", 1_073_741_824, AT_LEAST_1, CLUSTER_WIDE, kept=NO_TIERS)
    | "The disk space for cached indexes of remote segments.",
    INT("remote.log.manager.thread.pool.size", 10, AT_LEAST_1, kept=NO_TIERS)
    | "The number of threads that copy and delete remote segments.",
    INT("remote.log.manager.copier.thread.pool.size", -1, Range(1, or_equal=-1), kept=NO_TIERS)
    | "The number of threads that copy segments to remote storage; -1 follows remote.log.manager.thread.pool.size.",
    INT("remote.log.manager.expiration.thread.pool.size", -1, Range(1, or_equal=-1), kept=NO_TIERS)
    | "The number of threads that expire remote segments; -1 follows remote.log.manager.thread.pool.size.",
    LONG("remote.log.manager.task.interval.ms", 30_000, AT_LEAST_1, kept=NO_TIERS)
    | "How often the tasks of remote storage look for work.",
    LONG("remote.log.manager.task.retry.backoff.ms", 500, AT_LEAST_1, kept=NO_TIERS, is_internal=True)
    | "The first pause before a failed task of remote storage is retried.",
    LONG("remote.log.manager.task.retry.backoff.max.ms", 30_000, AT_LEAST_1, kept=NO_TIERS, is_internal=True)
    | "The longest pause before a failed task of remote storage is retried.",
    DOUBLE("remote.log.manager.task.retry.jitter", 0.2, Range(0, 0.5), kept=NO_TIERS, is_internal=True)
    | "The random fraction of the pause before a failed task of remote storage is retried.",
    INT("remote.log.reader.threads", 10, AT_LEAST_1, kept=NO_TIERS)
    | "The number of threads that read from remote storage.",
    INT("remote.log.reader.max.pending.tasks", 100, AT_LEAST_1, kept=NO_TIERS)
    | "The number of remote reads that may wait; further ones are rejected.",
    LONG("log.local.retention.ms", -2, Range(-2), CLUSTER_WIDE, kept=NO_TIERS)
    | "How long segments stay local after they were copied to remote storage; -2 follows log.retention.ms.",
    LONG("log.local.retention.bytes", -2, Range(-2), CLUSTER_WIDE, kept=NO_TIERS)
    | "How many bytes stay local after they were copied to remote storage; -2 follows log.retention.bytes.",
    LONG("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, AT_LEAST_1, CLUSTER_WIDE, kept=NO_TIERS)
    | "The quota for copies to remote storage.",
    INT("remote.log.manager.copy.quota.window.num", 11, AT_LEAST_1, kept=NO_TIERS)
    | "The number of samples kept for the quota of copies to remote storage.",
    INT("remote.log.manager.copy.quota.window.size.seconds", 1, AT_LEAST_1, kept=NO_TIERS)
    | "The length of a sample of the quota of copies to remote storage.",
    LONG("remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, AT_LEAST_1, CLUSTER_WIDE, kept=NO_TIERS)
    | "The quota for reads from remote storage.",
    INT("remote.log.manager.fetch.quota.window.num", 11, AT_LEAST_1, kept=NO_TIERS)
    | "The number of samples kept for the quota of reads from remote storage.",
    INT("remote.log.manager.fetch.quota.window.size.seconds", 1, AT_LEAST_1, kept=NO_TIERS)
    | "The length of a sample of the quota of reads from remote storage.",
    INT("remote.fetch.max.wait.ms", 500, AT_LEAST_1, CLUSTER_WIDE, kept=NO_TIERS)
    | "How long a fetch waits for remote data.",
)
