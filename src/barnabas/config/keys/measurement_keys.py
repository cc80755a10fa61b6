"""Settings of metrics and quotas.

A table, read by `broker_config_keys`; names, types, defaults and bounds are those of Kafka 3.9. Immutable.
Kafka: MetricConfigs, QuotaConfigs.
"""

from __future__ import annotations

from typing import Final

from barnabas.config.config_key import AT_LEAST_1, BOOLEAN, CLASS, CLUSTER_WIDE, INT, LIST, LONG, STRING

NO_CLASSES: Final = "there is no Java to load classes"

MEASUREMENT_KEYS = (
    INT("metrics.num.samples", 2, AT_LEAST_1) | "The number of samples kept per metric.",
    LONG("metrics.sample.window.ms", 30_000, AT_LEAST_1) | "The length of a metric's sample.",
    LIST("metric.reporters", (), scope=CLUSTER_WIDE, kept=NO_CLASSES) | "The Java classes that report metrics.",
    STRING("metrics.recording.level", "INFO", kept=NO_CLASSES) | "How many metrics are recorded: INFO, DEBUG or TRACE.",
    BOOLEAN("auto.include.jmx.reporter", True, kept=NO_CLASSES) | "Whether Java's JMX reporter is added.",
    LIST("kafka.metrics.reporters", (), kept=NO_CLASSES) | "The Java classes that report Kafka's older metrics.",
    INT("kafka.metrics.polling.interval.secs", 10, AT_LEAST_1, kept=NO_CLASSES)
    | "How often the reporters of Kafka's older metrics report.",
    INT("telemetry.max.bytes", 1_048_576, AT_LEAST_1, kept="no part receives the metrics of clients")
    | "The size of the largest telemetry push of a client.",
    # Ten whole windows and the one that is being filled, here and below.
    INT("quota.window.num", 11, AT_LEAST_1) | "The number of samples kept for client quotas.",
    INT("replication.quota.window.num", 11, AT_LEAST_1) | "The number of samples kept for replication quotas.",
    INT("alter.log.dirs.replication.quota.window.num", 11, AT_LEAST_1)
    | "The number of samples kept for moves between log directories.",
    # KIP-599. Here the windows measure no average: rate times windows is the burst that a client may send.
    INT("controller.quota.window.num", 11, AT_LEAST_1) | "The number of samples kept for controller mutation quotas.",
    INT("quota.window.size.seconds", 1, AT_LEAST_1) | "The length of a sample of client quotas.",
    INT("replication.quota.window.size.seconds", 1, AT_LEAST_1) | "The length of a sample of replication quotas.",
    INT("alter.log.dirs.replication.quota.window.size.seconds", 1, AT_LEAST_1)
    | "The length of a sample for moves between log directories.",
    INT("controller.quota.window.size.seconds", 1, AT_LEAST_1)
    | "The length of a sample of controller mutation quotas.",
    CLASS("client.quota.callback.class", None) | "The Java class that decides client quotas.",
)
