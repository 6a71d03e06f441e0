"""A judge that is broken is caught: each operator of each check is broken in turn, and the histories written by hand
for that check must notice. Those that do not are in `survivors.toml`, each with why it makes no difference."""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import asking
import pytest
from mutation import mutants

from ackproof.judge.checks import CHECKS
from proving import size

Told = Callable[[str, object], None]
HERE = Path(__file__).parent
SURVIVORS = HERE / "survivors.toml"
ELSEWHERE = {"moves": "test_claims"}


def modules() -> dict[str, str]:
    """Each file of checks, with the file of its tests."""
    found = {}
    for check in CHECKS.values():
        name = check.function.__module__.rpartition(".")[2]
        for tests in (f"test_{name}", f"test_judge_{name}", ELSEWHERE.get(name)):
            if tests and (HERE / f"{tests}.py").exists():
                found[name] = tests
    return found


def notices(tests: ModuleType) -> bool:
    """Whether any test of the file fails now. A check that falls over is noticed too."""
    asking._ANSWERS.clear()
    try:
        for name, test in inspect.getmembers(tests, inspect.isfunction):
            wants = list(inspect.signature(test).parameters)
            if name.startswith("test_") and wants == ["case"]:
                for case in _cases(test):
                    test(case)
            elif name.startswith("test_") and not wants:
                test()
    except Exception:  # noqa: BLE001 - whatever it is
        return True
    finally:
        asking._ANSWERS.clear()
    return False


def _cases(test: Any) -> list[str]:
    return [case for mark in test.pytestmark if mark.name == "parametrize" for case in mark.args[1]]


def broken(name: str, source: str) -> dict[str, Any]:
    """The checks of this file, made from the changed source."""
    original = sys.modules[f"ackproof.judge.{name}"]
    module = ModuleType(original.__name__)
    module.__file__ = original.__file__
    exec(compile(source, f"{name}, broken", "exec"), module.__dict__)  # noqa: S102 - our own, with one word changed
    return {
        check: replace(CHECKS[check], function=getattr(module, CHECKS[check].function.__name__))
        for check in CHECKS
        if CHECKS[check].function.__module__ == original.__name__
    }


ASKED = size(["reordered"], ["duplicated", "reordered"], sorted(modules()))


@pytest.mark.proves("C5")
@pytest.mark.parametrize("name", ASKED)
def test_a_broken_check_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, record_property: Told) -> None:
    tests = importlib.import_module(modules()[name])
    source = Path(inspect.getfile(sys.modules[f"ackproof.judge.{name}"])).read_text(encoding="utf-8")
    explained = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get(name, {}) if SURVIVORS.exists() else {}
    assert not notices(tests), "the check as it is"
    caught, survived = 0, []
    for what, changed in list(mutants(source))[:: size(2, 1, 1)]:
        with monkeypatch.context() as patched:
            try:
                for check, function in broken(name, changed).items():
                    patched.setitem(CHECKS, check, function)
                is_caught = notices(tests)
            except Exception:  # noqa: BLE001 - it does not even load
                is_caught = True
        caught += is_caught
        survived += [] if is_caught else [what]
    unexplained = [what for what in survived if what not in explained]
    record_property("figure", f"{name} {caught} of {caught + len(survived)}")
    assert not unexplained, "\n".join(unexplained)


def test_every_check_has_histories_written_by_hand() -> None:
    own = {check.function.__module__.rpartition(".")[2] for check in CHECKS.values()}
    assert own - set(modules()) == set()
