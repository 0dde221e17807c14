"""The npm package as a whole: its tables, its types, its page's script, and the example on its page."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import write_record
from node_runtime import BROWSER, RUNTIME, in_node, node_path, own
from tables import TABLES

import ecgfed
from ecgfed.web import live
from ecgfed.web.modules import bundled

ROOT = Path(__file__).parents[2]
WEB = RUNTIME.parent


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_pythons(name: str) -> None:
    made = TABLES[name]()
    assert (RUNTIME / name).read_text(encoding="utf-8") == made, "run: python tests/web/tables.py"


@pytest.mark.browser
def test_the_types_are_right() -> None:
    """``tsc`` checks the runtime and the page by the types in their comments, strictly."""
    node = node_path("typescript")
    tsc = BROWSER / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([node, tsc, "-p", BROWSER / "tsconfig.json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.browser
@pytest.mark.parametrize("module", ["index", "node"])
def test_the_declared_names_are_those_that_are_exported(module: str) -> None:
    declared = re.findall(r"^export (?:class|function|const) (\w+)", (RUNTIME / f"{module}.d.ts").read_text(), re.M)
    (exported,) = in_node(own("exported", f"{module}.js"))
    assert sorted(declared) == sorted(exported)


def test_the_package_has_peers_and_no_dependency() -> None:
    package = json.loads((RUNTIME / "package.json").read_text())
    assert "dependencies" not in package
    assert set(package["peerDependencies"]) == {"onnxruntime-node", "onnxruntime-web"}
    assert package["version"] == ecgfed.__version__


@pytest.mark.parametrize("folder", [RUNTIME, WEB / "live"])
def test_modules_import_nothing_but_one_another(folder: Path) -> None:
    for file in folder.glob("*.js"):
        named = re.findall(r'^(?:import|export) .*from "([^"]+)";', file.read_text(), re.M)
        for name in named:
            inside = (file.parent / name).resolve().is_file() and name.startswith(".")
            assert inside or (file.name == "node.js" and name.startswith("node:")), f"{file.name} imports {name}"


@pytest.mark.browser
def test_the_pages_script_is_one_that_node_reads(tmp_path: Path) -> None:
    script = tmp_path / "page.mjs"
    script.write_text(bundled("live/main.js", "page") + "export default page;\n")
    assert "import " not in re.sub(r"/\*.*?\*/|//.*", "", script.read_text(), flags=re.S).replace("import(", "")
    done = subprocess.run([node_path(), "--check", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_of_another_form_is_not_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecgfed.web.modules.asset", lambda name: 'import thing from "./other.js";\n')
    with pytest.raises(ValueError, match="not a supported import or export form"):
        bundled("live/main.js", "page")


def test_a_page_without_the_npm_package_or_a_bundle_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "live.html"
    assert live.main([str(out), "--ort", str(tmp_path)]) == 2
    assert live.main([str(out), "--bundle", str(tmp_path), "--ort", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "the npm package onnxruntime-web" in lines[0]
    assert "holds no manifest.json" in lines[1]
    assert not out.exists()


@pytest.mark.browser
def test_a_page_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node_path("onnxruntime-web")
    out = tmp_path / "live.html"
    out.write_text("mine")
    asked = [str(out), "--ort", str(BROWSER / "node_modules" / "onnxruntime-web"), "--no-bundle"]
    assert live.main(asked) == 2
    assert out.read_text() == "mine"
    assert live.main([*asked, "--overwrite"]) == 0
    page = out.read_text()
    assert "connect-src" not in page
    assert "default-src 'none'" in page
    assert "http://" not in re.sub(r"http://www\.w3\.org/[\w/]+", "", page[: page.index('id="page-data"')])


@pytest.mark.browser
def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    modules.mkdir()
    node = node_path("onnxruntime-node")
    (modules / "@ecgfed").mkdir()
    (modules / "@ecgfed" / "runtime").symlink_to(RUNTIME)
    (modules / "onnxruntime-node").symlink_to(BROWSER / "node_modules" / "onnxruntime-node")
    (tmp_path / "bundle").symlink_to(ROOT / "ecgfed" / "exports" / "model")
    record = write_record(tmp_path / "mitdb", "208", "NNNNV" * 14, annotate=False)
    page = (ROOT / "docs" / "javascript.md").read_text()
    (example,) = re.findall(r"^```js\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "example.mjs").write_text(example)
    done = subprocess.run([node, "example.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, golden = done.stdout.splitlines()
    expected = ecgfed.predict(record)
    assert first.split()[:3] == [str(len(expected)), str(expected.sample[0]), expected.names[0]]
    streamed, alike = map(int, second.split())
    assert streamed == len(expected)
    assert alike >= 0.9 * len(expected)  # the model in the package averages over alike beats in classify alone
    assert golden.startswith("all ")
    assert golden.endswith(" stages agree with the golden vectors")
