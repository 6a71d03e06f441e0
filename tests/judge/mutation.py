"""Breaks a check on purpose: each operator of its source in turn, and each column of its keys that tells things apart,
so that its tests can be seen to notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeGuard

from ackproof.judge.tables import POSITION, TP, VALUE
from ackproof.judge.transacted import TRANSACTION

Change = Callable[[ast.AST], bool]  # in place; false where there is nothing to change


class _Method(ast.Call):
    func: ast.Attribute


_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_BELONGS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
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
        ("desc", "asc"),
    )
    for one, other in (pair, pair[::-1])
}
_TURNED_PLAIN = {"min": "max", "max": "min", "all": "any", "any": "all", "sum": "max"}
_JOINED = {"left_anti": "left_semi", "left_semi": "left_anti", "inner": "left", "left": "inner", "full": "inner"}


def _compare(node: ast.AST, place: int) -> bool:
    if isinstance(node, ast.Compare) and place < len(node.ops) and type(node.ops[place]) in _COMPARED:
        node.ops[place] = _COMPARED[type(node.ops[place])]()
        return True
    return False


def _belong(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _BELONGS:
        node.ops[0] = _BELONGS[type(node.ops[0])]()
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


def _choose(node: ast.AST) -> bool:
    """The other way, where what decides has no operator itself."""
    if isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return True
    return False


def _lie(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
        return True
    return False


def _turn(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in _TURNED:
        node.attr = _TURNED[node.attr]
        return True
    return False


def _turn_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TURNED_PLAIN:
        node.func.id = _TURNED_PLAIN[node.func.id]
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


def _sum(node: ast.AST) -> bool:
    """The largest for the sum."""
    if isinstance(node, ast.Attribute) and node.attr == "sum":
        node.attr = "max"
        return True
    return False


def _fall_back(node: ast.AST, lost: int) -> bool:
    """Without the first, or without what it falls back to at last."""
    if _calls(node, "coalesce") and len(node.args) > 1:
        del node.args[lost]
        return True
    return False


def _otherwise(node: ast.AST) -> bool:
    if _calls(node, "otherwise") and isinstance(before := node.func.value, ast.Call):
        vars(node).update(vars(before))
        return True
    return False


def _one_of_fewer(node: ast.AST) -> bool:
    if _calls(node, "isin") and len(node.args) > 1:
        del node.args[-1]
        return True
    return False


def _none_of(node: ast.AST) -> bool:
    if _calls(node, "isin"):
        node.func, node.args = ast.Attribute(copy.copy(node), "__invert__"), []
        return True
    return False


def _repeated(node: ast.AST) -> bool:
    if _calls(node, "distinct") and not node.args:
        node.func.attr, node.args = "select", [ast.Constant("*")]
        return True
    return False


_WHOLE = "Window.unboundedFollowing"


def _frame(node: ast.AST, end: str) -> bool:
    """Another end. The whole of a partition need not be in order, and is not cut: nobody could tell where."""
    if _calls(node, "rowsBetween") and ast.unparse(node.args[1]) not in (end, _WHOLE):
        node.args[1] = ast.parse(end, mode="eval").body
        return True
    return False


def _calls(node: ast.AST, name: str) -> TypeGuard[_Method]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


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


_TELL_APART = ("topic", "partition", "producer", "group", "consumer", "broker")
_KEYS = {"TP": TP, "VALUE": VALUE, "POSITION": POSITION, "TRANSACTION": TRANSACTION}  # the names that all checks use


def _keys(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """By name: the lists of columns that checks share, and those that this source gives a name itself."""
    found: dict[str, list[ast.expr]] = {name: [ast.Constant(each) for each in key] for name, key in _KEYS.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
            for name in node.targets:
                if isinstance(name, ast.Name):
                    found[name.id] = _columns(node.value.elts, found)
    return found


def _columns(told: list[ast.expr], named: Mapping[str, list[ast.expr]]) -> list[ast.expr]:
    """Each column of a key, also of those that are told by a name."""
    found: list[ast.expr] = []
    for each in told:
        known = named.get(each.value.id) if isinstance(each, ast.Starred) and isinstance(each.value, ast.Name) else None
        found += [each] if known is None else known
    return found


def _key(node: ast.AST, named: Mapping[str, list[ast.expr]]) -> tuple[ast.AST, list[ast.expr]] | None:
    """Where a key is told whose loss nobody else would notice, and its columns: of a window, of a group, or of a join
    that keeps or drops rows. Any other join as a rule falls over a name that is then there twice: those are not
    tried."""
    match node:
        case ast.Call(func=ast.Attribute(attr="partitionBy"), args=told):
            return node, _columns(told, named)
        case ast.Call(func=ast.Attribute(attr="agg", value=ast.Call(func=ast.Attribute(attr="groupBy"), args=told))):
            return node, _columns(told, named)
        case ast.Call(func=ast.Attribute(attr="join"), keywords=[on, ast.keyword(value=ast.Constant(value=how))]) if (
            how in ("left_anti", "left_semi")
        ):
            match on.value:
                case ast.List(elts=told):
                    return on, _columns(told, named)
                case ast.Name(id=name) | ast.Call(func=ast.Name(id="list"), args=[ast.Name(id=name)]):
                    return on, named.get(name, [])
    return None


def _forget(node: ast.AST, column: str, named: Mapping[str, list[ast.expr]]) -> bool:
    """One column of a key of two or more. A group still tells its least, or all would fall over its name."""
    told, key = _key(node, named) or (node, [])
    fewer = [each for each in key if not (isinstance(each, ast.Constant) and each.value == column)]
    if not fewer or len(fewer) == len(key):
        return False
    if _calls(told, "agg") and isinstance(told.func.value, ast.Call):
        told.func.value.args = fewer
        told.args.insert(0, ast.parse(f"F.min({column!r}).alias({column!r})", mode="eval").body)
    elif isinstance(told, ast.Call):
        told.args = fewer
    elif isinstance(told, ast.keyword):
        told.value = ast.List(fewer)
    return True


AROUND = 40  # letters before and after a change, by which a person finds it
CHANGES: tuple[Change, ...] = (
    *(partial(_compare, place=0), _combine, _either, _negate, _turn, _count, _join, _count_on, _let_through),
    *(_sum, _otherwise, _one_of_fewer, _none_of, _repeated),
    *(partial(_fall_back, lost=lost) for lost in (0, -1)),
    *(partial(_frame, end=end) for end in (_WHOLE, "Window.currentRow", "-1")),
)
OF_PLAIN_PYTHON: tuple[Change, ...] = (partial(_compare, place=1), _belong, _choose, _lie, _turn_plain)


def mutants(source: str, only: Collection[str] | None = None, more: Sequence[Change] = ()) -> Iterator[tuple[str, str]]:
    """What was changed, with the words around it, and the source with it; in these functions only, if any are named."""
    tree = ast.parse(source)
    whole = ast.unparse(tree)
    nodes = list(ast.walk(tree))
    meant, named = _of_types(tree), _keys(tree)
    asked = {
        id(each)
        for node in nodes
        if only is not None and isinstance(node, ast.FunctionDef) and node.name in only
        for each in ast.walk(node)
    }
    forgetful: list[Change] = [partial(_forget, column=column, named=named) for column in _TELL_APART]
    for place, node in enumerate(nodes):
        for change in (*CHANGES, *forgetful, *more):
            if id(node) in meant or (only is not None and id(node) not in asked) or not change(copy.deepcopy(node)):
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
