"""Draws the examples' results as SVG. Called by the examples; no state, no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Chart:
    """One picture: draw on `axes`, then `save`."""

    def __init__(self, title: str) -> None:
        # A fixed salt and no date: the same result gives the same file.
        self._figure = Figure(figsize=(9, 4.2), facecolor="#fbfaf8")
        FigureCanvasSVG(self._figure)
        self.axes: Axes = self._figure.subplots()
        self.axes.set_title(title, loc="left", fontweight="bold")
        self.axes.set_facecolor("#fbfaf8")
        self.axes.spines[["top", "right"]].set_visible(False)

    def save(self, path: str) -> None:
        """Write the file."""
        with mpl.rc_context({"svg.hashsalt": "barnabas"}):
            self._figure.tight_layout()
            self._figure.savefig(path, format="svg", metadata={"Date": None})
