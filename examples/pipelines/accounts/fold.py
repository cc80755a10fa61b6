"""The fold of the example `accounts`: a balance for each account, and a change that comes twice counts once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "account STRING, cents BIGINT, changes BIGINT, refused BIGINT"


class Balance(StatefulProcessor):
    """Keeps balance, number of changes, last change's number, and refused changes of each account."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._state = handle.getValueState("balance", "cents BIGINT, changes BIGINT, last BIGINT, refused BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Apply the changes of one account in the order of their numbers."""
        cents, changes, last, refused = self._state.get() if self._state.exists() else (0, 0, -1, 0)
        for change in pd.concat(list(rows)).sort_values("number").itertuples():
            if change.number <= last:
                # The log has it twice: it was counted already.
                continue
            last = int(change.number)
            if cents + change.cents < 0:
                refused += 1
                continue
            cents, changes = cents + int(change.cents), changes + 1
        self._state.update((cents, changes, last, refused))
        yield pd.DataFrame({"account": [key[0]], "cents": [cents], "changes": [changes], "refused": [refused]})

    def close(self) -> None:
        """Nothing is held."""


def balances(changes: DataFrame) -> DataFrame:
    """Return the balance of each account that a micro-batch has changed."""
    return changes.groupBy("account").transformWithStateInPandas(
        statefulProcessor=Balance(), outputStructType=OUTPUT, outputMode="Update", timeMode="None"
    )
