"""Are two optimised XLA programs the same, up to names and where they came from?"""

from __future__ import annotations

import functools
import re

_METADATA = re.compile(r',?\s*metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_NAME = re.compile(r"%[\w.-]+")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?(?P<name>%[\w.-]+) \(.*?\{\n(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)


def normalised(text: str) -> str:
    """The entry computation, those that it calls spelt out in their place; other names are numbered as they come.

    So neither names nor the order in which computations are listed count; layouts,
    fusions, constants, schedule and donation do.
    """
    bodies: dict[str, str] = {}
    entry = ""
    for found in _COMPUTATION.finditer(_METADATA.sub("", text)):
        bodies[found["name"]] = found["body"]
        entry = found["name"] if found["entry"] else entry
    if not entry:
        raise ValueError("this is not the text of an XLA program: it has no entry computation")

    @functools.cache
    def spelt(computation: str) -> str:
        known: dict[str, str] = {}

        def replaced(found: re.Match[str]) -> str:
            name = found[0]
            if name in bodies:
                return "{" + spelt(name) + "}"
            return known.setdefault(name, f"%{len(known)}")

        return _NAME.sub(replaced, bodies[computation])

    head = text.split("\n", 1)[0].partition(", ")[2]  # layouts and donation, without the module's name
    return head + "\n" + spelt(entry)


def same_program(a: str, b: str) -> bool:
    return normalised(a) == normalised(b)
