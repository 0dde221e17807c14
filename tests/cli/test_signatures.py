"""What the command line's functions take and give has a type: an ``Any`` hides mistakes from the type checker."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ecgfed_cli

#: typer's own Context, or click's in older versions of typer: there is no one type.
ALLOWED = {
    "synopses.py: list_commands(ctx)",
    *(f"spelling.py: {name}" for name in ("_commands(command)", "_commands(return)", "_parameters(command)")),
    *(f"spelling.py: {name}" for name in ("_parameters(return)", "order(param)", "_spelled(param)")),
}
FOLDER = Path(ecgfed_cli.__file__).parent


def words(annotation: ast.AST | None) -> Iterator[str]:
    """Names in an annotation, quoted ones too, but not what is said to ``typer.Option(...)``."""
    if annotation is None:
        yield "Any"  # nothing said is anything
    elif isinstance(annotation, ast.Name):
        yield annotation.id
    elif isinstance(annotation, ast.Constant):
        yield from re.findall(r"\w+", str(annotation.value))
    elif not isinstance(annotation, ast.Call):
        for part in ast.iter_child_nodes(annotation):
            yield from words(part)


def hidden(source: str) -> list[str]:
    """Parameters and results of functions whose type is, or holds, ``Any``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            asked = node.args
            every = [*asked.posonlyargs, *asked.args, *asked.kwonlyargs, asked.vararg, asked.kwarg]
            typed = {one.arg: one.annotation for one in every if one is not None and one.arg not in ("self", "cls")}
            typed["return"] = node.returns
            found += [f"{node.name}({name})" for name, annotation in typed.items() if "Any" in words(annotation)]
    return found


def test_what_hides_is_found() -> None:
    source = """
def f(a: int, b: "dict[str, Any]", c, *d: str, **e: Any) -> list[Any]: ...
def g(a: Annotated[str, typer.Option(help="Any text")], b: "Anyone", c: None = None) -> None: ...
"""
    assert hidden(source) == ["f(b)", "f(c)", "f(e)", "f(return)"]


def test_the_command_line_is_typed() -> None:
    files = sorted(FOLDER.glob("*.py"))
    assert len(files) > 10
    assert {f"{file.name}: {one}" for file in files for one in hidden(file.read_text())} == ALLOWED
