"""Packages that only one bridge needs."""

from __future__ import annotations

import importlib
from typing import Any


def needed(package: str, extra: str) -> Any:
    """The module ``package``; without it an ImportError that names the extra which brings it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package.partition(".")[0]:
            raise
        raise ImportError(
            f"this bridge needs {package}, which is not installed: python -m pip install 'torsh_fx[{extra}]'"
        ) from error
