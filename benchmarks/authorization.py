"""Counts what an authorized request costs: the bytecodes of produces and fetches without and with access control lists.

    python -m benchmarks.authorization

The client is a principal that may write and read its topic by a list of its own; beside it stand 0, 100 and 10,000
others: half of them about prefixes, all of other principals. Counted as in `benchmarks.bytecodes`, with one cell more:
`decided afresh`, where the cache of decisions is emptied before every request, as if lists changed all the time.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from typing import Any

from barnabas.broker.broker_server import BrokerServer
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.server_defaults import SERVER_DEFAULTS
from barnabas.security.acl.acl_authorizer import AclAuthorizer
from barnabas.security.acl.acl_binding import AccessControlEntry, ResourcePattern
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.transport.channel.authenticator import ANONYMOUS, Authenticator, PlaintextAuthenticator, plaintext_channel
from barnabas.transport.channel.transport_layer import TransportLayer
from benchmarks.bytecodes import COUNTED, TOPIC, WARM, CountedProcessors
from benchmarks.systems import SHARED
from benchmarks.wire_requests import Connection, batch_of_count, batch_of_size, fetch_frame, produce_frame

OTHER_LISTS = (0, 100, 10_000)
CLIENT = "User:counted"
Lists = dict[ResourcePattern, frozenset[AccessControlEntry]]


class NamedClients:
    """A ChannelBuilder; it gives each new connection the principal that is set at the time."""

    def __init__(self) -> None:
        self.principal = ANONYMOUS

    def __call__(self, stream_socket: Any) -> tuple[TransportLayer, Authenticator]:
        """Return the transport of a connection, and its principal."""
        transport, _ = plaintext_channel(stream_socket)
        authenticator = PlaintextAuthenticator()
        authenticator.principal = self.principal
        return transport, authenticator


def lists_with(others: int) -> Lists:
    """Return the client's list and `others` lists about other topics."""
    allow, topic = AclPermissionType.ALLOW, ResourceType.TOPIC
    own = frozenset(AccessControlEntry(CLIENT, "*", each, allow) for each in (AclOperation.READ, AclOperation.WRITE))
    lists: Lists = {ResourcePattern(topic, TOPIC, PatternType.LITERAL): own}
    for number in range(others):
        how = (PatternType.LITERAL, PatternType.PREFIXED)[number % 2]
        entry = AccessControlEntry(f"User:{number}", "*", AclOperation.READ, allow)
        lists[ResourcePattern(topic, f"other-{number}", how)] = frozenset([entry])
    return lists


def measure(counted: CountedProcessors, authorizer: AclAuthorizer | None) -> Iterator[tuple[str, float]]:
    """Yield the bytecodes of each request on a broker of its own."""
    clients = NamedClients()
    with tempfile.TemporaryDirectory() as data_dir:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": data_dir, "num.network.threads": "1"}
        config = KafkaConfig.parse(SERVER_DEFAULTS | SHARED | settings, "the benchmark")
        broker = BrokerServer(config, authorizer=authorizer, channel_builders={"PLAINTEXT": clients})
        broker.startup()
        try:
            port = broker.bound_endpoints[0].port
            operator = Connection("127.0.0.1", port, 4 << 20)
            operator.create_topic(TOPIC)
            clients.principal = CLIENT
            connection = Connection("127.0.0.1", port, 4 << 20)
            batch, _ = batch_of_size(16 * 1024, 100)
            frames = {
                "produce of one record": produce_frame(TOPIC, 0, batch_of_count(1, 1000), 1),
                "produce of 16 KB": produce_frame(TOPIC, 0, batch, 1),
                "fetch of 16 KB": fetch_frame(TOPIC, 0, 0, 16 * 1024),
            }
            for name, frame in frames.items():
                yield name, _count(counted, connection, frame)
            if authorizer is not None:
                afresh = frames["produce of one record"]
                yield "produce of one record, decided afresh", _count(counted, connection, afresh, authorizer)
            operator.close()
            connection.close()
        finally:
            # The broker connects to itself when it stops.
            clients.principal = ANONYMOUS
            broker.shutdown()


def _count(
    counted: CountedProcessors, connection: Connection, frame: bytes, forgetful: AclAuthorizer | None = None
) -> float:
    for number in itertools.count():
        if number == WARM:
            counted.counts.clear()
            counted.counting = True
        if number == WARM + COUNTED:
            break
        if forgetful is not None:
            forgetful.replace_all(forgetful.snapshot.lists)
        connection.call(frame)
    counted.counting = False
    return counted.counts.total() / COUNTED


def main() -> None:
    """Print a line a request and number of lists."""
    counted = CountedProcessors()
    plain = dict(measure(counted, None))
    for name, count in plain.items():
        print(f"{name}, no authorizer: {count:.0f} bytecodes")
    for others in OTHER_LISTS:
        authorizer = AclAuthorizer(frozenset([ANONYMOUS]), allow_if_none=False)
        authorizer.replace_all(lists_with(others))
        for name, count in measure(counted, authorizer):
            base = plain[name.partition(",")[0]]
            print(f"{name}, {others} other lists: {count:.0f} bytecodes, {(count / base - 1) * 100:+.1f} %")


if __name__ == "__main__":
    main()
