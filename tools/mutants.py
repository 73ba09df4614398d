"""The mutants of a Python file: the same file with one small thing wrong.

Every mutant changes one node of the syntax tree, as a slip of the pen would: a comparison turned, a
sign lost, a constant off by one, a condition inverted, a call's effect left out. Docstrings,
messages of errors and type annotations are left alone: no test owes them anything.
"""

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterator

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Add,
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
      path: The file, as it was given.
      line: First line of the changed node, from 1.
      what: The change, such as "Lt -> LtE".
      before: The changed expression or statement as it was.
      make: Gives the whole file with the change; done for those that are run.
    """

    path: str
    line: int
    what: str
    before: str
    make: Callable[[], str]

    @functools.cached_property
    def source(self) -> str:
        """The whole file with the change."""
        return self.make()

    @property
    def name(self) -> str:
        """Tells mutants apart, also from run to run: file, line, change and changed text."""
        return f"{self.path}:{self.line} {self.what}: {self.before}"


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of `source`, in order of their lines.

    Raises:
      SyntaxError: `source` is not Python.
    """
    tree = ast.parse(source)
    spared = _spared(tree)
    found = []
    for position, node in enumerate(ast.walk(tree)):
        if id(node) in spared:
            continue
        for what, change in _changes(node):
            before = ast.unparse(node).split("\n")[0][:80]
            place = node.target if isinstance(node, ast.comprehension) else node
            line = getattr(place, "lineno", 0)
            make = functools.partial(_changed, source, position, change)
            found.append(Mutant(path, line, what, before, make))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.what))


def _changed(source: str, position: int, change: Callable[[ast.AST], None]) -> str:
    tree = ast.parse(source)
    change(_nth(tree, position))
    return ast.unparse(tree)


def _nth(tree: ast.AST, position: int) -> ast.AST:
    for index, node in enumerate(ast.walk(tree)):
        if index == position:
            return node
    raise AssertionError("a copy has as many nodes as its original")


def _spared(tree: ast.AST) -> set[int]:
    """Ids of nodes no test can be asked to notice: docstrings, error texts, annotations."""
    spared: set[int] = set()

    def spare(node: ast.AST | None) -> None:
        if node is not None:
            spared.update(id(child) for child in ast.walk(node))

    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            spare(node)
        elif isinstance(node, ast.Raise):
            spare(node.exc)
        elif isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:  # frozen, kw_only: what callers may not do
                spare(decorator)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            spare(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            spare(node.returns)
        elif isinstance(node, ast.JoinedStr | ast.Assert) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):  # text; what only we can get wrong
            spare(node)
    return spared


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """`(what, change)`: `change` takes the same node of a copy and changes it in place."""
    if isinstance(node, ast.Compare):
        kind = type(node.ops[0])
        other = _COMPARISONS[kind]
        yield f"{kind.__name__} -> {other.__name__}", _setter("ops", [other(), *node.ops[1:]])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        text = isinstance(getattr(node, "left", None), ast.JoinedStr)
        other_operator = _ARITHMETIC[type(node.op)]
        if not text:
            what = f"{type(node.op).__name__} -> {other_operator.__name__}"
            yield what, _setter("op", other_operator())
    elif isinstance(node, ast.BoolOp):
        turned = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{type(node.op).__name__} -> {type(turned).__name__}", _setter("op", turned)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not x -> not not x", _setter("operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "-x -> +x", _setter("op", ast.UAdd())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", _setter("value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} -> {node.value + 1}", _setter("value", node.value + 1)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition inverted", _setter("test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call left out", _setter("value", ast.Constant(None))
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "returns None", _setter("value", ast.Constant(None))
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "filter left out", _setter("ifs", [])


def _setter(field: str, value: object) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, field, value)
