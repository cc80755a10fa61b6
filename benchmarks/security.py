"""What protection costs: TLS, logins and access control lists; against Apache Kafka 3.9 in the same run.

    python -m benchmarks.security [--systems apache-kafka barnabas] [--rounds 3] [--seconds 3] [--cells ...]

All brokers are up at once, and each round goes round the systems. A system has two brokers: one with a listener of each
protocol, and one with an authorizer. Cells:

- **produce and fetch over TLS** (1.3, a certificate on the curve P-256, what both choose by themselves), and in
  plaintext beside them. The client is one process; its share of the time is in the table.
- **handshakes**: four clients connect, do the handshake, ask for the API versions once and close. `resumed`: each
  offers the session of its connection before; whether the broker takes it is in the table, too.
- **logins** by SCRAM-SHA-256 on a plaintext listener, the same way. The client computes PBKDF2 once.
- **authorized produce** of one record of 1 KB, logged in by PLAIN: on the broker without an authorizer, and on the
  other one with a list for the user and 0, 100 and 10,000 lists of other topics and users.

Prints medians over the rounds, and ratios to Apache Kafka; --output keeps every figure. CPU is the broker's.
"""

from __future__ import annotations

import argparse
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.clients.admin import Admin, ScramAlteration, ScramMechanism
from barnabas.security.acl.acl_binding import AccessControlEntry, AclBinding, ResourcePattern
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from benchmarks.broker import run_load
from benchmarks.figure_table import Result, collect, figure_table
from benchmarks.process_usage import cpu_seconds
from benchmarks.secured_connections import Login, secure, tls_context
from benchmarks.systems import REFERENCE, SHARED
from benchmarks.wire_requests import Connection
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.certificates import CertificateAuthority
from tests.support.server_process import ServerProcess, free_port

BARNABAS: Final = "barnabas"
USER: Final = "alice"
PASSWORD: Final = "of-the-benchmark"
CLIENTS: Final = 4
OTHER_LISTS: Final = (0, 100, 10_000)
LISTS_PER_REQUEST: Final = 500
MAX_BYTES_PER_RUN: Final = 500_000_000
LOADED_BYTES: Final = 300_000_000
JVM_WARM_SECONDS, WARM_SECONDS = 6.0, 1.0
API_VERSIONS: Final = bytes.fromhex("0000000d 0012 0000 00000001 0003 626566")  # v0, client id "bef"
LISTENERS: Final = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "LOGIN": "SASL_PLAINTEXT"}
FIGURES: Final = {
    "MB/s": "mb_per_second",
    "CPU s/GB": "cpu_s_per_gb",
    "1/s": "per_second",
    "CPU us": "cpu_us",
    "p50 us": "p50_us",
    "p99 us": "p99_us",
    "resumed": "resumed_share",
    "client CPU share": "client_share",
}
_MODULE: Final = "org.apache.kafka.common.security"


class SecuredBroker(NamedTuple):
    """A running broker, and the port of each listener."""

    process: ServerProcess
    ports: Mapping[str, int]


class SecuredSystem(NamedTuple):
    """The brokers of a system. open_broker: without an authorizer, authorized: with one."""

    name: str
    open_broker: SecuredBroker
    authorized: SecuredBroker
    trust: str


def security_properties(directory: Path, *, authorizer: bool) -> dict[str, str]:
    """The settings of a broker, with Kafka's names: both systems take the same."""
    properties = SHARED | {
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.login.plain.sasl.jaas.config": (
            f'{_MODULE}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        ),
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
    }
    if authorizer:
        properties["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
        properties["super.users"] = "User:ANONYMOUS"
    return properties


def make_broker(system: str, place: Path, certificates: Path, *, authorizer: bool) -> SecuredBroker:
    """Return a broker of a system, with certificates of `certificates`, not started."""
    properties = security_properties(certificates, authorizer=authorizer)
    ports = {name: free_port() for name in LISTENERS}
    if system == REFERENCE:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        kafka = ApacheKafka(place, properties | {"listeners": listeners})
        kafka.port = ports["PLAINTEXT"]
        return SecuredBroker(kafka, ports)
    ours = BarnabasProcess(place, properties, port=ports["PLAINTEXT"])
    ours.more_listeners = tuple(f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "PLAINTEXT")
    return SecuredBroker(ours, ports)


# -- TLS throughput


class Throughput(NamedTuple):
    """A cell of the load generator."""

    name: str
    command: str
    arguments: tuple[str, ...]


THROUGHPUTS: Final = (
    Throughput("produce 16 KB", "produce", ("--batch-bytes", "16384", "--depth", "5")),
    Throughput("produce 100 KB", "produce", ("--batch-bytes", "100000", "--value-bytes", "1000", "--depth", "5")),
    Throughput("fetch 1 MB", "fetch", ("--max-bytes", str(1 << 20))),
)


def measure_throughput(system: SecuredSystem, cell: Throughput, listener: str, topic: str, seconds: float) -> Result:
    """Run a cell over one listener of the broker without an authorizer."""
    broker = system.open_broker
    words = ["--port", str(broker.ports[listener])]
    if listener == "TLS":
        words += ["--host", "localhost", "--trust", system.trust]
    if cell.command == "produce":
        words += ["--max-total-bytes", str(MAX_BYTES_PER_RUN)]
    load = run_load(broker.process, cell.command, topic, seconds, *cell.arguments, *words)
    return {
        "mb_per_second": load["mb_per_second"],
        "cpu_s_per_gb": load["cpu_s_per_gb"],
        "client_share": load["client_cpu_seconds"] / load["seconds"],
    }


# -- handshakes and logins


def count_visits(process: ServerProcess, seconds: float, new_visit: Callable[[], Callable[[], None]]) -> Result:
    """Have several clients visit a broker for some time. new_visit: makes the visit of one client, done repeatedly."""
    visits = [new_visit() for _ in range(CLIENTS)]
    counts = [0] * CLIENTS
    failures: list[BaseException] = []
    for visit in visits:
        visit()

    def run(number: int) -> None:
        try:
            while time.perf_counter() < ends_at:
                visits[number]()
                counts[number] += 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    before, cpu, began = cpu_seconds(process.pid), time.process_time(), time.perf_counter()
    ends_at = began + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, cpu, used = time.perf_counter() - began, time.process_time() - cpu, cpu_seconds(process.pid) - before
    if failures:
        raise failures[0]
    return {
        "per_second": sum(counts) / elapsed,
        "cpu_us": used.total / sum(counts) * 1e6,
        "client_share": cpu / elapsed,
    }


def measure_handshakes(system: SecuredSystem, seconds: float, *, resumed: bool) -> Result:
    """Count handshakes; with the share of them that resumed a session."""
    outcomes: list[bool] = []
    visits = tls_visits(system, outcomes, resumed=resumed)
    result = count_visits(system.open_broker.process, seconds, visits)
    return result | {"resumed_share": sum(outcomes) / len(outcomes)}


def tls_visits(system: SecuredSystem, outcomes: list[bool], *, resumed: bool) -> Callable[[], Callable[[], None]]:
    """Return the maker of visits that are a handshake each. outcomes: takes whether each resumed a session."""
    port = system.open_broker.ports["TLS"]

    def new_visit() -> Callable[[], None]:
        context = tls_context(system.trust)
        sessions: list[ssl.SSLSession | None] = [None]

        def visit() -> None:
            connection = Connection("localhost", port)
            try:
                offered = sessions[0] if resumed else None
                secure(connection, context, session=offered)
                connection.call(API_VERSIONS)  # the tickets of TLS 1.3 come before the answer
                assert isinstance(connection.socket, ssl.SSLSocket)
                sessions[0] = connection.socket.session
                outcomes.append(bool(connection.socket.session_reused))
            finally:
                connection.close()

        return visit

    return new_visit


def login_visits(system: SecuredSystem) -> Callable[[], Callable[[], None]]:
    """Return the maker of visits that are a login by SCRAM each."""
    port = system.open_broker.ports["LOGIN"]

    def new_visit() -> Callable[[], None]:
        login = Login.of_user("SCRAM-SHA-256", USER, PASSWORD)

        def visit() -> None:
            connection = Connection("127.0.0.1", port)
            try:
                secure(connection, None, login)
            finally:
                connection.close()

        return visit

    return new_visit


# -- access control lists


def list_about(number: int) -> AclBinding:
    """A list of another user about another topic, or topics by prefix."""
    how = (PatternType.LITERAL, PatternType.PREFIXED)[number % 2]
    entry = AccessControlEntry(f"User:{number}", "*", AclOperation.READ, AclPermissionType.ALLOW)
    return AclBinding(ResourcePattern(ResourceType.TOPIC, f"other-{number}", how), entry)


def add_lists(broker: SecuredBroker, first: int, end: int) -> None:
    """Add lists of others, as super user."""
    with Admin(f"127.0.0.1:{broker.ports['PLAINTEXT']}") as admin:
        for start in range(first, end, LISTS_PER_REQUEST):
            admin.create_acls([list_about(number) for number in range(start, min(start + LISTS_PER_REQUEST, end))])


def allow_user(broker: SecuredBroker) -> None:
    """Let the user do what the load generator does: write to every topic of the benchmark, and create it."""
    pattern = ResourcePattern(ResourceType.TOPIC, "acl-", PatternType.PREFIXED)
    operations = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
    with Admin(f"127.0.0.1:{broker.ports['PLAINTEXT']}") as admin:
        admin.create_acls(
            [
                AclBinding(pattern, AccessControlEntry(f"User:{USER}", "*", operation, AclPermissionType.ALLOW))
                for operation in operations
            ]
        )


def measure_authorized(broker: SecuredBroker, topic: str, seconds: float) -> Result:
    """Produce one record after the other, logged in."""
    words = ("--port", str(broker.ports["LOGIN"]), "--login", f"{USER}:{PASSWORD}", "--value-bytes", "1000")
    load = run_load(broker.process, "produce", topic, seconds, *words)
    return {
        "per_second": load["requests_per_second"],
        "cpu_us": load["cpu_us_per_request"],
        "p50_us": load["p50_us"],
        "p99_us": load["p99_us"],
        "client_share": load["client_cpu_seconds"] / load["seconds"],
    }


# -- the run


def prepare(system: SecuredSystem) -> None:
    """Make the user, fill the topic that fetches read, and let the JVM compile."""
    broker = system.open_broker
    with Admin(f"127.0.0.1:{broker.ports['PLAINTEXT']}") as admin:
        admin.alter_user_scram_credentials([ScramAlteration(USER, ScramMechanism.SCRAM_SHA_256, PASSWORD)])
    words = ("--batch-bytes", "100000", "--value-bytes", "1000", "--depth", "5")
    run_load(broker.process, "produce", "read", 300, *words, "--max-total-bytes", str(LOADED_BYTES))
    seconds = JVM_WARM_SECONDS if system.name == REFERENCE else WARM_SECONDS
    for listener in ("TLS", "PLAINTEXT"):
        for cell in THROUGHPUTS:
            measure_throughput(system, cell, listener, "read" if cell.command == "fetch" else "warm", seconds)
    for resumed in (False, True):
        measure_handshakes(system, seconds, resumed=resumed)
    count_visits(broker.process, seconds, login_visits(system))
    allow_user(system.authorized)
    for _ in range(2):
        for each in (system.authorized, broker):
            measure_authorized(each, "acl-warm", seconds)


def measure(systems: list[SecuredSystem], cells: set[str], rounds: int, seconds: float) -> Iterator[Result]:
    """Every figure of every round; those with more lists come last, since lists stay."""

    def note(cell: str, system: SecuredSystem, number: int, result: Result) -> Result:
        return {"cell": cell, "system": system.name, "round": number} | result

    for number in range(rounds):
        if "throughput" in cells:
            for cell in THROUGHPUTS:
                for listener in ("TLS", "PLAINTEXT"):
                    for system in systems:
                        topic = "read" if cell.command == "fetch" else f"{listener}-{cell.arguments[1]}-{number}"
                        result = measure_throughput(system, cell, listener, topic, seconds)
                        yield note(f"{cell.name}, {listener}", system, number, result)
        if "handshakes" in cells:
            for resumed in (False, True):
                for system in systems:
                    result = measure_handshakes(system, seconds, resumed=resumed)
                    yield note(f"handshake, {'resumed' if resumed else 'full'}", system, number, result)
        if "logins" in cells:
            for system in systems:
                result = count_visits(system.open_broker.process, seconds, login_visits(system))
                yield note("login by SCRAM-SHA-256", system, number, result)
    if "lists" in cells:
        there = 0
        for others in OTHER_LISTS:
            for system in systems:
                add_lists(system.authorized, there, others)
            there = others
            for number in range(rounds):
                for system in systems:
                    result = measure_authorized(system.open_broker, "acl-open", seconds)
                    yield note("produce 1 KB, no authorizer", system, number, result)
                    result = measure_authorized(system.authorized, "acl-produce", seconds)
                    yield note(f"produce 1 KB, {others:,} other lists", system, number, result)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=[REFERENCE, BARNABAS], choices=[REFERENCE, BARNABAS])
    cells = ("throughput", "handshakes", "logins", "lists")
    parser.add_argument("--cells", nargs="+", default=list(cells), choices=cells)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--output", type=Path, help="a JSON file of every figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="barnabas-security-") as directory, ExitStack() as running:
        place = Path(directory)
        authority = CertificateAuthority()
        authority.issue("server").write_pem(place / "server.pem")
        trust = str(authority.write_pem(place / "trust.pem"))
        systems = []
        for name in options.systems:
            brokers = [
                make_broker(name, place / f"{name}-{authorizer}", place, authorizer=authorizer)
                for authorizer in (False, True)
            ]
            for broker in brokers:
                running.enter_context(broker.process.running())
            systems.append(SecuredSystem(name, brokers[0], brokers[1], trust))
        for system in systems:
            prepare(system)
        results = collect(measure(systems, set(options.cells), options.rounds, options.seconds), options.output)
    print(figure_table(results, FIGURES, options.systems[0]))


if __name__ == "__main__":
    main()
