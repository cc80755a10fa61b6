"""`barnabas log`: shows the files of a log directory, or adopts Apache Kafka's. Only `dirs` needs a broker."""

from __future__ import annotations

import sys

import click

from barnabas.cli.client_options import EXIT_FAILED, fail
from barnabas.cli.log_adopt import adopt
from barnabas.cli.log_dirs import dirs
from barnabas.cli.log_sidecars import sidecars


@click.group()
def log() -> None:
    """Show log directories and their files; adopt those of Apache Kafka."""


log.add_command(adopt)
log.add_command(dirs)
log.add_command(sidecars)


@log.command()
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--deep-iteration", is_flag=True, help="Print every record of a .log file, not only its batches.")
@click.option("--print-data-log", "--print-records", is_flag=True, help="Print keys and values of the records too.")
@click.option(
    "--transaction-log-decoder", is_flag=True, help="Print the records as those of __transaction_state, decoded."
)
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with their logs without printing them.")
@click.option("--index-sanity-check", is_flag=True, help="Only check whether a starting broker would rebuild an index.")
def dump(
    paths: tuple[str, ...],
    deep_iteration: bool,
    print_data_log: bool,
    transaction_log_decoder: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
) -> None:
    """Show the content of files of a log directory, as Kafka's DumpLogSegments does.

    Reads segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot), checkpoint files,
    partition.metadata and meta.properties. Compares indexes with their log. Damage is reported on stderr, and makes the
    exit status 1. Needs no broker.

    \b
        barnabas log dump /var/lib/barnabas/flights-0/00000000000000000000.log --print-data-log
        barnabas log dump /var/lib/barnabas/flights-0/*.{index,timeindex} --verify-index-only
        barnabas log dump /var/lib/barnabas/flights-0/*.snapshot /var/lib/barnabas/*-checkpoint
        barnabas log dump /var/lib/barnabas/__transaction_state-*/*.log --transaction-log-decoder
    """
    from barnabas.coordinator.transaction.log.display import transaction_record_text
    from barnabas.runtime.files import OperatingSystemFiles
    from barnabas.storage.checkpoints import MalformedCheckpoint
    from barnabas.storage.dump.complaint import Complaint
    from barnabas.storage.dump.indexes import IndexCheck
    from barnabas.storage.dump.log_file import DumpTerms, dump_file

    check = IndexCheck.VERIFY if verify_index_only else IndexCheck.PRINT
    terms = DumpTerms(
        deep_iteration,
        print_data_log,
        IndexCheck.SANITY if index_sanity_check else check,
        transaction_record_text if transaction_log_decoder else None,
    )
    # Read-only: the files may belong to a broker that runs.
    files = OperatingSystemFiles(read_only=True)
    has_complaints = False
    for path in paths:
        try:
            for line in dump_file(path, files, terms):
                # Damage goes to stderr, so that a script gets the content of the files alone from stdout.
                is_complaint = isinstance(line, Complaint)
                click.echo(line, err=is_complaint)
                has_complaints |= is_complaint
        # The reader of this output, such as head, has seen enough.
        except BrokenPipeError:
            return
        except OSError as error:
            fail(f"cannot read {error.filename or path}: {error.strerror}")
        except MalformedCheckpoint as error:
            fail(str(error))
    if has_complaints:
        sys.exit(EXIT_FAILED)
