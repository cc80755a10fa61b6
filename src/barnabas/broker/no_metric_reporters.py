"""The rejection of metric reporters, which are Java classes: there is no Java here.

Called by DynamicBrokerConfig; stateless. Kafka: DynamicMetricsReporters in kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig


class NoMetricReporters:
    """A part that keeps reporters from being added to `metric.reporters`; reporters may be removed."""

    settings = frozenset({"metric.reporters"})

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check that no reporter is added. Raises ConfigError: one is."""
        added = [name for name in proposed.list("metric.reporters") if name not in current.list("metric.reporters")]
        if added:
            raise ConfigError(
                f"metric.reporters: the Java class {added[0]} cannot be loaded; metrics are read at metrics.listen",
                "metric.reporters",
            )

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Do nothing: there is no reporter to remove."""
