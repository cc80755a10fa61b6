"""Turns results of `benchmarks.broker` into a markdown table: medians, and ratios to the reference of the same run.

python -m benchmarks.report results/broker.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cells import CELLS, COLD_START, Cell
from benchmarks.systems import REFERENCE

Result = dict[str, Any]
LOAD_COLUMNS = (
    "system",
    "req/s",
    "MB/s",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "CPU us/request",
    "user s",
    "kernel s",
    "CPU s/GB",
    "peak MiB",
    "client CPU share",
    "ratio",
    "ratios by round",
    "CPU ratio",
)


def markdown_report(results: list[Result]) -> str:
    """One table a cell, in the order of the cells."""
    parts = []
    if _of(results, COLD_START):
        parts.append(_cold_start_table(_of(results, COLD_START)))
    parts += [_cell_table(cell, _of(results, cell.name)) for cell in CELLS if _of(results, cell.name)]
    return "\n".join(parts)


def _of(results: Iterable[Result], cell: str) -> list[Result]:
    return [result for result in results if result["cell"] == cell]


def _systems(results: list[Result]) -> list[str]:
    return list(dict.fromkeys(result["system"] for result in results))


def _median(results: list[Result], system: str, value: Callable[[Result], float]) -> float:
    return median(value(result) for result in results if result["system"] == system)


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(columns)
    lines = [f"**{title}**", "", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cold_start_table(results: list[Result]) -> str:
    rows = []
    for system in _systems(results):
        figures = [
            _median(results, system, lambda result, name=name: result[name])  # type: ignore[misc]
            for name in ("start_ms", "cpu_user", "cpu_kernel", "idle_mib")
        ]
        ratios = [_ratio(results, system, name) for name in ("start_ms", "idle_mib")]
        rows.append([system, *map(_number, figures), *ratios])
    columns = ("system", "ms", "user s", "kernel s", "idle MiB", "ratio of times", "ratio of memory")
    return _table("cold start until Metadata is answered; memory when idle", columns, rows)


def _cell_table(cell: Cell, results: list[Result]) -> str:
    rows = []
    for system in _systems(results):
        names = (
            "requests_per_second",
            "mb_per_second",
            "p50_us",
            "p99_us",
            "p999_us",
            "cpu_us_per_request",
            "cpu_user",
            "cpu_kernel",
            "cpu_s_per_gb",
            "peak_mib",
        )
        figures = [_median(results, system, lambda result, name=name: result[name]) for name in names]  # type: ignore[misc]
        share = _median(results, system, lambda result: result["client_cpu_seconds"] / result["seconds"])
        ratios = [_ratio(results, system, cell.figure)]
        ratios += [f"{_short(name)} {_ratio(results, system, name)}" for name in cell.also]
        spread = _spread(results, system, cell.figure)
        of_cpu = f"{_ratio(results, system, 'cpu_us_per_request')} ({_spread(results, system, 'cpu_us_per_request')})"
        rows.append([system, *map(_number, figures), f"{share:.2f}", ", ".join(ratios), spread, of_cpu])
    return _table(f"{cell.name}: {cell.what}", LOAD_COLUMNS, rows)


def _reference(results: list[Result]) -> str:
    """Apache Kafka; the first of ours where it was left out."""
    systems = _systems(results)
    return REFERENCE if REFERENCE in systems else systems[0]


def _short(name: str) -> str:
    return name.removesuffix("_us").replace("p999", "p99.9").replace("beside_mb_per_second", "produce beside")


def _ratio(results: list[Result], system: str, name: str) -> str:
    """Of the medians."""
    reference = _median(results, _reference(results), lambda result: float(result[name]))
    return f"{_median(results, system, lambda result: float(result[name])) / reference:.2f}"


def _spread(results: list[Result], system: str, name: str) -> str:
    """Lowest and highest ratio of one round."""
    reference = _reference(results)
    by_round: dict[int, dict[str, float]] = {}
    for result in results:
        by_round.setdefault(result["round"], {})[result["system"]] = result[name]
    ratios = [each[system] / each[reference] for each in by_round.values() if {system, reference} <= each.keys()]
    return f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "-"


def main() -> None:
    """Print the report of a results file."""
    print(markdown_report(json.loads(Path(sys.argv[1]).read_text())))


if __name__ == "__main__":
    main()
