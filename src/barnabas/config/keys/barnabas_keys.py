"""Settings that Kafka does not have.

A table, read by `broker_config_keys`. Immutable.
"""

from __future__ import annotations

from barnabas.config.config_key import BOOLEAN, PASSWORD, PER_BROKER, STRING, HostAndPort, OneOf

KAFKA_RELEASES = (
    *("2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
"""Those of `protocol.kafka_releases`, which knows more of them."""

BARNABAS_KEYS = (
    STRING("broker.emulate.version", None, OneOf(KAFKA_RELEASES))
    | "The release of Apache Kafka whose APIs and versions the broker lists and accepts, as far as it has them. If "
    "unset, it accepts everything from the lowest versions of 3.9 to the highest of 4.",
    BOOLEAN("inline.requests.enable", True)
    | "Whether brief requests run at once on the network thread instead of passing through the request queue.",
    STRING("metrics.listen", None, HostAndPort())
    | "The address, as host:port, where /metrics (Prometheus) and /healthz are served over HTTP; port 0 takes a free "
    "port. If unset, they are not served. Needs the extra `metrics`. Every client that reaches the address may read "
    "them.",
    STRING("record.validation", "full", OneOf(("header", "framing", "full")))
    | "How closely a produced batch is checked. full: every field of every record, decompressed, as Kafka does. "
    "framing: the header, and the number of records in an uncompressed batch; lets through compressed bytes that do "
    "not decompress, and fields that claim a wrong length. header: the header alone; lets through, moreover, a count "
    "that the records do not have. What is let through can stop every consumer of the partition.",
    PASSWORD("sasl.plain.users", None, scope=PER_BROKER)
    | "The users of PLAIN, as `alice:her password,bob:his password`; put it behind a listener's prefix for one "
    "listener. A password that has a comma needs a login context instead (sasl.jaas.config).",
    # Java has a switch of the whole process instead, com.sun.net.ssl.checkRevocation, which no Kafka setting sets.
    STRING("ssl.crl.location", None, scope=PER_BROKER)
    | "The PEM file with the revocation lists (CRLs) of the authorities. A certificate is refused if it is in a list, "
    "or if the list of an authority of its chain is missing or out of date.",
    STRING("metadata.store", "embedded", OneOf(("embedded", "zookeeper")))
    | "Where the metadata of the cluster are kept: embedded (in the data directory, for a broker that stands alone) or "
    "zookeeper. If it is not given, zookeeper.connect decides.",
    # Kafka takes the login from the section `Client` of the file that Java's java.security.auth.login.config names.
    PASSWORD("zookeeper.sasl.jaas.config", None)
    | 'The login to ZooKeeper: `org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" '
    'password="...";`, as in the section Client of a JAAS file. If unset, the broker does not log in.',
)
