"""Draws the demo's result: two heat maps of delay by airline and hour, and the cancelled share beside them.

Called once by `demo`, on the main thread. No state, no lock; matplotlib draws to memory, without a display.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from barnabas_spark.demo.delay_table import CarrierSummary, DelayCell, by_carrier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1f2933"
QUIET_INK = "#66727f"
PAPER = "#fbfaf8"
EMPTY = "#efedea"
CANCELLED = "#5b6ee1"
CALM_TO_LATE = ("#e8f1ee", "#f9e2a8", "#f3a65f", "#d9543f", "#8f1d3f", "#4a0f35")

FEWEST_FLIGHTS = 20
"""The fewest departures of a coloured cell. Cells with fewer are left pale: a mean of three flights says little."""
_TYPEFACES = ["DejaVu Sans"]
"""A typeface that comes with matplotlib, so that the picture looks the same everywhere."""


def draw_delays(cells: Sequence[DelayCell], airline_names: Mapping[str, str], path: str, footnote: str) -> None:
    """Write the picture as PNG to `path`."""
    carriers = by_carrier(cells)
    hours = list(range(min(cell.hour for cell in cells if cell.departed), max(cell.hour for cell in cells) + 1))
    with mpl.rc_context({"font.family": _TYPEFACES, "text.color": INK, "axes.labelcolor": INK}):
        figure = Figure(figsize=(16, 8.4), dpi=150, facecolor=PAPER)
        FigureCanvasAgg(figure)
        figure.subplots_adjust(left=0.105, right=0.985, top=0.765, bottom=0.075, wspace=0.04)
        mean_axes, late_axes, cancelled_axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.36))
        _titles(figure, sum(cell.flights for cell in cells), footnote)
        means = _grid(cells, carriers, hours, "mean_delay")
        lates = _grid(cells, carriers, hours, "p95_delay")
        _heat_map(mean_axes, means, hours, "Mean delay, minutes", largest=45)
        _heat_map(late_axes, lates, hours, "95th percentile, minutes", largest=200)
        mean_axes.set_yticks(
            range(len(carriers)), [airline_names.get(each.carrier, each.carrier) for each in carriers], fontsize=11
        )
        _cancelled_bars(cancelled_axes, carriers)
        figure.savefig(path, facecolor=PAPER)


def _titles(figure: Figure, flights: int, footnote: str) -> None:
    figure.text(0.015, 0.945, "The later the day, the later the plane", fontsize=25, fontweight="bold", va="center")
    figure.text(
        0.015, 0.893,
        f"Departure delays of all {flights:,} flights planned out of New York in 2013, by airline and planned hour",
        fontsize=13.5, color=QUIET_INK, va="center",
    )  # fmt: skip
    figure.text(0.015, 0.032, footnote, fontsize=10, color=QUIET_INK, va="center")


def _grid(cells: Sequence[DelayCell], carriers: Sequence[CarrierSummary], hours: Sequence[int], field: str) -> Any:
    rows = {summary.carrier: row for row, summary in enumerate(carriers)}
    grid = np.full((len(carriers), len(hours)), np.nan)
    for cell in cells:
        if cell.hour in hours and cell.departed >= FEWEST_FLIGHTS:
            grid[rows[cell.carrier], cell.hour - hours[0]] = getattr(cell, field)
    return grid


def _heat_map(axes: Axes, grid: Any, hours: Sequence[int], title: str, largest: float) -> None:
    colours = LinearSegmentedColormap.from_list("calm to late", CALM_TO_LATE).with_extremes(bad=EMPTY)
    scale = Normalize(0, largest, clip=True)
    axes.pcolormesh(
        np.arange(len(hours) + 1) - 0.5, np.arange(len(grid) + 1) - 0.5, np.ma.masked_invalid(grid),
        cmap=colours, norm=scale, edgecolors=PAPER, linewidth=1.6,
    )  # fmt: skip
    for (row, column), value in np.ndenumerate(grid):
        if not np.isnan(value):
            dark = scale(value) > 0.5
            axes.text(
                column, row, f"{round(value)}".replace("-", "−"), ha="center", va="center", fontsize=8.8,
                color="white" if dark else INK,
            )  # fmt: skip
    _title(axes, title)
    axes.annotate(
        "planned hour of departure", (1, 1), xytext=(0, 30), xycoords="axes fraction", textcoords="offset points",
        ha="right", va="baseline", fontsize=9.5, color=QUIET_INK,
    )  # fmt: skip
    axes.set_ylim(len(grid) - 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(hours)), [f"{hour}" for hour in hours], fontsize=9.5, color=QUIET_INK)
    axes.set_yticks([])
    _bare(axes)


def _cancelled_bars(axes: Axes, carriers: Sequence[CarrierSummary]) -> None:
    shares = [100 * summary.cancelled_share for summary in carriers]
    right = max(shares) * 1.95
    axes.barh(range(len(carriers)), shares, height=0.58, color=CANCELLED)
    for row, (share, summary) in enumerate(zip(shares, carriers, strict=True)):
        axes.text(share + right / 40, row, f"{share:.1f} %", va="center", fontsize=9.5)
        axes.text(right, row, f"{summary.cancelled:,}", va="center", ha="right", fontsize=9.5, color=QUIET_INK)
    _title(axes, "Cancelled")
    axes.annotate(
        "flights", (1, 1), xytext=(0, 6), xycoords="axes fraction", textcoords="offset points",
        ha="right", va="baseline", fontsize=9.5, color=QUIET_INK,
    )  # fmt: skip
    axes.set_xlim(0, right)
    axes.set_ylim(len(carriers) - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    _bare(axes)


def _title(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=30)


def _bare(axes: Axes) -> None:
    axes.set_facecolor(PAPER)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
