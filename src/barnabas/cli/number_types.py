"""Number types of options, within the protocol's 32 or 64 bits. click rejects other values by the option's name.

Used by the commands' options. Immutable.
"""

from __future__ import annotations

from typing import Final

import click

_INT32_MAX: Final = 2**31 - 1
NUMBER: Final = click.IntRange(0, _INT32_MAX)
"""The number of a partition or a broker."""
COUNT: Final = click.IntRange(1, _INT32_MAX)
"""A count of at least one."""
LIMIT: Final = click.IntRange(-1, _INT32_MAX)
"""The number of records to stop after. As in Kafka's console consumer, -1 removes the limit."""
REPLICATION_FACTOR: Final = click.IntRange(1, 2**15 - 1)
"""A number of replicas, which has 16 bits in the protocol."""
_INT64_MAX: Final = 2**63 - 1
OFFSET: Final = click.IntRange(0, _INT64_MAX)
SHIFT: Final = click.IntRange(-_INT64_MAX, _INT64_MAX)
"""A difference of offsets."""
RATE: Final = SHIFT
"""Bytes a second. As in Kafka, a negative rate removes the limit."""
