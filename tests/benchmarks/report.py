"""Measure what was asked for, print it, and write it down if it is everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apart import APART
from chart import draw
from columns import COLUMNS
from measuring import Measured, measure
from quiet import Others
from table import Figure, counts, figures, first_steps, pair_table, relative_times, setting
from workloads import WORKLOADS

HERE = Path(__file__).parent
BUSY = 0.05  # others using more than this share of the machine spoil the figures
NOTES = """\
A step is forward, backward and update. PyTorch and the imperative loop run one source; the functional path shares its
loss: `jax.jit` of `tx.value_and_grad` and the update, on arrays. By hand is `jax.jit` of the whole step with donated
parameters; it returns loss, parameters and gradients. Where XLA makes the same program of the functional path and of
the step by hand, their ratio counts as 1.00. The two long graphs are unrolled in every column but the last.
"""


def report(facts: Mapping[str, str], rounds: int, only: str | None, quick: bool, columns: str | None) -> None:
    def wanted(name: str) -> bool:
        return only is None or only.lower() in name.lower()

    chosen = [c for c in COLUMNS if columns is None or any(part in c.lower() for part in columns.lower().split(","))]
    print(setting(facts))
    others = Others()
    found: list[Figure] = []
    results: list[Measured] = []
    for name, measure_apart in APART.items():
        if wanted(name):
            print(f"{name} ...", flush=True)
            found += measure_apart(rounds)
    for w in WORKLOADS.values():
        if wanted(w.name) and (w.quick or not quick):
            print(f"{w.name} ...", flush=True)
            results.append(measure(w, rounds, chosen))
    if not results and not found:
        raise SystemExit(f"nothing to run is called {only!r}; there are {', '.join([*WORKLOADS, *APART])}")
    text = _text({**facts, "others": _said(others.share())}, results, found)
    print("\n" + text)
    if only is None and columns is None and not quick:
        (HERE / "results.md").write_text(text, encoding="utf-8")
        print(f"table: {HERE / 'results.md'}\n{draw(results, HERE / 'results.svg')}")


def _text(facts: Mapping[str, str], results: list[Measured], found: list[Figure]) -> str:
    parts = ["# How fast\n", setting(facts)]
    if results:
        met, of = counts(results)
        parts += [NOTES, relative_times(results), f"{met} of {of} targets on these ratios are met:\n"]
        parts += [pair_table(results), first_steps(results)]
    return "\n".join([*parts, figures(found)] if found else parts)


def _said(share: float | None) -> str:
    if share is None:
        return "unknown"
    return f"used {share:.0%} of the machine" + (": **too much, do not quote these figures**" if share > BUSY else "")
