"""Break a check on purpose: each operator of its source in turn, and each column of its keys that tells rows apart.

A mutant is named after the function it is in, the kind of change, and its number among those of this kind in that
function, from top to bottom: `_acked: join 2`. Its name stays the same when words or other functions change.

No general tool does this. cosmic-ray 8.7 breaks neither joins nor keys, filters, windows and aggregates, makes 5,264
mutants of these files instead of 1,649, and starts Spark anew for each (8.8 s of processor time, here 1.2 s); mutmut
3.8 cannot be told which operators to break, and makes 85 mutants of `reordered`, mostly misspelt columns, instead of 7.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from operator import setitem
from typing import Any, NamedTuple, TypeVar

from ackproof.judge.frames import POSITION, TP, VALUE
from ackproof.judge.transacted import TRANSACTION

Node = TypeVar("Node", bound=ast.AST)
Changes = Iterator[tuple[str, ast.AST]]  # the kind of each change, and the changed node
Columns = list[ast.expr]


class Mutant(NamedTuple):
    name: str
    original: str
    source: str

    @property
    def difference(self) -> str:
        """Return the lines before and after the change."""
        lines = list(difflib.unified_diff(self.original.splitlines(), self.source.splitlines(), n=0, lineterm=""))
        return "\n".join(line for line in lines[2:] if not line.startswith("@@"))


def _both_ways(pairs: Mapping[Any, Any]) -> dict[Any, Any]:
    return {**pairs, **{other: one for one, other in pairs.items()}}


_COMPARED = _both_ways({ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq})
_BELONGS = _both_ways({ast.Is: ast.IsNot, ast.In: ast.NotIn})
_COMBINED = {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult} | _both_ways(
    {ast.BitAnd: ast.BitOr, ast.Add: ast.Sub, ast.Mult: ast.Div}
)
_COUNTED = _both_ways({"count": "count_distinct"})
_OPPOSITE = {"sum": "max"} | _both_ways(
    {
        "min": "max",
        "min_by": "max_by",
        "greatest": "least",
        "lag": "lead",
        "isNull": "isNotNull",
        "bool_or": "bool_and",
        "desc": "asc",
    }
)
_PLAIN_OPPOSITE = {"sum": "max"} | _both_ways({"min": "max", "all": "any"})
_JOINED = {"left_anti": "left_semi", "left_semi": "left_anti", "inner": "left", "left": "inner", "full": "inner"}
_WHOLE = "Window.unboundedFollowing"
_ENDS = {"to the end": _WHOLE, "to this row": "Window.currentRow", "to the row before": "-1"}
_TELL_APART = ("topic", "partition", "producer", "group", "consumer", "broker")
_KEYS = {"TP": TP, "VALUE": VALUE, "POSITION": POSITION, "TRANSACTION": TRANSACTION}  # the names that all checks use


def _operators(node: ast.AST) -> Changes:
    match node:
        case ast.Compare(ops=[op, *others]) if type(op) in _COMPARED:
            yield "comparison", _with(node, ops=[_COMPARED[type(op)](), *others])
        case ast.BinOp(op=op) if type(op) in _COMBINED:
            yield "operator", _with(node, op=_COMBINED[type(op)]())
        case ast.BoolOp(op=op):
            yield "and-or", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Invert() | ast.Not() as op, operand=operand):
            yield "not", _with(node, operand=ast.UnaryOp(op, operand))
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield "number", _with(node, value=number + 1)
        case ast.Attribute(attr=name) if name in _OPPOSITE:
            yield "opposite", _with(node, attr=_OPPOSITE[name])
        case ast.keyword(arg="how", value=ast.Constant(value=how)):
            yield "join", _with(node, value=ast.Constant(_JOINED[str(how)]))
        case ast.Call(func=ast.Attribute() as method):
            yield from _methods(node, method)


def _methods(node: ast.Call, method: ast.Attribute) -> Changes:
    match method.attr, node.args:
        case "count" | "count_distinct", [first, *_]:
            # The rows that `*` counts all differ, so distinct rows are as many.
            args = [_expression("F.lit(1)")] if ast.unparse(first) == "'*'" else node.args
            yield "count", _with(node, func=_with(method, attr=_COUNTED[method.attr]), args=args)
        case "filter", [_]:
            yield "filter", _with(node, args=[_expression("F.lit(True)")])
        case "filter", [array, _]:
            yield "filter", _with(node, args=[array, _expression("lambda each: F.lit(True)")])
        case "otherwise", _ if isinstance(method.value, ast.Call):
            yield "otherwise", method.value
        case "coalesce", [_, _, *_]:
            yield "coalesce without its first", _with(node, args=node.args[1:])
            yield "coalesce without its last", _with(node, args=node.args[:-1])
        case "isin", args:
            if len(args) > 1:
                yield "isin with one less", _with(node, args=args[:-1])
            yield "isin turned round", ast.Call(ast.Attribute(node, "__invert__"), [], [])
        case "distinct", []:
            yield "distinct", _with(node, func=_with(method, attr="select"), args=[ast.Constant("*")])
        case "rowsBetween", [begin, end] if (
            ast.unparse(end) != _WHOLE
        ):  # without a frame the order of the rows does not matter
            for name, other in _ENDS.items():
                if ast.unparse(end) != other:
                    yield f"frame {name}", _with(node, args=[begin, _expression(other)])


def _plain(node: ast.AST) -> Changes:
    """Return the changes of what decides in Python, without Spark."""
    match node:
        case ast.Compare(ops=[op, *others]) if type(op) in _BELONGS:
            yield "membership", _with(node, ops=[_BELONGS[type(op)](), *others])
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield "condition", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool() as truth):
            yield "truth", _with(node, value=not truth)
        case ast.Call(func=ast.Name(id=name)) if name in _PLAIN_OPPOSITE:
            yield "plain opposite", _with(node, func=ast.Name(_PLAIN_OPPOSITE[name]))
    match node:
        case ast.Compare(ops=[first, op, *others]) if type(op) in _COMPARED:
            yield "second comparison", _with(node, ops=[first, _COMPARED[type(op)](), *others])


def _keys(node: ast.AST, named: Mapping[str, Columns]) -> Changes:
    """One column less in the key of a window, of a group, of a semi- or an anti-join.

    A group returns the column's least value instead, so that its name is there. Any other join as a rule fails at once
    because a name is there twice, so those are not tried.
    """
    match node:
        case ast.Call(func=ast.Attribute(attr="partitionBy"), args=key):
            for column, fewer in _shorter(key, named):
                yield f"key without {column}", _with(node, args=fewer)
        case ast.Call(
            func=ast.Attribute(attr="agg", value=ast.Call(func=ast.Attribute(attr="groupBy")) as group) as agg
        ):
            for column, fewer in _shorter(group.args, named):
                least = _expression(f"F.min({column!r}).alias({column!r})")
                grouped = _with(agg, value=_with(group, args=fewer))
                yield f"key without {column}", _with(node, func=grouped, args=[least, *node.args])
        case ast.Call(
            func=ast.Attribute(attr="join"),
            keywords=[on, ast.keyword(value=ast.Constant(value="left_anti" | "left_semi")) as how],
        ):
            for column, fewer in _shorter(_joined_on(on.value), named):
                yield f"key without {column}", _with(node, keywords=[_with(on, value=ast.List(fewer)), how])


def _joined_on(key: ast.expr) -> Columns:
    match key:
        case ast.List(elts=columns):
            return columns
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="list"), args=[ast.Name(id=name)]):
            return [ast.Starred(ast.Name(name))]
    return []


def _shorter(written: Columns, named: Mapping[str, Columns]) -> Iterator[tuple[str, Columns]]:
    """Yield each column that tells rows apart, with the key without it, if other columns remain."""
    key = _columns(written, named)
    for column in _TELL_APART:
        fewer = [each for each in key if not (isinstance(each, ast.Constant) and each.value == column)]
        if fewer and len(fewer) < len(key):
            yield column, fewer


def _columns(written: Columns, named: Mapping[str, Columns]) -> Columns:
    """Return the columns of a key one by one, including those of a `*NAME` in it."""
    found: Columns = []
    for each in written:
        known = named.get(each.value.id) if isinstance(each, ast.Starred) and isinstance(each.value, ast.Name) else None
        found += [each] if known is None else known
    return found


def _named_keys(tree: ast.AST) -> dict[str, Columns]:
    """Return the named lists of columns: those that checks share, and those of this source."""
    found: dict[str, Columns] = {name: [ast.Constant(each) for each in key] for name, key in _KEYS.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
            found |= {name.id: _columns(node.value.elts, found) for name in node.targets if isinstance(name, ast.Name)}
    return found


def mutants(source: str, only: Collection[str] | None = None, plain: bool = False) -> Iterator[Mutant]:
    """Return each mutant of a source, or of these functions in it. Plain Python has more kinds of mutants."""
    tree = ast.parse(source)
    whole = ast.unparse(tree)
    named = _named_keys(tree)
    count: Counter[str] = Counter()
    for function, node, put in _places(tree):
        if only is None or set(function.split(".")) & set(only):
            for kind, changed in (*_operators(node), *_keys(node, named), *(_plain(node) if plain else ())):
                put(changed)
                broken = ast.unparse(tree)
                put(node)
                count[f"{function}: {kind}"] += 1
                name = f"{function}: {kind} {count[f'{function}: {kind}']}"
                yield Mutant(name, whole, broken)


def _places(parent: ast.AST, function: str = "module") -> Iterator[tuple[str, ast.AST, Callable[[ast.AST], None]]]:
    """Each node in the order in which they end, with its function, and how to put another in its place.

    Types are left out, because nothing runs them.
    """
    if isinstance(parent, ast.FunctionDef | ast.ClassDef):
        function = parent.name if function == "module" else f"{function}.{parent.name}"
    for field, value in ast.iter_fields(parent):
        if field not in ("annotation", "returns"):
            holder: Any = value if isinstance(value, list) else vars(parent)
            for key in range(len(value)) if isinstance(value, list) else [field]:
                if isinstance(node := holder[key], ast.AST):
                    yield from _places(node, function)
                    yield function, node, partial(setitem, holder, key)


def _with(node: Node, **fields: object) -> Node:
    changed = copy.copy(node)
    vars(changed).update(fields)
    return changed


def _expression(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body
