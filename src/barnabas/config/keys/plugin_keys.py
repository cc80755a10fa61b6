"""Settings that Kafka's broker leaves to its plug-ins, which read them from the same file.

Accepted as they are, because only the plug-in knows their types; shown and kept, but never acted on, since a plug-in is
a Java class. Read by `broker_config_keys`. Immutable. Kafka: AclAuthorizer, StandardAuthorizer, JmxReporter,
AbstractConfig.CONFIG_PROVIDERS_CONFIG, KafkaCSVMetricsReporter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLUGIN_SETTINGS: Final[Mapping[str, str]] = {
    "allow.everyone.if.no.acl.found": "Whether the authorizer allows what no access control list speaks of.",
    "super.users": "The principals that the authorizer lets do everything, separated by semicolons.",
    "config.providers": "The names of configuration providers, which fill in values of the form ${provider:key}.",
    "kafka.csv.metrics.dir": "The directory of the CSV reporter of metrics.",
    "kafka.csv.metrics.reporter.enabled": "Whether metrics are written to CSV files.",
    "metrics.jmx.include": "A regular expression for the metrics that the JMX reporter shows.",
    "metrics.jmx.exclude": "A regular expression for the metrics that the JMX reporter hides.",
    "metrics.jmx.whitelist": "The older name of metrics.jmx.include.",
    "metrics.jmx.blacklist": "The older name of metrics.jmx.exclude.",
}
"""Name -> what the plug-in does with it."""

PREFIXES_OF_PLUGINS: Final = (
    "authorizer.zookeeper.",
    "config.providers.",
    "metrics.context.",
    "rlmm.config.",
    "rsm.config.",
)
"""Settings handed to plug-ins: any name behind these is accepted."""


def is_of_plugin(name: str) -> bool:
    """Tell whether only a plug-in knows what the setting means."""
    return name in PLUGIN_SETTINGS or name.startswith(PREFIXES_OF_PLUGINS)
