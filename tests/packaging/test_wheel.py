"""The wheel and the source distribution: what is in them, and what they do alone in a fresh environment.

The environments are made of the newest packages there are, so they need an index; where none answers these tests skip,
and fail in CI.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest
import typer
import wfdb
from record_files import edf_bytes

import ecgfed
from ecgfed.domain.labels.user_labels import UserLabel, label_table

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
OLD = ROOT / "tests" / "data" / "version-0.1"
#: What the repository holds of its own; the rest of a working folder is somebody's data.
SOURCES = (
    *(".ci", ".github", "benchmarks", "changelog.d", "cli", "constraints", "containers", "docs", "ecgfed", "examples"),
    "tests",
)
FILES = (
    *("pyproject.toml", "MANIFEST.in", "Makefile", "mkdocs.yml", ".pre-commit-config.yaml", "LICENSE", "CITATION.cff"),
    *("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"),
)
#: What must not come along with the base.
HEAVY = {"torch", "pandas", "scikit-learn", "onnx", "onnxscript", "wfdb", "edfio", "matplotlib", "neurokit2"}
MEGABYTE = 1_000_000
UV = Path(sys.executable).with_name("uv")


def uv(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run uv, told of the places that pip looks in."""
    places = {"PIP_FIND_LINKS": "UV_FIND_LINKS", "PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX"}
    told = {ours: os.environ[theirs] for theirs, ours in places.items() if theirs in os.environ}
    command = [UV, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **told}, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def index() -> None:
    """Skip where no package index answers; in CI that is a failure."""
    asked = subprocess.run(
        [UV, "pip", "compile", "--quiet", "-"], input="rich", capture_output=True, text=True, check=False
    )
    if asked.returncode:
        reason = f"no package index can be reached: {' '.join(asked.stderr.split())}"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's own files, as a clean checkout has them."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "node_modules")
        )
    for name in FILES:
        shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def built(index: None, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    before = files_below(sources)
    out = tmp_path_factory.mktemp("built")
    done = uv("build", "--out-dir", out, sources)
    assert done.returncode == 0, done.stderr
    for path in sources.glob("*.egg-info"):
        shutil.rmtree(path)
    assert files_below(sources) == before
    return out


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_packages_and_nothing_else(built: Path, sources: Path) -> None:
    with zipfile.ZipFile(wheel_in(built)) as archive:
        held = set(archive.namelist())
    packages = {name for name in held if ".dist-info/" not in name}
    wanted = {f"ecgfed/{name}" for name in files_below(sources / "ecgfed")}
    assert packages == wanted | {f"ecgfed_cli/{name}" for name in files_below(sources / "cli")}
    assert {
        "ecgfed/py.typed",
        "ecgfed/domain/signal/qrs_weights.npz",
        "ecgfed/domain/cohort/mitdb-1.0.0.sha256",
    } <= packages
    model = {"manifest.json", "global.onnx", "far.onnx", "golden.json", "CARD.md", "card.json"}
    assert {f"ecgfed/exports/model/{name}" for name in model} <= packages
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)


def test_the_wheel_says_what_it_is(built: Path) -> None:
    about = metadata(wheel_in(built))
    assert (about["Name"], about["License-Expression"], about["License-File"]) == ("ecgfed", "MIT", "LICENSE")
    assert about["Requires-Python"] == ">=3.11"
    links = about.get_all("Project-URL", [])
    assert len(links) >= 2
    assert all(re.fullmatch(r".+, https://[a-z.]+/\S+", link) for link in links)
    asked = [one for one in about.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert {re.split(r"[^\w-]", one, maxsplit=1)[0] for one in asked} == {
        "numpy",
        "scipy",
        "onnxruntime",
        "typer",
        "rich",
        "rfc8785",
        "defusedxml",
        "jinja2",
        "markupsafe",
    }
    assert {"records", "train", "report", "detectors", "sign", "all", "dev"} <= set(about.get_all("Provides-Extra", []))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository: git lists what is its own")
def test_what_is_tried_here_is_all_that_the_repository_holds() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    own = {name.partition("/")[0] for name in listed.split("\0") if name}
    assert own - {".gitignore", ".gitattributes"} == {*SOURCES, *FILES}


def test_the_source_distribution_is_the_repository(built: Path, sources: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        held = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    made = {name for name in held if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    assert held - made == files_below(sources)


def test_a_wheel_built_from_the_tree_is_the_same(built: Path, sources: Path, tmp_path: Path) -> None:
    tree = shutil.copytree(sources, tmp_path / "tree")
    done = uv("build", "--wheel", "--out-dir", tmp_path / "out", tree)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(wheel_in(built)) as one, zipfile.ZipFile(wheel_in(tmp_path / "out")) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


@dataclass(frozen=True)
class Environment:
    """A fresh environment with the wheel in it."""

    path: Path

    @property
    def packages(self) -> dict[str, str]:
        """Installed packages and their versions."""
        done = uv("pip", "list", "--format", "json", "--python", self.path)
        return {one["name"]: one["version"] for one in json.loads(done.stdout)}

    @property
    def megabytes(self) -> float:
        """What its packages take on the disk."""
        (folder,) = (self.path / "lib").glob("python3*/site-packages")
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / MEGABYTE

    def ecgfed(self, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run the installed command, away from the sources."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ECGFED"))}
        command = [self.path / "bin" / "ecgfed", *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def fresh(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Return a function that installs the wheel, with some extras, into an environment of its own."""

    def make(extras: str = "") -> Environment:
        path = tmp_path_factory.mktemp("environment") / "venv"
        assert uv("venv", "--python", sys.executable, path).returncode == 0
        done = uv("pip", "install", "--python", path, f"{wheel_in(built)}{extras}")
        assert done.returncode == 0, done.stderr
        checked = uv("pip", "check", "--python", path)
        assert checked.returncode == 0, checked.stderr
        return Environment(path)

    return make


@pytest.fixture(scope="session")
def base(fresh: Callable[[str], Environment]) -> Environment:
    return fresh("")


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo recording with its annotation as CSV, NumPy and EDF, and in a folder of its own as WFDB."""
    folder = tmp_path_factory.mktemp("recordings")
    shutil.copytree(OLD / "recording", folder / "wfdb")
    read, marks = wfdb.rdrecord(str(folder / "wfdb" / "demo01")), wfdb.rdann(str(folder / "wfdb" / "demo01"), "atr")
    table = np.column_stack([np.arange(len(read.p_signal)) / read.fs, read.p_signal])
    header = ",".join(["time", *(f"{name} (mV)" for name in read.sig_name)])
    np.savetxt(folder / "demo01.csv", table, delimiter=",", header=header, comments="", fmt="%.17g")
    np.savez(folder / "arrays.npz", **dict(zip(read.sig_name, read.p_signal.T, strict=True)), fs=read.fs, units="mV")
    np.save(folder / "array.npy", read.p_signal)
    rows = [f"{sample},{symbol}\n" for sample, symbol in zip(marks.sample, marks.symbol, strict=True)]
    for name in ("demo01", "array"):
        (folder / f"{name}.atr.csv").write_text("sample,symbol\n" + "".join(rows))
    asked = [
        UserLabel(int(sample), str(symbol), recording="0" * 16)
        for sample, symbol in zip(marks.sample, marks.symbol, strict=True)
    ]
    for name in ("labels.csv", "second.csv"):
        (folder / name).write_bytes(label_table(asked[:9], read.fs))
    whole = len(read.p_signal) // int(read.fs) * int(read.fs)
    steps = np.rint(read.p_signal[:whole, 0] * 200).astype(int).reshape(-1, int(read.fs))
    (folder / "one.edf").write_bytes(edf_bytes([steps.tolist()], labels=["ECG MLII"], units=["mV"]))
    (lines,) = re.findall(
        r"^```hex\n(.*?)^```", (ROOT / "docs" / "updates.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    (folder / "example.delta").write_bytes(
        b"".join(bytes.fromhex(line[line.index(" ") :]) for line in lines.splitlines())
    )
    return folder


def predicted(file: Path) -> list[tuple[str, str]]:
    with file.open(newline="") as stream:
        return [(row["sample"], row["class"]) for row in csv.DictReader(stream)]


def test_the_base_is_light(base: Environment) -> None:
    packages = base.packages
    assert {"ecgfed", "numpy", "scipy", "onnxruntime", "typer", "rich", "rfc8785", "defusedxml"} <= set(packages)
    assert not HEAVY & set(packages)
    print(f"base: {base.megabytes:.0f} MB, {', '.join(f'{n} {v}' for n, v in sorted(packages.items()))}")
    assert base.megabytes < 350


#: Commands that the base runs, on the recordings above: how they end, and what they write.
RUNS = {
    "predict": ("predict", "demo01.csv", "--out", "out"),  # the model in the package
    "predict csv": ("predict", OLD / "bundle", "demo01.csv", "--force", "--patient", "demo01", "--out", "out"),
    "predict npz": ("predict", OLD / "bundle", "arrays.npz", "--force", "--patient", "demo01", "--out", "out"),
    "ec57": ("ec57", "wfdb/demo01", "--test", "atr", "--start", "0:00"),
    "prepare folder": ("prepare", "folder", "wfdb", "--out", "out"),
    "prepare demo": ("prepare", "demo", "--out", "out", "--json", "--quiet"),
    "predict wfdb": ("predict", OLD / "bundle", "wfdb/demo01", "--force", "--out", "out"),
    "predict annotated": ("predict", OLD / "bundle", "demo01.csv", "--force", "--peaks", "annotated", "--out", "out"),
    "report": ("report", "demo01.csv", "--out", "page.html"),
    "label": ("label", "demo01.csv", "--count", "3", "--out", "asked"),
    "agreement": ("agreement", "labels.csv", "second.csv"),
    "serve": ("serve", "--help"),  # it runs until its page is closed
    "report labels": ("report", "demo01.csv", "--labels", "demo01.atr.csv", "--out", "page.html"),
    "detect": ("detect", "demo01.csv", "arrays.npz", "--out", "out"),
    "inspect": ("inspect", "demo01.csv"),
    "inspect npy": ("inspect", "array.npy", "--columns", "MLII,V1", "--fs", "360", "--units", "mV"),
    "runs list": ("runs", "list", OLD),
    "runs show": ("runs", "show", OLD / "run"),
    "doctor": ("doctor",),
    "version": ("--version",),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_base_runs(base: Environment, recordings: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(recordings, tmp_path / "here")
    done = base.ecgfed(*RUNS[name], cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.strip()


def test_the_base_joins_cohorts(base: Environment, tmp_path: Path) -> None:
    for seed in ("0", "1"):
        command = ("prepare", "demo", "--out", f"site{seed}", "--patients", "3", "--minutes", "1", "--seed", seed)
        done = base.ecgfed(*command, "--quiet", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    done = base.ecgfed("cohort", "join", "site0", "site1", "--out", "both", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "both" / "cohort.json").is_file()


def test_the_source_distribution_installs_and_predicts(
    base: Environment, built: Path, recordings: Path, tmp_path: Path
) -> None:
    path = tmp_path / "venv"
    assert uv("venv", "--python", sys.executable, path).returncode == 0
    (archive,) = built.glob("*.tar.gz")
    done = uv("pip", "install", "--python", path, archive)
    assert done.returncode == 0, done.stderr
    for environment, out in ((base, "by-wheel"), (Environment(path), "by-sdist")):
        version = environment.ecgfed("--version", cwd=tmp_path)
        assert version.stdout == f"ecgfed {ecgfed.__version__}\n"
        done = environment.ecgfed("predict", recordings / "demo01.csv", "--out", out, "--quiet", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(predicted(tmp_path / "by-sdist" / "demo01.csv")) > 60
    assert predicted(tmp_path / "by-sdist" / "demo01.csv") == predicted(tmp_path / "by-wheel" / "demo01.csv")


@pytest.mark.parametrize("file", ["demo01.csv", "arrays.npz"])
def test_the_base_predicts_what_the_full_install_did(
    base: Environment, recordings: Path, tmp_path: Path, file: str
) -> None:
    """The bundle and the beats of ``prepare demo``; the annotation is one that the wfdb package reads."""
    command = ("predict", OLD / "bundle", recordings / file, "--force", "--patient", "demo01", "--out", tmp_path)
    done = base.ecgfed(*command, "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    then, now = predicted(OLD / "predictions.csv"), predicted(tmp_path / f"{Path(file).stem}.csv")
    assert now == then
    marks = wfdb.rdann(str(tmp_path / Path(file).stem), "ecgfed")
    assert [(str(at), symbol) for at, symbol in zip(marks.sample, marks.symbol, strict=True)] == then


#: Commands that need more than the base, and the extra that each names.
NEEDS = {
    "predict --strip": ("report", "predict", OLD / "bundle", "demo01.csv", "--force", "--strip", "--out", "out"),
    "detect xqrs": ("records", "detect", "demo01.csv", "--detector", "xqrs", "--out", "out"),
    "detect neurokit": ("detectors", "detect", "demo01.csv", "--detector", "neurokit", "--out", "out"),
    "detect sleepecg": ("sleepecg", "detect", "demo01.csv", "--detector", "sleepecg", "--out", "out"),
    "detect emrich2023": ("emrich2023", "detect", "demo01.csv", "--detector", "emrich2023", "--out", "out"),
    "inspect --out": ("report", "inspect", "demo01.csv", "--out", "picture.png"),
    "convert": ("records", "convert", "demo01.csv", "--out", "out"),
    "train": ("train", "train", OLD / "cohort", "--out", "out"),
    "sweep": ("train", "sweep", OLD / "cohort", "--grid", "lr=0.1", "--out", "out"),
    "reproduce": ("train", "reproduce", "fedabc", "--table", "1", "--source", "data", "--work", "out"),
    "evaluate": ("train", "evaluate", OLD / "run", "--cohort", OLD / "cohort"),
    "export": ("train", "export", OLD / "run", "--out", "out"),
    "personalize": ("train", "personalize", OLD / "run", "--record", "demo01.csv", "--out", "out"),
    "methods": ("train", "methods"),
    "federate": ("flower", "federate", "status", "server"),
    "keys": ("sign", "keys", "new", "mine"),
    "delta show": ("sign", "delta", "show", "example.delta"),
    "predict --trusted": (
        *("sign", "predict", OLD / "bundle", "demo01.csv", "--force", "--trusted", "key.pem", "--out", "out"),
    ),
}


@pytest.mark.parametrize("name", NEEDS)
def test_a_command_that_needs_more_names_the_extra(
    base: Environment, recordings: Path, tmp_path: Path, name: str
) -> None:
    folder = shutil.copytree(recordings, tmp_path / "here")
    before = files_below(folder)
    extra, *command = NEEDS[name]
    done = base.ecgfed(*command, cwd=folder)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("ecgfed: ")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'ecgfed[{extra}]'" in done.stderr
    assert files_below(folder) == before
    assert not (folder / "out").exists()


def test_every_command_was_tried_in_the_base() -> None:
    """``prepare``'s own commands share their readers; cifar10, mitbih and unpack need data that is not here."""
    from ecgfed_cli.main import app

    command = typer.main.get_command(app)
    known = set(getattr(command, "commands", {}))
    tried = {str(one[0]) for one in RUNS.values()} | {str(one[1]) for one in NEEDS.values()} | {"cohort"}
    assert known <= tried


def test_with_records_every_format_is_read(
    fresh: Callable[[str], Environment], recordings: Path, tmp_path: Path
) -> None:
    """With the newest packages: wfdb 4.2 and 4.3.0 failed at import beside pandas 3."""
    records = fresh("[records]")
    packages = records.packages
    assert {"wfdb", "edfio"} <= set(packages)
    assert not {"torch", "onnx", "scikit-learn", "neurokit2"} & set(packages)
    for number, recording in enumerate(("wfdb/demo01", "one.edf", "demo01.csv")):
        out = tmp_path / str(number)
        file = recordings / recording
        command = ("predict", OLD / "bundle", file, "--force", "--patient", "demo01", "--out", out, "--quiet")
        done = records.ecgfed(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(predicted(min(out.glob("*.csv")))) > 60
    assert predicted(tmp_path / "0" / "demo01.csv") == predicted(OLD / "predictions.csv")
    for command in (
        ("convert", recordings / "demo01.csv", "--out", "converted"),
        ("ec57", "converted/demo01", "--test", "atr", "--start", "0:00"),
        ("prepare", "demo", "--out", "cohort", "--patients", "2", "--minutes", "1"),
    ):
        done = records.ecgfed(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    there, here = (
        wfdb.rdann(str(folder / "demo01"), "atr") for folder in (recordings / "wfdb", tmp_path / "converted")
    )
    assert here.symbol == there.symbol
    np.testing.assert_array_equal(here.sample, there.sample)
