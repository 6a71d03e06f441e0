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
        ("count", "count_distinct"),
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


def _negate(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        node.operand = ast.UnaryOp(ast.Invert(), node.operand)
        return True
    return False


def _turn(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in _TURNED:
        node.attr = _TURNED[node.attr]
        return True
    return False


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
    """A filter that filters nothing."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "filter" and node.args:
        node.args = [ast.parse("F.lit(True)", mode="eval").body]
        return True
    return False


CHANGES: tuple[Change, ...] = (_compare, _combine, _negate, _turn, _join, _count_on, _let_through)


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """What was changed, and the source with it."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    meant = _of_types(tree)
    for place, node in enumerate(nodes):
        for change in CHANGES:
            if id(node) in meant:
                continue
            changed = copy.deepcopy(tree)
            its = list(ast.walk(changed))[place]
            before = _words(its)
            if change(its):
                yield f"{before}  →  {_words(its)}", ast.unparse(ast.fix_missing_locations(changed))


def _words(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:60]} … {text[-27:]}"


def _of_types(tree: ast.AST) -> set[int]:
    """Nodes that are read by people and type checkers only."""
    found: set[int] = set()
    for node in ast.walk(tree):
        notes = [getattr(node, name, None) for name in ("annotation", "returns")]
        found |= {id(each) for note in notes if note is not None for each in ast.walk(note)}
    return found
