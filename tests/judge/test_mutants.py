"""A judge that is broken is caught: each operator of each check, and of what says whether a run is evidence, is broken
in turn, each column of a check's keys that tells things apart is forgotten in turn, and the histories written by hand
for it must notice. Those that do not are in `survivors.toml`, each with why it makes no difference."""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import asking
import pytest
from mutation import OF_PLAIN_PYTHON, mutants
from py4j.protocol import Py4JNetworkError

from ackproof.errors import CannotHere
from ackproof.judge.checks import CHECKS
from proving import size

Told = Callable[[str, object], None]
HERE = Path(__file__).parent
SURVIVORS = HERE / "survivors.toml"
ELSEWHERE = {"moves": "test_claims"}
SHARED = {  # without a check of their own: what several of them ask
    "fates": ("test_fates",),
    "ownership": ("test_two_owners", "test_unowned"),
    "read_steps": ("test_skipped_read", "test_repeated_read"),
    "site_moves": ("test_site_gap", "test_left_behind"),
    "tables": ("test_phantom", "test_reordered"),
    "transacted": ("test_torn", "test_hung", "test_uncommitted_read", "test_skipped_read"),
}
# Plain Python: whether a run is evidence.
WITHOUT_SPARK = {"fitness": ("test_fitness",), "interference": ("test_interference",)}
GIVEN_A_FOLDER = ("test_fitness", "test_interference")  # which others ask for only to have a whole run judged
ONLY = {"tables": ("of_somebody", "of_nobody", "_by_number")}  # functions; the rest of the file only carries rows


def modules() -> dict[str, tuple[str, ...]]:
    """Each file of checks, and those that they share, with the files of its tests."""
    found = SHARED | WITHOUT_SPARK
    for check in CHECKS.values():
        name = check.function.__module__.rpartition(".")[2]
        for tests in (f"test_{name}", f"test_judge_{name}", ELSEWHERE.get(name)):
            if tests and (HERE / f"{tests}.py").exists():
                found[name] = (tests,)
    return found


def notices(tests: Sequence[ModuleType]) -> bool:
    """Whether any test of these files fails now. A check that falls over is noticed too, but no Spark that died."""
    asking._ANSWERS.clear()
    try:
        for name, test in (member for file in tests for member in inspect.getmembers(file, inspect.isfunction)):
            if name.startswith("test_"):
                _ask(test)
    except Exception as error:
        if is_of_a_dead_spark(error):
            raise
        return True
    finally:
        asking._ANSWERS.clear()
    return False


def is_of_a_dead_spark(error: Exception) -> bool:
    """By what it is, or by what Spark says now, for a test may only have missed its answer; a dead one says nothing,
    which is an error too."""
    if isinstance(error, Py4JNetworkError | ConnectionError | CannotHere):
        return True
    return bool(asking.session().spark.sparkContext._jsc.sc().isStopped())


def _ask(test: Any) -> None:
    """As pytest would, each time with what it is to be given; not if it wants more than a folder besides."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    names = [mark.args[0] if isinstance(mark.args[0], tuple) else (mark.args[0],) for mark in marks]
    wants = set(inspect.signature(test).parameters) - {name for each in names for name in each}
    if wants and (wants != {"tmp_path"} or test.__module__ not in GIVEN_A_FOLDER):
        return
    for values in product(*(mark.args[1] for mark in marks)):
        given: dict[str, Any] = {}
        for own, value in zip(names, values, strict=True):
            given |= dict(zip(own, value if len(own) > 1 else (value,), strict=True))
        with TemporaryDirectory() as folder:
            test(**given, **({"tmp_path": Path(folder)} if wants else {}))


def broken(original: ModuleType, source: str) -> ModuleType:
    """The same file, made from the changed source."""
    module = ModuleType(original.__name__)
    module.__file__ = original.__file__
    exec(compile(source, f"{original.__name__}, broken", "exec"), module.__dict__)  # noqa: S102 - our own, with one word changed
    return module


def put_in_place(module: ModuleType, tests: Sequence[ModuleType], patched: pytest.MonkeyPatch) -> None:
    """Its functions and classes for the whole ones, wherever they are used: a check, another file, the tests."""
    users = [user for name, user in list(sys.modules.items()) if name.startswith("ackproof.judge.")]
    for user in (*users, asking, *tests):
        for name, used in list(vars(user).items()):
            if (inspect.isfunction(used) or inspect.isclass(used)) and used.__module__ == module.__name__:
                patched.setattr(user, name, getattr(module, used.__name__))
    for name, check in CHECKS.items():
        if check.function.__module__ == module.__name__:
            patched.setitem(CHECKS, name, replace(check, function=getattr(module, check.function.__name__)))


ASKED = size(["reordered"], sorted(modules()))


@pytest.mark.proves("C5")
@pytest.mark.parametrize("name", ASKED)
def test_a_broken_check_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, record_property: Told) -> None:
    tests = [importlib.import_module(file) for file in modules()[name]]
    original = sys.modules[f"ackproof.judge.{name}"]
    source = Path(inspect.getfile(original)).read_text(encoding="utf-8")
    explained = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get(name, {}) if SURVIVORS.exists() else {}
    monkeypatch.setattr("os.fsync", lambda _: None)  # what a broken one is given need not last
    assert not notices(tests), "the check as it is"
    caught, survived = 0, []
    more = OF_PLAIN_PYTHON if name in WITHOUT_SPARK else ()
    for what, changed in list(mutants(source, ONLY.get(name), more))[:: size(2, 1)]:
        with monkeypatch.context() as patched:
            try:
                module = broken(original, changed)
            except Exception as error:
                if is_of_a_dead_spark(error):
                    raise
                is_caught = True  # it does not even load
            else:
                put_in_place(module, tests, patched)
                is_caught = notices(tests)
        caught += is_caught
        survived += [] if is_caught else [what]
    assert not notices(tests), "the check as it is, after all of this"
    unexplained = [what for what in survived if what not in explained]
    assert caught + len(survived) > 0, "nothing was broken: it proves nothing"
    record_property("figure", _figure(name, caught, len(survived)))
    assert not unexplained, "\n".join(unexplained)


def _figure(name: str, caught: int, explained: int) -> str:
    return f"{name} {caught + explained}: {caught} caught" + (f", {explained} explained" if explained else "")


def test_a_spark_that_died_has_noticed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tests, context = ModuleType("tests"), MagicMock()
    error: Exception = AssertionError("3 == 4")
    monkeypatch.setattr(asking, "session", lambda: SimpleNamespace(spark=SimpleNamespace(sparkContext=context)))

    def test_one() -> None:
        raise error

    vars(tests)["test_one"] = test_one
    context._jsc.sc().isStopped.return_value = False
    assert notices([tests])
    context._jsc.sc().isStopped.return_value = True
    with pytest.raises(AssertionError):
        notices([tests])
    context._jsc.sc().isStopped.side_effect = ConnectionRefusedError
    with pytest.raises(ConnectionRefusedError):
        notices([tests])
    context._jsc.sc().isStopped = lambda: False  # one that was started since
    for error in (Py4JNetworkError(), ConnectionResetError(), CannotHere("Spark did not start:")):
        with pytest.raises(type(error)):
            notices([tests])


def test_every_check_has_histories_written_by_hand() -> None:
    own = {check.function.__module__.rpartition(".")[2] for check in CHECKS.values()}
    assert own - set(modules()) == set()
