"""Changes a few places of a valid frame: what the fuzz tests of decoders and of a whole broker send.

Seeded, so that a failure can be repeated. The changes are those that have broken decoders: flipped bits, extreme bytes,
cuts, insertions, lengths that lie, repeated tails.
"""

from __future__ import annotations

import random

_LYING_LENGTHS = (
    b"\xff\xff\xff\xff",  # null, or a varint that goes on
    b"\x7f\xff\xff\xff",  # 2**31 - 1
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x07",  # 2**31 - 1 as a varint
    b"\xff\xff\xff\xff\x0f",  # 2**32 - 1 as a varint: what makes kio abort
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x00",  # an over-long zero
    b"\x00\x0f\xff\xff",
    b"\x7f\xff",
)


class Mutator:
    """Makes mutants of a frame from a seeded source."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def mutate(self, frame: bytes, first: int) -> bytes:
        """Change one to four places at or behind `first`."""
        mutant = bytearray(frame)
        for _ in range(self._random.randint(1, 4)):
            self._change(mutant, self._random.randint(min(first, len(mutant)), len(mutant)))
        return bytes(mutant)

    def _change(self, mutant: bytearray, place: int) -> None:
        chance = self._random
        match chance.randrange(7):
            case 0 if place < len(mutant):
                mutant[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(mutant):
                mutant[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                del mutant[place:]
            case 3:
                del mutant[place : place + chance.randint(1, 4)]
            case 4:
                mutant[place:place] = chance.randbytes(chance.randint(1, 8))
            case 5:
                lie = chance.choice(_LYING_LENGTHS)
                mutant[place : place + len(lie)] = lie
            case _:
                mutant += mutant[place:] * chance.randint(1, 20)
