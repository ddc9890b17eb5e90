"""A hardware constant stands in the catalog: a literal in library or lessons must say where it is from.

A line is let through by ``# source: ...`` or ``# illustrative: ...`` on it, or on the line above it.
"""

import ast
import functools
import itertools
import json
import re

import pytest

from fabriclab import catalog, units
from fabriclab.core.spec import si_factor
from fabriclab.texts import table
from support import ROOT

# sizes of messages and buffers are questions, not facts of hardware
BINARY_SIZE = re.compile(r"[\d.]+ [KMGT]iB")
COMMENT = re.compile(r"#\s*(source|illustrative):\s*\S")
QUANTITIES = ("rate", "time", "size", "length", "power", "price", "frequency", "speed")
# "400-800 Gb/s" and "2 m to 5 m": what stands before the last number.
RANGE = re.compile(
    r"\s*[\d.]+(?:e[-+]?\d+)?(?: ?(?!e[-+]?\d)[^\s\d.–-]+)?\s*(?:-|–|\.\.\.?|to|and|or)\s*(?=[\d.])"
)
OPACITY = 0.05  # of a colour: no start-up latency, which is alpha too, takes so many seconds
# A name that bears a unit: the quantity as its last word, or a unit after an underscore or in brackets.
NAMED = re.compile(
    r"(?i:(?:^|_)(?:(?:rate|bandwidth|throughput|delay|latency|lag|timer|timeout|length|reach|power"
    r"|price|distance|speed|cost|frequency|baud)s?"
    r"|alpha|beta|capacity|rtt|seconds|metres|watts|dollars|hertz|bw|busbw|algbw|freqs?)$)"
    r"|(?<=[a-z0-9])_(?:[munp]?s|k?m|[mkM]?W|k?USD|[kMGT]?B_s|[kmgt]?bps|[kMGT]?Hz)$"
    r"|\[(?:[mun]?s|[kMGT]?B/s|k?m|[mkM]?W|USD|[kMGT]?Hz)\]$"
)
# calls that hold such numbers, and which of their arguments: in the last row none
MADE = {
    **dict.fromkeys(
        (
            "array",
            "asarray",
            "float",
            "float64",
            "int",
            "list",
            "repeat",
            "round",
            "sorted",
            "sum",
            "tile",
            "tuple",
        ),
        slice(1),
    ),
    **dict.fromkeys(("full", "full_like"), slice(1, 2)),
    **dict.fromkeys(("arange", "geomspace", "linspace", "logspace", "range"), slice(2)),
    **dict.fromkeys(("max", "min", "maximum", "minimum"), slice(None)),
    **dict.fromkeys(("empty", "eye", "ones", "ones_like", "zeros", "zeros_like"), slice(0)),
}
# the unit that ends a parameter's description
DOCUMENTED = re.compile(r"\[(?:s|B/s|m|W|USD)\b[^\]]*\]")


def hardware_rates():
    """Return the rates of the catalog as floats: in SI, and as quoted where the digits are telling."""
    specs = [s for t in catalog.tables() if t != "measured" for s in getattr(catalog, t).specs]
    rates = [
        s
        for s in specs
        if s.si and units.UNITS.get(s.unit.split(" per ")[0], ("",))[0] in ("rate", "speed")
    ]
    si = {s.si for s in rates} | {s.value * si_factor(s.unit) for s in rates}
    quoted = {float(s.value) for s in rates}
    telling = {
        v
        for v in quoted
        if len(f"{v:.10g}".replace(".", "").strip("0")) >= 3 and (v % 1 or v >= 300)
    }
    return {v for v in si if not f"{v:e}".startswith("1.000000e")} | {
        v for v in telling if not _power(v)
    }


def _power(v):
    return v == int(v) and int(v) & (int(v) - 1) == 0


RATES = hardware_rates()


@functools.lru_cache(maxsize=2)
def nodes(tree):
    """Return all nodes of a module, gathered once for all who look through them."""
    return tuple(ast.walk(tree))


def docstrings(tree):
    """Return the nodes of all docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [n.body for n in nodes(tree) if isinstance(n, kinds)]
    return {id(b[0].value) for b in bodies if b and isinstance(b[0], ast.Expr)}


@functools.cache
def is_quantity(text):
    """Tell whether a string is a rate, time, length, power, price or size of hardware, with its unit."""
    text = text[found.end() :] if (found := RANGE.match(text)) else text
    for quantity in QUANTITIES:
        try:
            return units.parse(text, quantity) != 0 and not BINARY_SIZE.fullmatch(text)
        except (ValueError, TypeError):
            continue
    return False


def signature(node):
    """Return the names of the parameters that a call of this function or class fills in turn, and those by keyword."""
    if isinstance(node, ast.ClassDef):
        made = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        if not made:
            return [
                n.target.id
                for n in node.body
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
            ]
        node = made[0]
    return [a.arg for a in node.args.posonlyargs + node.args.args if a.arg not in ("self", "cls")]


def with_units(doc):
    """Yield the parameters of a numpydoc text that brackets give a unit; counts, and what has others too, are left."""
    section = re.split(r"\n\n?(?=\w+\n-{3,})", doc.split("Parameters\n", 1)[1])[0]
    for field in re.split(r"(?m)^(?=\S.* : )", section)[1:]:
        names, kinds = (part.split(", ") for part in field.split("\n")[0].split(" : ", 1))
        kinds = kinds if len(kinds) == len(names) else [""] * len(names)
        brackets = re.findall(r"\[[^\]]+\]", field)
        plain = bool(brackets) and all(map(DOCUMENTED.match, brackets))
        several = any(map(DOCUMENTED.match, brackets))
        yield from (
            n
            for n, kind in zip(names, kinds, strict=True)
            if kind != "int" and (plain or (several and NAMED.search(n)))
        )


@functools.cache  # by the worker that runs these tests; the others only import this file
def documented():
    """Return name of a function of the library -> where it stands, its parameters in turn, and those with a unit."""
    out = {}
    for path in sorted((ROOT / "fabriclab").rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if "Parameters\n" not in code:
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and "Parameters\n" in (
                doc := ast.get_docstring(node) or ""
            ):
                found = (
                    {*path.relative_to(ROOT).with_suffix("").parts},
                    signature(node),
                    set(with_units(doc)),
                )
                out.setdefault(node.name, []).append(found)
    return out


def called(node):
    """Return the name of what a node calls, or nothing."""
    return (
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        if isinstance(node, ast.Call)
        else ""
    )


def amounts(node, of=None):
    """Return the numbers that an expression of numbers alone holds, 0 left out; None where it needs something else.

    ``of`` has those of names that a comprehension has bound.
    """
    of, parts, part = of or {}, None, False
    if isinstance(node, ast.Constant):
        number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return [node] * bool(node.value) if number else None
    if isinstance(node, ast.Name):
        return of.get(node.id)
    if isinstance(node, ast.UnaryOp | ast.Starred):
        parts = [node.operand if isinstance(node, ast.UnaryOp) else node.value]
    elif isinstance(node, ast.BinOp):
        parts, part = (
            [node.left, node.right],
            isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List),
        )
    elif isinstance(node, ast.IfExp | ast.BoolOp):
        parts, part = (
            ([node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values),
            True,
        )
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        parts, part = node.elts, isinstance(node, ast.List)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for loop in node.generators:
            of = of | {
                name: held
                for name, over in looped(loop.target, loop.iter)
                if (held := amounts(over, of)) is not None
            }
        parts = [node.value if isinstance(node, ast.DictComp) else node.elt]
    elif isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") in ("r_", "c_"):
        parts = [node.slice]
    elif (name := called(node)) in MADE and isinstance(node.func, ast.Name | ast.Attribute):
        given = node.args + [word.value for word in node.keywords if word.arg == "fill_value"]
        parts, part = given[MADE[name]], True
        if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
            parts = [node.func.value]  # a method of what was made of numbers
    elif (
        name
        and isinstance(node.func, ast.Attribute)
        and name in ("astype", "cumsum", "ravel", "reshape", "tolist")
    ):
        parts = [node.func.value]
    inside = [amounts(item, of) for item in parts or ()]
    if parts is None or (None in inside and not (part and any(inside))):
        return None
    return [found for item in inside for found in item or ()]


def looped(target, over):
    """Yield (name, expression) for each name that a loop binds, with what it takes values from."""
    name, args = called(over), getattr(over, "args", [])
    table = (
        over.func.value
        if name in ("items", "values") and isinstance(over.func, ast.Attribute)
        else None
    )
    if isinstance(table, ast.Dict) and name == "values":
        yield from looped(target, ast.Tuple(table.values))
    elif not isinstance(target, ast.Tuple | ast.List):
        yield getattr(target, "id", getattr(target, "attr", "")), over
    elif isinstance(table, ast.Dict):
        yield from looped(target.elts[-1], ast.Tuple(table.values))
    elif name == "enumerate" and args:
        yield from looped(target.elts[-1], args[0])
    elif name in ("zip", "product"):
        for to, each in zip(target.elts, args, strict=False):
            yield from looped(to, each)
    elif isinstance(over, ast.List | ast.Tuple | ast.Set):
        rows = [row.elts for row in over.elts if isinstance(row, ast.Tuple | ast.List)]
        for i, to in enumerate(target.elts):
            for row in rows:
                yield from looped(to, ast.Tuple(row[i : i + 1])) if i < len(row) else ()


def bound(tree):
    """Yield (name, value) of each assignment, default and keyword, and each argument that numpydoc gives a unit."""
    brought = {
        alias.name: (node.module or "").split(".")[-1]
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in nodes(tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    yield str(target.slice.value), node.value
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=False)
                yield from (
                    (getattr(to, "id", getattr(to, "attr", "")), value) for to, value in pairs
                )
        elif isinstance(node, ast.For | ast.comprehension):
            yield from looped(node.target, node.iter)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            yield getattr(node.target, "id", getattr(node.target, "attr", "")), node.value
        elif isinstance(node, ast.Dict):
            yield from (
                (k.value, v)
                for k, v in zip(node.keys, node.values, strict=True)
                if isinstance(k, ast.Constant) and isinstance(k.value, str)
            )
        elif isinstance(node, ast.arguments):
            given = (node.posonlyargs + node.args)[::-1]
            yield from (
                (arg.arg, value) for arg, value in zip(given, node.defaults[::-1], strict=False)
            )
            yield from (
                (arg.arg, value)
                for arg, value in zip(node.kwonlyargs, node.kw_defaults, strict=True)
            )
        elif isinstance(node, ast.Call):
            yield from ((word.arg or "", word.value) for word in node.keywords)
            name = called(node)
            first = getattr(node.args[0], "value", None) if node.args else None
            # build("torus", ...)
            of_family = name in ("build", "simulate") and isinstance(first, str)
            for where, names, told in documented().get(first if of_family else name, []):
                if (
                    of_family or brought.get(name, "fabriclab") in where
                ):  # not another of the same name
                    plain = itertools.takewhile(
                        lambda arg: not isinstance(arg, ast.Starred), node.args
                    )
                    by_place = [] if of_family else zip(names, plain, strict=False)
                    given = [*by_place, *((w.arg, w.value) for w in node.keywords)]
                    yield from ((DOCUMENTED, value) for name, value in given if name in told)


def written(node):
    """Return the text of an f-string, a sum or a formatted text that holds constants alone; else nothing."""
    if isinstance(node, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.FormattedValue) else part for part in node.values
        ]
        return (
            "".join(str(part.value) for part in parts)
            if all(isinstance(p, ast.Constant) for p in parts)
            else ""
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [written(side) for side in (node.left, node.right)]
        return "".join(sides) if all(sides) else ""
    try:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return str(written(node.left) % ast.literal_eval(node.right))
        if called(node) == "format" and isinstance(node.func, ast.Attribute):
            named = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
            return written(node.func.value).format(*map(ast.literal_eval, node.args), **named)
    except (ValueError, TypeError, LookupError):
        return ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def findings(code, name):
    """Return 'name:line: literal' of every unsourced hardware constant in a piece of Python."""
    lines, tree = ["", *code.splitlines()], ast.parse(code)
    numbers = [n for n in nodes(tree) if isinstance(n, ast.keyword) and n.arg == "lesson"]
    # "61b" is the number of a lesson there, and no 61 bits
    skip, found = docstrings(tree) | {id(n.value) for n in numbers}, {}
    for node in nodes(tree):
        if (
            isinstance(node, ast.Constant)
            and id(node) not in skip
            and not isinstance(node.value, bool)
        ):
            text, number = isinstance(node.value, str), isinstance(node.value, int | float)
            if (text and is_quantity(node.value)) or (number and float(node.value) in RATES):
                found[id(node)] = node
        elif isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call) and is_quantity(written(node)):
            found[id(node)] = node
    for word, value in bound(tree):
        if value is not None and (word is DOCUMENTED or NAMED.search(word)):
            found |= {
                id(n): n for n in amounts(value) or () if word != "alpha" or n.value < OPACITY
            }
    out = []
    for node in sorted(found.values(), key=lambda n: (n.lineno, n.col_offset)):
        near = (lines[node.lineno], lines[node.lineno - 1])
        if not COMMENT.search(near[0]) and not (
            near[1].lstrip().startswith("#") and COMMENT.search(near[1])
        ):
            out.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
    return out


# Magics of a cell, or of a line, whose text is Python that runs here.
PYTHON = ("%%writefile", "%%time", "%%timeit", "%%capture", "%%prun")
LINE = re.compile(r"(?m)^(\s*)%(?:time|timeit|prun)\s+(?!-)")


def cells(path):
    """Yield (name, code) of every code cell, without magics; a module that a cell writes or times is code too."""
    for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        head, _, rest = source.partition("\n")
        if cell["cell_type"] == "code" and (
            head.split(" ")[0] in PYTHON or not head.startswith("%%")
        ):
            source = f"pass\n{rest}" if head.startswith("%%") else source
            source = LINE.sub(r"\1", source)
            yield f"{path.name} cell {i}", re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", source)


MEND = "take these from the catalog, or comment them with # source: or # illustrative:\n"


def test_library_has_no_unsourced_hardware_constant():
    paths = sorted([*(ROOT / "fabriclab").rglob("*.py"), *(ROOT / "exercises").rglob("*.py")])
    found = [
        f
        for p in paths
        for f in findings(p.read_text(encoding="utf-8"), p.relative_to(ROOT).as_posix())
    ]
    assert len(paths) > 150 and not found, MEND + "\n".join(found)


@pytest.mark.parametrize("folder", ["notebooks", "exercises", "solutions"])
def test_lessons_have_no_unsourced_hardware_constant(folder):
    code = [cell for path in sorted((ROOT / folder).glob("*.ipynb")) for cell in cells(path)]
    found = [f for name, source in code for f in findings(source, name)]
    assert code and not found, MEND + "\n".join(found)


def test_a_lesson_shows_what_is_illustrative():
    """The word stands beside the figure too: in what is printed, in a caption, a finding or a name of a row."""
    bare = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for name, code in cells(path):
            tree = ast.parse(code)
            shown = [
                n.value
                for n in ast.walk(tree)
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            if re.search(r"#\s*illustrative:", code) and not any(
                "illustrative" in text.lower() for text in shown
            ):
                bare.append(name)
    assert not bare, f"print the word illustrative, or write it into a caption: {bare}"


def test_a_live_view_shows_what_is_illustrative():
    views = 0
    for path in sorted((ROOT / "fabriclab" / "views" / "live").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        lines, tree = code.splitlines(), ast.parse(code)
        given = [
            node
            for node in tree.body
            if isinstance(node, ast.Assign) and COMMENT.search(lines[node.lineno - 1])
        ]
        marked = {
            n.id
            for node in given
            if "# illustrative:" in lines[node.lineno - 1]
            for target in node.targets
            for n in ast.walk(target)
            if isinstance(n, ast.Name)
        }
        made = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        used = {
            name: {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            for name, node in made.items()
        }
        for name, node in made.items():
            names = {name}
            while (more := names.union(*(used[helper] for helper in names & set(used)))) != names:
                names = more
            calls = [
                n
                for n in ast.walk(node)
                if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "live_view"
            ]
            if calls and names & marked:
                # In the finding, or in the hint below the picture.
                words = [
                    table().get(f"live.{calls[0].args[0].value}.{where}", "")
                    for where in ("said", "form", "hint")
                ]
                assert "illustrative" in " ".join(words), name
                views += 1
    # a beam's distance, a pool, a pipeline's bubble, workers with staleness, memory tiers, two games
    assert views == 7


@pytest.mark.parametrize(
    "code",
    [
        "nic = 50e9",
        "nic = 50_000_000_000",
        "link = dict(rate=450e9)",
        "f(400e9)",
        "hbm = 3.35e12",
        "peak = 989",
        "both = 900e9",
        "x = f(rate='400 Gb/s')",
        "t = ['500 ns']",
        "buffer = '64 MB'",
        "eff = 31.508",
        "cable = '3 m'",
        "laser = '9 W'",
        "part = '700 USD'",
        "rate = 7.1e9",
        "nic_rate: float = 7.1e9",
        "delay_s = 3e-6",
        "hop_ns = 230",
        "module_W = 15",
        "part_USD = 36",
        "length = 2.5",
        "price = -3",
        "link.latency = 4",
        "alpha = 38e-6",
        "f(lag=2e-6)",
        "reach = [3]",
        "power = 3 * 5",
        "rate = 7.1e9 if fast else 0",
        "rates = np.array([7.1e9])",
        "RATE = 7.1e9",
        "_LATENCY = 3e-6",
        "link['rate'] = 7.1e9",
        "rate += 7.1e9",
        "rates = np.full(3, 7.1e9)",
        "x = f'{400} Gb/s'",
        "x = '400' + ' Gb/s'",
        "rate = int(7.1e9)",
        "dict(price=12)",
        "{'power': 12}",
        "{'wait [s]': 3}",
        "def f(lag=3): pass",
        "def f(*, lag=3): pass",
        "(rate := 7.1e9)",
        "n, rate = 3, 7.1e9",
        "crossbar(8, 7.1e9)",
        "build('torus', rate=7.1e9)",
        "economics.floor_plan(f, slack=3)",
        "workload.build('parameter_server', compute=3)",
        # loops and comprehensions
        "for rate in (7.1e9, 8.3e9): pass",
        "for lag in range(1, 5): pass",
        "for i, reach in enumerate([3]): pass",
        "for name, delay_s in (('a', 3e-6), ('b', 4e-6)): pass",
        "for name, (n, lag) in (('a', (2, 3)),): pass",
        "for n, rate in zip(ns, (7.1e9, 8.3e9)): pass",
        "for k, power in {'a': 12}.items(): pass",
        "for power in {'a': 12}.values(): pass",
        "t = [8 / rate for rate in (7.1e9, 8.3e9)]",
        "rates = [x * 1e6 for x in (7, 8)]",
        "rates = {k: 7.1e9 for k in names}",
        "rates = [x for k, x in (('a', 7.1e9),)]",
        # expressions of literals
        "rates = 7.1e9 * np.ones(3)",
        "rates = np.ones(n) * 7.1e9",
        "rates = [7.1e9] * n",
        "rates = 7.1e9 + np.zeros(n)",
        "rates = np.r_[7.1e9, 8.3e9]",
        "rates = np.array((7, 8)).astype(float)",
        "rates = np.full(3, fill_value=7.1e9)",
        "rate = sum([7.1e9, 8.3e9])",
        "rate = 0 + 7.1e9",
        "rate = given or 7.1e9",
        "rate = np.maximum(given, 7.1e9)",
        "rates = np.tile([7.1e9], 3)",
        "rates = (*[7.1e9], 8.3e9)",
        # ranges, and texts that are put together
        "x = '400-800 Gb/s'",
        "x = '0.5–1.5 us'",
        "x = '2 m to 5 m'",
        "x = '1e-6-2e-6 s'",
        "x = '%d Gb/s' % 400",
        "x = '%d-%d Gb/s' % (400, 800)",
        "x = '{} Gb/s'.format(400)",
        "x = '{r} Gb/s'.format(r=400)",
        # further names and quantities
        "bw = 7.1e9",
        "nic_bw = 7.1e9",
        "distance = 3",
        "speed = 2.1e8",
        "cost = 12",
        "clock_GHz = 7",
        "frequency = 7.1e9",
        "band = '60 GHz'",
        "peak = '7 TFLOP/s'",
    ],
)
def test_the_scan_bites(code):
    assert findings(code, "x")
    assert findings(f"{code}  # source: catalog links", "x") == []
    assert findings(f"# illustrative: an invented part\n{code}", "x") == []
    assert findings(f"{code}  # source:", "x") and findings(
        f"y = 1  # source: another line\n{code}", "x"
    )


@pytest.mark.parametrize(
    "code",
    [
        '"""A NIC moves 400 Gb/s."""',
        "n = 8",
        "f('4 MiB')",
        "x = 1e9",
        "low = '0 B/s'",
        "say('400 Gb/s is a rate')",
        "rate = 0",
        "delay = None",
        "rate = case.nic_rate",
        "bound = 2 * rate",
        "rate = nic / 8",
        "draw(alpha=0.3)",
        "steps = 7",
        "crossbar(8, rate)",
        "crossbar(*both, 7)",
        "heights = [3]",
        "cuts = [(8, rate)]",
        "f(length=len(x))",
        "enabled = True",
        "for i in range(3): pass",
        "for rate in rates: pass",
        "for name, n in (('a', 3),): pass",
        "for rate, n in zip(rates, (2, 4)): pass",
        "sizes = [rate * n for n in (2, 4)]",
        "rates = [rate * n for n in (2, 4)]",
        "rates = [x for x in found]",
        "rates = np.zeros(3)",
        "rates = np.ones((2, 3))",
        "rates = [0] * n",
        "rates = np.linspace(0, top)",
        "x = '%s Gb/s' % rate",
        "x = '{} Gb/s'.format(rate)",
        "seen = '2026-11-22'",
        "rows = '2-3'",
        "f('1-4 MiB')",
    ],
)
def test_what_is_no_hardware_constant_passes(code):
    assert findings(code, "x") == []
    assert findings(f"def f():\n    {code}", "x") == []


@pytest.mark.parametrize(
    "magic", ["%%time\n", "%%capture out\n", "%%writefile x.py\n", "%time ", "%timeit ", ""]
)
def test_a_magic_hides_nothing_from_the_scan(magic, tmp_path):
    book = tmp_path / "x.ipynb"
    for text, hits in (
        (f"{magic}link_rate = 7.3e9", 1),
        ("%%bash\necho 400 Gb/s", 0),
        ("%matplotlib inline\nx = 1", 0),
    ):
        book.write_text(
            json.dumps({"cells": [{"cell_type": "code", "source": [text]}]}), encoding="utf-8"
        )
        assert sum(len(findings(code, name)) for name, code in cells(book)) == hits, text


def test_the_catalog_gives_the_scan_its_numbers():
    assert {50e9, 450e9, 900e9, 400e9, 3.35e12, 989e12, 989.0} <= RATES
    assert not {1.0, 2.0, 8.0, 64.0, 100.0, 128.0, 512.0, 1e9} & RATES
