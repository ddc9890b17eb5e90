"""Evaluate formulas of tables, so that right answers and known wrong ones are computed, never typed as numbers."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "ceil": math.ceil,
    "log2": math.log2,
    "log10": math.log10,
}
_CONSTANTS = {"pi": math.pi}


def evaluate(formula: str, names: Mapping[str, float]) -> float:
    """Return the value of a formula.

    Parameters
    ----------
    formula : str
        An expression of numbers, ``names``, pi, + - * / // **, and ceil, log2, log10 and max.
    names : mapping of str to number
        The quantities that the formula may use.

    Raises
    ------
    ValueError
        If the formula contains anything else; the message says what.
    """

    def value(node: ast.AST) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                # whole numbers stay whole
                return names[name] if isinstance(names[name], int) else float(names[name])
            case ast.Name(id=name) if name in _CONSTANTS:
                return _CONSTANTS[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id="max"), args=[one, other], keywords=[]):
                return float(max(value(one), value(other)))
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in _FUNCTIONS:
                return float(_FUNCTIONS[name](value(inner)))
        known = ", ".join((*names, *_CONSTANTS, *_FUNCTIONS, "max"))
        msg = f"formula {formula!r} may hold + - * / // **, numbers and {known}; got {ast.unparse(node)}"
        raise ValueError(msg)

    return value(ast.parse(formula, mode="eval").body)


def evaluate_all(formulas: Mapping[str, str], names: Mapping[str, float]) -> dict[str, float]:
    """Return ``names`` and the values of all formulas by name; each formula may use the values before it."""
    found = dict(names)
    for name, formula in formulas.items():
        found[name] = evaluate(formula, found)
    return found
