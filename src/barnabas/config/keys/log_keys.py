"""Settings of logs (segments, retention, compaction, flushing, defaults), and of tiered storage, which is missing.

Two tables, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: ServerLogConfigs, CleanerConfig, RemoteLogManagerConfig.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import (
    AT_LEAST_0,
    AT_LEAST_1,
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    METADATA_VERSIONS,
    STRING,
    NotEmpty,
    OneOf,
    Range,
)

LOG_KEYS = (
    # 1 MiB of records and the 12 bytes of offset and length in front of a batch, which Kafka calls the log overhead.
    INT("message.max.bytes", 1_048_588, AT_LEAST_0, CLUSTER_WIDE)
    | "The largest record batch that is accepted, in bytes as sent; max.message.bytes of a topic overrides it.",
    INT("background.threads", 10, AT_LEAST_1, CLUSTER_WIDE, is_thread_count=True)
    | "The number of scheduler threads, which flush logs, apply retention and write checkpoints.",
    STRING(
        "compression.type",
        "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        CLUSTER_WIDE,
    )
    | "The codec of stored batches; `producer` keeps the codec of the producer.",
    # -1 is zlib's own default, which is 6.
    INT("compression.gzip.level", -1, Range(1, 9, or_equal=-1), CLUSTER_WIDE)
    | "The level at which the broker compresses with gzip.",
    INT("compression.lz4.level", 9, Range(1, 17), CLUSTER_WIDE) | "The level at which the broker compresses with lz4.",
    # Negative levels are zstd's fast modes; -131072 is the library's minimum (KIP-390).
    INT("compression.zstd.level", 3, Range(-131072, 22), CLUSTER_WIDE)
    | "The level at which the broker compresses with zstd.",
    # With 0 in the file no log is ever compacted, as in Kafka; a change to 0 at run time is refused (`LogCleaner`).
    INT("log.cleaner.threads", 1, AT_LEAST_0, CLUSTER_WIDE)
    | "The number of threads that compact logs, each with a process of its own.",
    DOUBLE("log.cleaner.io.max.bytes.per.second", DOUBLE_MAX, scope=CLUSTER_WIDE)
    | "The number of bytes that the cleaner may read and write per second.",
    LONG("log.cleaner.dedupe.buffer.size", 134_217_728, scope=CLUSTER_WIDE)
    | "The memory for the cleaner's key maps over all threads; a key takes 24 bytes.",
    INT("log.cleaner.io.buffer.size", 524_288, AT_LEAST_0, CLUSTER_WIDE)
    | "The memory for the cleaner's read and write buffers over all threads.",
    # A fuller map covers more keys in a pass, and costs more collisions for each key.
    DOUBLE("log.cleaner.io.buffer.load.factor", 0.9, scope=CLUSTER_WIDE)
    | "The fraction of a key map that may be filled.",
    LONG("log.cleaner.backoff.ms", 15_000, AT_LEAST_0, CLUSTER_WIDE)
    | "How long the cleaner sleeps when no log needs cleaning.",
    # Also the bound on the space that outdated records take: at 0.5 up to half of a log.
    DOUBLE("log.cleaner.min.cleanable.ratio", 0.5, Range(0, 1), CLUSTER_WIDE)
    | "The smallest fraction of uncleaned bytes at which a log is cleaned.",
    BOOLEAN("log.cleaner.enable", True) | "Whether the log cleaner runs.",
    # A reader that begins at the log start must reach the end within this time: later it may miss a tombstone, and keep
    # a key that was deleted.
    LONG("log.cleaner.delete.retention.ms", 86_400_000, AT_LEAST_0, CLUSTER_WIDE)
    | "How long delete markers (tombstones) of compacted topics are kept.",
    # With 0, records are still safe while their segment is active: the active segment is never compacted.
    LONG("log.cleaner.min.compaction.lag.ms", 0, AT_LEAST_0, CLUSTER_WIDE)
    | "The shortest time that a record stays uncompacted.",
    LONG("log.cleaner.max.compaction.lag.ms", LONG_MAX, AT_LEAST_1, CLUSTER_WIDE)
    | "The longest time that a record may stay uncompacted.",
    INT("num.partitions", 1, AT_LEAST_1) | "The number of partitions of a topic whose creation does not name one.",
    # Kafka's default; the command line gives its own.
    STRING("log.dir", "/tmp/kafka-logs") | "The data directory; log.dirs overrides it.",  # noqa: S108
    STRING("log.dirs", None) | "The data directories, comma-separated.",
    # 14 bytes are the smallest record of Kafka's first format, so that a segment can hold at least one.
    INT("log.segment.bytes", 1_073_741_824, Range(14), CLUSTER_WIDE)
    | "The size at which a segment is closed and the next one begins.",
    # Only the name in milliseconds is dynamic, here and below. In Kafka too a change of it wins over the hours in the
    # file.
    LONG("log.roll.ms", None, scope=CLUSTER_WIDE)
    | "The age at which a segment is closed and the next one begins; log.roll.hours if unset.",
    INT("log.roll.hours", 168, AT_LEAST_1) | "The age in hours at which a segment is closed and the next one begins.",
    LONG("log.roll.jitter.ms", None, scope=CLUSTER_WIDE)
    | "The largest random time taken off log.roll.ms; log.roll.jitter.hours if unset.",
    INT("log.roll.jitter.hours", 0, AT_LEAST_0) | "The largest random time, in hours, taken off log.roll.hours.",
    LONG("log.retention.ms", None, scope=CLUSTER_WIDE)
    | "How long records are kept; -1 is for ever. If unset, log.retention.minutes and then log.retention.hours apply.",
    INT("log.retention.minutes", None) | "How long records are kept, in minutes; log.retention.ms overrides it.",
    INT("log.retention.hours", 168)
    | "How long records are kept, in hours; log.retention.ms and log.retention.minutes override it.",
    # Kafka counts per partition, not per topic or broker.
    LONG("log.retention.bytes", -1, scope=CLUSTER_WIDE) | "The number of bytes kept per partition; -1 is no limit.",
    LONG("log.retention.check.interval.ms", 300_000, AT_LEAST_1)
    | "How often the broker looks for segments whose retention has ended.",
    LIST("log.cleanup.policy", ("delete",), OneOf(("compact", "delete")), CLUSTER_WIDE)
    | "How old segments are cleaned up: delete, compact, or both.",
    # A full index closes its segment, so a low value makes segments smaller than log.segment.bytes.
    INT("log.index.size.max.bytes", 10_485_760, Range(4), CLUSTER_WIDE) | "The size of the largest index file.",
    INT("log.index.interval.bytes", 4096, AT_LEAST_0, CLUSTER_WIDE)
    | "The number of log bytes between two index entries.",
    LONG("log.flush.interval.messages", LONG_MAX, AT_LEAST_1, CLUSTER_WIDE)
    | "The number of records after which a log is flushed to disk.",
    # A fetch that found the segment before its deletion may still be sending from the file.
    LONG("log.segment.delete.delay.ms", 60_000, AT_LEAST_0, CLUSTER_WIDE)
    | "How long the files of a deleted segment stay on disk.",
    # With the two defaults of LONG_MAX logs are flushed by the kernel only, as in Kafka: durability comes from
    # replicas.
    LONG("log.flush.scheduler.interval.ms", LONG_MAX) | "How often the broker looks for logs that must be flushed.",
    LONG("log.flush.interval.ms", None, scope=CLUSTER_WIDE)
    | "How long a record may stay unflushed; log.flush.scheduler.interval.ms if unset.",
    # After a crash everything behind the recovery point is read again, so a longer interval means a longer start.
    INT("log.flush.offset.checkpoint.interval.ms", 60_000, AT_LEAST_0)
    | "How often recovery points are written to their checkpoint.",
    INT("log.flush.start.offset.checkpoint.interval.ms", 60_000, AT_LEAST_0)
    | "How often log start offsets are written to their checkpoint.",
    BOOLEAN("log.preallocate", False, scope=CLUSTER_WIDE)
    | "Whether a new segment's file has its full size from the start.",
    # Kafka 4 starts with 2 (KIP-1030).
    INT("num.recovery.threads.per.data.dir", 1, AT_LEAST_1, CLUSTER_WIDE, is_thread_count=True)
    | "The number of threads per data directory that load logs at start and flush them at stop.",
    BOOLEAN("auto.create.topics.enable", True) | "Whether a request for an unknown topic creates the topic.",
    # Ignored by Kafka too once inter.broker.protocol.version is 3.0 or later (KIP-724).
    STRING("log.message.format.version", "3.0-IV1", METADATA_VERSIONS, kept="records are always kept in format 2")
    | "The record format for old clients; from 3.0 on it is always format 2.",
    STRING("log.message.timestamp.type", "CreateTime", OneOf(("CreateTime", "LogAppendTime")), CLUSTER_WIDE)
    | "Whether a record keeps the time of its creation or gets the time of its append.",
    # KIP-937 split this limit into the two below; it applies where one of those is at its default (LogConfig).
    LONG("log.message.timestamp.difference.max.ms", LONG_MAX, AT_LEAST_0, CLUSTER_WIDE)
    | "Deprecated. The largest difference between a record's timestamp and the broker's clock, before or after.",
    LONG("log.message.timestamp.before.max.ms", LONG_MAX, AT_LEAST_0, CLUSTER_WIDE)
    | "The largest time that a record's timestamp may lie before the broker's clock.",
    # Retention by time goes by timestamps, so one record from the year 3000 keeps its segment until then. Kafka 4
    # lowers the default to an hour (KIP-1030).
    LONG("log.message.timestamp.after.max.ms", LONG_MAX, AT_LEAST_0, CLUSTER_WIDE)
    | "The largest time that a record's timestamp may lie after the broker's clock.",
    # Conversion makes the broker read and write every record of the answer, so Kafka allows to turn it off (KIP-283).
    BOOLEAN("log.message.downconversion.enable", True, scope=CLUSTER_WIDE)
    | "Whether consumers of old versions get records converted to the old formats.",
    # Until the controller knows of the failure (KIP-858), the partitions of the directory have no leader.
    LONG("log.dir.failure.timeout.ms", 30_000, AT_LEAST_1)
    | "How long a broker tries to report a failed directory before it stops.",
    LONG("log.initial.task.delay.ms", 30_000, AT_LEAST_0, is_internal=True)
    | "How long after the start retention, flushes and checkpoints begin.",
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
