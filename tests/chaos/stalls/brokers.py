"""The brokers under attack: ours and Apache Kafka 3.9, with the same listeners, users and topics.

The campaign starts one of each, and a new one, on an empty directory, when one died or stands still.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchResponse
from barnabas.records.compression import Codec
from benchmarks.process_usage import peak_resident_mib, reset_peak, resident_mib
from tests.chaos.stalls.batches import tiny_records
from tests.chaos.stalls.frames import EXISTING_NAME, version_for_both
from tests.chaos.stalls.kinds import (
    FILLED_TOPIC,
    FLUSHED_PARTITIONS,
    FLUSHED_TOPIC,
    LARGE_TOPIC,
    WIDE_PARTITIONS,
    WIDE_TOPIC,
    Listener,
)
from tests.chaos.stalls.victim import TOPIC, Place
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import CertificateAuthority
from tests.support.raw_client import SECONDS, RawClient
from tests.support.server_process import ServerProcess, free_port

OURS: Final = "barnabas"
REFERENCE: Final = "apache-kafka"
SYSTEMS: Final = (OURS, REFERENCE)
PLACE_VARIABLE: Final = "BARNABAS_STALLS_SOURCE"
"""An environment variable: the `src` directory of another version of Barnabas to attack."""

_USER: Final = "alice"
_USER_WITHOUT_RIGHTS: Final = "bob"
_PASSWORD: Final = "of-the-campaign"
_PROTOCOLS: Final = {Listener.PLAINTEXT: "PLAINTEXT", Listener.TLS: "SSL", Listener.LOGIN: "SASL_PLAINTEXT"}
_FILLED_BATCHES: Final = 5
_FILLED_BATCH_BYTES: Final = 900_000
_LARGEST_BATCH_BYTES: Final = 100_000_000


class Broker:
    """One system: its running broker and what clients need to know of it. `restart` gives a new broker."""

    def __init__(self, system: str, directory: Path, certificates: Path) -> None:
        self.system = system
        self._directory = directory
        self._certificates = certificates
        self._ports: dict[Listener, int] = {}
        self._server: ServerProcess | None = None
        self.starts = 0

    @property
    def server(self) -> ServerProcess:
        """The running process."""
        assert self._server is not None
        return self._server

    def start(self) -> None:
        """Start a broker on an empty directory, and create its topics."""
        self.starts += 1
        place = self._directory / f"{self.system}-{self.starts}"
        self._ports = {listener: free_port() for listener in Listener}
        self._server = _make_server(self.system, place, self._ports, self._certificates)
        self._server.start()
        _create_topics(self._server)

    def end(self) -> None:
        """Kill the broker; what it has stored lies there until the campaign ends."""
        if self._server is not None:
            self._server.kill()
            if isinstance(self._server, ApacheKafka):
                self._server.zookeeper.kill()

    def restart(self) -> None:
        """Kill the broker however it is, and start a new one."""
        self.end()
        self.start()

    def place_of_victim(self, listener: Listener) -> Place:
        """Return how the victim connects: as a user who may do everything."""
        return self._place(listener, _USER)

    def place_of_senders(self, listener: Listener) -> Place:
        """Return how the senders connect: with a login, as a user without any right."""
        return self._place(listener, _USER_WITHOUT_RIGHTS)

    def _place(self, listener: Listener, user: str) -> Place:
        trust = str(self._certificates / "authority.pem") if listener is Listener.TLS else None
        name = user if listener is Listener.LOGIN else None
        return Place("127.0.0.1", self._ports[listener], trust, name, _PASSWORD)


class Memory:
    """The resident memory of a broker over one measurement, in MiB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        reset_peak(pid)
        self._before = resident_mib(pid)
        self.growth_mib = 0.0

    def sample(self) -> None:
        """Look at the highest value so far; a process that is gone has the value of the last look."""
        try:
            self.growth_mib = max(self.growth_mib, peak_resident_mib(self._pid) - self._before)
        except (OSError, KeyError):
            return


def write_certificates(directory: Path) -> None:
    """Write an authority, and the key store of both brokers, which it has signed."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = CertificateAuthority()
    authority.write_pem(directory / "authority.pem")
    authority.issue("broker").write_pem(directory / "server.pem")


class _OtherBarnabas(BarnabasProcess):
    """A broker of the version whose `src` directory the environment names."""

    def launch(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        super().launch(command, {**os.environ, **(environment or {}), "PYTHONPATH": os.environ[PLACE_VARIABLE]})


def _make_server(system: str, directory: Path, ports: Mapping[Listener, int], certificates: Path) -> ServerProcess:
    properties = _properties(certificates)
    addresses = [f"{listener.value}://127.0.0.1:{port}" for listener, port in ports.items()]
    if system == REFERENCE:
        kafka = ApacheKafka(directory, properties | {"listeners": ",".join(addresses)})
        kafka.port = ports[Listener.PLAINTEXT]
        return kafka
    made = _OtherBarnabas if PLACE_VARIABLE in os.environ else BarnabasProcess
    ours = made(directory, properties, port=ports[Listener.PLAINTEXT])
    ours.more_listeners = tuple(address for address in addresses if not address.startswith("PLAINTEXT:"))
    return ours


def _properties(certificates: Path) -> dict[str, str]:
    """Return the settings of a broker, with Kafka's names: both take the same. All others are the defaults."""
    users = " ".join(f'user_{user}="{_PASSWORD}"' for user in (_USER, _USER_WITHOUT_RIGHTS))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "listener.security.protocol.map": ",".join(f"{name.value}:{protocol}" for name, protocol in _PROTOCOLS.items()),
        "inter.broker.listener.name": Listener.PLAINTEXT.value,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{module} required {users};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{_USER}",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def _create_topics(server: ServerProcess) -> None:
    with RawClient(server) as client:
        client.create_topic(EXISTING_NAME)
        client.create_topic(TOPIC)
        client.create_topic(FILLED_TOPIC)
        client.create_topic(LARGE_TOPIC, configs={"max.message.bytes": str(_LARGEST_BATCH_BYTES)})
        client.create_topic(FLUSHED_TOPIC, FLUSHED_PARTITIONS, {"flush.messages": "1"})
        client.create_topic(WIDE_TOPIC, WIDE_PARTITIONS)
        filled = tiny_records(_FILLED_BATCH_BYTES, Codec.GZIP)
        for _ in range(_FILLED_BATCHES):
            stored = client.produce(FILLED_TOPIC, filled)
            assert stored.error_code == 0, stored
        client.await_transaction_coordinator(EXISTING_NAME)
        _await_group_coordinator(client)


def _await_group_coordinator(client: RawClient) -> None:
    """Return when the coordinator of the group has loaded it: requests about the group are then looked into."""
    version = version_for_both(FindCoordinatorRequest)
    deadline = time.monotonic() + SECONDS
    while True:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[EXISTING_NAME])
        (found,) = client.call(request, version, FindCoordinatorResponse).coordinators
        committed = client.call(OffsetFetchRequest(EXISTING_NAME, topics=None), 2, OffsetFetchResponse)
        if found.error_code == committed.error_code == 0:
            return
        assert time.monotonic() < deadline, (found, committed)
        time.sleep(0.05)
