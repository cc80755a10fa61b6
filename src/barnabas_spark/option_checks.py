"""Checks the options of `load()` and `save()` at once, before it is known whether they belong to a batch or a stream.

Called by `source.BarnabasDataSource`, in the short-lived Python process that Spark makes for each `load()` and
`save()`; no state, no lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from barnabas_spark import option_table as table
from barnabas_spark.declared_options import DeclaredOptions
from barnabas_spark.kafka_options import WITHOUT_EFFECT_ON_SINK, WITHOUT_EFFECT_ON_SOURCE, refuse_fixed
from barnabas_spark.option_values import OptionError
from barnabas_spark.sink_option_table import TOPIC
from barnabas_spark.sink_options import SINK_OPTION_NAMES, SinkOptions
from barnabas_spark.source_options import SOURCE_OPTION_NAMES, SourceOptions

logger = logging.getLogger(__name__)


def check_options(given: Mapping[str, str]) -> None:
    """Check what can be checked without a broker, and warn once of options without effect. Raises OptionError."""
    options = DeclaredOptions(given)
    if not given or ("provider" in options and "owner" in options):
        # CREATE TABLE gives the properties of the new table as options. A query of the table would be given none.
        raise OptionError(
            "no options are given: set 'kafka.bootstrap.servers', and 'subscribe' to read or 'topic' to write. In SQL,"
            " Spark does not pass on the OPTIONS of CREATE TABLE ... USING barnabas: use"
            " CREATE TEMPORARY VIEW ... USING barnabas OPTIONS (...)"
        )
    refuse_fixed(options)
    options.check_names({*SOURCE_OPTION_NAMES, *SINK_OPTION_NAMES})
    # A sink may take its topics from a column. So options without a topic may be those of a sink, and are checked when
    # Spark asks for a reader or a writer.
    if options.given(table.STRATEGIES):
        SourceOptions.parse(given, streaming=None)
        _warn(options, WITHOUT_EFFECT_ON_SOURCE)
    elif TOPIC.name in options:
        SinkOptions.parse(given)
        _warn(options, WITHOUT_EFFECT_ON_SINK)


def warn_of_stream_options(given: Mapping[str, str]) -> None:
    """Warn of options that a batch query ignores."""
    options = DeclaredOptions(given)
    ignored = options.given(option for option in table.SOURCE_OPTIONS if option.queries is table.Queries.STREAM)
    if ignored:
        logger.warning("ignored in a batch query: %s", ", ".join(ignored))


def _warn(options: DeclaredOptions, names: Iterable[str]) -> None:
    without_effect = [name for name in names if name in options]
    if without_effect:
        logger.warning(
            "accepted, but without effect, because the clients of Barnabas have no such part: %s",
            ", ".join(without_effect),
        )
