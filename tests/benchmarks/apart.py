"""What is measured beside the columns, by the name that ``--only`` takes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from attention import block_turned, turned
from columns import BY_HAND, IMPERATIVE, PYTORCH, by_hand
from memory import measure_memory
from products import JAXS, OURS, measure_product
from recording import LONG, READ, RECORD, SHORT, label, measure_recording
from table import Figure
from targets import BLOCK, LARGE, MIDDLE, PEAK_BYTES, RECORDING, SMALL, VARIETY
from timing import Times, interleaved, ratios
from variety import LABEL, measure_variety
from workloads import WORKLOADS


def memory(rounds: int) -> Iterator[Figure]:
    for name in (MIDDLE, LARGE):
        with ProcessPoolExecutor(1, get_context("spawn")) as fresh:  # what is watched there is not timed here
            peak = fresh.submit(measure_memory, WORKLOADS[name]).result()
        title = f"peak bytes of a step, {name}: {IMPERATIVE} / {BY_HAND}"
        yield Figure(title, peak[IMPERATIVE] / peak[BY_HAND], PEAK_BYTES)


def recording(rounds: int) -> Iterator[Figure]:
    times = measure_recording(rounds)
    short, long = label(IMPERATIVE, RECORD, SHORT), label(IMPERATIVE, RECORD, LONG)
    whole, peer = label(IMPERATIVE, READ, SHORT), label(PYTORCH, READ, SHORT)
    yield Figure(f"to record an op in a graph of {LONG} / of {SHORT}", _ratio(times, long, short))
    if peer in times:
        # Where the recording ends is the key, so nothing is left to be keyed.
        yield Figure("to record and key an op / PyTorch eager running it", _ratio(times, short, peer), RECORDING)
        yield Figure("recording, keying and running an op / PyTorch eager running it", _ratio(times, whole, peer))


def gradients(rounds: int) -> Iterator[Figure]:
    """By hand the gradients are results of the step; an expert who has no use for them would not ask for them."""
    kept, dropped = "as results", "not as results"
    runs = {name: by_hand(WORKLOADS[SMALL], keep=name == kept).run for name in (kept, dropped)}
    yield Figure(f"{BY_HAND}, gradients {dropped} / {kept}, {SMALL}", _ratio(interleaved(runs, rounds), dropped, kept))


def product(rounds: int) -> Iterator[Figure]:
    yield Figure(f"gradient of x @ W, x 8x128x256: {OURS} / {JAXS}", _ratio(measure_product(rounds), OURS, JAXS))


def layout(rounds: int) -> Iterator[Figure]:
    w = WORKLOADS[BLOCK]
    other = replace(w, params=[p.copy() for p in turned(w.params)])
    runs = {"[in, out]": by_hand(w).run, "[out, in]": by_hand(other, block_turned).run}
    found = _ratio(interleaved(runs, rounds), "[out, in]", "[in, out]")
    yield Figure(f"{BY_HAND}, weights [out, in] / [in, out], {BLOCK}", found)


def variety(rounds: int) -> Iterator[Figure]:
    for batch, width, limit in ((8, 16, None), (64, 128, VARIETY), (256, 512, VARIETY)):
        yield Figure(LABEL.format(batch, width), measure_variety(batch, width), limit)


APART: dict[str, Callable[[int], Iterator[Figure]]] = {
    "memory": memory,
    "recording": recording,
    "gradients": gradients,
    "product": product,
    "layout": layout,
    "variety": variety,
}


def _ratio(times: Times, of: str, to: str) -> float:
    return statistics.median(ratios(times[of], times[to]))
