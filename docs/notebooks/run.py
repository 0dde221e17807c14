"""Runs the notebooks here without Jupyter, each in a process of its own: ``python docs/notebooks/run.py [NAME...]``.

With ``--write`` what the cells gave is kept in the notebook, with the SHA-256 of the code that gave it. So a reader
sees the figures without running anything, the site needs neither torch's time nor matplotlib, and
``tests/test_notebooks.py`` refuses outputs of other code. Pictures are kept small. Jupyter itself shows the same.
"""

import argparse
import ast
import base64
import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

HERE = Path(__file__).parent
#: Colours of a PNG that is kept in a notebook: drawings need no more.
COLOURS = 32


class Output(TypedDict, total=False):
    """An output as nbformat 4 has it."""

    output_type: str
    name: str
    text: list[str]
    data: dict[str, list[str] | str]
    metadata: dict[str, str]
    execution_count: int | None


class Cell(TypedDict, total=False):
    """A cell as nbformat 4 has it."""

    cell_type: str
    id: str
    source: list[str]
    metadata: dict[str, str]
    outputs: list[Output]
    execution_count: int | None


class Notebook(TypedDict):
    """A notebook of nbformat 4.5."""

    cells: list[Cell]
    metadata: dict[str, dict[str, str]]
    nbformat: int
    nbformat_minor: int


def read(path: Path) -> Notebook:
    """Return a notebook."""
    found: Notebook = json.loads(path.read_text("utf-8"))
    return found


def code_digest(notebook: Notebook) -> str:
    """Return the SHA-256 of its code, hexadecimal: outputs belong to this code and no other."""
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()


def run_cells(notebook: Notebook) -> list[list[Output]]:
    """Run the code cells in order, in one namespace, in this process and folder; return each one's outputs."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ecgfed"})  # the same figure, the same bytes
    shown: list[Output] = []
    names: dict[str, object] = {"__name__": "__main__", "display": lambda value: shown.append(_display(value))}
    outputs = []
    for number, cell in enumerate((one for one in notebook["cells"] if one["cell_type"] == "code"), start=1):
        shown.clear()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            value = _run("".join(cell["source"]), names)
        found = [Output(output_type="stream", name="stdout", text=_lines(said.getvalue()))] if said.getvalue() else []
        found += shown
        if value is not None:
            found.append(Output(_display(value), output_type="execute_result", execution_count=number))
        outputs.append([*found, *_figures()])
    return outputs


def _run(source: str, names: dict[str, object]) -> object:
    """Run a cell; return the value of its last line where that is an expression without a semicolon."""
    body = ast.parse(source)
    last = body.body[-1] if body.body else None
    shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    exec(compile(ast.Module(body.body[:-1] if shown else body.body, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if shown else None


#: How an object shows itself, by the type of what it gives.
_SHOWN = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_", "image/png": "_repr_png_"}


def _display(value: object) -> Output:
    data: dict[str, list[str] | str] = {}
    for kind, method in _SHOWN.items():
        show: Callable[[], str | bytes | None] | None = getattr(value, method, None)
        given = None if show is None else show()
        if isinstance(given, bytes):
            data[kind] = base64.b64encode(_smaller(given)).decode()
        elif given is not None:
            data[kind] = _lines(given)
    return Output(output_type="display_data", data={**data, "text/plain": _lines(repr(value))}, metadata={})


def _smaller(png: bytes) -> bytes:
    """Return a PNG with a palette."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(out, "png", optimize=True)
    return min(out.getvalue(), png, key=len)


def _figures() -> list[Output]:
    """Return the open figures of pyplot as SVG, and close them: what Jupyter shows below a cell."""
    from matplotlib import pyplot as plt

    found: list[Output] = []
    for number in plt.get_fignums():
        out = io.StringIO()
        plt.figure(number).savefig(out, format="svg", metadata={"Date": None}, bbox_inches="tight")
        text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
        data: dict[str, list[str] | str] = {"image/svg+xml": _lines(text), "text/plain": ["<Figure>"]}
        found.append(Output(output_type="display_data", data=data, metadata={}))
    plt.close("all")
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write(path: Path, notebook: Notebook, outputs: Sequence[list[Output]]) -> None:
    """Keep outputs in a notebook, and say which code they are of."""
    given = iter(outputs)
    for number, cell in enumerate((one for one in notebook["cells"] if one["cell_type"] == "code"), start=1):
        cell["outputs"], cell["execution_count"] = next(given), number
    notebook["metadata"]["ecgfed"] = {"outputs_of": code_digest(notebook)}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")


def main() -> int:
    """Run what is named, default all; the exit code is the first failing notebook's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="notebooks without .ipynb; default all")
    parser.add_argument("--write", action="store_true", help="keep what the cells gave in the notebooks")
    parser.add_argument("--here", action="store_true", help="in this process and folder; one notebook, as JSON")
    asked = parser.parse_args()
    paths = [HERE / f"{name}.ipynb" for name in asked.names] or sorted(HERE.glob("*.ipynb"))
    if asked.here:
        outputs = run_cells(read(paths[0]))
        json.dump(outputs, sys.stdout)
        return 0
    for path in paths:
        started = time.perf_counter()
        command = [sys.executable, str(HERE / "run.py"), path.stem, "--here"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            return done.returncode
        if asked.write:
            write(path, read(path), json.loads(done.stdout))
        print(f"{path.stem}: {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
