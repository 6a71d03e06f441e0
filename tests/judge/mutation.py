"""Breaks a check on purpose: each operator of its source in turn, so that its tests can be seen to notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Change = Callable[[ast.AST], bool]  # in place; false where there is nothing to change

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_COMBINED: dict[type[ast.operator], type[ast.operator]] = {
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_TURNED = {
    one: other
    for pair in (
        ("min", "max"),
        ("min_by", "max_by"),
        ("greatest", "least"),
        ("lag", "lead"),
        ("isNull", "isNotNull"),
        ("bool_or", "bool_and"),
    )
    for one, other in (pair, pair[::-1])
}
_JOINED = {"left_anti": "left_semi", "left_semi": "left_anti", "inner": "left", "left": "inner", "full": "inner"}


def _compare(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        node.ops[0] = _COMPARED[type(node.ops[0])]()
        return True
    return False


def _combine(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp) and type(node.op) in _COMBINED:
        node.op = _COMBINED[type(node.op)]()
        return True
    return False


def _either(node: ast.AST) -> bool:
    if isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return True
    return False


def _negate(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert | ast.Not):
        node.operand = ast.UnaryOp(node.op, node.operand)
        return True
    return False


def _turn(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in _TURNED:
        node.attr = _TURNED[node.attr]
        return True
    return False


def _count(node: ast.AST) -> bool:
    """All of them for those that differ, and the other way round; of rows, all of which differ, one."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    if node.func.attr not in ("count", "count_distinct"):
        return False
    node.func.attr = "count" if node.func.attr == "count_distinct" else "count_distinct"
    if isinstance(node.args[0], ast.Constant) and node.args[0].value == "*":
        node.args = [ast.parse("F.lit(1)", mode="eval").body]
    return True


def _join(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword) and node.arg == "how" and isinstance(node.value, ast.Constant):
        node.value.value = _JOINED[str(node.value.value)]
        return True
    return False


def _count_on(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1  # type: ignore[operator]
        return True
    return False


def _let_through(node: ast.AST) -> bool:
    """A filter that filters nothing, be it of rows or, with a function, of an array."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "filter" and node.args:
        of_array = len(node.args) > 1
        node.args[-1] = ast.parse("lambda each: F.lit(True)" if of_array else "F.lit(True)", mode="eval").body
        return True
    return False


AROUND = 40  # letters before and after a change, by which a person finds it
CHANGES: tuple[Change, ...] = (_compare, _combine, _either, _negate, _turn, _count, _join, _count_on, _let_through)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """What was changed, with the words around it, and the source with it."""
    tree = ast.parse(source)
    whole = ast.unparse(tree)
    nodes = list(ast.walk(tree))
    meant = _of_types(tree)
    for place, node in enumerate(nodes):
        for change in CHANGES:
            if id(node) in meant or not change(copy.deepcopy(node)):
                continue
            changed = copy.deepcopy(tree)
            change(list(ast.walk(changed))[place])
            broken = ast.unparse(ast.fix_missing_locations(changed))
            yield _difference(whole, broken), broken


def _difference(before: str, after: str) -> str:
    begin = _alike(before, after)
    same = _alike(before[begin:][::-1], after[begin:][::-1])
    old, new = (text[begin : len(text) - same] for text in (before, after))
    around = (before[max(0, begin - AROUND) : begin], before[begin + len(old) :][:AROUND])
    return " ".join(f"{around[0]}[{old} → {new}]{around[1]}".split())


def _alike(one: str, other: str) -> int:
    """How many letters both begin with."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _of_types(tree: ast.AST) -> set[int]:
    """Nodes that are read by people and type checkers only."""
    found: set[int] = set()
    for node in ast.walk(tree):
        notes = [getattr(node, name, None) for name in ("annotation", "returns")]
        found |= {id(each) for note in notes if note is not None for each in ast.walk(note)}
    return found
