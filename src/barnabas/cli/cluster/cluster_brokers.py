"""`barnabas cluster brokers`: each broker, what it leads, and what it stores. Runs on the main thread."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors, open_admin, timeout_option
from barnabas.cli.tables import json_option, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.clients.admin import Admin, TopicDescription


class _Broker(NamedTuple):
    """A broker, or an id that only the replicas of partitions name. The names are those of `--json`.

    address: None unless the broker is registered. failed_log_dirs, bytes: None unless the broker has answered.
    """

    id: int
    address: str | None
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    not_in_sync: int
    failed_log_dirs: int | None
    bytes: int | None


class _Stored(NamedTuple):
    """What lies in a broker's log directories; None where the broker did not answer."""

    failed_log_dirs: int | None
    size: int | None


@click.command()
@bootstrap_option
@timeout_option
@json_option
def brokers(bootstrap_servers: str, timeout_seconds: float, as_json: bool) -> None:
    """Show each broker: what it leads, its replicas, how many of them are not in sync, and what it stores.

    A broker that has replicas and is not registered is shown without an address.
    """
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        found = _read_brokers(admin)
    if as_json:
        print_json({"brokers": [each._asdict() for each in found]})
        return
    columns = ("broker", "address", "rack", "controller", "leaders", "replicas", "not in sync", "failed dirs", "bytes")
    print_table(
        columns,
        [
            (
                str(each.id),
                each.address or "not registered",
                each.rack or "-",
                "yes" if each.controller else "no",
                str(each.leaders),
                str(each.replicas),
                str(each.not_in_sync),
                *("?" if number is None else str(number) for number in (each.failed_log_dirs, each.bytes)),
            )
            for each in found
        ],
    )


def _read_brokers(admin: Admin) -> list[_Broker]:
    described = admin.describe_cluster()
    nodes = {node.id: node for node in described.nodes}
    counts = _counts(admin.describe_topics())
    found = []
    for broker_id in sorted(nodes.keys() | counts["replicas"].keys()):
        node = nodes.get(broker_id)
        stored = _Stored(None, None) if node is None else _stored(admin, broker_id)
        found.append(
            _Broker(
                id=broker_id,
                address=None if node is None else f"{node.host}:{node.port}",
                rack=None if node is None else node.rack,
                controller=broker_id == described.controller_id,
                leaders=counts["leaders"][broker_id],
                replicas=counts["replicas"][broker_id],
                not_in_sync=counts["replicas"][broker_id] - counts["in sync"][broker_id],
                failed_log_dirs=stored.failed_log_dirs,
                bytes=stored.size,
            )
        )
    return found


def _counts(topics: Mapping[str, TopicDescription]) -> dict[str, Counter[int]]:
    """Count by broker id what it leads, its replicas, and those in sync."""
    leaders, replicas, in_sync = Counter[int](), Counter[int](), Counter[int]()
    for topic in topics.values():
        for partition in topic.partitions:
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            in_sync.update(set(partition.isr) & set(partition.replicas))
    return {"leaders": leaders, "replicas": replicas, "in sync": in_sync}


def _stored(admin: Admin, broker_id: int) -> _Stored:
    from barnabas.clients.errors import ClientTimeout

    try:
        directories = admin.describe_log_dirs(broker_id)
    except (ClientTimeout, ConnectionError):
        # Registered, and frozen or cut off: the other brokers are worth showing.
        return _Stored(None, None)
    return _Stored(
        sum(1 for directory in directories if directory.error),
        sum(replica.size for directory in directories for replica in directory.replicas.values()),
    )
