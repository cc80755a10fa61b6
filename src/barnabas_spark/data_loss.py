"""Reports the loss of records that a query should read. Called on driver and workers; no state, no lock."""

from __future__ import annotations

import logging

from barnabas_spark.source_options import SourceOptions

logger = logging.getLogger(__name__)


class DataLoss(Exception):
    """Records are missing, and `failOnDataLoss` is on."""


_LOST = (
    "Records may have been missed: they were aged out, or the topic was deleted or created again before they were read"
)


def report_data_loss(options: SourceOptions, what: str, reason: str = _LOST) -> None:
    """Report that records are missing. Raises DataLoss; without `failOnDataLoss`, log a warning instead."""
    if not options.fail_on_data_loss:
        logger.warning("records may have been missed: %s", what)
        return
    raise DataLoss(
        f"{what}. {reason}. If the query should go on with what is there, set option 'failOnDataLoss' to false"
    )
