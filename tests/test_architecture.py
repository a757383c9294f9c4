"""The house rules: who imports whom, what is public, documented, and how large a file may be."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import make_stubs
import torsh_fx as tx
from torsh_fx import rules

ROOT = Path(__file__).parent.parent
FOLDERS = {"torsh_fx.rules": "rules", "torsh_fx": "torsh_fx", "torsh_fx.interop": "interop"}
FILES = {package: sorted((ROOT / folder).rglob("*.py")) for package, folder in FOLDERS.items()}
MODULES = [
    (".".join([package, *path.parent.relative_to(ROOT / FOLDERS[package]).parts]), path)
    for package, paths in FILES.items()
    for path in paths
]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OPTIONAL = ("torch", "optax", "flax", "equinox", "safetensors", "sklearn", "matplotlib")
TOP = {
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "examples",
    "interop",
    "pyproject.toml",
    "rules",
    "tests",
    "torsh_fx",
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """``(module, name)`` of every import below ``tree``, relative ones made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names)


def belongs(module: str, name: str, *packages: str) -> bool:
    """Does the import reach into one of ``packages``?"""
    full = f"{module}.{name}"
    return any(full == p or full.startswith(p + ".") for p in packages)


def id_of(value: Any) -> str:
    return f"{value.parent.name}/{value.name}" if isinstance(value, Path) else str(value)


# -- who imports whom ------------------------------------------------------------


@pytest.mark.parametrize("path", FILES["torsh_fx.rules"], ids=id_of)
def test_rules_know_only_jax_and_numpy(path):
    for module, name in imports(tree_of(path), "torsh_fx.rules"):
        outside = module.split(".")[0] in {"jax", "numpy", *sys.stdlib_module_names}
        assert outside or belongs(module, name, "torsh_fx.rules"), f"{path.name} imports {module} {name}"


@pytest.mark.parametrize("path", FILES["torsh_fx.rules"], ids=id_of)
def test_rules_never_name_tensors(path):
    names = {node.id for node in ast.walk(tree_of(path)) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    assert not names & {"Tensor", "torsh_fx", "tx"}


@pytest.mark.parametrize(("package", "path"), [m for m in MODULES if m[1] in FILES["torsh_fx"]], ids=id_of)
def test_the_library_never_imports_interop(package, path):
    tree = tree_of(path)
    optional = {id(node) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for node in ast.walk(f)}
    for node in ast.walk(tree):
        for module, name in imports(node, package) if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            assert not belongs(module, name, "torsh_fx.interop"), f"{path.name} imports {module} {name}"
            known = {"jax", "numpy", "torsh_fx", *sys.stdlib_module_names}
            if id(node) in optional:
                known |= set(OPTIONAL)
            assert module.split(".")[0] in known, f"{path.name} imports {module} at its top"


@pytest.mark.parametrize("path", [p for _, p in MODULES] + TESTS + SCRIPTS, ids=id_of)
def test_only_public_jax(path):
    tree = tree_of(path)
    for module, name in imports(tree, "torsh_fx"):
        if module.split(".")[0] == "jax":
            private = [part for part in (*module.split("."), name) if part.startswith("_")]
            assert not private, f"{path.name} imports {module} {name}"
    roots = {"jax", "jnp", "lax", "ad", "mlir", "batching"}
    for node in ast.walk(tree):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain, node = [node.attr, *chain], node.value
        if isinstance(node, ast.Name) and node.id in roots:
            private = [part for part in chain if part.startswith("_") and not part.startswith("__")]
            assert not private, f"{path.name} uses {node.id}.{'.'.join(chain)}"


@pytest.mark.parametrize("path", SCRIPTS, ids=id_of)
def test_examples_use_public_names(path):
    tree = tree_of(path)
    for module, name in imports(tree, ""):
        if module.split(".")[0] == "torsh_fx":
            public = module in {"torsh_fx", "torsh_fx.nn", "torsh_fx.nn.functional", "torsh_fx.rules"}
            assert public or belongs(module, name, "torsh_fx.interop"), f"{path.name} imports {module}"
    private = [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr.startswith("_")]
    assert not [name for name in private if not name.startswith("__")]


def test_optional_packages_stay_out():
    code = "import json, sys, torsh_fx; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    loaded = set(json.loads(run.stdout))
    assert "torsh_fx.rules.op" in loaded
    assert not loaded & {*OPTIONAL, "torsh_fx.interop"}


# -- what is public --------------------------------------------------------------


@pytest.mark.parametrize("folder", ["rules", "torsh_fx"])
def test_all_equals_the_imports(folder):
    tree = tree_of(ROOT / folder / "__init__.py")
    imported = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= {alias.asname or alias.name for alias in node.names}
    public = {name for name in imported if not name.startswith("_")}
    module = importlib.import_module({v: k for k, v in FOLDERS.items()}[folder])
    assert set(module.__all__) == public
    assert len(module.__all__) == len(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


def test_stubs_are_fresh():
    stale = make_stubs.TARGET.read_text(encoding="utf-8") != make_stubs.stubs()
    assert not stale, "torsh_fx/_methods.pyi is stale: run python tests/make_stubs.py"


def test_every_attached_method_is_there():
    for name in tx.methods.members():
        assert hasattr(tx.Tensor, name)


def undocumented(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Public functions and classes without a docstring; in an exported class, its public methods too."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            marks = {getattr(d, "attr", getattr(d, "id", None)) for d in node.decorator_list}
            if ast.get_docstring(node) is None and not marks & {"setter", "overload"}:
                yield prefix + node.name
            if isinstance(node, ast.ClassDef) and node.name in {*tx.__all__, *rules.__all__}:
                yield from undocumented(node.body, f"{prefix}{node.name}.")


@pytest.mark.parametrize(("package", "path"), MODULES, ids=id_of)
def test_docstrings(package, path):
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{path} does not say what it is for"
    assert not list(undocumented(tree.body)), f"{package}: docstrings are missing"


def test_exported_things_are_documented():
    for module in (tx, rules):
        things = {name: getattr(module, name) for name in module.__all__}
        assert not [name for name, thing in things.items() if callable(thing) and not thing.__doc__]


# -- doctests ----------------------------------------------------------------------


def examples(package: str, path: Path) -> Iterator[doctest.DocTest]:
    """The doctests of a module: its functions, classes and rows, each with the public names around it."""
    name = package if path.stem == "__init__" else f"{package}.{path.stem}"
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if package != "torsh_fx.interop":
            raise
        pytest.skip(str(error))  # a bridge whose package is not there
    public = rules if package == "torsh_fx.rules" else tx
    scope: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "tx": tx}
    scope |= {exported: getattr(public, exported) for exported in public.__all__} | vars(module)
    yield from doctest.DocTestFinder().find(module, name, module, globs=scope)


class Runner(doctest.DocTestRunner):
    """An example that says which extra it lacks is skipped; any other exception is a failure."""

    def report_unexpected_exception(self, out, test, example, exc_info):
        if isinstance(exc_info[1], ImportError) and "torsh_fx[" in str(exc_info[1]):
            pytest.skip(str(exc_info[1]))
        super().report_unexpected_exception(out, test, example, exc_info)


@pytest.mark.parametrize(("package", "path"), MODULES, ids=id_of)
def test_examples_in_docstrings(package, path):
    report: list[str] = []
    runner = Runner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in examples(package, path):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


# -- sizes -------------------------------------------------------------------------


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank, nor comment, nor docstring."""
    prose: set[int] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            prose.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return sum(k not in prose and bool(line.strip()) and not line.strip().startswith("#") for k, line in lines)


def test_the_engine_can_be_read_aloud():
    assert len((ROOT / "torsh_fx" / "engine.py").read_text(encoding="utf-8").splitlines()) <= 180


def test_files_stay_small():
    # An __init__ is a table of contents: a name a line, no code.
    paths = [p for _, p in MODULES if p.name != "__init__.py"] + SCRIPTS
    sizes = {id_of(path): lines_of_code(path) for path in paths}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        if size > 300:
            print(f"{name}: {size} lines of code, think of splitting it")
    assert not {name: size for name, size in sizes.items() if size > 400}


def test_the_top_level_is_tidy():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("git cannot read the checkout")
    assert {line.split("/")[0] for line in listed.stdout.splitlines()} <= TOP
