"""Reads what a running broker counts, from its `/metrics` page."""

from __future__ import annotations

import urllib.request


def metric_value(port: int, name: str) -> float:
    """The sum over the labels of one metric. Raises KeyError when the page has none of that name."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.partition("{")[0].partition(" ")[0] == name]
    if not values:
        raise KeyError(name)
    return sum(values)
