"""The order of the tree: limits of size in `src`, and tests that mirror it and share only `support`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import ackproof
from tests.support.command_line import commands

HOME = Path(ackproof.__file__).parent
TESTS = Path(__file__).parents[1]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
CLASS_METHODS_MAX = 25
PARAMETERS_MAX = 7  # without self; a command has one for each option, so commands are exempt
UNTYPED_MAX = 29  # uses of dict[str, Any], which belong where JSON comes in or goes out
SLOW_TO_IMPORT = {"confluent_kafka", "duckdb", "hypothesis", "jinja2", "kio", "numpy", "pyarrow", "pyspark"}
UNTYPED = "dict[str, Any]"

# The next issue replaces these modules, so until then they are exempt from the limits of size and of dict[str, Any].
REPLACED_NEXT = (
    "judge/engine/",
    "judge/check_runner.py",
    "judge/frames.py",
    "judge/live_log.py",
    "judge/pipeline.py",
    "judge/run_source.py",
    "judge/schemas.py",
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_src_keeps_the_limits_of_size() -> None:
    assert list(_above_a_limit()) == []


def test_every_module_that_is_replaced_next_exists() -> None:
    assert [name for name in REPLACED_NEXT if not (HOME / name).exists()] == []


def test_a_long_function_a_wide_class_and_many_parameters_are_found() -> None:
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(26))
    long = "def long():\n" + "    pass\n" * 60
    source = f"class Wide:\n{methods}\n{long}\ndef many(a, b, c, d, *e, f, g, **h): ...\n"
    assert sorted(_of_source("m.py", source)) == [
        "m.py: Wide has more than 25 methods",
        "m.py: long has more than 60 lines",
        "m.py: many has more than 7 parameters",
    ]
    allowed = "class C:\n    def m(self, a, b, c, d, e, f, g): ...\n"
    assert sorted(_of_source("m.py", allowed)) == []


def test_every_folder_of_unit_tests_mirrors_a_package() -> None:
    folders = {path.parent for path in (TESTS / "unit").rglob("test_*.py")} - {TESTS / "unit"}
    packages = {path.parent.relative_to(HOME) for path in HOME.rglob("*.py")} | {Path("scripts")}
    assert [str(folder) for folder in folders if folder.relative_to(TESTS / "unit") not in packages] == []


def test_tests_import_nothing_from_each_other_but_support() -> None:
    found = [
        f"{path.relative_to(TESTS)} imports {name}"
        for path in TESTS.rglob("*.py")
        for name in _imported(path.read_text(encoding="utf-8"))
        if name.startswith("tests.") and not name.startswith("tests.support.")
    ]
    assert found == []


def test_no_test_edits_sys_path() -> None:
    edits = re.compile(r"sys\.path(\.(append|insert|extend)|\[.*\] *=)")
    assert [str(path) for path in TESTS.rglob("*.py") if edits.search(path.read_text(encoding="utf-8"))] == []


def test_a_command_starts_without_what_is_slow_to_import() -> None:
    asked = f"import sys, ackproof.cli.main; print(sorted({SLOW_TO_IMPORT} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", asked], text=True) == "[]\n"


def _imported(source: str) -> Iterator[str]:
    """Yield what a module imports, as `package.module.name`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _above_a_limit() -> Iterator[str]:
    untyped = 0
    for path in sorted(HOME.rglob("*.py")):
        name = path.relative_to(HOME).as_posix()
        if name.startswith(REPLACED_NEXT):
            continue
        source = path.read_text(encoding="utf-8")
        untyped += source.count(UNTYPED)
        yield from _of_source(name, source)
    if untyped > UNTYPED_MAX:
        yield f"more than {UNTYPED_MAX} uses of {UNTYPED}"


def _of_source(name: str, source: str) -> Iterator[str]:
    module = f"ackproof.{name.removesuffix('.py').replace('/', '.')}"
    if len(source.splitlines()) > FILE_LINES_MAX:
        yield f"{name}: more than {FILE_LINES_MAX} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            if sum(isinstance(part, Function) for part in node.body) > CLASS_METHODS_MAX:
                yield f"{name}: {node.name} has more than {CLASS_METHODS_MAX} methods"
        elif isinstance(node, Function):
            if _lines(node) > FUNCTION_LINES_MAX:
                yield f"{name}: {node.name} has more than {FUNCTION_LINES_MAX} lines"
            if _parameters(node) > PARAMETERS_MAX and f"{module}.{node.name}" not in _commands():
                yield f"{name}: {node.name} has more than {PARAMETERS_MAX} parameters"


def _lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _parameters(function: Function) -> int:
    own = function.args
    named = [parameter.arg for parameter in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
    return sum(name not in ("self", "cls") for name in named) + (own.vararg is not None) + (own.kwarg is not None)


@cache
def _commands() -> set[str]:
    """Return the functions behind the commands of the command line."""
    callbacks = [command.callback for command in commands().values() if command.callback]
    return {f"{callback.__module__}.{callback.__name__}" for callback in callbacks}
