"""Proves what the laboratory promises, and writes `docs/trust.md` with what was measured.

`docs/proofs.toml` says what is promised and at which bar. Tests that are marked with the promise's id prove it; they
are run by pytest, at full size or with `--quick` those of CI at their size. What came of each proof is kept in
`docs/trust.json` with its date and commit, and the page is written anew from that after each proof. A proof that passed
with this very code is not run again, nor is a case that passed before the proof was interrupted (`.proofs/`); a proof
of other code is shown as older than the code. A case that failed before it passed is told with what was measured. What
no test proves is not proved yet. `--at-once 3` runs three cases beside each other, each with processes, mounts and a
network of its own, so that none takes another's for left behind. `--take` adds what was proved in another clone.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

HOME = Path(__file__).resolve().parents[1]
SOURCE, TESTS, CAME = (HOME / name for name in ("src", "tests", ".proofs"))
PAGE, DATA, PROMISES = (HOME / "docs" / name for name in ("trust.md", "trust.json", "proofs.toml"))
TIMEOUT_S = {"quick": 600, "full": 6 * 3600}  # of one test
SHARE_MAX_S = 12 * 60  # of CI's share, all of it
MEMORY = {"quick": "2g", "full": "6g"}  # of Java, where one Spark judges all histories
APART = str(HOME / "scripts" / "apart")
OF_CLUSTERS = "tests/cluster/"
SHARE_A_LAB = {f"{OF_CLUSTERS}test_{name}.py" for name in ("foreign_cluster", "kraft_lab", "zookeeper_lab")}
OF_MUTANTS, MUTANTS_TOGETHER = "tests/judge/test_mutants.py", 10  # so many share a Spark; of other files all do
CHANGED = " with changes"
BY_FILES = ["--dist", "loadfile", "--no-loadscope-reorder"]
TWO_FILES_AT_ONCE = ["-n", "2", *BY_FILES]
TWO_LABS_AT_ONCE = ["--tx", f"2*popen//python={shlex.join([APART, sys.executable])}", *BY_FILES]


class Promise(msgspec.Struct, frozen=True):
    title: str
    promise: str
    bar: str
    quick: bool = True
    lacks: str = ""  # what of the bar no test covers yet
    of: str = ""  # the parts of our code that it is about, with all that they import; all of it otherwise


class Came(msgspec.Struct, frozen=True):
    """What came of one case of a test."""

    test: str
    outcome: str
    figures: list[str]
    problem: str = ""
    seconds: float = 0.0
    date: str = ""
    commit: str = ""
    machine: str = ""


class Proof(msgspec.Struct, frozen=True):
    """What came of one promise, as it was proved last at this size."""

    id: str
    size: str
    promise: str
    bar: str
    figures: list[str]
    passed: bool
    holes: list[str]  # what could not be run on that machine, and why
    tests: list[str]
    date: str
    commit: str
    command: str
    seconds: float
    code: str  # digests of the code that it is about, and of the tests' files with all that they share
    tests_code: str
    machine: str = ""


class Share(msgspec.Struct, frozen=True):
    """CI's share, when all of it was run in one go: how long that took."""

    cases: int
    seconds: float
    date: str
    commit: str
    code: str = ""  # of all our code and tests, for what any of them takes counts


class Data(msgspec.Struct, frozen=True):
    """What is kept."""

    proofs: list[Proof] = []
    share: Share | None = None


Kept = dict[tuple[str, str], Proof]
Cases = dict[str, list[str]]  # of each test, as pytest names them


def main() -> int:
    promises = read_promises()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", type=lambda text: text.split(","), metavar="A1,C3", help="these alone")
    options.add_argument("--quick", action="store_true", help="CI's share, at its size")
    options.add_argument("--again", action="store_true", help="also what passed with this very code")
    options.add_argument("--at-once", type=int, default=1, metavar="N", help="so many cases beside each other, as root")
    options.add_argument("--take", nargs="+", type=Path, metavar="CLONE", help="what is newer there; run nothing")
    options.add_argument("--only-write", action="store_true", help="write the page from what is there; run nothing")
    given = options.parse_args()
    # A shell has whatever it runs in the background ignore it, and so would all that is tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if unknown := [name for name in given.only or () if name not in promises]:
        options.error(f"no promise {', '.join(unknown)}; there are {', '.join(promises)}")
    size = "quick" if given.quick else "full"
    asked = given.only or [name for name, promise in promises.items() if promise.quick or not given.quick]
    passed = True
    runs_nothing = given.only_write or given.take
    if size == "full" and not runs_nothing and commit().endswith(CHANGED):
        options.error("commit first: a figure in full is kept with the commit that it is of")
    for clone in given.take or ():
        if not (clone / DATA.relative_to(HOME)).exists():
            options.error(f"no clone of this project: {clone}")
        write_data(newest(read_data(), read_data(clone / DATA.relative_to(HOME)), promises), promises)
    if not runs_nothing:
        try:
            passed = prove(asked, size, promises, given.again, given.at_once)
        except KeyboardInterrupt:
            say("interrupted; what passed is kept: the same command goes on from there")
            return 130
    write_page(promises, read_data())
    print(f"{PAGE.relative_to(HOME)} is written", file=sys.stderr)
    return 0 if passed else 1


@cache
def read_promises() -> dict[str, Promise]:
    document = tomllib.loads(PROMISES.read_text(encoding="utf-8"))
    return {name: msgspec.convert(table, Promise) for name, table in document.items() if name != "groups"}


def read_data(path: Path = DATA) -> Data:
    return msgspec.json.decode(path.read_bytes(), type=Data) if path.exists() else Data()


def by_id(proofs: Iterable[Proof]) -> Kept:
    return {(proof.id, proof.size): proof for proof in proofs}


# -- proving ---------------------------------------------------------------------------------------------------------


def prove(asked: list[str], size: str, promises: dict[str, Promise], again: bool, at_once: int) -> bool:
    tests, cases = what_proves(size)
    kept, told, began = by_id(read_data().proofs), file_of(size), time.monotonic()
    done = {name for name in asked if not again and is_done(kept.get((name, size)), tests[name])}
    todo = [name for name in asked if tests[name] and name not in done]
    known = {} if again else came_before(size)  # a test that proves two promises is run once
    if done_before := {case for name in todo for test in tests[name] for case in cases[test]} & set(known):
        say(f"{len(done_before)} cases had passed with this very code before, and are not run again")
    if size == "quick" or at_once > 1:  # in one go: what they share is started once
        run_tests([test for name in todo for test in tests[name]], cases, size, known, at_once)
    in_one_go = at_once == 1 and not (done or done_before)
    if size == "quick" and in_one_go and set(todo) == {name for name in promises if promises[name].quick}:
        came = max(known.values(), key=lambda case: case.date)
        share = Share(len(known), round(time.monotonic() - began, 1), came.date, came.commit, digest_of_all())
        write_data(msgspec.structs.replace(read_data(), share=share), promises)
    failed = []
    for place, name in enumerate(asked, start=1):
        before = f"{place} of {len(asked)}: {name}"
        if not tests[name]:
            say(f"{before} NOT PROVED: no test proves it {'at this size' if size == 'quick' else 'yet'}")
            failed.append(name)
        elif name in done:
            say(f"{before} passed already: {told_by(kept[name, size])}")
        else:
            say(f"{before} ...")
            own = {test: cases[test] for test in tests[name]}
            proof = proved(name, size, promises[name], own, known, at_once)
            if file_of(size) != told:
                sys.exit("the code was changed while it was proved: what came of it is of no code that there is")
            keep(proof, promises)
            say(f"{before} {'passed' if proof.passed else 'FAILED'} in {proof.seconds:.0f} s: {told_by(proof)}")
            for hole in proof.holes:
                say(f"    could not be run here: {hole}")
            failed += [] if proof.passed else [name]
    of_these = {case for name in todo for test in tests[name] for case in cases[test]} & set(known)
    say(f"{len(of_these)} cases took {sum(known[case].seconds for case in of_these) / 60:.1f} minutes")
    say(f"{len(asked) - len(failed)} of {len(asked)} proved" + (f"; not {', '.join(failed)}" if failed else ""))
    return not failed


def told_by(proof: Proof) -> str:
    return "; ".join(proof.figures)


def is_done(proof: Proof | None, tests: list[str]) -> bool:
    """What could not be run is tried again: by now there may be what it wants."""
    return proof is not None and proof.passed and not proof.holes and not age(proof) and proof.tests == tests


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def what_proves(size: str) -> tuple[dict[str, list[str]], Cases]:
    """Which tests prove each promise at this size, and the cases of each."""
    proving, cases = defaultdict[str, set[str]](set), defaultdict[str, list[str]](list)
    CAME.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CAME) as folder:
        told = Path(folder) / "cases"
        with Path(folder, "said").open("w+b") as said:
            code = pytest_says(["--collect-only"], size, told, said)
            if code:  # what cannot be read would prove nothing, silently
                said.seek(0)
                sys.exit(f"{said.read().decode()}pytest cannot read all tests (exit {code}), so nothing can be proved")
        for line in lines_of(told):
            test = line["test"].partition("[")[0]
            cases[test].append(line["test"])
            for name in line["proves"]:
                proving[name].add(test)
    return defaultdict(list, {name: sorted(tests) for name, tests in proving.items()}), cases


def came_before(size: str) -> dict[str, Came]:
    """Cases that passed with this very code, also of a proof that was interrupted."""
    return {test: came for test, came in read_came(lines_of(file_of(size))).items() if came.outcome == "passed"}


def failed_before(size: str) -> set[str]:
    """Cases that failed with this very code, whatever came of them when they were run again."""
    return {line["test"] for line in lines_of(file_of(size)) if line["outcome"] == "failed"}


def read_came(lines: list[Any]) -> dict[str, Came]:
    """The last word on each case: one that passed may fail while what it was given is taken down."""
    return {came.test: came for came in (msgspec.convert(line, Came) for line in lines)}


def proved(name: str, size: str, promise: Promise, cases: Cases, known: dict[str, Came], at_once: int = 1) -> Proof:
    tests = sorted(cases)
    run_tests(tests, cases, size, known, at_once)
    asked = [case for test in tests for case in cases[test]]
    all_came = [known[case] for case in asked if case in known]
    silent = [case for case in asked if case not in known]
    failed = [came for came in all_came if came.outcome == "failed"]
    passed = [came for came in all_came if came.outcome == "passed"]
    forgiven = failed_before(size) & {came.test for came in passed}
    return Proof(
        id=name,
        size=size,
        promise=promise.promise,
        bar=promise.bar,
        figures=figures_of(passed, failed, silent, len(forgiven)),
        passed=bool(passed) and not failed and not silent,
        holes=sorted({came.problem.removeprefix("Skipped: ") for came in all_came if came.outcome == "skipped"}),
        tests=tests,
        date=max((came.date for came in all_came), default=""),
        commit=max(((came.date, came.commit) for came in all_came), default=("", ""))[1],
        command=" ".join(["scripts/prove --only", name, *how_of(size, at_once)]),
        seconds=round(sum(came.seconds for came in all_came), 1),
        code=digest_of_code(promise.of),
        tests_code=digest_of_tests(tuple(tests)),
        machine="; ".join(sorted({came.machine for came in all_came if came.machine})),
    )


def how_of(size: str, at_once: int) -> list[str]:
    return ["--quick"] * (size == "quick") + [f"--at-once {at_once}"] * (at_once > 1)


def run_tests(tests: list[str], cases: Cases, size: str, known: dict[str, Came], at_once: int = 1) -> None:
    missing: dict[str, list[str]] = {}  # by test, those of its cases that are to be run; of all of them, its own name
    for test in sorted(set(tests), key=list(cases).index):  # as pytest has them: some end what they share
        left = [case for case in cases[test] if case not in known]
        if left:
            missing[test] = [test] if size == "quick" and at_once == 1 and left == cases[test] else left
    if missing:
        told = file_of(size)
        before = len(lines_of(told))
        in_parts = size == "full" or at_once > 1  # one process for all would keep all that each has in memory
        parts = parts_of(missing) if in_parts else as_ci(missing)
        if at_once > 1 or size == "quick":  # where labs are kept apart from each other there is no network
            subprocess.run([sys.executable, str(HOME / "scripts" / "fetch.py")], check=True)

        def run(part: list[str]) -> None:
            code = pytest_says([f"--timeout={TIMEOUT_S[size]}", *part], size, told, apart=at_once > 1)
            if code not in (0, 1):
                say(f"pytest ended with {code}")

        in_turn(parts, at_once, run)
        known |= read_came(lines_of(told)[before:])


def as_ci(missing: dict[str, list[str]]) -> list[list[str]]:
    """What starts no cluster, then the others; two files at once, those of clusters where labs can be kept apart."""
    clusters = [case for test, own in missing.items() if test.startswith(OF_CLUSTERS) for case in own]
    others = [case for test, own in missing.items() if not test.startswith(OF_CLUSTERS) for case in own]
    two_labs = TWO_LABS_AT_ONCE if os.getuid() == 0 else []
    parts = ((TWO_FILES_AT_ONCE, others), (two_labs, clusters))
    return [[*how, *part] for how, part in parts if part]


def parts_of(missing: dict[str, list[str]]) -> list[list[str]]:
    """What can be run apart from the rest."""
    files = defaultdict[str, list[str]](list)
    for test, own in missing.items():
        for place, case in enumerate(own):
            file = test.partition("::")[0]
            part = case if file.startswith(OF_CLUSTERS) and file not in SHARE_A_LAB else file
            files[f"{part} {place // MUTANTS_TOGETHER}" if part == OF_MUTANTS else part].append(case)
    return list(files.values())


def in_turn(parts: list[list[str]], at_once: int, do: Callable[[list[str]], object]) -> None:
    with ThreadPoolExecutor(at_once) as hands:
        try:
            list(hands.map(do, parts))
        finally:
            hands.shutdown(cancel_futures=True)


def figures_of(passed: list[Came], failed: list[Came], silent: list[str], forgiven: int = 0) -> list[str]:
    """What the tests told; of those that told nothing, and of those that failed before they passed, how many."""
    told = list(dict.fromkeys(figure for came in (*failed, *passed) for figure in came.figures))
    plain = [came for came in passed if not came.figures]
    parts = [f"{len(failed)} tests failed, first {failed[0].test}: {shortened(failed[0].problem)}"] if failed else []
    parts += [f"{test} came to no end" for test in silent]
    parts += told
    if plain and told:
        parts.append(f"{len(plain)} more {'case' if len(plain) == 1 else 'cases'} passed")
    elif plain:  # its name says what a test shows
        names = Counter(came.test.partition("[")[0].rpartition("::test_")[2].replace("_", " ") for came in plain)
        parts += [f"{name}: {counted(count)}" for name, count in names.items()]
    if forgiven:
        parts.append(f"{counted(forgiven)} had failed before with this very code")
    return parts


def counted(cases: int) -> str:
    return f"{cases} {'case' if cases == 1 else 'cases'}"


def shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}…"


def pytest_says(arguments: list[str], size: str, told: Path, out: Any = sys.stderr, apart: bool = False) -> int:
    """The plugin in tests/proving.py writes down what came of each case; what pytest itself says goes to `out`."""
    paths = [str(SOURCE), str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = {"ACKPROOF_JUDGE_MEMORY": MEMORY[size], **os.environ, "ACKPROOF_PROVE": size}
    environment["PYTHONPATH"] = ":".join(filter(None, paths))
    command = [*[APART] * apart, sys.executable, "-P", "-m", "pytest", "-p", "proving"]
    command += ["-p", "no:cacheprovider", "-q", "-m", "not long" if size == "quick" else ""]
    command += ["--proofs", str(told), *arguments]
    environment |= {"ACKPROOF_COMMIT": commit(), "ACKPROOF_MACHINE": machine()}
    with subprocess.Popen(command, cwd=HOME, env=environment, stdout=out) as running:
        try:
            return running.wait()
        except KeyboardInterrupt:  # it hears of it too, and takes down what its tests had been given
            running.wait()
            raise


def file_of(size: str) -> Path:
    """What came of each case at this size with this very code."""
    CAME.mkdir(exist_ok=True)
    return CAME / f"{size}-{digest_of_all()}"


def lines_of(path: Path) -> list[Any]:
    """All whole ones: the last may be torn where everything was killed."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [msgspec.json.decode(line) for line in lines if line.startswith("{") and line.endswith("}\n")]


# -- which code it was -----------------------------------------------------------------------------------------------


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=HOME, check=True, capture_output=True, text=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src", "tests", "scripts")
        return git("rev-parse", "--short", "HEAD") + (CHANGED if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@cache
def machine() -> str:
    """What it was measured on, and as whom."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run(["java", "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    size = f"{os.cpu_count()} cores, {memory:.0f} GiB"
    who = "as root" if os.getuid() == 0 else "not as root"
    return f"Linux {os.uname().release}, {size}, Python {platform.python_version()}, {java}, {who}"


def is_older(proof: Proof) -> bool:
    promise = read_promises().get(proof.id)
    return proof.code != digest_of_code(promise.of if promise else "")


def is_older_than_its_tests(proof: Proof) -> bool:
    """Than those that it has run, or than one that it has not."""
    is_new = not set(marked(proof.id, proof.size)) <= set(proof.tests)
    return is_new or proof.tests_code != digest_of_tests(tuple(proof.tests))


@cache
def marked(name: str, size: str) -> list[str]:
    """The tests that prove it at this size, as their source says; pytest finds the same, but takes its time."""
    return sorted(test for path in TESTS.rglob("test_*.py") for test, names in proving(path, size) if name in names)


@cache
def proving(path: Path, size: str) -> list[tuple[str, set[str]]]:
    """The tests of a file that are run at this size, and what each proves."""
    found = []
    tree = ast.parse(path.read_bytes())
    of_all = [node.value for node in tree.body if isinstance(node, ast.Assign) and _is_named(node, "pytestmark")]
    for test in tree.body:
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            marks = dict[str, set[str]]()
            for mark in (*test.decorator_list, *of_all):
                for each in mark.elts if isinstance(mark, ast.List) else (mark,):
                    kind = each.func if isinstance(each, ast.Call) else each
                    words = _words(each, size) if isinstance(each, ast.Call) else ()
                    marks.setdefault(kind.attr if isinstance(kind, ast.Attribute) else "", set()).update(words)
            if size == "full" or "long" not in marks:
                found.append((f"{path.relative_to(HOME)}::{test.name}", marks.get("proves", set())))
    return found


def _is_named(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _words(node: ast.AST, size: str) -> Iterator[str]:
    """The strings in it; of `size(quick, full)` those of one."""
    match node:
        case ast.Constant(value=str(word)):
            yield word
        case ast.Call(func=ast.Name(id="size"), args=[quick, full]):
            yield from _words(quick if size == "quick" else full, size)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _words(child, size)


@cache  # a page asks for each several times, and one is written after each proof
def digest_of_tests(tests: tuple[str, ...]) -> str:
    return digest_of(files_of(tests))


def files_of(tests: Iterable[str]) -> list[Path]:
    """Their own files, what all tests are given, whatever of tests/ these import, and what they tell by its name:
    programs that are started by their path, folders of recorded runs and of data, lists."""
    own = {HOME / test.partition("::")[0] for test in tests} | {TESTS / "conftest.py", TESTS / "proving.py"}
    found: set[Path] = set()
    while own - found:
        found |= {path for path in with_imported(own) if path.is_relative_to(TESTS)}
        own = found | {path for path in files_below(TESTS) if told_of(path) & frozenset().union(*map(texts_of, found))}
    return sorted(found)


def told_of(path: Path) -> set[str]:
    """Its name and those of the folders that it stands in; a test is never told of, nor is a folder of tests."""
    if path.name.startswith("test_"):
        return set()
    folders = {folder.name for folder in path.relative_to(TESTS).parents if not any(folder_of_tests(folder))}
    return {path.name} | folders


@cache
def folder_of_tests(folder: Path) -> list[Path]:
    return list((TESTS / folder).glob("test_*.py"))


@cache
def texts_of(path: Path) -> frozenset[str]:
    """All strings in a program of ours, and the last part of each that is a path."""
    if path.suffix != ".py":
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_bytes()))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(part for text in texts for part in (text, text.rpartition("/")[2]))


@cache
def digest_of_code(parts: str) -> str:
    own = [path for part in parts.split() or [""] for path in files_of_part(SOURCE.joinpath(*part.split(".")))]
    found = sorted(path for path in with_imported(own) if path.is_relative_to(SOURCE)) if parts else own
    return digest_of([*found, HOME / "constraints.txt"])


def digest_of_all() -> str:
    return digest_of([*files_below(SOURCE), *files_below(TESTS), HOME / "constraints.txt"])


def files_of_part(place: Path) -> list[Path]:
    """Of a package, or of a module."""
    return files_below(place) if place.is_dir() else [place.with_suffix(".py")]


def with_imported(files: Iterable[Path]) -> set[Path]:
    """These files, and whatever of src/ and tests/ they import, and what that imports."""
    found: set[Path] = set()
    todo = list(files)
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [file for name in imports_of(path) for file in modules().get(name, ())]
    return found


@cache
def modules() -> dict[str, list[Path]]:
    """By the name by which code imports them."""
    found = defaultdict[str, list[Path]](list)
    for path in files_below(SOURCE):
        if path.suffix == ".py":
            name = path.relative_to(SOURCE).with_suffix("").parts
            found[".".join(name[:-1] if name[-1] == "__init__" else name)].append(path)
    for path in files_below(TESTS):
        if path.suffix == ".py":
            found[path.stem].append(path)
    return found


@cache
def imports_of(path: Path) -> frozenset[str]:
    if path.suffix != ".py" or not path.is_file():
        return frozenset()
    return frozenset(_names(ast.parse(path.read_bytes())))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def files_below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts and path.is_file()]


def digest_of(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.is_file():
            digest.update(f"{path.relative_to(HOME)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


# -- the page --------------------------------------------------------------------------------------------------------

HEAD = """# What the laboratory promises, and how far that is proved

A tool that accuses Kafka of losing data must be beyond doubt itself. This page says what it promises, at which bar, and
what was measured; `scripts/prove` runs the proofs and writes this page from `docs/trust.json`, and nothing here is
written by hand but these paragraphs and the promises themselves (`docs/proofs.toml`).

**What is promised.** That the judge reports what the journal holds, all of it and nothing else; that a fault which is
reported as proved had its effect, was, if it stands, looked at about every second and never left alone for more than
five, and was healed when the run says so; that a run which is no evidence is *unknown* and never a pass; that the
laboratory leaves the machine as it found it, however it ends; that what was flushed to the journal before a crash is
there after it; that what others write into topics, keys, names and logs is text to whoever reads our output.

**What is not.** The laboratory sees what clients were told, what brokers said of themselves and what the healed log
holds. It does not see a broker's memory or disk, so it says *that* a message is gone and who stands at its offset, and
derives an epoch only where the rule of [judge.md](judge.md) allows it. One machine is not a data centre: all nodes
share a clock, a kernel and a disk, power never fails, and a killed broker keeps what the kernel had taken from it. A
fault is proved about once a second, and once more right before it is healed: a cut by datagrams (a fault of connections
by connections) and by the generation of the router's packet rules, which any change by anybody makes a new one. So a
cut did not hold if somebody else changed a rule, though only for a moment; whatever else came and went between two
looks (a route, a queue, a pause that was ended and begun again, somebody on a dead node's port) is not seen. What
others do to the lab of a run by `ackproof`'s own commands makes it unfit, but for `exec`: a program of theirs inside
may change what no look sees. A node that was killed or stopped is knocked at every second, and whoever answers there
breaks the fault; how often that was is not judged. That no loss was found in twenty runs does not say that none can
happen; it says what was seen in these. Figures were measured on one machine; a proof at quick size is weaker than one
in full, and each line says which it is. Anybody who is root on the machine, or the owner of the laboratory, can change
a journal after the fact: it has checksums against accidents, and none against people.

**How to read the rest.** *Not proved yet*: no test of it has been run, or there is none. *Older than the code*: it was
measured, and `src/` or a library's version has changed since (for what is proved of the judge alone: the judge and what
it imports; what runs the tests, `scripts/`, counts for none). *Older than its tests*: they have, or what they share, or
there is one that was not run then. *Of another bar*: that has. **FAILED** means what it says. *Had failed before with
this very code*: it passed when it was run again, and nothing had changed. *Not covered yet* is what the bar asks for
and no test does, and *in part* that there is such a thing. A hole is a test that could not be run on that machine. Real
clusters are ZooKeeper's where a test does not say that it is of KRaft's, or of both. *Ourselves* is whoever ran the
proof, root as a rule.
"""


def keep(proof: Proof, promises: dict[str, Promise]) -> None:
    write_data(with_proofs(read_data(), [proof], promises), promises)


def with_proofs(data: Data, proofs: Iterable[Proof], promises: dict[str, Promise]) -> Data:
    kept = {**by_id(data.proofs), **by_id(proofs)}
    in_order = sorted(kept.values(), key=lambda each: (place_of(each.id, promises), each.size))
    return msgspec.structs.replace(data, proofs=in_order)


def newest(ours: Data, theirs: Data, promises: dict[str, Promise]) -> Data:
    """Of each proof, and of CI's share, the one that was measured last, whatever came of it."""
    kept = by_id(ours.proofs)
    newer = [
        each for each in theirs.proofs if (each.id, each.size) not in kept or each.date > kept[each.id, each.size].date
    ]
    shares = [share for share in (ours.share, theirs.share) if share]
    return with_proofs(Data(ours.proofs, max(shares, key=lambda share: share.date, default=None)), newer, promises)


def write_data(data: Data, promises: dict[str, Promise]) -> None:
    write(DATA, msgspec.json.format(msgspec.json.encode(data)) + b"\n")
    write_page(promises, data)


def place_of(name: str, promises: dict[str, Promise]) -> int:
    return list(promises).index(name) if name in promises else len(promises)


def write_page(promises: dict[str, Promise], data: Data) -> None:
    write(PAGE, page(promises, data).encode())


def write(path: Path, content: bytes) -> None:
    """All of it or nothing."""
    aside = path.with_name(f".{path.name}")
    aside.write_bytes(content)
    aside.replace(path)


def page(promises: dict[str, Promise], data: Data) -> str:
    kept = by_id(data.proofs)
    groups: dict[str, str] = tomllib.loads(PROMISES.read_text(encoding="utf-8"))["groups"]
    parts = [HEAD, in_short(promises, kept, data.share)]
    for letter, title in groups.items():
        parts.append(f"\n## {letter}. {title}")
        parts += [section(name, promise, shown(name, kept)) for name, promise in promises.items() if name[0] == letter]
    parts.append(f"\n## Measured on\n\n{machines(promises, kept)}")
    return "\n".join(parts) + "\n"


def section(name: str, promise: Promise, proofs: list[Proof]) -> str:
    """One promise with its bar, what was measured, and by which tests."""
    lines = [
        f"\n### {name}. {promise.title}\n",
        f"{promise.promise}\n",
        f"- **Bar**: {promise.bar.rstrip('.')}.",
    ]
    lines += [] if proofs else ["- **Not proved yet**."]
    for proof in proofs:
        lines.append(
            f"- **{'Passed' if proof.passed else 'FAILED'} at {proof.size} size**{age(proof)} ({when(proof)}):"
        )
        lines += [f"  - {figure}" for figure in proof.figures]
        lines += [f"  - **Hole**: {hole}" for hole in proof.holes]
    lines += [f"- **Not covered yet**: {promise.lacks}."] if promise.lacks else []
    return "\n".join([*lines, f"- **Tests**: {tests_of(name)}"])


def state_of(proofs: list[Proof]) -> str:
    if not proofs:
        return "not proved yet"
    return "**FAILED**" if any(not proof.passed for proof in proofs) else f"passed at {proofs[0].size} size"


def to_know(promise: Promise, proofs: list[Proof]) -> str:
    """What a plain pass would hide."""
    other = [f"{'passed' if proof.passed else 'failed'} at {proof.size} size" for proof in proofs[1:]]
    part, hole = ["in part"] * bool(promise.lacks), ["with a hole"] * any(proof.holes for proof in proofs[:1])
    return ", ".join([*part, *hole, *ages(proofs[0]), *other]) if proofs else ""


def when(proof: Proof) -> str:
    return f"`{proof.command}`, {proof.seconds:,.0f} s, {proof.date}, commit {proof.commit}"


def machines(promises: dict[str, Promise], kept: Kept) -> str:
    of: dict[str, list[str]] = defaultdict(list)
    for name in promises:
        for proof in shown(name, kept):
            of[proof.machine or "a machine that was not written down"].append(f"{name} ({proof.size})")
    return "\n".join(f"- {what}: {', '.join(names)}" for what, names in of.items()) or "nothing was measured yet"


def in_short(promises: dict[str, Promise], kept: Kept, share: Share | None) -> str:
    states = {name: state_of(shown(name, kept)) for name in promises}
    of = {state: [name for name in promises if states[name] == state] for state in sorted(set(states.values()))}
    worst_first = sorted(of.items(), key=lambda each: (not each[0].startswith("**"), not each[0].startswith("not ")))
    lines = [f"- {state}: {len(names)}{named(names, state)}" for state, names in worst_first]
    lines += [share_in_words(share)] if share else []
    table = ["| | | | measured | to know |", "| --- | --- | --- | --- | --- |"]
    for name, promise in promises.items():
        proofs = shown(name, kept)
        date = proofs[0].date.partition("T")[0] if proofs else ""
        link = f"[{name}](#{name.lower()}-{promise.title.lower().replace(' ', '-')})"
        table.append(f"| {link} | {promise.title} | {states[name]} | {date} | {to_know(promise, proofs)} |")
    return f"**In short**, of {len(promises)} promises:\n\n" + "\n".join([*lines, "", *table]) + "\n"


def named(names: list[str], state: str) -> str:
    return "" if state.startswith("passed at full") else f" ({', '.join(names)})"


def share_in_words(share: Share) -> str:
    most = f"{SHARE_MAX_S // 60} that it may take"
    judged = f"of the {most}" if share.seconds <= SHARE_MAX_S else f"**more than the {most}**"
    took = f"its {share.cases:,} cases took {share.seconds / 60:.1f} minutes, {judged}"
    old = "" if share.code == digest_of_all() else ", *older than the code or its tests*"
    return f"- quick size is CI's share; {took}{old} (`scripts/prove --quick`, {share.date}, commit {share.commit})"


def shown(name: str, kept: Kept) -> list[Proof]:
    """The full proof, if there is one; the quick one beside it only where it knows something newer, or failed."""
    full, quick = kept.get((name, "full")), kept.get((name, "quick"))
    if full and quick and ((age(full) and not age(quick)) or not quick.passed):
        return [full, quick]
    return [proof for proof in (full or quick,) if proof]


def age(proof: Proof) -> str:
    return "".join(f", {mark}" for mark in ages(proof))


def ages(proof: Proof) -> list[str]:
    """All that has changed since: the page shows the bar of today."""
    promise = read_promises().get(proof.id)
    marks = {
        "older than the code": is_older(proof),
        "older than its tests": is_older_than_its_tests(proof),
        "of another bar": promise is not None and promise.bar != proof.bar,
    }
    return [f"*{mark}*" for mark, is_so in marks.items() if is_so]


def tests_of(name: str) -> str:
    """The files that have one, run or not."""
    files = sorted({Path(test.partition("::")[0]) for test in marked(name, "full")})
    return ", ".join(f"[{path.stem}](../{path})" for path in files) or "-"


if __name__ == "__main__":
    sys.exit(main())
