"""The relative times as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from columns import COLUMNS
from measuring import Measured
from table import base_of
from timing import median_and_quartiles


def draw(results: Sequence[Measured], path: Path) -> str:
    """Write an SVG, bars on a logarithmic axis; returns what to tell the user."""
    try:
        import matplotlib
    except ImportError:
        return "no chart: matplotlib is not installed (pip install matplotlib)"
    matplotlib.use("svg")
    # Text as text, and nothing that differs from one run to the next: a small file and small diffs.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "torsh_fx", "font.size": 9})
    from matplotlib import pyplot

    base = base_of(results[0])
    columns = [c for c in COLUMNS if c != base and any(c in m.times for m in results)]
    height = 0.8 / len(columns)
    figure, axes = pyplot.subplots(figsize=(7.5, 0.6 * len(results) + 1.2), layout="constrained")
    for k, column in enumerate(columns):
        places, medians = [], []
        for row, m in enumerate(results):
            if found := m.ratio(column, base):
                places.append(row + (k + 0.5) * height - 0.4)
                medians.append(median_and_quartiles(found)[0])
        # Bars from 1: to the left is faster than the base, to the right slower.
        axes.barh(places, [v - 1 for v in medians], height * 0.9, left=1, label=column)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(results)), [m.name for m in results])
    axes.invert_yaxis()
    axes.set_xlabel(f"time / that of {base}")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return f"chart: {path}"
