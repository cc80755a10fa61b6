"""Draws what `benchmarks.control_plane` measured: latency of a controller's request by percentile, a curve a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

SHARES = [step / 50 for step in range(50)] + [0.985, 0.99, 0.995, 0.999]
STYLES = {
    "idle": ("tab:green", "-"),
    "handlers block": ("tab:blue", "-"),
    "handlers block, no control plane": ("tab:blue", ":"),
    "handlers burn": ("tab:red", "-"),
    "handlers burn, no control plane": ("tab:red", ":"),
    "handlers burn, interval 5 ms": ("tab:orange", "--"),
}


def draw(samples: Mapping[str, Sequence[float]], path: Path) -> None:
    """Write the picture; `samples` are milliseconds by scene."""
    import matplotlib as mpl  # a second of start-up that only a picture needs

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "control-plane"  # the same samples give the same file
    mpl.rcParams["svg.fonttype"] = "none"  # letters, not their shapes
    figure, axes = plt.subplots(figsize=(7.2, 4))
    for name, latencies in samples.items():
        ordered = sorted(latencies)
        heights = [ordered[min(int(len(ordered) * share), len(ordered) - 1)] for share in SHARES]
        color, line = STYLES.get(name, ("black", "-"))
        axes.plot([share * 100 for share in SHARES], heights, line, color=color, label=name)
    axes.set_yscale("log")
    axes.set_xlim(0, 100)
    axes.set_xlabel("percentile of the samples")
    axes.set_ylabel("UpdateMetadata, ms")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.set_title("A controller's request while the data plane is saturated", fontsize=11)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
