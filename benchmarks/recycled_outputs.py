"""What the recycled outputs of LZ4 blocks (`records.recycling_memory_pool`) save: the time to decompress a batch.

Needs no broker. Outputs from the pool and new ones take turns in one process; the least times count.
"""

from __future__ import annotations

import argparse
import random
import time

from barnabas.records.compression import LZ4_OUTPUTS, Codec, compress, decompress

SIZES = (300, 1000, 4000, 16_000, 60_000, 200_000)
CALLS = 500


def _microseconds(stored: bytes, *, is_recycled: bool) -> float:
    start = time.process_time_ns()
    for _ in range(CALLS):
        if not is_recycled:
            LZ4_OUTPUTS.allocate(1)  # and forget it: the call below finds none
        decompress(Codec.LZ4, stored)
    return (time.process_time_ns() - start) / CALLS / 1000


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15, help="turns per size")
    rounds = parser.parse_args().rounds
    chance = random.Random(1)
    print(f"{'bytes':>8}{'recycled us':>13}{'fresh us':>10}{'ratio':>7}")
    for size in SIZES:
        stored = compress(Codec.LZ4, chance.randbytes(size // 4) + b"a" * (size - size // 4))
        recycled = fresh = float("inf")
        for _ in range(rounds):
            recycled = min(recycled, _microseconds(stored, is_recycled=True))
            fresh = min(fresh, _microseconds(stored, is_recycled=False))
        print(f"{size:8}{recycled:13.2f}{fresh:10.2f}{recycled / fresh:7.2f}")


if __name__ == "__main__":
    main()
