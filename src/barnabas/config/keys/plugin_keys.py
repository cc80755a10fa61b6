"""Settings that Kafka's broker leaves to its plug-ins, which read them from the same file.

Accepted as they are, because only the plug-in knows their types; shown and kept. Only those of the authorizer are acted
on: any other plug-in is a Java class. Read by `kafka_config`. Immutable. Kafka: AclAuthorizer, StandardAuthorizer,
JmxReporter, AbstractConfig.CONFIG_PROVIDERS_CONFIG, KafkaCSVMetricsReporter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

AUTHORIZER_SETTINGS: Final[Mapping[str, str]] = {
    "allow.everyone.if.no.acl.found": "Whether all is allowed to a resource that no access control list is about.",
    "super.users": "The principals that may do everything, separated by semicolons: `User:admin;User:CN=ops,O=Us`.",
}
"""Name -> what the authorizer does with it: a plug-in in Kafka, a part of this broker."""

PLUGIN_SETTINGS: Final[Mapping[str, str]] = {
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
    return name in PLUGIN_SETTINGS or name in AUTHORIZER_SETTINGS or name.startswith(PREFIXES_OF_PLUGINS)
