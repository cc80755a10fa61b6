"""Apache ZooKeeper with users and TLS, from the jars that pyspark ships: no Maven, and no machine needs an install.

Called by tests/broker/test_zookeeper_security.py, on the caller's thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from barnabas_spark.java_home import spark_java_home
from tests.support.apache_kafka import START_SECONDS, ZooKeeper
from tests.support.certificates import PASSWORD, Identity
from tests.support.server_process import free_port

USERS: Mapping[str, str] = {"kafka": 'brokers "secret" \\ here', "mallory": "another-secret"}
_HEAP = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def pyspark_jars() -> Path:
    """The directory of pyspark's jars, ZooKeeper's and Netty's among them."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "jars"


def login_context(user: str, password: str | None = None) -> str:
    """The value of zookeeper.sasl.jaas.config. password: None for the user's own."""
    text = USERS[user] if password is None else password
    return f'org.apache.zookeeper.server.auth.DigestLoginModule required username="{user}" password="{_escaped(text)}";'


class SecureZooKeeper(ZooKeeper):
    """A ZooKeeper with the users of `USERS`; with `identity` it has a port for TLS too, `secure_port`.

    identity: its key and certificate. trusted: the authority of clients' certificates, a PEM file; they may have none.
    """

    def __init__(self, directory: Path, identity: Identity | None = None, trusted: Path | None = None) -> None:
        super().__init__(directory)
        self._identity = identity
        self._trusted = trusted
        self.secure_port = 0

    def start(self) -> None:
        """Start it, and wait until it serves. Raises ServerFailed."""
        self.port = self.port or free_port()
        self.secure_port = self.secure_port or free_port()
        configuration = self.directory / "zookeeper.properties"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        users = "\n".join(f'    user_{name}="{_escaped(password)}"' for name, password in USERS.items())
        jaas = self.directory / "jaas.conf"
        jaas.write_text(f"Server {{\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n{users};\n}};\n")
        java = [
            str(Path(spark_java_home(os.environ)) / "bin" / "java"),
            *_HEAP,
            f"-Djava.security.auth.login.config={jaas}",
        ]
        self.launch(
            [
                *java,
                "-cp",
                f"{pyspark_jars()}/*",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(configuration),
            ]
        )
        self.wait_for_port(START_SECONDS)
        self._wait_until_it_serves(START_SECONDS)

    def _properties(self) -> dict[str, str]:
        properties = {
            "dataDir": f"{self.directory}/zookeeper",
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "4lw.commands.whitelist": "srvr",
        }
        if self._identity is not None:
            store = self._identity.write_pkcs12(self.directory / "zookeeper.p12")
            properties |= {
                "secureClientPort": str(self.secure_port),
                "secureClientPortAddress": self.host,
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": str(store),
                "ssl.keyStore.password": PASSWORD,
                "ssl.keyStore.type": "PKCS12",
                "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
                "ssl.clientAuth": "none" if self._trusted is None else "want",
            }
        if self._trusted is not None:
            properties |= {"ssl.trustStore.location": str(self._trusted), "ssl.trustStore.type": "PEM"}
        return properties


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
