"""Every command in the README and the docs is run, in order, on the real recordings; and links lead somewhere."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import wfdb
from ecgfed_cli.main import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BIN = Path(sys.executable).parent


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def lines_of(page: Path) -> list[str]:
    """Every shell command of a page, in order."""
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line]


def answer_page(record: Path, labels: Path) -> None:
    """Save labels from a labelling page as a person does who knows the recording's annotation, largest groups first.

    Clicking the page itself is ``tests/labels/test_label_in_browser.py``.
    """
    page = labels.with_name(re.sub(r"-labels(.*)\.csv$", r"-label\1.html", labels.name)).read_text()
    (text,) = re.findall(r'<script type="application/json" id="page-data">(.*?)</script>', page)
    data, marks = json.loads(text), wfdb.rdann(str(record), "atr")
    by_size = sorted(data["groups"], key=lambda group: -group["size"])
    beats = list(dict.fromkeys(str(group["beat"]) for group in by_size))[: data["count"]]
    lines = ["recording,sample,time_s,label,beats,source"]
    for sample in sorted(data["points"][beat]["sample"] for beat in beats):
        nearest = int(np.abs(marks.sample - sample).argmin())
        known = abs(int(marks.sample[nearest]) - sample) <= 0.15 * data["fs"]
        lines.append(f"{data['recording']},{sample},,{marks.symbol[nearest] if known else '|'},,clinician")
    labels.write_text("\n".join(lines) + "\n")


def run_all(lines: list[str], folder: Path) -> None:
    """Run commands one after the other in a folder, as a reader would; each has to succeed."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    records: dict[str, str] = {}  # folder of a labelling page -> its recording
    for line in lines:
        if page := re.search(r"^ecgfed label (\S+) --out (\S+)", line):
            records[page[2]] = page[1]
        reads = line.startswith("ecgfed agreement") or "--second" in line
        compared = re.findall(r"(\S+)/(\S+-labels\S*\.csv)", line) if reads else []
        for reader, table in compared:
            answer_page(folder / records[reader], folder / reader / table)
        if wanted := re.search(r"^ecgfed personalize (\S+) --labels (\S+-labels\.csv)", line):
            answer_page(folder / wanted[1], folder / wanted[2])
        done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def run_snippet(snippet: str, folder: Path) -> str:
    """Run Python in a folder, as a reader would; return what it printed."""
    done = subprocess.run([sys.executable, "-c", snippet], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in "\n".join(blocks(ROOT / "README.md", "sh")).splitlines():
        if line.startswith("make "):
            assert re.search(rf"^{line.split()[1]}:", makefile, flags=re.MULTILINE), line


def test_every_option_the_docs_name_exists() -> None:
    """Options in running text, against the commands' own."""

    def options(command: Any) -> set[str]:
        own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        return own.union(*map(options, getattr(command, "commands", {}).values()))

    live = [sys.executable, "-m", "ecgfed.web.live", "--help"]
    told = subprocess.run(live, capture_output=True, text=True, check=True).stdout
    known = {"--help", *re.findall(r"--[a-z][a-z-]+", " ".join([told, *options(typer.main.get_command(app))]))}
    for page in PAGES:
        for line in page.read_text().splitlines():
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line):
                elsewhere = ("pytest", "benchmarks/", "onnxruntime-node")  # options of other programs
                assert option in known or any(name in line for name in elsewhere), f"{page.name} names {option}"


def test_toml_of_the_docs_trains(cohort_path: Path, tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "docs" / "training.md", "toml")
    (tmp_path / "config.toml").write_text(text.replace("rounds = 20", "rounds = 1"))
    command = [BIN / "ecgfed", "train", cohort_path, "--out", "run", "--config", "config.toml", "--quiet"]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert (tmp_path / "run" / "history.jsonl").is_file()


def test_the_own_method_of_the_docs_trains(cohort_path: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "cohort").symlink_to(cohort_path)
    run_all(lines_of(ROOT / "docs" / "methods.md"), tmp_path)
    assert len((tmp_path / "trimmed" / "history.jsonl").read_text().splitlines()) == 2


def test_the_commands_of_the_page_on_quality_run(tmp_path: Path) -> None:
    commands = lines_of(ROOT / "docs" / "quality.md")
    assert len(commands) >= 4
    run_all(commands, tmp_path)
    assert (tmp_path / "demo02.png").is_file()
    told = json.loads((tmp_path / "demo02.json").read_text())
    assert told["lead"] == "MLII"


def test_the_commands_of_the_page_on_the_report_run(tmp_path: Path) -> None:
    commands = lines_of(ROOT / "docs" / "report.md")
    assert len(commands) >= 5
    run_all(commands, tmp_path)
    for name in ("demo01", "demo01-own", "demo01-labels", "run", "compared"):
        assert (tmp_path / f"{name}.html").read_text().startswith("<!DOCTYPE html>")


def test_every_rule_of_the_report_stands_on_its_page() -> None:
    from dataclasses import fields

    from ecgfed import EventRules

    page = (ROOT / "docs" / "report.md").read_text()
    for field in fields(EventRules):
        assert f"`{field.name}`" in page, field.name


def test_the_commands_of_the_page_on_privacy_run(tmp_path: Path) -> None:
    commands = lines_of(ROOT / "docs" / "privacy.md")
    assert len(commands) >= 3
    run_all(commands, tmp_path)
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {"p0001.hea", "p0001.dat", "p0001.atr"}
    assert len((tmp_path / "key.csv").read_text().splitlines()) == 4
    assert "demo0" not in (tmp_path / "nameless" / "cohort.json").read_text()


def test_the_commands_of_the_formats_page_run(tmp_path: Path) -> None:
    """The snippet writes a CSV and an array of a demo record; every command after it must read them."""
    page = ROOT / "docs" / "formats.md"
    first, *rest = lines_of(page)
    (snippet,) = blocks(page, "python")
    run_all([first], tmp_path)
    run_snippet(snippet, tmp_path)
    run_all(rest, tmp_path)
    assert len(rest) >= 4
    for name in ("from-csv/demo01.hea", "from-csv/demo01.atr", "from-npy/demo01.dat", "cohort-csv/cohort.json"):
        assert (tmp_path / name).is_file(), name


@pytest.mark.slow
@pytest.mark.parametrize("page", ["clinicians.md", "researchers.md", "command-line.md", "devices.md"])
def test_a_tutorial_runs_from_its_first_command_to_its_last(page: str, tmp_path: Path) -> None:
    commands = lines_of(ROOT / "docs" / page)
    assert len(commands) >= 5
    run_all(commands, tmp_path)
    for named in re.findall(r"`(predictions/[\w.]+)`", (ROOT / "docs" / page).read_text()):
        assert (tmp_path / named).is_file(), named


def test_both_conventions_of_macro_f1_are_as_their_page_says(tmp_path: Path) -> None:
    (snippet,) = blocks(ROOT / "docs" / "macro-f1.md", "python")
    assert run_snippet(snippet, tmp_path) == "True\n"


@pytest.mark.slow
def test_the_page_for_devices_runs_in_its_own_order(tmp_path: Path) -> None:
    page = ROOT / "docs" / "devices.md"
    run_all(lines_of(page)[:3], tmp_path)
    (snippet,) = blocks(page, "python")
    assert "agree with the golden vectors" in run_snippet(snippet, tmp_path)


def test_the_commands_of_the_how_to_page_are_commands() -> None:
    """Each is taken apart by the command line's own parser, which is not given a file to open."""
    import typer
    from ecgfed_cli.main import app

    rows = re.findall(r"^\|.*$", (ROOT / "docs" / "how-to.md").read_text(), flags=re.MULTILINE)
    asked = re.findall(r"`(ecgfed [^`]+)`", "\n".join(rows))
    assert len(asked) >= 15
    for line in asked:
        context = typer.main.get_command(app).make_context("ecgfed", ["doctor"], resilient_parsing=True)
        words = shlex.split(line)[1:]
        while isinstance(context.command, typer.core.TyperGroup):
            name = words.pop(0)
            context = type(context)(context.command.commands[name], info_name=name, parent=context)
        if words:
            context.command.make_context(context.info_name, words)


def test_the_readme_names_make_demo_and_make_test_first() -> None:
    first, *_ = blocks(ROOT / "README.md", "sh")
    assert [line.split()[:2] for line in first.splitlines()] == [["make", "demo"], ["make", "test"]]


@pytest.mark.slow
def test_the_readmes_commands_run_in_a_clone_without_recordings(tmp_path: Path) -> None:
    commands = [line for line in lines_of(ROOT / "README.md") if line.startswith("ecgfed ")]
    assert len(commands) >= 5
    run_all(commands, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("cohort", "records", "demo01.html", "predictions", "labels", "demo01-own", "demo01-own-beats")
    }
    assert len((tmp_path / "predictions" / "demo01.csv").read_text().splitlines()) == 430  # 429 annotated


@pytest.mark.slow
@pytest.mark.mitdb
def test_the_readmes_commands_run_on_a_real_recording(mitdb: Path, tmp_path: Path) -> None:
    (tmp_path / "mitdb").symlink_to(mitdb)
    commands = [line.replace("records/demo01", "mitdb/208") for line in lines_of(ROOT / "README.md")]
    commands = [
        line.replace("demo01", "208") for line in commands if line.startswith("ecgfed ") and "mitdb/208" in line
    ]
    assert len(commands) >= 4
    run_all(commands, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("mitdb", "208.html", "predictions", "labels", "208-own", "208-own-beats")
    }
    assert len((tmp_path / "predictions" / "208.csv").read_text().splitlines()) > 2700  # 2,955 annotated


@pytest.mark.slow
@pytest.mark.mitdb
def test_the_commands_of_the_whole_path_and_the_device_snippet_run_on_real_recordings(
    mitdb: Path, tmp_path: Path
) -> None:
    (tmp_path / "mitdb").symlink_to(mitdb)
    ran = lines_of(ROOT / "docs" / "whole-path.md")
    assert len(ran) == 5
    run_all(ran, tmp_path)
    assert len((tmp_path / "predictions" / "208.csv").read_text().splitlines()) > 2700  # 2,955 annotated
    (snippet,) = blocks(ROOT / "docs" / "bundle.md", "python")
    given = (
        "from ecgfed.domain.record.wfdb_files import read_annotation, read_recording\n"
        "recording = read_recording('mitdb/208', ('MLII',))\n"
        "signal_mv, r_peaks = recording.signal_mv, read_annotation('mitdb/208').beats().sample\n"
    )
    printed = run_snippet(given + snippet, tmp_path)
    assert "'V'" in printed


@pytest.mark.slow
@pytest.mark.mitdb
def test_the_commands_and_the_stream_of_the_qrs_page_run_on_real_recordings(mitdb: Path, tmp_path: Path) -> None:
    (tmp_path / "mitdb").symlink_to(mitdb)
    run_all(lines_of(ROOT / "docs" / "qrs.md"), tmp_path)
    (snippet,) = blocks(ROOT / "docs" / "qrs.md", "python")
    given = (
        "from ecgfed.domain.record.wfdb_files import read_recording\n"
        "signals_mv = read_recording('mitdb/119', ('MLII',), every_lead=True).signals_mv[:, :36000]\n"
    )
    printed = run_snippet(given + snippet, tmp_path)
    assert printed.split()[1] == "4.7"


@pytest.mark.slow
@pytest.mark.mitdb
def test_the_stream_of_its_page_runs_on_a_real_recording(mitdb: Path, tmp_path: Path) -> None:
    """With the model in the package, which knows no patient, in place of the reader's own bundle."""
    (snippet,) = blocks(ROOT / "docs" / "stream.md", "python")
    given = (
        "from ecgfed.domain.record.wfdb_files import read_recording\n"
        "from ecgfed.exports.device.shipped import shipped_model\n"
        f"signals_mv = read_recording({str(mitdb / '208')!r}, ('MLII',), every_lead=True).signals_mv[:, :18000]\n"
    )
    snippet = snippet.replace('"bundle"', "shipped_model()").replace('patient="208"', "patient=None")
    printed = run_snippet(given + snippet, tmp_path)
    lines = [line.split() for line in printed.splitlines()]
    told = {
        stage: {line[1]: line[3] for line in lines if line[0] == stage}
        for stage in ("announced", "withdrawn", "early", "final")
    }
    assert len(told["final"]) > 70
    assert {"N", "V"} <= set(told["final"].values())
    assert len(told["announced"]) > 60
    assert set(told["early"]) <= set(told["final"]) | set(told["withdrawn"])


@pytest.mark.slow
@pytest.mark.cifar10
def test_the_commands_of_the_cifar_page_run_on_real_images(cifar10: Path, tmp_path: Path) -> None:
    (tmp_path / "cifar10").symlink_to(cifar10)
    run_all(lines_of(ROOT / "docs" / "cifar10.md"), tmp_path)
    assert (tmp_path / "cifar-bundle" / "manifest.json").is_file()


def test_the_whole_path_in_python_is_ten_lines_and_runs(tmp_path: Path) -> None:
    (block,) = blocks(ROOT / "docs" / "whole-path.md", "python")
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    assert "Predictions('demo01': " in run_snippet(block, tmp_path)
    written = sorted(path.name for path in (tmp_path / "predictions").iterdir())
    assert written == [f"demo01.{ending}" for ending in ("csv", "ecgfed", "json", "png", "rhythms.csv")]


def test_every_decision_has_a_row() -> None:
    folder = ROOT / "docs" / "decisions"
    rows = re.findall(r"^\| \[\d{4}\]\((\d{4}-[a-z0-9-]+\.md)\) \| ", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(path.name for path in folder.glob("[0-9]*.md"))
