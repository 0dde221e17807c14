"""``ecgfed report RUN``: numbers of the page against what lies on the disk, what is missing, and what it refuses."""

import csv
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_record
from support import Command, assert_full_disk, assert_refused, change_json, copied, run_limited, snapshot
from written_run import write_run, write_scores

import ecgfed as front

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Tables(HTMLParser):
    """Tables of a page by caption: rows of cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.shades: dict[tuple[str, int, int], str] = {}
        self._rows: list[list[str]] = []
        self._at, self._caption = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            if look := dict(attrs).get("class"):
                self.shades[self._caption, len(self._rows) - 1, len(self._rows[-1]) - 1] = look
        if tag in ("td", "th", "caption"):
            self._at = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            assert self._caption not in self.tables
            self.tables[self._caption] = self._rows
        if tag == self._at:
            self._at = ""

    def handle_data(self, data: str) -> None:
        if self._at == "caption":
            self._caption += data
        elif self._at:
            self._rows[-1][-1] += data

    def starting(self, words: str) -> list[list[str]]:
        (found,) = (rows for caption, rows in self.tables.items() if caption.startswith(words))
        return found


def page_of(ecgfed: Command, run: Path, out: Path, *more: object) -> tuple[dict[str, Any], str]:
    said = ecgfed("report", run, "--out", out, "--json", *more)
    assert said.code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer, out.read_text()


@pytest.fixture(scope="module")
def evaluated(local_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of Local, evaluated on both splits."""
    run = copied(local_run, tmp_path_factory.mktemp("evaluated") / "local")
    for split in ("test", "valid"):
        front.evaluate(run, split=split, progress=front.ProgressReporter())
    return run


def test_the_scores_are_those_of_the_evaluation(ecgfed: Command, evaluated: Path, tmp_path: Path) -> None:
    told, text = page_of(ecgfed, evaluated, tmp_path / "page.html")
    scores = {
        split: json.loads((evaluated / f"evaluation-{split}" / "scores.json").read_text())
        for split in ("test", "valid")
    }
    head, *rows = Tables(text).tables["Scenarios of every evaluation"]
    assert head[1:6] == ["T_g", "T_p", "T_r", "T_l", "T_p, global model"]
    wanted = []
    for split in ("test", "valid"):
        for kind in ("scores", "scores_truth"):
            found = [scores[split][kind][name] for name in ("T_g", "T_p", "T_r", "T_l", "T_p_global")]
            wanted.append([*(f"{one:.3f}" for one in found), "4", f"{scores[split]['beats']:,}"])
    assert [row[1:] for row in rows] == wanted
    assert [row[0].split(",")[0] for row in rows] == ["Test split"] * 2 + ["Validation split"] * 2
    assert [one["split"] for one in told["evaluations"]] == ["test", "valid"]
    assert told["evaluations"][0]["scores"] == scores["test"]["scores"]
    assert told["notes"] == []


def test_patients_are_sorted_by_gain(ecgfed: Command, evaluated: Path, tmp_path: Path) -> None:
    """Against ``per_patient.csv``, the table that evaluate writes for people."""
    told, text = page_of(ecgfed, evaluated, tmp_path / "page.html")
    with (evaluated / "evaluation-test" / "per_patient.csv").open(newline="") as stream:
        by_client = {row["client"]: row for row in csv.DictReader(stream)}
    gain = {name: float(row["personal_f1"]) - float(row["global_f1"]) for name, row in by_client.items()}
    assert max(gain.values()) > min(gain.values())
    _, *rows = Tables(text).starting("Patients by gain")
    assert {row[0] for row in rows} == set(by_client)
    assert [gain[row[0]] for row in rows] == sorted(gain.values(), reverse=True)
    worst = min(by_client, key=lambda name: float(by_client[name]["personal_f1"]))
    for row in rows:
        mine = by_client[row[0]]
        assert row[1] == f"{float(mine['global_f1']):.3f}"
        assert row[2] == f"{float(mine['personal_f1']):.3f}"
        assert float(row[3]) == pytest.approx(gain[row[0]], abs=0.0006)
        assert row[5:] == [f"{float(mine['generalisation_f1']):.3f}", mine["beats"], mine["classes"]]
    assert [row[0] for row in rows if row[4] == "worst tenth"] == [worst]  # a tenth of four patients is one
    assert text.count('class="chart-marked"') == 1
    assert len(re.findall(r'class="chart-(?:more|less)"', text)) == 4
    assert [one["client"] for one in told["evaluations"][0]["patients"]] == [row[0] for row in rows]


def test_confusions_and_classes(ecgfed: Command, evaluated: Path, tmp_path: Path) -> None:
    _, text = page_of(ecgfed, evaluated, tmp_path / "page.html")
    scores = json.loads((evaluated / "evaluation-test" / "scores.json").read_text())
    names = json.loads((evaluated / "run.json").read_text())["classes"]
    page = Tables(text)
    both = np.array(scores["confusion"]) + np.array(scores["confusion_personal"])
    shown = [i for i in range(len(names)) if both[i].sum() + both[:, i].sum()]
    for caption, key in (
        ("The global model on all patients' beats: rows truth", "confusion"),
        ("Each personal model on its patient's beats", "confusion_personal"),
    ):
        matrix = np.array(scores[key])[np.ix_(shown, shown)]
        head, *rows = page.starting(caption)
        assert head == ["Truth", *(names[i] for i in shown), "All"]
        assert [[int(one) for one in row[1:-1]] for row in rows] == matrix.tolist()
        assert [int(row[-1]) for row in rows] == matrix.sum(1).tolist()
        (whole,) = (caption_ for caption_ in page.tables if caption_.startswith(caption))
        for i, row in enumerate(matrix):
            shades = [int(page.shades[whole, i + 1, j + 1].removeprefix("shade-")) for j in range(len(row))]
            assert [shade == 0 for shade in shades] == [one == 0 for one in row.tolist()]
            assert np.argmax(shades) == np.argmax(row) or shades[np.argmax(row)] == max(shades)
    head, *rows = page.starting("Classes")
    own = np.array(scores["confusion_personal"])
    for row in rows:
        i = names.index(row[0])
        (mine,) = (one for one in scores["per_class"] if one["class"] == row[0])
        assert row[1:3] == [f"{mine['beats']:,}", f"{mine['predicted']:,}"]
        assert row[5] == f"{mine['f1']:.3f}"
        assert row[8] == f"{2 * own[i, i] / (own[i].sum() + own[:, i].sum()):.3f}"


def test_curves_clients_bytes_and_seconds(ecgfed: Command, evaluated: Path, cohort_path: Path, tmp_path: Path) -> None:
    told, text = page_of(ecgfed, evaluated, tmp_path / "page.html")
    history = [json.loads(line) for line in (evaluated / "history.jsonl").read_text().splitlines()]
    curves = {row[0]: row[1:] for row in Tables(text).tables["Curves in numbers"][1:]}
    losses = [line["loss_mean"] for line in history]
    told_losses = [f"{one:.4g}" for one in (losses[0], losses[-1], min(losses), max(losses))]
    assert curves["Training loss: mean over clients"] == [str(len(losses)), *told_losses]
    label, client, split = (np.load(cohort_path / f"{name}.npy") for name in ("label", "client", "split"))
    head, *rows = Tables(text).starting("Training beats of each class")
    names = json.loads((evaluated / "run.json").read_text())["classes"]
    assert head[: len(names) + 4] == ["Client", *names, "Training", "Validation", "Test"]
    for row in rows:
        mine = client == int(row[0][1]) - 1
        counts = np.bincount(label[mine & (split == 0)], minlength=len(names))
        totals = [int((mine & (split == part)).sum()) for part in range(3)]
        assert [int(one) for one in row[1 : len(names) + 4]] == [*counts.tolist(), *totals]
    # what Local's clients send is nothing at all, which is known, not unassessed
    assert told["bytes"] == {
        "rounds": [{"when": "Each round, one client", "down": 0, "up": 0}],
        "down": 0,
        "up": 0,
        "approximate": False,
    }
    seconds = [json.loads(line)["seconds"] for line in (evaluated / "timing.jsonl").read_text().splitlines()]
    assert told["time"]["Training time"] == f"{sum(seconds):.1f} s"


def test_bytes_of_a_global_model(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    """Two rounds of four clients: the whole model each way, as it lies in the checkpoint."""
    from safetensors.numpy import load_file

    told, _ = page_of(ecgfed, fedavg_run, tmp_path / "page.html")
    index = json.loads((fedavg_run / "checkpoint" / "progress.json").read_text())
    server = load_file(fedavg_run / "checkpoint" / index["files"]["server"]["name"])
    model = sum(value.nbytes for name, value in server.items() if name.startswith("model/"))
    assert told["bytes"]["rounds"] == [{"when": "Each round, one client", "down": model, "up": model}]
    assert (told["bytes"]["down"], told["bytes"]["up"]) == (2 * 4 * model, 2 * 4 * model)


def test_a_run_that_was_not_evaluated(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    before = snapshot(fedavg_run)
    said = ecgfed("report", fedavg_run, "--out", tmp_path / "page.html")
    assert said.code == 0
    assert "not evaluated: run 'ecgfed evaluate fedavg'" in said.out
    text = (tmp_path / "page.html").read_text()
    assert "not evaluated: run &#39;ecgfed evaluate fedavg&#39;" in text
    for words in ("Scores are not evaluated.", "Patients are not evaluated.", "Classes are not evaluated."):
        assert words in text
    assert "Training loss" in text
    assert "0.000" not in text
    assert snapshot(fedavg_run) == before
    assert str(fedavg_run.parent) not in text  # the way to a run may name a person


def test_evaluations_that_are_old_or_of_validation_alone(ecgfed: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", done=3)
    write_scores(run, {"T_g": 0.5}, {"p1": (0.75, 0.5)}, split="valid", at_round=2)
    told, text = page_of(ecgfed, run, tmp_path / "page.html")
    assert [one["code"] for one in told["notes"]] == ["not-evaluated-on-test", "old-evaluation", "not-finished"]
    (row, truth) = Tables(text).tables["Scenarios of every evaluation"][1:]
    assert row[1:] == ["0.500", *["not assessed"] * 4, "1", "not assessed"]
    assert truth[1:6] == ["not assessed"] * 5
    assert told["evaluations"][0]["confusion"] is None
    assert "this evaluation did not keep it" in text
    # its cohort lies nowhere, its net cannot be opened from what is written by hand
    assert told["clients"] is None
    assert "What clients have: not assessed: its cohort is not where it was" in text


def test_other_personal_answers_stand_beside(ecgfed: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    first = write_scores(run, {"T_g": 0.5, "T_p": 0.75}, {"p1": (0.75, 0.5), "p2": (0.5, 0.5)})
    change_json(first, personal="gated", split="test", leave_out="nothing")
    other = copied(first.parent, run / "evaluation-test-masked") / "scores.json"
    change_json(other, personal="masked", per_patient=[{"client": "p2", "personal_f1": 0.25, "global_f1": 0.5}])
    told, text = page_of(ecgfed, run, tmp_path / "page.html")
    assert [one["personal"] for one in told["evaluations"]] == ["gated", "masked"]
    head, *rows = Tables(text).starting("Patients by gain")
    at = head.index("Personal model by masked")
    assert {row[0]: row[at] for row in rows} == {"p1": "not assessed", "p2": "0.250"}


def test_hostile_text_is_text(ecgfed: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", method=HOSTILE, settings={HOSTILE: HOSTILE})
    change_json(run / "run.json", classes=[HOSTILE, "V"], clients=[HOSTILE], versions={HOSTILE: HOSTILE})
    scores = write_scores(run, {"T_g": 0.5}, {HOSTILE: (0.5, 0.25)}, classes={HOSTILE: (5, 4, 0.5)})
    change_json(scores, confusion=[[5, 0], [0, 0]], personal=HOSTILE, protocol=HOSTILE, T_p_variants={HOSTILE: 0.5})
    lines = (run / "history.jsonl").read_text().splitlines()
    last = {**json.loads(lines[-1]), "never_predicted": [HOSTILE], HOSTILE: 0.5}
    (run / "history.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    _, text = page_of(ecgfed, run, tmp_path / "page.html")
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    other = copied(run, tmp_path / "other")
    said = ecgfed("runs", "compare", run, other, "--out", tmp_path / "compared.html", "--quiet")
    assert said.code == 0, said.err
    text = (tmp_path / "compared.html").read_text()
    assert "<img" not in text
    assert text.count("</script>") == 2


def test_a_federation_of_hundreds_is_folded_and_small(ecgfed: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    rng = np.random.default_rng(0)
    patients = {f"patient-{i:04d}": (float(a), float(b)) for i, (a, b) in enumerate(rng.random((800, 2)))}
    write_scores(run, {"T_g": 0.5}, patients)
    _, text = page_of(ecgfed, run, tmp_path / "page.html")
    assert len(text) < 2_000_000
    assert "<summary>All patients (800 rows)</summary>" in text
    page = Tables(text)
    served = sorted(patients, key=lambda name: patients[name][0])
    assert [row[0] for row in page.starting("The 20 patients")[1:]] == served[:20]
    worst = {row[0] for row in page.starting("Patients by gain")[1:] if row[4] == "worst tenth"}
    assert worst == set(served[:80])
    assert 'class="chart-side"' not in text  # no room for their names below the bars


def test_two_calls_write_the_same_bytes(ecgfed: Command, evaluated: Path, tmp_path: Path) -> None:
    for name in "ab":
        page_of(ecgfed, evaluated, tmp_path / f"{name}.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert_refused(ecgfed("report", evaluated, "--out", tmp_path / "a.html"), "--out", "a.html")
    page_of(ecgfed, evaluated, tmp_path / "a.html", "--overwrite")


SCORES = "evaluation-test/scores.json"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("run.json", "{", ("run.json",)),
        ("run.json", "[]", ("run.json",)),
        ("checkpoint/progress.json", "[]", ("progress.json",)),
        ("history.jsonl", '{"round": 1, "passes": 0.1}\n', ("history.jsonl", "loss_mean")),
        ("history.jsonl", '{"round": 1\n{"round": 2}\n', ("history.jsonl", "line 1")),
        ("timing.jsonl", '{"round": 1, "seconds": "2"}\n', ("timing.jsonl", "seconds")),
        ("timing.jsonl", '{"round": 1, "seconds": 1e308}\n', ("timing.jsonl", "seconds is 1e+308")),
        ("timing.jsonl", '{"round": 1, "seconds": NaN}\n', ("timing.jsonl", "seconds is nan")),
        (SCORES, "[", ("scores.json",)),
        (SCORES, "[]", ("scores.json", "no JSON object")),
        (SCORES, '{"round": 4}', ("scores.json", "per_patient is missing")),
        (SCORES, {"scores": {"T_g": "0.5"}}, ("scores.json", "T_g")),
        (SCORES, {"scores": {"T_g": float("nan")}}, ("scores.json", "T_g")),
        (SCORES, {"per_patient": [7]}, ("scores.json", "per_patient")),
        (SCORES, {"per_patient": [{"client": "p1", "personal_f1": 1, "global_f1": None}]}, ("global_f1",)),
        (SCORES, {"per_patient": [{"client": "p", "personal_f1": 1, "global_f1": 1}] * 2}, ("twice",)),
        (
            SCORES,
            {"per_patient": [{"client": "p1", "personal_f1": 1.5, "global_f1": 1}]},
            ("personal_f1 is 1.5", "0 to 1"),
        ),
        (SCORES, {"confusion": [[1, 2], [3, 4]]}, ("confusion", "3 classes")),
        (SCORES, {"confusion_personal": [[1, 2, -3]] * 3}, ("confusion_personal",)),
        (SCORES, {"split": "train"}, ("split",)),
        (SCORES, {"cohort_fingerprint": "0" * 64}, ("another cohort",)),
    ],
)
def test_a_damaged_run_is_one_line(
    ecgfed: Command, tmp_path: Path, file: str, text: str | dict[str, Any], words: tuple[str, ...]
) -> None:
    run = write_run(tmp_path / "run")
    write_scores(run, {"T_g": 0.5}, {"p1": (0.5, 0.5)})
    if isinstance(text, str):
        (run / file).write_text(text)
    else:
        change_json(run / file, **text)
    assert_refused(ecgfed("report", run, "--out", tmp_path / "page.html"), *words)
    assert not (tmp_path / "page.html").exists()


def test_numbers_that_cannot_be_drawn_are_left_out(ecgfed: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    wild = [{"q": 1e308, "loss_max": -1.0}, {"q": float("nan"), "tiny": 5e-324}, {"q": True, "tiny": 0}, {"q": 0.5}]
    lines = [{**line, **more} for line, more in zip(lines, wild, strict=True)]
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, text = page_of(ecgfed, run, tmp_path / "page.html")
    curves = {row[0]: row[1:] for row in Tables(text).tables["Curves in numbers"][1:]}
    assert curves["q, the weight of high losses"] == ["1", *["0.5"] * 4]
    assert curves["tiny"][0] == "2"
    assert not re.search(r'="[^"]*\b(?:nan|inf)\b', text)


def test_what_is_no_run_and_what_may_be_two_things(ecgfed: Command, records: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "page.html")
    assert_refused(ecgfed("report", records, *out), "page.html", str(records))  # a folder of recordings
    run = write_run(tmp_path / "r1")
    write_record(tmp_path, "r1", "N" * 20)
    assert_refused(ecgfed("report", run, *out), "r1.hea a recording", "one of them", "run.json")
    page_of(ecgfed, run / "run.json", tmp_path / "page.html")
    seeds = tmp_path / "seeds"
    for seed in (0, 1):
        write_run(seeds / f"seed-{seed}", plan={"seed": seed})
    assert_refused(ecgfed("report", seeds, "--out", tmp_path / "b.html"), "seed-0, seed-1", "one run")


@pytest.mark.parametrize(
    "option",
    [
        *(("--bundle", "b"), ("--patient", "p"), ("--labels", "l.csv"), ("--lead", "II"), ("--peaks", "detected")),
        *(("--detector", "ecgfed"), ("--mains", 50), ("--annotator", "atr"), ("--fs", 3), ("--units", "x")),
        *(("--columns", ","), ("--rule", "pause_s=2"), ("--trusted", "k.pem"), ("--force",)),
    ],
    ids=lambda option: option[0],
)
def test_options_of_recordings_are_refused_for_a_run(
    ecgfed: Command, tmp_path: Path, option: tuple[object, ...]
) -> None:
    run = write_run(tmp_path / "run")
    said = ecgfed("report", run, "--out", tmp_path / "page.html", *option)
    assert_refused(said, f"{option[0]}: is of recordings", "is a run")
    assert not (tmp_path / "page.html").exists()


def test_options_of_runs_are_refused_for_a_recording(ecgfed: Command, records: Path, tmp_path: Path) -> None:
    said = ecgfed("report", records / "p1", "--out", tmp_path / "page.html", "--cohort", tmp_path)
    assert_refused(said, "--cohort: is of runs", "is a recording")


def test_a_cohort_that_moved(ecgfed: Command, evaluated: Path, cohort_path: Path, tmp_path: Path) -> None:
    run = copied(evaluated, tmp_path / "run")
    meta = json.loads((run / "run.json").read_text())
    change_json(run / "run.json", cohort={**meta["cohort"], "path": "/nowhere"})
    told, text = page_of(ecgfed, run, tmp_path / "a.html")
    assert told["clients"] is None
    assert "its cohort is not where it was" in text
    told, _ = page_of(ecgfed, run, tmp_path / "b.html", "--cohort", cohort_path)
    assert [one["client"] for one in told["clients"]] == ["p1", "p2", "p3", "p4"]
    assert_refused(ecgfed("report", run, "--out", tmp_path / "c.html", "--cohort", tmp_path), str(tmp_path), "cohort")
    for at, values, why in (
        ("d", {"held_out_clients": ["p1"]}, "its cohort holds out other clients now"),
        ("e", {"clients": ["p2", "p1", "p3", "p4"]}, "its cohort names other clients now"),
    ):
        other = copied(run, tmp_path / at)
        change_json(other / "run.json", **values)
        told, text = page_of(ecgfed, other, tmp_path / f"{at}.html", "--cohort", cohort_path)
        assert told["clients"] is None, "nobody's mixes stand under another one's name"
        assert why in text


def test_a_method_of_ones_own_is_not_run(ecgfed: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    run = write_run(tmp_path / "run", method=f"{tmp_path}/mine.py:Mine")
    told, text = page_of(ecgfed, run, tmp_path / "page.html")
    assert told["bytes"] is None
    assert "Bytes sent: not assessed: its method is custom code" in text
    assert not (tmp_path / "ran").exists()


def test_a_full_disk_leaves_nothing(evaluated: Path, tmp_path: Path) -> None:
    assert_full_disk(run_limited(3000, "report", evaluated, "--out", tmp_path / "p.html"), "p.html")
    assert list(tmp_path.iterdir()) == []


def test_in_python(evaluated: Path, tmp_path: Path) -> None:
    found = front.report_run(str(evaluated), tmp_path / "page.html")
    assert found.files == (tmp_path / "page.html",)
    assert (tmp_path / "page.html").read_text() == found.html
    assert front.report_run(front.open_run(evaluated)).html == found.html
    assert repr(found).startswith("RunReport('local': local, test T_g 0.")
    assert found.path == evaluated


WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None
sys.modules["matplotlib"] = None
import ecgfed
from pathlib import Path
from ecgfed.tasks.compare_page import compare_as_page
told = ecgfed.report_run(sys.argv[1], sys.argv[3]).to_dict()
compare_as_page([Path(sys.argv[1]), Path(sys.argv[2])], Path(sys.argv[4]))
print(json.dumps([told["bytes"], len(told["evaluations"]), len(told["clients"])]))
"""


def test_it_needs_no_torch_but_for_the_bytes(evaluated: Path, fedavg_run: Path, tmp_path: Path) -> None:
    pages = [tmp_path / "page.html", tmp_path / "compared.html"]
    command = [sys.executable, "-c", WITHOUT_TORCH, evaluated, fedavg_run, *pages]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [None, 2, 4]
    text = pages[0].read_text()
    assert "Bytes sent: not assessed: it is measured with torch, which is not installed" in text
    assert pages[1].is_file()


def test_a_federation_is_named(ecgfed: Command, tmp_path: Path) -> None:
    """The run's ID, its sites and databases; a run of one machine names none, and a damaged entry is one line."""
    write_run(tmp_path / "run")
    _, text = page_of(ecgfed, tmp_path / "run", tmp_path / "alone.html")
    assert "<dt>Federation</dt>" not in text
    site = {"training_examples": 10, "leads": ["MLII"], "recorded_hz": [360.0], "version": "0.3"}
    sites = [
        {"name": "site 1", "patients": 2, "databases": ["MIT-BIH 1.0.0"], **site},
        {"name": "<b>site 2", "patients": 1, "databases": ["own recordings"], **site},
    ]
    change_json(tmp_path / "run" / "run.json", federation={"run": "ab" * 32, "sites": sites, "site": "site 1"})
    _, text = page_of(ecgfed, tmp_path / "run", tmp_path / "page.html")
    assert "<dt>Federation</dt><dd>run abababababababab: 2 sites, 3 patients, 20 training examples</dd>" in text
    assert "<dd>site 1: 2 patients; &lt;b&gt;site 2: 1 patient</dd>" in text
    assert "<dd>MIT-BIH 1.0.0; own recordings</dd>" in text
    change_json(tmp_path / "run" / "run.json", federation={"run": "ab" * 32})
    assert_refused(ecgfed("report", tmp_path / "run", "--out", tmp_path / "other.html"), "run.json")
