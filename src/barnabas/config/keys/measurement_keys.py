"""Settings of metrics and quotas.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: MetricConfigs, QuotaConfigs.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigKey, ConfigType, Scope
from barnabas.config.keys.bounds import AT_LEAST_1

MEASUREMENT_KEYS = (
    ConfigKey("metrics.num.samples", ConfigType.INT, 2, "The number of samples kept per metric.", AT_LEAST_1),
    ConfigKey("metrics.sample.window.ms", ConfigType.LONG, 30_000, "The length of a metric's sample.", AT_LEAST_1),
    ConfigKey(
        "metric.reporters", ConfigType.LIST, (), "The Java classes that report metrics.", scope=Scope.CLUSTER_WIDE
    ),
    ConfigKey(
        "metrics.recording.level", ConfigType.STRING, "INFO", "How many metrics are recorded: INFO, DEBUG or TRACE."
    ),
    ConfigKey("auto.include.jmx.reporter", ConfigType.BOOLEAN, True, "Whether Java's JMX reporter is added."),
    ConfigKey("kafka.metrics.reporters", ConfigType.LIST, (), "The Java classes that report Kafka's older metrics."),
    ConfigKey(
        "kafka.metrics.polling.interval.secs",
        ConfigType.INT,
        10,
        "How often the reporters of Kafka's older metrics report.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "telemetry.max.bytes",
        ConfigType.INT,
        1_048_576,
        "The size of the largest telemetry push of a client.",
        AT_LEAST_1,
    ),
    # Ten whole windows and the one that is being filled, here and below.
    ConfigKey("quota.window.num", ConfigType.INT, 11, "The number of samples kept for client quotas.", AT_LEAST_1),
    ConfigKey(
        "replication.quota.window.num",
        ConfigType.INT,
        11,
        "The number of samples kept for replication quotas.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.num",
        ConfigType.INT,
        11,
        "The number of samples kept for moves between log directories.",
        AT_LEAST_1,
    ),
    # KIP-599. Here the windows measure no average: rate times windows is the burst that a client may send.
    ConfigKey(
        "controller.quota.window.num",
        ConfigType.INT,
        11,
        "The number of samples kept for controller mutation quotas.",
        AT_LEAST_1,
    ),
    ConfigKey("quota.window.size.seconds", ConfigType.INT, 1, "The length of a sample of client quotas.", AT_LEAST_1),
    ConfigKey(
        "replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of a sample of replication quotas.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "alter.log.dirs.replication.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of a sample for moves between log directories.",
        AT_LEAST_1,
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        ConfigType.INT,
        1,
        "The length of a sample of controller mutation quotas.",
        AT_LEAST_1,
    ),
    ConfigKey("client.quota.callback.class", ConfigType.CLASS, None, "The Java class that decides client quotas."),
)
