"""Settings of logs: segments, retention, compaction, flushing, topic defaults.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: ServerLogConfigs, CleanerConfig.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, OneOf, Range, Scope
from barnabas.config.keys.bounds import AT_LEAST_0, AT_LEAST_1, DOUBLE_MAX, LONG_MAX, METADATA_VERSIONS

LOG_KEYS = (
    # 1 MiB of records and the 12 bytes of offset and length in front of a batch, which Kafka calls the log overhead.
    ConfigKey(
        "message.max.bytes",
        ConfigType.INT,
        1_048_588,
        "The largest record batch that is accepted, in bytes as sent; max.message.bytes of a topic overrides it.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "background.threads",
        ConfigType.INT,
        10,
        "The number of scheduler threads, which flush logs, apply retention and write checkpoints.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
        is_thread_count=True,
    ),
    ConfigKey(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "The codec of stored batches; `producer` keeps the codec of the producer.",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        scope=Scope.CLUSTER_WIDE,
    ),
    # -1 is zlib's own default, which is 6.
    ConfigKey(
        "compression.gzip.level",
        ConfigType.INT,
        -1,
        "The level at which the broker compresses with gzip.",
        Range(1, 9, or_equal=-1),
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "compression.lz4.level",
        ConfigType.INT,
        9,
        "The level at which the broker compresses with lz4.",
        Range(1, 17),
        scope=Scope.CLUSTER_WIDE,
    ),
    # Negative levels are zstd's fast modes; -131072 is the library's minimum (KIP-390).
    ConfigKey(
        "compression.zstd.level",
        ConfigType.INT,
        3,
        "The level at which the broker compresses with zstd.",
        Range(-131072, 22),
        scope=Scope.CLUSTER_WIDE,
    ),
    # With 0 in the file no log is ever compacted, as in Kafka; a change to 0 at run time is refused (`LogCleaner`).
    ConfigKey(
        "log.cleaner.threads",
        ConfigType.INT,
        1,
        "The number of threads that compact logs, each with a process of its own.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        ConfigType.DOUBLE,
        DOUBLE_MAX,
        "The number of bytes that the cleaner may read and write per second.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        ConfigType.LONG,
        134_217_728,
        "The memory for the cleaner's key maps over all threads; a key takes 24 bytes.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.io.buffer.size",
        ConfigType.INT,
        524_288,
        "The memory for the cleaner's read and write buffers over all threads.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # A fuller map covers more keys in a pass, and costs more collisions for each key.
    ConfigKey(
        "log.cleaner.io.buffer.load.factor",
        ConfigType.DOUBLE,
        0.9,
        "The fraction of a key map that may be filled.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.backoff.ms",
        ConfigType.LONG,
        15_000,
        "How long the cleaner sleeps when no log needs cleaning.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # Also the bound on the space that outdated records take: at 0.5 up to half of a log.
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        ConfigType.DOUBLE,
        0.5,
        "The smallest fraction of uncleaned bytes at which a log is cleaned.",
        Range(0, 1),
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey("log.cleaner.enable", ConfigType.BOOLEAN, True, "Whether the log cleaner runs."),
    # A reader that begins at the log start must reach the end within this time: later it may miss a tombstone, and keep
    # a key that was deleted.
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        ConfigType.LONG,
        86_400_000,
        "How long delete markers (tombstones) of compacted topics are kept.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # With 0, records are still safe while their segment is active: the active segment is never compacted.
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        ConfigType.LONG,
        0,
        "The shortest time that a record stays uncompacted.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        ConfigType.LONG,
        LONG_MAX,
        "The longest time that a record may stay uncompacted.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "num.partitions",
        ConfigType.INT,
        1,
        "The number of partitions of a topic whose creation does not name one.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "log.dir",
        ConfigType.STRING,
        "/tmp/kafka-logs",  # noqa: S108 Kafka's default; the command line gives its own
        "The data directory; log.dirs overrides it.",
    ),
    ConfigKey("log.dirs", ConfigType.STRING, None, "The data directories, comma-separated."),
    # 14 bytes are the smallest record of Kafka's first format, so that a segment can hold at least one.
    ConfigKey(
        "log.segment.bytes",
        ConfigType.INT,
        1_073_741_824,
        "The size at which a segment is closed and the next one begins.",
        Range(14),
        scope=Scope.CLUSTER_WIDE,
    ),
    # Only the name in milliseconds is dynamic, here and below. In Kafka too a change of it wins over the hours in the
    # file.
    ConfigKey(
        "log.roll.ms",
        ConfigType.LONG,
        None,
        "The age at which a segment is closed and the next one begins; log.roll.hours if unset.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.roll.hours",
        ConfigType.INT,
        168,
        "The age in hours at which a segment is closed and the next one begins.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "log.roll.jitter.ms",
        ConfigType.LONG,
        None,
        "The largest random time taken off log.roll.ms; log.roll.jitter.hours if unset.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.roll.jitter.hours",
        ConfigType.INT,
        0,
        "The largest random time, in hours, taken off log.roll.hours.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "log.retention.ms",
        ConfigType.LONG,
        None,
        "How long records are kept; -1 is for ever. If unset, log.retention.minutes and then log.retention.hours "
        "apply.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.retention.minutes",
        ConfigType.INT,
        None,
        "How long records are kept, in minutes; log.retention.ms overrides it.",
    ),
    ConfigKey(
        "log.retention.hours",
        ConfigType.INT,
        168,
        "How long records are kept, in hours; log.retention.ms and log.retention.minutes override it.",
    ),
    # Kafka counts per partition, not per topic or broker.
    ConfigKey(
        "log.retention.bytes",
        ConfigType.LONG,
        -1,
        "The number of bytes kept per partition; -1 is no limit.",
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        ConfigType.LONG,
        300_000,
        "How often the broker looks for segments whose retention has ended.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "log.cleanup.policy",
        ConfigType.LIST,
        ("delete",),
        "How old segments are cleaned up: delete, compact, or both.",
        OneOf(("compact", "delete")),
        scope=Scope.CLUSTER_WIDE,
    ),
    # A full index closes its segment, so a low value makes segments smaller than log.segment.bytes.
    ConfigKey(
        "log.index.size.max.bytes",
        ConfigType.INT,
        10_485_760,
        "The size of the largest index file.",
        Range(4),
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.index.interval.bytes",
        ConfigType.INT,
        4096,
        "The number of log bytes between two index entries.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.flush.interval.messages",
        ConfigType.LONG,
        LONG_MAX,
        "The number of records after which a log is flushed to disk.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
    ),
    # A fetch that found the segment before its deletion may still be sending from the file.
    ConfigKey(
        "log.segment.delete.delay.ms",
        ConfigType.LONG,
        60_000,
        "How long the files of a deleted segment stay on disk.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # With the two defaults of LONG_MAX logs are flushed by the kernel only, as in Kafka: durability comes from
    # replicas.
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        ConfigType.LONG,
        LONG_MAX,
        "How often the broker looks for logs that must be flushed.",
    ),
    ConfigKey(
        "log.flush.interval.ms",
        ConfigType.LONG,
        None,
        "How long a record may stay unflushed; log.flush.scheduler.interval.ms if unset.",
        scope=Scope.CLUSTER_WIDE,
    ),
    # After a crash everything behind the recovery point is read again, so a longer interval means a longer start.
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        ConfigType.INT,
        60_000,
        "How often recovery points are written to their checkpoint.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "log.flush.start.offset.checkpoint.interval.ms",
        ConfigType.INT,
        60_000,
        "How often log start offsets are written to their checkpoint.",
        AT_LEAST_0,
    ),
    ConfigKey(
        "log.preallocate",
        ConfigType.BOOLEAN,
        False,
        "Whether a new segment's file has its full size from the start.",
        scope=Scope.CLUSTER_WIDE,
    ),
    # Kafka 4 starts with 2 (KIP-1030).
    ConfigKey(
        "num.recovery.threads.per.data.dir",
        ConfigType.INT,
        1,
        "The number of threads per data directory that load logs at start and flush them at stop.",
        AT_LEAST_1,
        scope=Scope.CLUSTER_WIDE,
        is_thread_count=True,
    ),
    ConfigKey(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a request for an unknown topic creates the topic.",
    ),
    # Ignored by Kafka too once inter.broker.protocol.version is 3.0 or later (KIP-724).
    ConfigKey(
        "log.message.format.version",
        ConfigType.STRING,
        "3.0-IV1",
        "The record format for old clients; from 3.0 on it is always format 2.",
        METADATA_VERSIONS,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        ConfigType.STRING,
        "CreateTime",
        "Whether a record keeps the time of its creation or gets the time of its append.",
        OneOf(("CreateTime", "LogAppendTime")),
        scope=Scope.CLUSTER_WIDE,
    ),
    # KIP-937 split this limit into the two below; it applies where one of those is at its default (LogConfig).
    ConfigKey(
        "log.message.timestamp.difference.max.ms",
        ConfigType.LONG,
        LONG_MAX,
        "Deprecated. The largest difference between a record's timestamp and the broker's clock, before or after.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        ConfigType.LONG,
        LONG_MAX,
        "The largest time that a record's timestamp may lie before the broker's clock.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # Retention by time goes by timestamps, so one record from the year 3000 keeps its segment until then. Kafka 4
    # lowers the default to an hour (KIP-1030).
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        ConfigType.LONG,
        LONG_MAX,
        "The largest time that a record's timestamp may lie after the broker's clock.",
        AT_LEAST_0,
        scope=Scope.CLUSTER_WIDE,
    ),
    # Conversion makes the broker read and write every record of the answer, so Kafka allows to turn it off (KIP-283).
    ConfigKey(
        "log.message.downconversion.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether consumers of old versions get records converted to the old formats.",
        scope=Scope.CLUSTER_WIDE,
    ),
    # Until the controller knows of the failure (KIP-858), the partitions of the directory have no leader.
    ConfigKey(
        "log.dir.failure.timeout.ms",
        ConfigType.LONG,
        30_000,
        "How long a broker tries to report a failed directory before it stops.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        ConfigType.LONG,
        30_000,
        "How long after the start retention, flushes and checkpoints begin.",
        AT_LEAST_0,
    ),
)
