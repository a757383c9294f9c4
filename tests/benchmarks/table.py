"""The results as Markdown: times relative to a base, targets met or missed, first steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from columns import BY_HAND, COLUMNS, PYTORCH
from measuring import ROLLED, Measured
from targets import FIRST_STEP, TARGETS, limit
from timing import median_and_quartiles

Row = Sequence[str]
PAIRS = tuple(dict.fromkeys((t.of, t.to) for t in TARGETS))


@dataclass(frozen=True)
class Figure:
    """Something measured beside the columns, as a ratio, or in seconds."""

    name: str
    value: float
    limit: float | None = None

    def row(self) -> Row:
        return (
            self.name,
            f"{self.value:.2f}",
            f"{self.limit:.2f}" if self.limit else "",
            verdict(self.value, self.limit),
        )


def verdict(value: float, at_most: float | None) -> str:
    """Judged as shown, with two decimals."""
    if at_most is None:
        return ""
    return "met" if round(value, 2) <= at_most else "**missed**"


def relative_times(results: Sequence[Measured]) -> str:
    """Each column over the base: PyTorch eager, or what is there instead."""
    rows = []
    for m in results:
        base = base_of(m)
        found = [m.ratio(column, base) for column in (*COLUMNS, ROLLED)]
        rows.append((m.name, *(f"{median_and_quartiles(r)[0]:.2f}" if r else "-" for r in found)))
    return _markdown((f"time / that of {base_of(results[0])}", *COLUMNS, ROLLED), rows)


def base_of(m: Measured) -> str:
    return next((c for c in (PYTORCH, BY_HAND) if c in m.times), next(iter(m.times)))


def pair_table(results: Iterable[Measured]) -> str:
    """Every ratio that has a target, with the middle half of its rounds."""
    rows = []
    for of, to in PAIRS:
        for m in results:
            at_most, found = limit(of, to, m.name), m.ratio(of, to)
            if at_most is None:
                continue
            if found is None:
                rows.append((f"{of} / {to}", m.name, "-", "", f"{at_most:.2f}", "-"))
                continue
            middle, low, high = median_and_quartiles(found)
            spread = "same program" if len(set(found)) == 1 else f"{low:.2f} to {high:.2f}"
            rows.append((f"{of} / {to}", m.name, f"{middle:.2f}", spread, f"{at_most:.2f}", verdict(middle, at_most)))
    return _markdown(("ratio", "workload", "median", "middle half", "at most", ""), rows)


def first_steps(results: Iterable[Measured]) -> str:
    """Seconds until the first loss is there; the only times that are no ratios."""
    rows, verdicts = [], []
    for m in results:
        rows.append((m.name, *(f"{m.first[c]:.2f}" if c in m.first else "-" for c in (*COLUMNS, ROLLED))))
        for (column, workload), at_most in FIRST_STEP.items():
            if m.name == workload and column in m.first:
                seen = verdict(m.first[column], at_most)
                verdicts.append(f"\n{workload}: first step of the {column} at most {at_most} s: {seen}.\n")
    return _markdown(("first step, seconds", *COLUMNS, ROLLED), rows) + "".join(verdicts)


def figures(found: Iterable[Figure]) -> str:
    return _markdown(("apart", "measured", "at most", ""), [f.row() for f in found])


def setting(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items()) + "\n"


def counts(results: Iterable[Measured]) -> tuple[int, int]:
    """How many targets on ratios are met, of how many that could be measured."""
    found = [(m.ratio(of, to), limit(of, to, m.name)) for of, to in PAIRS for m in results]
    seen = [verdict(median_and_quartiles(r)[0], at_most) for r, at_most in found if r and at_most is not None]
    return seen.count("met"), len(seen)


def _markdown(head: Row, rows: Sequence[Row]) -> str:
    widths = [max(len(r[k]) for r in (head, *rows)) for k in range(len(head))]

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |\n"

    return line(head) + line("-" * w for w in widths) + "".join(map(line, rows))
