"""Formulas of tables: right answers and known wrong ones are computed, never typed as numbers."""

import ast
import math
import operator
from collections.abc import Callable, Mapping

_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def evaluate(formula: str, names: Mapping[str, float]) -> float:
    """Return the value of a formula of + - * / ** log2() ceil(), numbers and ``names``; all else is a ValueError."""

    def value(node: ast.AST) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name) if name in names:
                # whole numbers stay whole
                return names[name] if isinstance(names[name], int) else float(names[name])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id="log2" | "ceil" as name), args=[inner], keywords=[]):
                return float(getattr(math, name)(value(inner)))
        msg = f"formula {formula!r} may hold + - * / ** log2 ceil, numbers and {', '.join(names)}; got {ast.dump(node)}"
        raise ValueError(msg)

    return value(ast.parse(formula, mode="eval").body)
