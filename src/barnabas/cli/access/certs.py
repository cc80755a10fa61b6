"""`barnabas certs`: certificates for development. Runs on the main thread; needs the extra `tls`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from barnabas.cli.client_options import fail


@click.group()
def certs() -> None:
    """Make certificates for development: an authority, a broker's and a client's. Needs the extra `tls`."""


@certs.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="A name or address at which clients reach the broker (repeatable). Default: localhost, 127.0.0.1 and ::1.",
)
@click.option("--client", default="client", show_default=True, metavar="NAME", help="The name of the client.")
def init(directory: Path, hosts: tuple[str, ...], client: str) -> None:
    """Make an authority and certificates in DIR, and print the settings that use them.

    The keys are readable by their owner alone. Existing files are left as they are. For development only:
    whoever has the authority's key can pose as any broker and any client.
    """
    from barnabas.security.tls.development_certificates import (
        LOOPBACK_HOSTS,
        CertificatesMissing,
        make_certificates,
    )

    try:
        made = make_certificates(directory, hosts=hosts or LOOPBACK_HOSTS, client=client)
    except (OSError, CertificatesMissing, ValueError) as error:
        fail(str(error))
    click.echo(f"# {made.directory}: ca.pem, ca-key.pem, server.pem, client.pem")
    _show(
        "the broker (server.properties)",
        {
            "listeners": "SSL://:9093,PLAINTEXT://127.0.0.1:9092",
            **made.broker_settings,
            "# to accept clients with a certificate only": "",
            "#ssl.client.auth": "required",
        },
    )
    _show("Java's clients, and kafka-*.sh with --command-config", made.client_settings)
    _show("confluent-kafka, kcat (-X) and other clients on librdkafka", made.librdkafka_settings)


def _show(title: str, settings: Mapping[str, str]) -> None:
    click.echo(f"\n# {title}")
    for name, value in settings.items():
        click.echo(f"{name}={value}" if value else name)
