"""`barnabas cluster health` names what is worst about a partition."""

from __future__ import annotations

import pytest

from barnabas.cli.cluster_health import BELOW_MINIMUM, OFFLINE, UNDER_REPLICATED, unsafe_partitions
from barnabas.clients.admin import PartitionInfo


@pytest.mark.parametrize(
    ("leader", "isr", "problem"),
    [
        (1, (1, 2, 3), None),
        (1, (1, 2), UNDER_REPLICATED),
        (1, (1,), BELOW_MINIMUM),
        (-1, (1,), OFFLINE),
        (-1, (), OFFLINE),
    ],
)
def test_the_worst_of_a_partition(leader: int, isr: tuple[int, ...], problem: str | None) -> None:
    partition = PartitionInfo("orders", 0, leader, 7, (1, 2, 3), isr, ())
    found = unsafe_partitions([partition], {"orders": 2})
    assert [each.problem for each in found] == ([] if problem is None else [problem])
