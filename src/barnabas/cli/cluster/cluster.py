"""`barnabas cluster`: the brokers, and the APIs and features that they support. Runs on the main thread."""

from __future__ import annotations

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors, open_admin, timeout_option
from barnabas.cli.cluster.cluster_brokers import brokers
from barnabas.cli.cluster.cluster_health import health
from barnabas.cli.cluster.cluster_migrate import migrate
from barnabas.cli.option_types import NUMBER
from barnabas.cli.tables import json_option, print_json, print_table

broker_option = click.option(
    "--broker", "broker_id", type=NUMBER, metavar="ID", help="The broker to ask. [default: any]"
)


@click.group()
def cluster() -> None:
    """Show brokers, the APIs and features they support, unsafe partitions; move the metadata into ZooKeeper."""


cluster.add_command(brokers)
cluster.add_command(health)
cluster.add_command(migrate)


@cluster.command()
@bootstrap_option
@timeout_option
@json_option
def describe(bootstrap_servers: str, timeout_seconds: float, as_json: bool) -> None:
    """Show the cluster's id, its controller and its brokers."""
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        described = admin.describe_cluster()
    if as_json:
        print_json(
            {
                "cluster": described.cluster_id,
                "controller": described.controller_id if described.controller_id >= 0 else None,
                "brokers": [
                    {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack} for node in described.nodes
                ],
            }
        )
        return
    controller = described.controller_id if described.controller_id >= 0 else "none"
    click.echo(f"cluster {described.cluster_id}\tcontroller {controller}\tbrokers {len(described.nodes)}")
    rows = [(str(node.id), f"{node.host}:{node.port}", node.rack or "-") for node in described.nodes]
    print_table(("broker", "address", "rack"), rows)


@cluster.command()
@bootstrap_option
@timeout_option
@broker_option
def apis(bootstrap_servers: str, timeout_seconds: float, broker_id: int | None) -> None:
    """Show each API of a broker: the versions it supports, and the one that this client would use."""
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.protocol.message_index import MESSAGES, request_class

    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        found = admin.describe_features(broker_id).api_versions
    rows = []
    for key, (lowest, highest) in sorted(found.items()):
        # A broker may have APIs that this client does not know, and versions that overlap with none of the client's.
        known = key in MESSAGES
        newest = min(highest, request_class(key).max_version) if known else -1
        usable = known and newest >= max(lowest, request_class(key).min_version)
        name = ApiKey(key).name if key in set(ApiKey) else "unknown"
        rows.append((str(key), name, f"{lowest}-{highest}", str(newest) if usable else "none"))
    print_table(("key", "API", "versions", "usable"), rows)


@cluster.command()
@bootstrap_option
@timeout_option
@broker_option
def features(bootstrap_servers: str, timeout_seconds: float, broker_id: int | None) -> None:
    """Show the cluster's features (KIP-584): the levels supported, and those in force."""
    with friendly_errors(bootstrap_servers), open_admin(bootstrap_servers, timeout_seconds) as admin:
        found = admin.describe_features(broker_id)
    rows = [
        (
            name,
            "{}-{}".format(*found.supported[name]) if name in found.supported else "-",
            str(found.finalized[name][1]) if name in found.finalized else "-",
        )
        for name in sorted(found.supported.keys() | found.finalized.keys())
    ]
    print_table(("feature", "supported", "in force"), rows)
    if not rows:
        click.echo("no features")
