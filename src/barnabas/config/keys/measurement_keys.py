"""Settings of metrics and quotas.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, Scope
from barnabas.config.keys.bounds import AT_LEAST_1

MEASUREMENT_KEYS = (
    ConfigKey("metrics.num.samples", ConfigType.INT, 2, "Samples kept per metric.", AT_LEAST_1),
    ConfigKey("metrics.sample.window.ms", ConfigType.LONG, 30_000, "Length of a metric's sample.", AT_LEAST_1),
    ConfigKey("metric.reporters", ConfigType.LIST, (), "Classes that report metrics.", scope=Scope.CLUSTER_WIDE),
    ConfigKey("metrics.recording.level", ConfigType.STRING, "INFO", "How much is measured: INFO, DEBUG or TRACE."),
    ConfigKey(
        "auto.include.jmx.reporter", ConfigType.BOOLEAN, True, "Whether Java's JMX reporter is added; meaningless here."
    ),
    ConfigKey("kafka.metrics.reporters", ConfigType.LIST, (), "Classes that report the older metrics."),
    ConfigKey("kafka.metrics.polling.interval.secs", ConfigType.INT, 10, "How often those report.", AT_LEAST_1),
    ConfigKey("telemetry.max.bytes", ConfigType.INT, 1_048_576, "Largest telemetry push of a client.", AT_LEAST_1),
    ConfigKey("quota.window.num", ConfigType.INT, 11, "Samples kept for client quotas.", AT_LEAST_1),
    ConfigKey("replication.quota.window.num", ConfigType.INT, 11, "Samples kept for replication quotas.", AT_LEAST_1),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        ConfigType.INT,
        11,
        "Samples kept for moves between log directories.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "controller.quota.window.num", ConfigType.INT, 11, "Samples kept for controller mutation quotas.", AT_LEAST_1
    ),
    ConfigKey("quota.window.size.seconds", ConfigType.INT, 1, "Length of a sample of client quotas.", AT_LEAST_1),
    ConfigKey(
        "replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "Length of a sample of replication quotas.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "Length of a sample for moves between log directories.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "Length of a sample of controller mutation quotas.",
        AT_LEAST_1,
    ),
    ConfigKey("client.quota.callback.class", ConfigType.CLASS, None, "Class that decides client quotas."),
)
