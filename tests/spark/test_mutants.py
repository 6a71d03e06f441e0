"""A broken judge is caught: each operator of each check, and of the code that finds a run fit, is broken in turn.

`mutation.py` breaks it, and the histories written by hand for that check must notice. `survivors.toml` names the
mutants that they do not notice, each with the reason why it makes no difference.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError

import ackproof
from ackproof.core.errors import CannotHere
from ackproof.judge.registry import QUESTIONS
from tests.support import asking
from tests.support.mutation import Mutant, mutants
from tests.support.proving import size

Told = Callable[[str, object], None]
HERE = Path(__file__).parent
JUDGE = Path(ackproof.__file__).parent / "judge"
SURVIVORS = HERE / "survivors.toml"
ELSEWHERE = {"leadership_history": "test_claims"}
TESTS = {path.stem: path for path in HERE.rglob("test_*.py")}
SHARED = {  # files that several checks share, without a check of their own
    "fates": ("test_fates",),
    "load_seconds": ("test_rate", "test_dips"),
    "ownership": ("test_dual_ownership", "test_ownership_gap"),
    "read_steps": ("test_poll_skip", "test_nonmonotonic_poll"),
    "site_moves": ("test_site_gap", "test_unreplicated"),
    "frames": ("test_phantom", "test_reordered"),
    "transacted": ("test_torn_transaction", "test_hanging_transaction", "test_uncommitted_read", "test_poll_skip"),
}
# Plain Python, which decides whether a run is evidence.
WITHOUT_SPARK = dict.fromkeys(("facts", "fitness", "faults", "final_log", "processes"), ("test_evidence",)) | {
    "interference": ("test_interference", "test_evidence")
}
GIVEN_A_FOLDER = (
    "tests.spark.test_evidence",
    "tests.spark.test_interference",
)  # other tests use them only to have a whole run judged
ONLY = {
    "frames": ("reserved", "unreserved", "_by_number")
}  # only these functions: the rest of the file only passes rows on


def modules() -> dict[str, tuple[str, ...]]:
    """Return each file of checks, and each file that they share, with the files of its tests."""
    found = SHARED | WITHOUT_SPARK
    for name in QUESTIONS:
        for tests in (f"test_{name}", f"test_judge_{name}", ELSEWHERE.get(name)):
            if tests in TESTS:
                found[name] = (tests,)
    return found


def module_of_tests(file: str) -> ModuleType:
    return importlib.import_module(".".join(TESTS[file].relative_to(HERE.parents[1]).with_suffix("").parts))


def broken_file(name: str) -> ModuleType:
    """Return the path of the judge's module with this name."""
    (path,) = JUDGE.rglob(f"{name}.py")
    return importlib.import_module(".".join(("ackproof.judge", *path.relative_to(JUDGE).with_suffix("").parts)))


def failure(tests: Sequence[ModuleType]) -> Exception | None:
    """Return the first failure of these tests. A check that raises counts, but a Spark that died does not."""
    asking._ANSWERS.clear()
    try:
        for name, test in (member for file in tests for member in inspect.getmembers(file, inspect.isfunction)):
            if name.startswith("test_"):
                _ask(test)
    except Exception as error:
        if is_of_a_dead_spark(error):
            raise
        return error
    finally:
        asking._ANSWERS.clear()
    return None


def is_of_a_dead_spark(error: Exception) -> bool:
    """By what it is, or by what Spark says now, for a test may only have missed its answer; a dead one says nothing,
    which is an error too."""
    if isinstance(error, Py4JNetworkError | ConnectionError | CannotHere):
        return True
    return bool(asking.session().spark.sparkContext._jsc.sc().isStopped())


def _ask(test: Any) -> None:
    """Call a test as pytest would, once for each case. Tests that need more than a folder are left out."""
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
    """Return the same module, made from the changed source."""
    module = ModuleType(original.__name__)
    module.__file__ = original.__file__
    exec(compile(source, f"{original.__name__}, broken", "exec"), module.__dict__)  # noqa: S102 - our own, with one word changed
    return module


def put_in_place(module: ModuleType, tests: Sequence[ModuleType], patched: pytest.MonkeyPatch) -> None:
    """Put the functions and classes of the broken module in place wherever checks, other files and tests use them."""
    users = [user for name, user in list(sys.modules.items()) if name.startswith("ackproof.judge.")]
    for user in (*users, asking, *tests):
        for name, used in list(vars(user).items()):
            if (inspect.isfunction(used) or inspect.isclass(used)) and used.__module__ == module.__name__:
                patched.setattr(user, name, getattr(module, used.__name__))
    for name, question in QUESTIONS.items():
        if question.__module__ == module.__name__:
            patched.setitem(QUESTIONS, name, getattr(module, name))


def mutants_of(name: str) -> list[Mutant]:
    source = Path(inspect.getfile(broken_file(name))).read_text(encoding="utf-8")
    return list(mutants(source, ONLY.get(name), plain=name in WITHOUT_SPARK))


def survivors() -> dict[str, dict[str, str]]:
    """Return the surviving mutants of each file, with the reason of each."""
    return tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))


def problems(tried: Mapping[Mutant, bool], explained: Mapping[str, str]) -> list[str]:
    """Return what is wrong with these mutants: survivors without a reason, and explained ones that are caught."""
    return [
        f"{mutant.name}: " + ("caught by now, take its line out of survivors.toml" if caught else mutant.difference)
        for mutant, caught in tried.items()
        if caught == (mutant.name in explained)
    ]


ASKED = size(["reordered"], sorted(modules()))


@pytest.mark.proves("C5")
@pytest.mark.in_one_process(10)
@pytest.mark.parametrize("name", ASKED)
def test_a_broken_check_is_caught(name: str, monkeypatch: pytest.MonkeyPatch, record_property: Told) -> None:
    tests = [module_of_tests(file) for file in modules()[name]]
    original = broken_file(name)
    monkeypatch.setattr("os.fsync", lambda _: None)  # frames of a broken check need not be cached
    assert failure(tests) is None, "the check fails before it is broken"
    tried: dict[Mutant, bool] = {}
    for mutant in mutants_of(name)[:: size(2, 1)]:
        with monkeypatch.context() as patched:
            try:
                module = broken(original, mutant.source)
            except Exception as error:
                if is_of_a_dead_spark(error):
                    raise
                tried[mutant] = True  # the mutant does not even load
            else:
                put_in_place(module, tests, patched)
                tried[mutant] = failure(tests) is not None
    assert failure(tests) is None, "the check fails after it was restored"
    assert tried, "no mutant was tried, so this proves nothing"
    caught = sum(tried.values())
    survived = f", {len(tried) - caught} explained" if caught < len(tried) else ""
    record_property("figure", f"{name} {len(tried)}: {caught} caught{survived}")
    wrong = problems(tried, survivors().get(name, {}))
    assert not wrong, "\n".join(wrong)


def test_every_file_that_is_broken_has_its_files_of_tests() -> None:
    named = {file for files in modules().values() for file in files}
    assert named - set(TESTS) == set()
    assert all(broken_file(name) for name in modules())


def test_every_survivor_is_still_a_mutant() -> None:
    stale = [
        f"{name}: {each}"
        for name, own in survivors().items()
        for each in set(own) - {one.name for one in mutants_of(name)}
    ]
    assert stale == []


def test_a_survivor_without_a_reason_and_a_caught_one_with_a_reason_are_both_wrong() -> None:
    one, other = list(mutants("def f(a, b): return a < b, a == b"))
    assert problems({one: True, other: False}, {other.name: "why"}) == []
    assert problems({one: False, other: False}, {other.name: "why"}) == [f"{one.name}: {one.difference}"]
    (wrong,) = problems({one: True, other: True}, {other.name: "why"})
    assert wrong == "f: comparison 2: caught by now, take its line out of survivors.toml"


def test_the_name_of_a_mutant_stays_when_words_or_other_functions_change() -> None:
    before = "def f(t):\n    return t.filter(F.col('a') < 1).join(t, on=['b'], how='left')\n"
    after = "def f(rows):\n    'New.'\n    return rows.filter(F.col('new') < 2).join(new(rows), on=NEW, how='inner')\n"
    names = ["f: number 1", "f: comparison 1", "f: filter 1", "f: join 1"]
    assert [one.name for one in mutants(before)] == names
    assert [one.name for one in mutants(f"def g(s):\n    return s.distinct()\n{after}")] == ["g: distinct 1", *names]


def test_a_dead_spark_does_not_count_as_a_caught_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    tests, context = ModuleType("tests"), MagicMock()
    error: Exception = AssertionError("3 == 4")
    monkeypatch.setattr(asking, "session", lambda: SimpleNamespace(spark=SimpleNamespace(sparkContext=context)))

    def test_one() -> None:
        raise error

    vars(tests)["test_one"] = test_one
    context._jsc.sc().isStopped.return_value = False
    assert failure([tests]) is error
    context._jsc.sc().isStopped.return_value = True
    with pytest.raises(AssertionError):
        failure([tests])
    context._jsc.sc().isStopped.side_effect = ConnectionRefusedError
    with pytest.raises(ConnectionRefusedError):
        failure([tests])
    context._jsc.sc().isStopped = lambda: False  # a Spark that was started since
    for error in (Py4JNetworkError(), ConnectionResetError(), CannotHere("Spark did not start:")):
        with pytest.raises(type(error)):
            failure([tests])


def test_every_check_has_histories_written_by_hand() -> None:
    assert QUESTIONS.keys() - modules().keys() == set()
