"""Ctrl-C at a chosen moment: where CPython looks for signals, after calls and as functions begin."""

from __future__ import annotations

import opcode
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torsh_fx

OURS = str(Path(torsh_fx.__file__).parent)
CALLS = {code for name, code in opcode.opmap.items() if name.startswith("CALL")}


class Interrupt:
    """Inside, ``KeyboardInterrupt`` at the n-th such moment in this package; ``where`` says if there was one."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.where: str | None = None

    def __enter__(self) -> Interrupt:
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self.before)

    def _moment(self, frame: FrameType) -> None:
        self.left -= 1
        if self.left == 0:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            raise KeyboardInterrupt

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        # A with block whose exit does not even begin cannot restore anything: Python has no remedy.
        if self.left <= 0 or not frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_name == "__exit__":
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = None

        def inside(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if self.left > 0 and event == "opcode":
                before, last = last, frame.f_code.co_code[frame.f_lasti]
                if before in CALLS:
                    self._moment(frame)
            return inside

        self._moment(frame)
        return inside
