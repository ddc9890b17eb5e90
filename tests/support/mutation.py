"""Wrong variants of code: the tree of a cell with one thing changed.

The changes are those that learners of the exercises make: a factor of eight between bits and bytes, a wait left out,
a right of memory too few. Libraries for mutation testing (mutmut, cosmic-ray) change the modules of a package and run
its tests; here the code stands in cells of a notebook, and a judge takes the place of the tests.
"""

import ast
import copy
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

FRACTION = 1000 / 1024  # of a kilobyte taken for a kibibyte

PLAIN = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.BinOp

Change = Callable[[ast.AST], Iterator[ast.AST]]  # from a node to what may stand in its place


class Mutant(NamedTuple):
    """A cell in which one statement of a function differs."""

    function: str
    operator: str
    before: str  # the statement, without what is nested in it
    after: str
    code: str

    @property
    def change(self) -> tuple[str, str, str]:
        """Return what tells this mutant of a cell from all others."""
        return self.function, self.before, self.after


class Place(NamedTuple):
    """Where a node hangs in the tree."""

    parent: ast.AST
    field: str
    index: int | None  # in the list that is the field, if it is one

    def get(self) -> ast.AST:
        """Return the node that is here."""
        found = getattr(self.parent, self.field)
        return found if self.index is None else found[self.index]

    def put(self, node: ast.AST) -> None:
        """Put a node here."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


# What may stand in the place of an expression -------------------------------------------------------------------------

BESIDE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITE = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OTHER_OPERATION = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OTHER_FUNCTION = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "ceil": "floor",
    "floor": "ceil",
    "rint": "floor",
    "median": "mean",
    "mean": "median",
    "int64": "int16",
    "float64": "float16",
    "flatnonzero": "nonzero",
}


def compare_beside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a comparison that differs only where both sides are equal."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in BESIDE:
        yield _with(node, ops=[BESIDE[type(node.ops[0])](), *node.ops[1:]])


def compare_opposite(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the opposite of a comparison."""
    if isinstance(node, ast.Compare):
        yield _with(node, ops=[OPPOSITE[type(node.ops[0])](), *node.ops[1:]])


def other_operation(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a minus for a plus, a division for a product, and so on."""
    if isinstance(node, ast.BinOp) and type(node.op) in OTHER_OPERATION:
        yield _with(node, op=OTHER_OPERATION[type(node.op)]())
    if isinstance(node, ast.AugAssign) and type(node.op) in OTHER_OPERATION:
        yield _with(node, op=OTHER_OPERATION[type(node.op)]())


def swapped_sides(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a difference or a quotient with its sides exchanged."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        yield _with(node, left=node.right, right=node.left)


def one_more_or_less(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the whole numbers beside a whole number that is written in the code."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def bits_for_bytes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is eight times too large, or too small: a product, a quotient, or a large number."""
    scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)
    if scaled or _is_large(node):
        yield ast.BinOp(copy.deepcopy(node), ast.Mult(), ast.Constant(8))
        yield ast.BinOp(copy.deepcopy(node), ast.Div(), ast.Constant(8))


def thousand_for_1024(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is off by the factor between 1,000 and 1,024."""
    if _is_large(node):
        yield ast.BinOp(copy.deepcopy(node), ast.Mult(), ast.Constant(FRACTION))


def negated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the opposite of a condition, and and for or."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield node.operand
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _with(node, op=other)
    if isinstance(node, ast.IfExp) and not isinstance(node.test, ast.UnaryOp | ast.Compare):
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def other_function(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a call of max for min, of floor for ceil, and so on."""
    if not isinstance(node, ast.Call):
        return
    function = node.func
    if isinstance(function, ast.Name) and function.id in OTHER_FUNCTION:
        yield _with(node, func=ast.Name(OTHER_FUNCTION[function.id], ast.Load()))
    if isinstance(function, ast.Attribute) and function.attr in OTHER_FUNCTION:
        yield _with(node, func=_with(function, attr=OTHER_FUNCTION[function.attr]))


def other_type(node: ast.AST) -> Iterator[ast.AST]:
    """Yield whole numbers for floats, and a conversion that is left out."""
    if not isinstance(node, ast.Call):
        return
    is_conversion = isinstance(node.func, ast.Name) and node.func.id in ("int", "float")
    if is_conversion or (isinstance(node.func, ast.Attribute) and node.func.attr == "astype"):
        yield node.args[0] if is_conversion else node.func.value
    if is_conversion and node.func.id == "float":
        yield _with(node, func=ast.Name("int", ast.Load()))


def swapped_arguments(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a call with two neighbouring arguments exchanged."""
    if isinstance(node, ast.Call) and len(node.args) > 1:
        for i in range(len(node.args) - 1):
            args = [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]]
            if ast.unparse(args[i]) != ast.unparse(args[i + 1]):
                yield _with(node, args=args)


def argument_left_out(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a call without one of its keywords."""
    if isinstance(node, ast.Call):
        for i in range(len(node.keywords)):
            yield _with(node, keywords=[*node.keywords[:i], *node.keywords[i + 1 :]])


def shorter_range(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a range without its last number, and one without its first."""
    is_range = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if is_range and node.func.id == "range":
        place = 0 if len(node.args) == 1 else 1
        end = ast.BinOp(node.args[place], ast.Sub(), ast.Constant(1))
        yield _with(node, args=[*node.args[:place], end, *node.args[place + 1 :]])
        first = ast.Constant(0) if place == 0 else node.args[0]
        start = ast.BinOp(first, ast.Add(), ast.Constant(1))
        yield _with(node, args=[start, *(node.args if place == 0 else node.args[1:])])


def left_out_of_sum(node: ast.AST) -> Iterator[ast.AST]:
    """Yield each side of a sum or a product alone."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult | ast.BitOr):
        yield node.left
        yield node.right


EXPRESSIONS: dict[str, Change] = {
    "comparison off by one": compare_beside,
    "comparison turned round": compare_opposite,
    "other operation": other_operation,
    "sides exchanged": swapped_sides,
    "number off by one": one_more_or_less,
    "bits for bytes": bits_for_bytes,
    "1,000 for 1,024": thousand_for_1024,
    "condition negated": negated,
    "max for min": other_function,
    "other type": other_type,
    "arguments exchanged": swapped_arguments,
    "argument left out": argument_left_out,
    "range shortened": shorter_range,
    "part left out": left_out_of_sum,
}


# The mutants of a cell ------------------------------------------------------------------------------------------------


def mutants_of(code: str) -> list[Mutant]:
    """Return the mutants of the functions and classes of a cell, each change once, in the order of the code."""
    cell = ast.parse(code).body
    written = [ast.unparse(statement) for statement in cell]
    found: dict[tuple[str, str, str], Mutant] = {}
    for i, definition in enumerate(cell):
        if not isinstance(definition, ast.FunctionDef | ast.ClassDef):
            continue
        names = _names_of(definition)
        for name, statement, block, place in _statements(definition, definition.name):
            for operator, before, after in _changes(statement, block, place, names):
                changed = [*written[:i], ast.unparse(definition), *written[i + 1 :]]
                mutant = Mutant(name, operator, before, after, "\n".join(changed))
                found.setdefault(mutant.change, mutant)
    return list(found.values())


def _statements(
    definition: ast.AST, name: str
) -> Iterator[tuple[str, ast.stmt, list[ast.stmt], int]]:
    """Yield each statement with the name of its function, and its place in the list where it stands."""
    for field in ("body", "orelse"):
        block = getattr(definition, field, [])
        for place, statement in enumerate(block):
            if _says_nothing(statement):
                continue
            if isinstance(statement, ast.FunctionDef):
                yield from _statements(statement, f"{name}.{statement.name}")
                continue
            yield name, statement, block, place
            yield from _statements(statement, name)


def _says_nothing(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, an import, or an assertion of what holds in every run."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    if isinstance(statement, ast.If) and isinstance(statement.body[0], ast.Raise):
        return True
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.Raise | ast.Pass)


def _changes(
    statement: ast.stmt, block: list[ast.stmt], place: int, names: dict[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """Change a statement in one way after the other; yield operator, statement before and after while it is changed."""
    before = headline(statement)
    for spot in _expressions(statement):
        node = spot.get()
        for operator, other in _replacements(node, names):
            spot.put(other)
            after = headline(statement)
            if after == before:
                continue
            if isinstance(statement, ast.Return) and operator == "another variable":
                operator = "another variable returned"
            yield operator, before, after
        spot.put(node)
    if isinstance(statement, ast.If | ast.While) and isinstance(statement.test, PLAIN):
        condition = statement.test
        statement.test = ast.UnaryOp(ast.Not(), condition)
        yield "condition negated", before, headline(statement)
        statement.test = condition
    if isinstance(statement, ast.AugAssign):
        for other in other_operation(statement):
            block[place] = other
            yield "other operation", before, headline(other)
        block[place] = statement

    block[place] = ast.Pass()
    yield "wait left out" if _waits(statement) else "statement left out", before, "pass"
    block[place] = statement

    following = block[place + 1 : place + 2]
    if (
        following
        and not isinstance(following[0], ast.FunctionDef)
        and _follows(statement, following[0])
    ):
        block[place], block[place + 1] = following[0], statement
        second = headline(following[0])
        yield "order of two", f"{before}; {second}", f"{second}; {before}"
        block[place], block[place + 1] = statement, following[0]


def _waits(statement: ast.stmt) -> bool:
    """Return whether a statement of a program does nothing but let others go on, once or in a loop."""
    if isinstance(statement, ast.While):
        return all(_waits(nested) for nested in statement.body)
    return isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Yield | ast.YieldFrom
    )


def _follows(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether the order of two statements may matter, which it does not for assignments of different things."""
    if isinstance(first, ast.Return | ast.Break):
        return False
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return True
    return bool(_stored(first) & _used(second) or _stored(second) & _used(first))


def _stored(statement: ast.Assign) -> set[str]:
    """Return the names to which a statement assigns; those of items are the names of their lists."""
    found = set()
    waiting = list(statement.targets)
    for target in waiting:
        if isinstance(target, ast.Tuple):
            waiting += target.elts
        elif isinstance(target, ast.Subscript):
            waiting.append(target.value)
        else:
            found.add(ast.unparse(target))
    return found


def _used(statement: ast.Assign) -> set[str]:
    """Return the names that a statement reads or to which it assigns."""
    nodes = [node for node in ast.walk(statement) if isinstance(node, ast.Name | ast.Attribute)]
    return {ast.unparse(node) for node in nodes}


def _replacements(node: ast.AST, names: dict[str, list[str]]) -> Iterator[tuple[str, ast.AST]]:
    for operator, change in EXPRESSIONS.items():
        for other in change(node):
            yield operator, other
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for other in _beside(node.id, names["variables"]):
            yield "another variable", ast.Name(other, ast.Load())
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        for other in _beside(node.attr, names["attributes"]):
            yield "another attribute", _with(node, attr=other)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for other in _beside(node.value, names["words"]):
            yield "another word", ast.Constant(other)


def _beside(name: str, all_of: list[str]) -> list[str]:
    """Return the names before and after a name in a list, the last being before the first."""
    if name not in all_of or len(all_of) < 2:
        return []
    place = all_of.index(name)
    return list(dict.fromkeys([all_of[place - 1], all_of[(place + 1) % len(all_of)]]))


def _names_of(definition: ast.AST) -> dict[str, list[str]]:
    """Return the variables, the attributes that are read, and the words of a function, each once and in order."""
    variables: dict[str, None] = {}
    attributes: dict[str, None] = {}
    words: dict[str, None] = {}
    called = {id(node.func) for node in ast.walk(definition) if isinstance(node, ast.Call)}
    for node in ast.walk(definition):
        if isinstance(node, ast.arg):
            variables[node.arg] = None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            variables[node.id] = None
        is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if is_read and id(node) not in called:
            attributes[node.attr] = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 20:
            words[node.value] = None
    variables.pop("self", None)
    return {"variables": [*variables], "attributes": [*attributes], "words": [*words]}


def _expressions(statement: ast.stmt) -> Iterator[Place]:
    """Yield the place of each expression of a statement; nested statements, targets and texts stay as they are."""
    skipped = {"body", "orelse", "targets", "target", "annotation", "decorator_list", "keys"}
    waiting = [(statement, skipped)]
    while waiting:
        parent, left_out = waiting.pop(0)
        for field, value in ast.iter_fields(parent):
            if field in left_out:
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                    continue
                if isinstance(child, ast.expr):
                    yield Place(parent, field, index)
                waiting.append((child, {"target", "targets"}))


def headline(statement: ast.stmt) -> str:
    """Return a statement in one line, without what is nested in it."""
    bare = copy.copy(statement)
    if hasattr(bare, "body"):
        bare.body = [ast.Pass()]
        bare.orelse = []
    return ast.unparse(ast.fix_missing_locations(bare)).removesuffix("\n    pass")


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _is_large(node: ast.AST) -> bool:
    """Return whether a node is a number that may count bytes."""
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return is_number and abs(node.value) >= 32  # illustrative: smaller ones count things


def sample_of(mutants: list[Mutant], most: int) -> list[Mutant]:
    """Return at most so many mutants, in the order of the code: all that wait less, and others of each operator.

    Each operator in each function has its turn before any has a second one. Within an operator mutants are drawn by
    their text, so that a change elsewhere in the code draws the same ones.
    """
    groups: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in sorted(mutants, key=_digest):
        groups.setdefault((mutant.function, mutant.operator), []).append(mutant)

    turns: list[tuple[int, int, Mutant]] = []
    for (_, operator), group in groups.items():
        for place, mutant in enumerate(group):
            turn = 0 if operator == "wait left out" else place + 1
            turns.append((turn, _digest(mutant), mutant))
    chosen = {mutant.change for _, _, mutant in sorted(turns)[:most]}
    return [mutant for mutant in mutants if mutant.change in chosen]


def _digest(mutant: Mutant) -> int:
    return zlib.crc32("\n".join(mutant.change).encode())
