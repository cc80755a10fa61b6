"""`barnabas log`: looks into the files of a data directory, or adopts Apache Kafka's. Needs no broker."""

from __future__ import annotations

import click

from barnabas.cli.client_options import fail
from barnabas.cli.log_adopt import adopt


@click.group()
def log() -> None:
    """Look into log directories; adopt those of Apache Kafka."""


log.add_command(adopt)


@log.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option("--print-records", is_flag=True, help="Keys and values of the records too.")
def dump(paths: tuple[str, ...], print_records: bool) -> None:
    """Show what is in segments (.log) and indexes (.index, .timeindex), as Kafka's DumpLogSegments does."""
    from barnabas.runtime.files import OperatingSystemFiles
    from barnabas.storage.checkpoints import MalformedCheckpoint
    from barnabas.storage.log_dump import dump_file

    files = OperatingSystemFiles(read_only=True)
    for path in paths:
        try:
            for line in dump_file(path, files, print_records=print_records):
                click.echo(line)
        except BrokenPipeError:
            return
        except OSError as error:
            fail(f"cannot read {path}: {error.strerror}")
        except MalformedCheckpoint as error:
            fail(str(error))
