"""The npm package from its archive, in a clean folder: in Node, by its types, bundled in Chromium and in a worker."""

import gzip
import json
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from browser_driver import chromium_path
from conftest import synthetic_signal, write_record
from node_runtime import BROWSER, RUNTIME, node_path

import ecgfed

ROOT = Path(__file__).parents[2]
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
MODULES = BROWSER / "node_modules"
PACKAGE = json.loads((RUNTIME / "package.json").read_text("utf-8"))
#: Bytes after gzip of what an application needs, without ONNX Runtime, of all exports, and of one small class.
MOST = {"application": 69_600, "everything": 79_000, "LineReader": 2_000}


def ran(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the archive of ``npm pack`` installed without a network, and ONNX Runtime beside it."""
    node_path("esbuild", "onnxruntime-node", "onnxruntime-web", "typescript")
    folder = tmp_path_factory.mktemp("clean")
    ran(["npm", "pack", "--silent", "--pack-destination", folder, RUNTIME], folder)
    (archive,) = folder.glob("*.tgz")
    (folder / "package.json").write_text('{"private": true}')
    ran(["npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", archive], folder)
    for name in ("onnxruntime-node", "onnxruntime-web", "onnxruntime-common", "@types"):
        (folder / "node_modules" / name).symlink_to(MODULES / name)
    return folder


def bundled(folder: Path, name: str, text: str, *more: str) -> bytes:
    """Return what esbuild makes of a module."""
    (folder / f"{name}.mjs").write_text(text)
    out = folder / "out" / f"{name}.js"
    options = ["--bundle", "--minify", "--format=esm", "--log-level=error", f"--outfile={out}", *more]
    ran([MODULES / ".bin" / "esbuild", f"{name}.mjs", *options], folder)
    return out.read_bytes()


@pytest.mark.browser
def test_the_archive_has_licence_readme_types_and_no_test(installed: Path) -> None:
    (archive,) = installed.glob("*.tgz")
    with tarfile.open(archive) as tar:
        names = {name.removeprefix("package/") for name in tar.getnames()}
    assert {"LICENSE", "README.md", "package.json", "index.cjs", "index.d.ts", "index.d.cts"} <= names
    assert {Path(name).suffix for name in names} == {"", ".md", ".json", ".js", ".cjs", ".ts", ".cts"}
    assert names >= {path.name for path in RUNTIME.glob("*.js")}


def test_the_package_may_be_published_and_its_licence_is_the_repositorys() -> None:
    assert "private" not in PACKAGE
    assert PACKAGE["name"] == "@ecgfed/runtime"
    assert PACKAGE["sideEffects"] is False
    assert (RUNTIME / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    # there is no public home yet; with one both name it
    assert PACKAGE.get("repository", {}).get("url") == urls.get("Source")


@pytest.mark.browser
def test_import_and_require_are_one_module_and_classify(installed: Path, tmp_path: Path) -> None:
    record = write_record(tmp_path / "mitdb", "208", "NNNNV" * 8, annotate=False)
    common = """
const classifier = await (await node.openBundleAt(process.argv[2], { ort })).classifier();
const beats = await classifier.classify(await node.readRecordingAt(process.argv[3]));
await classifier.release();
console.log(JSON.stringify(beats.map((beat) => [beat.sample, beat.class])));
"""
    (installed / "one.mjs").write_text(
        'import * as node from "@ecgfed/runtime/node";\nimport * as ort from "onnxruntime-node";\n'
        'import * as runtime from "@ecgfed/runtime";\nimport { createRequire } from "node:module";\n'
        'if (createRequire(import.meta.url)("@ecgfed/runtime").Drift !== runtime.Drift) throw new Error("two");\n'
        + common
    )
    (installed / "one.cjs").write_text(
        'const node = require("@ecgfed/runtime/node");\nconst ort = require("onnxruntime-node");\n'
        'require("@ecgfed/runtime").Drift;\n(async () => {' + common + "})();\n"
    )
    expected = ecgfed.predict(record)
    for name in ("one.mjs", "one.cjs"):
        beats = json.loads(ran([node_path(), name, MODEL, record], installed))
        assert [sample for sample, _ in beats] == expected.sample.tolist()
        assert [label for _, label in beats] == list(expected.names)


@pytest.mark.browser
def test_types_are_found_by_import_and_by_require(installed: Path) -> None:
    text = """
import { PolarEcgReader, StreamClassifier, openBundle } from "@ecgfed/runtime";
import { openBundleAt } from "@ecgfed/runtime/node";
export async function beats(ort: Parameters<typeof openBundle>[1]["ort"]): Promise<string[]> {
  const classifier = await (await openBundleAt("bundle", { ort })).classifier();
  const { atSample, samplesMv } = new PolarEcgReader().push(new Uint8Array(13));
  const beats = await new StreamClassifier(classifier, { fsHz: 130 }).push(samplesMv, { atSample });
  await classifier.release();
  return beats.map((beat) => beat.override || beat.class);
}
"""
    for name in ("used.mts", "used.cts"):
        (installed / name).write_text(text)
    options = {"module": "nodenext", "target": "es2024", "strict": True, "noEmit": True, "types": ["node"]}
    made = {"compilerOptions": options, "files": ["used.mts", "used.cts"]}
    (installed / "tsconfig.json").write_text(json.dumps(made))
    ran([node_path(), MODULES / "typescript" / "bin" / "tsc", "-p", "tsconfig.json"], installed)


@pytest.mark.browser
def test_a_bundle_holds_what_is_used_and_is_small(installed: Path) -> None:
    used = "StreamClassifier, openBundle"
    texts = {
        "application": f'import {{ {used} }} from "@ecgfed/runtime"; globalThis.x = [{used}];',
        "everything": 'export * from "@ecgfed/runtime";',
        "LineReader": 'import { LineReader } from "@ecgfed/runtime"; globalThis.x = LineReader;',
    }
    sizes = {name: len(gzip.compress(bundled(installed, name, text), 9)) for name, text in texts.items()}
    assert all(sizes[name] <= most for name, most in MOST.items()), sizes


PAGE = """
import * as ort from "onnxruntime-web/wasm";
import { openBundle } from "@ecgfed/runtime";

export async function classified({ wasm, bundle, fsHz, signal }) {
  ort.env.wasm.wasmPaths = wasm;
  ort.env.wasm.numThreads = 1;
  const classifier = await (await openBundle(bundle, { ort })).classifier();
  const beats = await classifier.classify({ fsHz, leads: ["MLII"], signalsMv: [Float64Array.from(signal)] });
  await classifier.release();
  return beats.map((beat) => [beat.sample, beat.class]);
}
"""


@pytest.mark.browser
def test_it_runs_bundled_in_a_page_and_in_a_worker(installed: Path, tmp_path: Path) -> None:
    chromium = chromium_path()
    bundled(installed, "page", f"{PAGE}globalThis.classified = classified;\n")
    bundled(installed, "worker", f"{PAGE}onmessage = async (event) => postMessage(await classified(event.data));\n")
    signal = synthetic_signal("NNNNV" * 8, fs_hz=360.0, seed=9)[0]
    job = {"bundle": str(MODEL), "fsHz": 360, "signal": signal.tolist()}
    given = {"folder": str(installed / "out"), "ort": str(MODULES / "onnxruntime-web" / "dist"), "job": job}
    (tmp_path / "given.json").write_text(json.dumps(given))
    told: dict[str, Any] = json.loads(
        ran([node_path("puppeteer-core"), BROWSER / "package.mjs", chromium, tmp_path / "given.json"], tmp_path)
    )
    assert told["errors"] == []
    assert len(told["page"]) >= 38
    assert told["page"] == told["worker"]
    assert {label for _, label in told["page"]} >= {"N", "V"}
