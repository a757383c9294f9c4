"""Write ``torsh_fx/_methods.pyi``: what ``methods.members`` attaches to Tensor, for type checkers.

Run ``python tests/make_stubs.py`` after adding a method; ``test_architecture`` checks that the file is fresh.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torsh_fx import methods

TARGET = Path(__file__).parent.parent / "torsh_fx" / "_methods.pyi"
WIDTH = 120  # of a line, as ruff format wants it

HEAD = '''"""Methods of Tensor that are attached at import; written by tests/make_stubs.py, do not edit."""
'''


class Names(ast.NodeTransformer):
    """Qualify built-ins that a method hides, such as ``int``, and note what has to be imported."""

    def __init__(self, scope: dict[str, Any], home: str, hidden: Collection[str]) -> None:
        self.scope, self.home, self.hidden = scope, home, hidden
        self.imports: set[tuple[str, str]] = set()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.scope:
            getattr(builtins, node.id)  # a name that is neither is an error here, not in the stub
            if node.id not in self.hidden:
                return node
            self.imports.add(("builtins", ""))
            return ast.Attribute(ast.Name("builtins"), node.id)
        origin = getattr(self.scope[node.id], "__module__", self.home)
        self.imports.add((origin, node.id))
        return node


def main() -> None:
    TARGET.write_text(stubs(), encoding="utf-8")
    print(f"wrote {TARGET}")


def stubs() -> str:
    """The text of the stub file."""
    imports: set[tuple[str, str]] = set()
    members = methods.members()
    bodies = [_member(name, members, imports) for name in members]
    return HEAD + "\n" + _import_lines(imports) + "\nclass Methods:\n" + "".join(bodies)


def _member(name: str, members: dict[str, Any], imports: set[tuple[str, str]]) -> str:
    member = members[name]
    function = member.fget if isinstance(member, property) else member
    signature = inspect.signature(function)
    origin = inspect.unwrap(function)
    names = Names(origin.__globals__, origin.__module__, members)

    def annotation(text: Any) -> str:
        if text is inspect.Parameter.empty:
            raise ValueError(f"{name} of {origin.__module__} lacks an annotation")
        return ast.unparse(names.visit(ast.parse(text, mode="eval").body))

    parameters = list(signature.parameters.values())
    parts = ["self"]
    if any(p.kind is p.POSITIONAL_ONLY for p in parameters):
        raise ValueError(f"{name}: positional-only parameters are not written yet")
    for k, p in enumerate(parameters[1:], 1):
        if p.kind is p.KEYWORD_ONLY and all(q.kind is q.POSITIONAL_OR_KEYWORD for q in parameters[:k]):
            parts.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f" = {p.default!r}".replace("'", '"')
        parts.append(f"{star}{p.name}: {annotation(p.annotation)}{default}")
    returns = annotation(signature.return_annotation)
    imports |= names.imports
    head = _definition(name, parts, returns)
    if name in ("__eq__", "__ne__"):
        head = head.removesuffix("\n") + "  # type: ignore[override]  # elementwise, not a bool\n"
    decorator = "    @property\n" if isinstance(member, property) else ""
    lines = (inspect.getdoc(member) or "").strip().splitlines()
    if not lines:
        raise ValueError(f"{name} of {origin.__module__} lacks a docstring")
    return f'{decorator}{head}        """{lines[0]}"""\n'


def _definition(name: str, parts: list[str], returns: str) -> str:
    """``def`` on one line, or broken the way ruff format breaks it."""
    one = f"    def {name}({', '.join(parts)}) -> {returns}:\n"
    if len(one) <= WIDTH + 1:
        return one
    two = f"        {', '.join(parts)}\n"
    inner = two if len(two) <= WIDTH + 1 else "".join(f"        {p},\n" for p in parts)
    return f"    def {name}(\n{inner}    ) -> {returns}:\n"


def _import_lines(imports: set[tuple[str, str]]) -> str:
    standard, ours = defaultdict(set), defaultdict(set)
    for module, name in imports:
        local = module.startswith("torsh_fx.")
        (ours if local else standard)[module.removeprefix("torsh_fx") if local else module].add(name)
    blocks = []
    for group in (standard, ours):
        lines = [f"import {module}\n" for module in sorted(group) if group[module] == {""}]
        lines += [f"from {m} import {', '.join(sorted(names))}\n" for m, names in sorted(group.items()) if any(names)]
        blocks.append("".join(lines))
    return "\n".join(block for block in blocks if block)


if __name__ == "__main__":
    main()
