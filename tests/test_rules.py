"""Every row of the op table against every law that applies to it."""

from __future__ import annotations

import pytest

from laws import LAWS, applicable, bundle, runnable

PAIRS = [pytest.param(row, name, id=f"{row.name}-{name}") for row in runnable() for name in applicable(row)]


@pytest.mark.parametrize(("row", "law"), PAIRS)
def test_law(row, law, full):
    LAWS[law][0](bundle(row, full))
