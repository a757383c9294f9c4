"""What came of PyTorch's samples: counts by op and law, as lines for a terminal and as a Markdown page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

LAWS = ("forward", "gradient", "double backward", "forward mode", "error")


class Outcome:
    """What became of the samples of one op."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks = dict.fromkeys(LAWS, 0)  # results that agree, by law
        self.samples = 0  # samples that passed every law
        self.refused = 0  # wrong calls that raised one of our errors
        self.differs: dict[str, list[str]] = {}  # reason -> samples
        self.accepts: dict[str, list[str]] = {}  # reason -> calls that are wrong in PyTorch only
        self.outside: dict[str, int] = {}  # what we do not have at all: complex, sparse, ...
        self.remarks: list[str] = []
        self.failures: list[str] = []

    @property
    def total(self) -> int:
        """Samples that are no wrong calls and nothing outside."""
        return self.samples + sum(map(len, self.differs.values()))

    def add(self, other: Outcome) -> None:
        self.samples += other.samples
        self.refused += other.refused
        self.failures += other.failures
        self.remarks += other.remarks
        for law in LAWS:
            self.checks[law] += other.checks[law]
        for mine, theirs in ((self.differs, other.differs), (self.accepts, other.accepts)):
            for why, labels in theirs.items():
                mine.setdefault(why, []).extend(labels)
        for why, count in other.outside.items():
            self.outside[why] = self.outside.get(why, 0) + count

    def notes(self) -> list[str]:
        return [
            *self.remarks,
            *(f"{len(labels)} differ: {why}" for why, labels in self.differs.items()),
            *(f"{len(labels)} wrong calls accepted: {why}" for why, labels in self.accepts.items()),
            *(f"{count} outside: {why}" for why, count in self.outside.items()),
        ]


def merged(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """One outcome an op entry, by name."""
    found: dict[str, Outcome] = {}
    for o in outcomes:
        found.setdefault(o.name, Outcome(o.name)).add(o)
    return [found[name] for name in sorted(found)]


def summary(outcomes: Iterable[Outcome], absent: Sequence[str]) -> Iterator[str]:
    """The ops and samples that passed, in lines for a terminal."""
    rows = merged(outcomes)
    yield (
        f"{len(rows)} ops, {sum(o.samples for o in rows)} of {sum(o.total for o in rows)} samples passed, "
        f"{sum(o.refused for o in rows)} wrong calls refused, {sum(len(o.failures) for o in rows)} failures; "
        f"{len(absent)} of PyTorch's ops are absent"
    )
    yield "results compared: " + ", ".join(f"{law} {sum(o.checks[law] for o in rows)}" for law in LAWS[:-1])
    for o in rows:
        for note in o.notes():
            yield f"  {o.name}: {note}"
    yield "passed (samples, wrong calls): " + " ".join(
        f"{o.name}({o.samples}, {o.refused})" for o in rows if not o.failures
    )
    yield "absent: " + " ".join(absent)


def markdown(outcomes: Iterable[Outcome], absent: Sequence[str]) -> str:
    """The same as a page."""
    lines = [
        "| PyTorch's op | samples passed | of | " + " | ".join(LAWS[:-1]) + " | wrong calls refused | differences |",
        "|" + "---|" * (len(LAWS) + 4),
    ]
    for o in merged(outcomes):
        counts = " | ".join(str(o.checks[law]) for law in LAWS[:-1])
        lines.append(f"| `{o.name}` | {o.samples} | {o.total} | {counts} | {o.refused} | {'; '.join(o.notes())} |")
    return "\n".join([*lines, "", "Absent: " + ", ".join(f"`{name}`" for name in absent), ""])
