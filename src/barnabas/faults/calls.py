"""The choice of calls: which of the requests that match a plan are hit.

Tests make them, `fault_table` asks them with the number of the call, which counts from 1. Immutable and pure: a draw by
chance depends on the seed and the number of the call alone, so the same calls are hit in every run.

    calls    1  2  3  4  5  6  7
    All      x  x  x  x  x  x  x
    Nth(3)         x
    First(3) x  x  x
    Every(3)       x        x
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

_DRAW_BITS: Final = 53  # those that a float holds exactly


@dataclass(frozen=True, slots=True)
class All:
    """Every call."""

    def includes(self, call: int) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class Nth:
    """The call of this number, and no other. Raises ValueError for a number below 1."""

    number: int

    def __post_init__(self) -> None:
        _check_number("Nth", self.number)

    def includes(self, call: int) -> bool:
        """Return whether `call` is the one."""
        return call == self.number


@dataclass(frozen=True, slots=True)
class First:
    """The first so many calls. Raises ValueError for a number below 1."""

    number: int

    def __post_init__(self) -> None:
        _check_number("First", self.number)

    def includes(self, call: int) -> bool:
        """Return whether `call` is one of the first."""
        return call <= self.number


@dataclass(frozen=True, slots=True)
class Every:
    """Each call whose number is a multiple: `Every(10)` hits the tenth, the twentieth and so on.

    Raises ValueError for a number below 1.
    """

    number: int

    def __post_init__(self) -> None:
        _check_number("Every", self.number)

    def includes(self, call: int) -> bool:
        """Return whether the number of `call` is a multiple."""
        return call % self.number == 0


@dataclass(frozen=True, slots=True)
class Chance:
    """Each call with this probability, by draws that the seed determines.

    Raises ValueError unless the probability is above 0 and at most 1, and the seed a whole number.
    """

    probability: float
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.probability) not in (int, float) or not 0 < self.probability <= 1:
            raise ValueError(f"a probability is above 0 and at most 1, not {self.probability!r}")
        if type(self.seed) is not int:
            raise ValueError(f"a seed is a whole number, not {self.seed!r}")

    def includes(self, call: int) -> bool:
        """Return the draw for `call`."""
        # A hash and not a generator: a draw must not depend on how many were made before, since a broker that is
        # started again continues to count where the last one ended.
        digest = blake2b(f"{self.seed}:{call}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 64 - _DRAW_BITS) / (1 << _DRAW_BITS) < self.probability


Calls: TypeAlias = All | Nth | First | Every | Chance
CALLS: Final = (All, Nth, First, Every, Chance)


def _check_number(name: str, number: int) -> None:
    """Check the number that a choice takes. Raises ValueError unless it is a whole number from 1 on."""
    if type(number) is not int or number < 1:
        raise ValueError(f"{name} takes a whole number from 1, not {number!r}")
