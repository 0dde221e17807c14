"""Every block of code of the README and the docs is run by a test; a page that gets a block needs a line here."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_docs import blocks, lines_of, run_all, run_snippet

import ecgfed

ROOT = Path(__file__).parent.parent
DOCS = "tests/test_docs.py"
HERE = "tests/test_code_of_docs.py"
#: Test file and language -> the pages whose blocks it runs; the file names each page.
RUNS: dict[tuple[str, str], str] = {
    (DOCS, "sh"): "README cifar10 clinicians command-line devices formats methods privacy qrs quality report "
    "researchers whole-path",
    ("tests/device/test_canonical.py", "js"): "bundle",
    (DOCS, "python"): "bundle devices formats macro-f1 qrs stream whole-path",
    ("tests/test_errors.py", "python"): "errors",
    ("tests/test_extend_page.py", "python"): "extend",
    ("tests/test_extend_page.py", "sh"): "extend",
    ("tests/test_extend_page.py", "toml"): "extend",
    (HERE, "python"): "graphs int8",
    ("tests/test_own_data_page.py", "python"): "own-data",
    ("tests/test_own_data_page.py", "sh"): "own-data",
    ("tests/test_own_data_page.py", "pycon"): "own-data",
    ("tests/network/test_hospital_it.py", "sh"): "hospital-it",
    ("tests/network/test_hospital_it.py", "bash"): "hospital-it",
    ("tests/network/test_federate_command.py", "sh"): "hospitals",
    ("tests/web/test_package_js.py", "js"): "javascript",
    ("tests/test_own_parts_page.py", "python"): "own-parts",
    (HERE, "sh"): "labels",
    ("tests/mcu/test_export_mcu.py", "c"): "microcontroller",
    (DOCS, "toml"): "training",
    ("tests/device/test_delta_format.py", "c"): "updates",
}
#: Page and language -> the test file.
RUN_BY = {
    ("README.md" if page == "README" else f"docs/{page}.md", language): test
    for (test, language), pages in RUNS.items()
    for page in pages.split()
}
#: Run by nobody, and why.
NOT_RUN = {
    ("CONTRIBUTING.md", "sh"): "clones from an address that is not there yet; CI runs the same make targets",
    ("docs/cohort.md", "sh"): "trains on two databases; tests/cohort/test_resplit.py holds sites out",
    ("docs/executors.md", "python"): "clusters; tests/tasks/test_executors.py has two workers of dask",
    ("docs/phones.md", "kotlin"): "a part of an app; tests/mcu/test_phones.py runs the files of the example",
    ("docs/phones.md", "swift"): "no Swift compiler; tests/mcu/test_phones.py checks the names that it calls",
    ("docs/reproduce.md", "sh"): "takes hours; tests/papers/test_reproduce.py starts every row",
    ("docs/report.md", "json"): "parts of several recordings' reports, put together by hand",
    ("docs/graphs.md", "sh"): "installs TensorFlow and fetches sample pictures; tests/bundles/test_tflite.py converts",
    ("docs/serve.md", "sh"): "waits for its page in a browser; tests/tasks/test_serve.py calls the same function",
}
#: Shown, not run: what a program prints, formulas, and bytes of a file.
SHOWN = {"text", "hex"}


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_block_is_run() -> None:
    found = set()
    for page in pages():
        fences = re.findall(r"^\s*```([a-z0-9]*)[^\n]*\n.*?^\s*```$", page.read_text(), re.MULTILINE | re.DOTALL)
        found |= {(page.relative_to(ROOT).as_posix(), language or "(none)") for language in fences}
    assert {one for one in found if one[1] not in SHOWN} == set(RUN_BY) | set(NOT_RUN)


@pytest.mark.parametrize(("page", "language"), RUN_BY)
def test_the_test_that_is_named_reads_the_page(page: str, language: str) -> None:
    test = ROOT / RUN_BY[page, language]
    assert Path(page).name in test.read_text(), f"{test} does not read {page}"


def test_the_quantiser_takes_a_graph_as_the_page_on_graphs_says(tmp_path: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    (snippet,) = blocks(ROOT / "docs" / "graphs.md", "python")
    shipped = ROOT / "ecgfed" / "exports" / "model" / "global.onnx"
    (tmp_path / "global.onnx").write_bytes(shipped.read_bytes())
    sizes = {
        entry.name: [dim.dim_value or 8 for dim in entry.type.tensor_type.shape.dim]
        for entry in onnx.load(shipped).graph.input
    }
    rng = np.random.default_rng(0)

    class Beats(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [
                {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()} for _ in range(4)
            ]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.left.pop() if self.left else None

    names = {"quantize_static": quantize_static, "QuantFormat": QuantFormat, "QuantType": QuantType, "reader": Beats()}
    for name in ("global.onnx", "int8.onnx"):
        snippet = snippet.replace(f'"{name}"', repr(str(tmp_path / name)))
    exec(snippet, names)
    kinds = {node.op_type for node in onnx.load(tmp_path / "int8.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds


@pytest.mark.slow
def test_the_layers_of_an_int8_graph_are_read_as_its_page_says(tmp_path: Path) -> None:
    (snippet,) = blocks(ROOT / "docs" / "int8.md", "python")
    cohort = ecgfed.prepare_demo(tmp_path / "cohort", patients=3, minutes=2.0)
    run = ecgfed.train(cohort, tmp_path / "run", method="grp-fed", rounds=12)  # which has an extractor of its own
    ecgfed.export(run, tmp_path / "bundle", int8=True, int8_loss=1.0)
    (extractor, *_) = sorted((tmp_path / "bundle" / "int8" / "extractor").iterdir())
    printed = run_snippet(snippet.replace("extractor/208.onnx", f"extractor/{extractor.name}"), tmp_path)
    assert len(printed.splitlines()) > 5


@pytest.mark.slow
def test_the_commands_of_the_page_on_labels_run(tmp_path: Path) -> None:
    command = [Path(sys.executable).parent / "ecgfed", "prepare", "demo", "--out", "cohort", "--records", "demo"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "records").mkdir()
    for file in (tmp_path / "demo").glob("demo01.*"):
        copy = tmp_path / "records" / file.name.replace("demo01", "new")
        copy.write_bytes(file.read_bytes().replace(b"demo01", b"new") if file.suffix == ".hea" else file.read_bytes())
    run_all(lines_of(ROOT / "docs" / "labels.md"), tmp_path)
    assert (tmp_path / "new.html").read_text().startswith("<!DOCTYPE html>")
