"""The campaign of logins: mutated SASL exchanges, handshakes and TLS streams, and a broker that must not mind.

    python -m tests.fuzz.login_campaign --count 200000 --seed 7

`make fuzz-logins` and test_logins.py call it. The broker logs everything (DEBUG, and every request). After the mutants
it runs in the same process, serves logins, and has forgotten the connections: descriptors and memory are those of the
time after the warm-up. No log has a secret.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from barnabas.clients.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ScramAlteration,
    ScramMechanism,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.security.sasl.sasl_config import UNSECURED_HANDLER
from tests.fuzz.campaign import resident_bytes
from tests.fuzz.login_mutants import SECONDS, UNSECURED_TOKEN, LoginMutants, Ports, User
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_metrics import metric_value
from tests.support.certificates import CertificateAuthority, Identity
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES

USER: Final = User("alice", "what-alice-alone-knows")
LISTENERS: Final = {"TLS": "SSL", "CERT": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}
OPEN: Final = "kafka_server_socket_server_metrics_connection_count"
SENDERS: Final = 4
SLICE: Final = 2_000
"""After so many mutants the process and the descriptors are looked at."""
MOST_GROWTH: Final = 0.05
"""Of the memory after the warm-up, the first half. In it, heaps and the buckets of histograms fill."""
MOST_MORE_FILES: Final = 5
FRAGMENT: Final = 8
"""A mutant rarely has the whole password: so many characters of it in a row count as the password."""


class LoginCampaign:
    """One broker under mutants, in a directory of its own."""

    def __init__(self, directory: Path, **properties: str) -> None:
        """properties: more settings of the broker, with `_` for `.`."""
        self.certificates = directory
        authority = CertificateAuthority()
        authority.write_pem(directory / "trust.pem")
        self._server = authority.issue("server")
        self._server.write_pem(directory / "server.pem")
        authority.issue("mutant").write_pem(directory / "client.pem")
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{USER.password}";'
        settings = {
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT", *(f"{name}:{protocol}" for name, protocol in LISTENERS.items())]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "trust.pem"),
            "listener.name.cert.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            "connection.failed.authentication.delay.ms": "1",
            "connections.max.reauth.ms": "60000",
            "metrics.listen": "127.0.0.1:0",
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": login for name in ("SASL", "SASLTLS")},
            **{
                f"listener.name.{name.lower()}.oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER
                for name in ("SASL", "SASLTLS")
            },
        }
        more = {name.replace("_", "."): value for name, value in properties.items()}
        self.broker = BarnabasProcess(directory / "broker", SERVER_PROPERTIES | settings | more)
        self.broker.more_listeners = tuple(f"{name}://127.0.0.1:0" for name in LISTENERS)
        self.sent: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, the broker runs and logs everything. After it, no log has a secret or an unexpected error."""
        with self.broker.running():
            with Admin(f"{self.broker.host}:{self.broker.port}") as admin:
                admin.alter_user_scram_credentials(
                    [ScramAlteration(USER.name, ScramMechanism.SCRAM_SHA_256, USER.password)]
                )
                changes = [
                    ConfigChange(name, ConfigOperation.SET, "DEBUG") for name in ("root", "kafka.request.logger")
                ]
                admin.incremental_alter_configs(ConfigResource.broker_loggers(0), changes)
            self.await_user()
            yield
        self.check_log()

    def send(self, count: int, seed: int) -> None:
        """Send mutants from several threads. Raises what a sender raises."""
        ports = Ports(*(self.broker.ports[name] for name in LISTENERS))
        senders = [LoginMutants(ports, USER, self.certificates, seed + number) for number in range(SENDERS)]
        with ThreadPoolExecutor(SENDERS) as threads:
            for done in [threads.submit(sender.run, count // SENDERS) for sender in senders]:
                done.result()
        for sender in senders:
            self.sent.update(sender.sent)

    @property
    def connections(self) -> float:
        """How many connections the broker counts."""
        return metric_value(self.broker.ports["http"], OPEN)

    @property
    def open_files(self) -> int:
        """How many descriptors the broker's process has."""
        return len(os.listdir(f"/proc/{self.broker.pid}/fd"))

    def await_forgotten(self, connections: float, files: int) -> None:
        """Wait until the broker has forgotten the connections of the mutants, and closed their descriptors."""
        deadline = time.monotonic() + 2 * SECONDS
        while self.connections > connections or self.open_files > files + MOST_MORE_FILES:
            assert time.monotonic() < deadline, f"{self.connections} connections, {self.open_files} descriptors"
            time.sleep(0.1)

    def await_user(self) -> None:
        """Wait until the user can log in by SCRAM: a credential is in force a moment after the answer."""
        deadline = time.monotonic() + 2 * SECONDS
        while True:
            with self._client() as client:
                if client.log_in(USER.name, USER.password, "SCRAM-SHA-256").error_code == ErrorCode.NONE:
                    return
            assert time.monotonic() < deadline, "the user cannot log in"
            time.sleep(0.05)

    def check_serves(self, topic: str) -> None:
        """A client logs in, writes and reads."""
        for mechanism in ("SCRAM-SHA-256", "PLAIN"):
            with self._client() as client:
                assert client.log_in(USER.name, USER.password, mechanism).error_code == ErrorCode.NONE
                if mechanism == "PLAIN":
                    client.create_topic(topic)
                    assert client.produce_values(topic, b"alive") == 0

    def check_log(self) -> None:
        """Search what was logged for passwords, proofs, tokens and keys, and for errors that nothing caught."""
        with self.broker.log_file.open(errors="replace") as log:
            for line in log:
                for secret in self._secrets():
                    assert secret not in line, f"a secret is in the log: {secret[:4]}..."
                assert not line.startswith("Traceback"), line + "".join(log.readline() for _ in range(40))

    def _client(self) -> SaslRawClient:
        return SaslRawClient(self.broker, address=(self.broker.host, self.broker.ports["SASL"]))

    def _secrets(self) -> list[str]:
        password = USER.password
        fragments = [password[start : start + FRAGMENT] for start in range(len(password) - FRAGMENT + 1)]
        return [*fragments, ",p=", "Bearer ey", UNSECURED_TOKEN.decode().split(".")[1], *key_lines(self._server)]


def key_lines(identity: Identity) -> list[str]:
    """The lines of a private key in PEM, each a part of the secret."""
    return [line for line in identity.key_pem().splitlines() if not line.startswith("-")]


def run(campaign: LoginCampaign, count: int, seed: int, seconds: float = 0) -> None:
    """Send `count` mutants in slices, over `seconds` at least. AssertionError says what was wrong."""
    connections, files = campaign.connections, campaign.open_files
    began, resident = time.monotonic(), 0
    pid = campaign.broker.pid
    for done in range(0, count, SLICE):
        campaign.send(min(SLICE, count - done), seed + done)
        campaign.broker.fail_if_ended()
        if done < count // 2:
            resident = resident_bytes(campaign.broker)
        if done % (20 * SLICE) == 0:
            report(campaign, began, resident)
        left = began + seconds * (done + SLICE) / count - time.monotonic()
        time.sleep(max(left, 0))
    campaign.await_forgotten(connections, files)
    campaign.check_serves("after-the-mutants")
    assert campaign.broker.pid == pid
    report(campaign, began, resident)
    growth = resident_bytes(campaign.broker) / resident - 1
    assert growth <= MOST_GROWTH, f"the memory has grown by {growth:.1%} since the first half"


def report(campaign: LoginCampaign, began: float, resident: int) -> None:
    """Print a line."""
    now = resident_bytes(campaign.broker)
    print(
        f"{campaign.sent.total()} mutants in {time.monotonic() - began:.0f} s, {campaign.open_files} descriptors,"
        f" {now >> 20} MiB (first half: {resident >> 20} MiB); {dict(campaign.sent)}",
        flush=True,
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--seconds", type=float, default=0, help="at least so long: the mutants are spread over it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-logins-") as directory:
        print(f"seed {arguments.seed}", flush=True)
        campaign = LoginCampaign(Path(directory))
        with campaign.running():
            run(campaign, arguments.count, arguments.seed, arguments.seconds)
            size = campaign.broker.log_file.stat().st_size
        print(f"no secret in {size >> 20} MiB of log", flush=True)


if __name__ == "__main__":
    main()
