"""The table that benchmarks of a few cells print: medians by cell and system, with ratios to the reference."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

Result = dict[str, Any]
"""One measurement: its `cell`, its `system`, and figures by name."""


def collect(results: Iterable[Result], output: Path | None) -> list[Result]:
    """Print each measurement as it is made, and keep all so far in the file `output`. Return them."""
    collected: list[Result] = []
    for result in results:
        collected.append(result)
        print(json.dumps(result), flush=True)
        if output is not None:
            output.write_text(json.dumps(collected, indent=1))
    return collected


def figure_table(results: Sequence[Result], figures: Mapping[str, str], reference: str) -> str:
    """Return a markdown table: medians, in brackets the ratio to the reference. figures: heading -> name."""
    systems = list(dict.fromkeys(result["system"] for result in results))
    lines = [f"| | system | {' | '.join(figures)} |", "|" + "---|" * (len(figures) + 2)]
    for cell in dict.fromkeys(result["cell"] for result in results):
        for system in systems:
            shown = []
            for name in figures.values():
                ours, theirs = (_median(results, cell, each, name) for each in (system, reference))
                shown.append(_shown(ours, theirs, is_reference=system == reference))
            lines.append(f"| {cell} | {system} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _median(results: Sequence[Result], cell: str, system: str, name: str) -> float | None:
    values = [each[name] for each in results if each["cell"] == cell and each["system"] == system and name in each]
    return median(values) if values else None


def _shown(ours: float | None, theirs: float | None, *, is_reference: bool) -> str:
    if ours is None:
        return ""
    text = f"{ours:,.0f}" if ours >= 100 else f"{ours:.3g}"
    return text if is_reference or not theirs else f"{text} ({ours / theirs:.2f})"
