"""What the verbs give back: short to look at, a table in a notebook, JSON for a script."""

import html.parser
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from support import Recorder, copied, exported
from written_run import write_run, write_scores

import ecgfed
from ecgfed.core.config import TablePart
from ecgfed.domain.labels.agreement import Agreement
from ecgfed.exports.device.delta import ANY, Delta, DeltaHeader, Kind
from ecgfed.exports.device.signatures import Signature
from ecgfed.tasks.reproduce import select
from ecgfed.tasks.sweep_result import SweepRow

HOSTILE = "<b>&\x1b[31m\n\u202e"


class Table(html.parser.HTMLParser):
    """Reads a table strictly: every tag closed, in order; cells row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.items: list[str] = []
        self.caption, self.tags, self.titles = "", set[str](), dict[str, str]()
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.title = dict(attrs).get("title")
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "li":
            self.items.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "caption":
            self.caption += data
        elif self.open[-1] == "li":
            self.items[-1] += data
        else:
            self.rows[-1][-1] += data
            if self.title:
                self.titles[self.rows[-1][-1]] = self.title


def result(seed: int, **changes: Any) -> dict[str, Any]:
    """An evaluation's result as far as its scores go, its numbers chosen by hand."""
    scores = {"T_g": 0.5 + 0.2 * seed, "T_p": 0.8, "T_r": 0.25, "T_l": 0.381}
    truth = {"T_g": 0.6, "T_p": 0.9, "T_r": 0.3 + 0.02 * seed, "T_l": 0.45}
    about = {"method": "fedavg", "split": "test", "round": 7, "scores": scores, "scores_truth": truth}
    return {**about, **changes}


def hostile_recording(leads: int) -> ecgfed.Recording:
    names = tuple(f"{HOSTILE}{i}" for i in range(leads))
    return ecgfed.Recording(HOSTILE * 20, Path(HOSTILE), names[-1], names, 360.0, np.zeros((leads, 720)), ())


def bad_recording() -> ecgfed.Recording:
    """A heart for half a minute, and names that nobody's should be."""
    signal, _ = synthetic_signal("N" * 40, seed=3)
    signals, leads = np.stack([signal, np.where(np.arange(len(signal)) < 1000, np.nan, signal)]), (HOSTILE, "V1")
    return ecgfed.Recording(HOSTILE, Path("nowhere"), HOSTILE, leads, 360.0, signals, (f"Paced, {HOSTILE}",))


@pytest.fixture(scope="module")
def objects(
    cohort_path: Path, fedavg_run: Path, records: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[object]]:
    """One or more of every type that the front door offers."""
    place = tmp_path_factory.mktemp("objects")
    bundle = ecgfed.open_bundle(exported(fedavg_run))
    recording = ecgfed.read_recording(records / "p1", "MLII")
    opened = ecgfed.open_recording(records / "p1", "MLII", min_samples=0)
    predicted = ecgfed.predict(bundle, records / "p1", peaks="annotated")
    scores = {"beats": 1200, "global": {"macro_f1": 0.25}, "personal": {"macro_f1": 0.75}}
    model = ("new", bundle, {"minutes": 5.0}, scores, "run", "fedavg", "r1", "ecg")
    labels = ecgfed.open_cohort(cohort_path).labels
    many = tuple(f"{HOSTILE}{i}" for i in range(100))
    alike = Agreement.of(np.array(["N", "V"]), np.array(["N", "N"]), ("N", "V"))
    ones = np.arange(100), np.full((100, 100), 0.01, np.float32), np.zeros(100, np.uint8)
    return {
        "Annotation": [ecgfed.read_annotation(recording)],
        "Batch": [ecgfed.predict_batch(records, place / "read", bundle=bundle), failed_batch()],
        "Bundle": [bundle],
        "Classifier": [bundle.classifier(), bundle.classifier("p1")],
        "Cohort": [ecgfed.open_cohort(cohort_path)],
        "Conversion": [
            ecgfed.convert(records / "p1", place),
            ecgfed.convert(bad_recording(), place, progress=Recorder()),
        ],
        "Delineation": [ecgfed.delineate(records / "p1"), ecgfed.delineate(bad_recording())],
        "DeltaSummary": [
            ecgfed.DeltaSummary(
                Path(HOSTILE),
                Delta(
                    Path(HOSTILE),
                    DeltaHeader(Kind.BUNDLE, 7, 9, 9, 24, 1, ANY, ANY, b"", b"", b"", b""),
                    b"",
                    b"x" * 24,
                ),
                Signature("SHA256:00", True, False),
            )
        ],
        "Detections": [ecgfed.detect(records / "p1"), ecgfed.detect([recording, bad_recording()], place)],
        "Ec57Scores": [ecgfed.score_ec57(records / "p1", "atr", start=10)],
        "EcgfedError": [ecgfed.EcgfedError("here", "is one\nthing", "another", "do\nthat")],
        "EcgfedWarning": [ecgfed.EcgfedWarning("keep in mind")],
        "EventRules": [ecgfed.EventRules()],
        "Inspection": [ecgfed.inspect_recording(records / "p1"), ecgfed.inspect_recording(bad_recording())],
        "FolderReport": [ecgfed.report_folder(records, place / "pages", bundle)],
        "LabelAgreement": [
            ecgfed.LabelAgreement(Path("a.csv"), Path("b.csv"), alike, alike, 0, 1, 2, ((900, 2.5, "N", HOSTILE),))
        ],
        "ServedWork": [ecgfed.ServedWork(place / HOSTILE, 3, "done")],
        "LabelMap": [labels, ecgfed.LabelMap(HOSTILE * 30, many, {})],
        "Labelling": [ecgfed.label(records / "p1", count=2, force=True)],
        "Recording": [
            recording,
            hostile_recording(40),
            opened,
            replace(opened, name=HOSTILE * 20, lead=HOSTILE, leads=(HOSTILE,) * 40),
        ],
        "LabelPersonalization": [
            ecgfed.personalize_labels(
                records / "p1", place / "own", labels=records / "p1.atr", patient="own", progress=Recorder()
            )
        ],
        "PersonalModel": [ecgfed.PersonalModel(*model), ecgfed.PersonalModel(*model[:3], {"beats": 0}, *model[4:])],
        "Predictions": [predicted, bundle.classifier().classify(windows()), ecgfed.Predictions(*ones, many)],
        "ReadOptions": [ecgfed.ReadOptions(), ecgfed.ReadOptions(360.0, "mV", ("MLII", "V1"))],
        "RecordingReport": [
            ecgfed.report(recording, bundle),
            ecgfed.report(bad_recording(), bundle, leads="V1", force=True),
        ],
        "LabelledImages": [
            ecgfed.LabelledImages(np.zeros((9, 1, 28, 28), np.uint8), np.arange(9), 6, {}, HOSTILE, many)
        ],
        "Reproduction": [
            ecgfed.Reproduction.of(chosen.paper, chosen.table, chosen.settings, chosen.rows, scale, {}, (HOSTILE,))
            for scale in ("full", "reduced")
            for chosen in [select("fedabc", 1, TablePart(scale=scale))]
        ],
        "Run": [ecgfed.open_run(fedavg_run)],
        "RunReport": [ecgfed.report_run(fedavg_run), hostile_run(place)],
        "Scores": [ecgfed.Scores((result(0),)), ecgfed.Scores((result(0), result(1)))],
        "Sweep": [
            ecgfed.sweep(
                cohort_path, {"lr": [0.01, 0.1]}, place / "sweep", rounds=1, width=0.34, eval_every=0, local_steps=1
            ),
            ecgfed.Sweep(place, "T_g", ("net",), (0,), (SweepRow({"net": HOSTILE}, HOSTILE, {}, HOSTILE * 50),), 9),
        ],
        "WaveIntervals": [ecgfed.wave_intervals(records / "p1"), ecgfed.wave_intervals(bad_recording())],
        "ProgressReporter": [ecgfed.ProgressReporter()],
    }


def hostile_run(place: Path) -> ecgfed.RunReport:
    run = write_run(place / "run", method=HOSTILE * 20, settings={HOSTILE: HOSTILE})
    write_scores(run, {"T_g": 0.5}, {HOSTILE: (0.5, 0.25)}, classes={HOSTILE: (3, 2, None)})
    return ecgfed.report_run(run)


def failed_batch() -> ecgfed.Batch:
    return ecgfed.Batch((), ({"file": HOSTILE, "problem": HOSTILE * 50},) * 100, ("N",), Path(HOSTILE))


def windows() -> Any:
    from ecgfed.domain.beats.extract import Windows
    from ecgfed.domain.beats.rr import RR_DEFAULT, RR_NAMES

    rng = np.random.default_rng(0)
    rr = np.full((3, len(RR_NAMES[RR_DEFAULT])), 0.8, np.float32)
    return Windows(rng.standard_normal((3, 1, 256)).astype(np.float32), rr, np.array([0, 1, 2], np.uint8))


def test_every_type_is_looked_at(objects: dict[str, list[object]]) -> None:
    assert set(objects) == {name for name in ecgfed.__all__ if isinstance(getattr(ecgfed, name), type)}
    for name, some in objects.items():
        assert all(isinstance(one, getattr(ecgfed, name)) for one in some), name


def test_reprs_are_one_short_line(objects: dict[str, list[object]]) -> None:
    for name, some in objects.items():
        for one in some:
            said = repr(one)
            assert said.isprintable(), (name, said)
            # the folder of a test is longer than anybody's
            path = getattr(one, "path", None)
            assert len(said.replace(str(path), "") if isinstance(path, Path) else said) < 200, (name, said)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (ecgfed.Scores((result(0),)), "Scores(test: T_g 0.500, T_p 0.800, T_r 0.250, T_l 0.381)"),
        (
            ecgfed.Scores((result(0), result(1))),
            "Scores(test of 2 seeds: T_g 0.600 ± 0.141, T_p 0.800 ± 0.000, T_r 0.250 ± 0.000, T_l 0.381 ± 0.000)",
        ),
        (
            ecgfed.Recording("r", Path("r"), "V1", ("MLII", "V1"), 250.0, np.zeros((2, 500)), ()),
            "Recording('r': lead V1 of MLII, V1; 2.0 s at 250 Hz)",
        ),
        (ecgfed.Annotation(np.array([1, 5, 9]), np.array(["N", "+", "V"])), "Annotation(3 marks, 2 of them beats)"),
        (ecgfed.LabelMap("two", ("N", "V"), {"N": "N", "V": "V"}), "LabelMap('two': 2 classes: N, V)"),
    ],
)
def test_reprs_say_what_matters(made: object, said: str) -> None:
    assert repr(made) == said


def test_a_run_whose_checkpoint_is_broken_can_be_looked_at(fedavg_run: Path, tmp_path: Path) -> None:
    assert repr(ecgfed.open_run(fedavg_run)) == f"Run('{fedavg_run}': fedavg, 2 of 2 rounds)"
    broken = copied(fedavg_run, tmp_path / "broken")
    (broken / "checkpoint" / "progress.json").write_text("{")
    assert repr(ecgfed.open_run(broken)) == f"Run('{broken}': fedavg, its checkpoint cannot be read)"


def test_scores_in_a_notebook() -> None:
    """Two seeds: T_g 0.5 and 0.7 have mean 0.6 and deviation sqrt(2 * 0.1^2 / 1); T_r in truth 0.30 and 0.32."""
    table = Table(ecgfed.Scores((result(0), result(1)))._repr_html_())
    assert table.rows == [
        ["macro-F1", "T_g", "T_p", "T_r", "T_l"],
        ["classes in truth or prediction", "0.600 ± 0.141", "0.800 ± 0.000", "0.250 ± 0.000", "0.381 ± 0.000"],
        ["classes in truth", "0.600 ± 0.000", "0.900 ± 0.000", "0.310 ± 0.014", "0.450 ± 0.000"],
    ]
    assert table.caption == "fedavg, test split, round 7"
    assert set(table.titles) == {"T_g", "T_p", "T_r", "T_l"}
    one = Table(ecgfed.Scores((result(0),))._repr_html_())
    assert one.rows[1][1:] == ["0.500", "0.800", "0.250", "0.381"]


def test_what_comes_from_a_file_stays_text_in_a_notebook() -> None:
    table = Table(ecgfed.Scores((result(0, method=HOSTILE),))._repr_html_())
    assert table.caption.startswith("<b>&")
    assert table.tags == {"table", "caption", "tr", "td", "th"}
    two = np.zeros(2, np.int64), np.ones((2, 1), np.float32), np.zeros(2, np.uint8)
    table = Table(ecgfed.Predictions(*two, (HOSTILE,))._repr_html_())
    assert table.rows == [["class", "beats"], [HOSTILE, "2"]]
    assert table.tags == {"table", "tr", "td", "th"}


def test_predictions_in_a_notebook(objects: dict[str, list[object]]) -> None:
    predicted = objects["Predictions"][0]
    assert isinstance(predicted, ecgfed.Predictions)
    names = list(predicted.names)
    counted = [[name, f"{names.count(name):,}"] for name in predicted.classes if name in names]
    assert Table(predicted._repr_html_()).rows == [["class", "beats"], *counted]


def rows_by_hand(name: str, one: Any, late: int) -> list[list[str]]:
    """What a notebook's table has to hold, below its head; ``late`` beats of p1, of N and V, come after 10 s."""
    if name == "Inspection":
        seconds = {lead: found.seconds() for lead, found in one.quality.items()}
        return [
            [
                lead,
                f"{found.usable_s:.1f} s",
                f"{100 * found.usable_s / one.recording.duration_s:.2f}%",
                ", ".join(f"{reason} {total:.1f} s" for reason, total in seconds[lead].items()),
            ]
            for lead, found in one.quality.items()
        ]
    if name == "Detections":
        return [[peaks.record, peaks.lead, str(len(peaks.sample))] for peaks in one.records]
    if name == "Conversion":
        return [
            [w.name, f"{w.gain:g}", f"{1000 / w.gain:g} µV", f"{w.max_error_mv * 1000:.3g} µV", f"{w.gaps:,}"]
            for w in one.leads
        ]
    counted = (("p1", f"{late:,}"), ("gross", f"{late:,}"), ("average", ""))
    return [[record, beats, *["100.00"] * 4, "-", "-"] for record, beats in counted]


@pytest.mark.parametrize("name", ["Inspection", "Detections", "Conversion", "Ec57Scores"])
def test_recordings_in_a_notebook(name: str, objects: dict[str, list[Any]]) -> None:
    late = int((objects["Annotation"][0].sample >= 10 * 360).sum())
    for one in objects[name]:
        shown = one._repr_html_()
        assert "<b>" not in shown
        table = Table(shown)
        assert table.tags <= {"table", "caption", "tr", "td", "th", "ul", "li"}
        assert table.rows[1:] == rows_by_hand(name, one, late)
        assert table.items == ([finding.text for finding in one.findings] if name == "Inspection" else [])


def test_to_dict_is_json(objects: dict[str, list[Any]]) -> None:
    with_one = {name for name, some in objects.items() if hasattr(some[0], "to_dict")}
    assert with_one == {
        *("Scores", "Predictions", "PersonalModel", "Inspection", "Detections", "Ec57Scores", "Conversion"),
        *("Batch", "RecordingReport", "RunReport", "Labelling", "LabelPersonalization", "EventRules"),
        *("Delineation", "WaveIntervals", "FolderReport", "LabelAgreement", "Sweep", "Reproduction"),
        "DeltaSummary",
    }
    for name in with_one:
        for one in objects[name]:
            told = one.to_dict()
            assert json.loads(json.dumps(told, allow_nan=False)) == told, name


def test_scores_of_a_real_run_are_json(fedavg_run: Path, tmp_path: Path) -> None:
    """Classes without a beat and patients of one class are in it."""
    scores = ecgfed.evaluate(fedavg_run, out=tmp_path / "scores")
    told = scores.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    stored = json.loads((tmp_path / "scores" / "scores.json").read_text())
    assert (stored.pop("schema_version"), len(stored.pop("run_identity"))) == (2, 64)
    assert stored == {**told, "run": fedavg_run.name}
    assert told["scores"]["T_g"] == scores.T_g
    several = ecgfed.Scores((told, told)).to_dict()
    assert json.loads(json.dumps(several, allow_nan=False)) == several
    assert several["scores"]["T_g"] == {"mean": pytest.approx(scores.T_g), "std": 0.0}


def test_a_manifest_from_a_stranger_is_printed_as_text(fedavg_run: Path) -> None:
    """One that signs what it changed comes this far; who changed it alone is refused (tests/device)."""
    opened = ecgfed.open_bundle(exported(fedavg_run))
    assert repr(replace(opened, manifest={**opened.manifest, "method": HOSTILE})).isprintable()


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_a_file_and_shows_itself(form: str, start: bytes, records: Path, tmp_path: Path) -> None:
    record = str(sorted(records.glob("*.hea"))[0].with_suffix(""))
    ecgfed.inspect_recording(record, picture=tmp_path / f"a.{form}", at=1)
    drawn = ecgfed.inspect_recording(record).draw(1, form=form)
    assert drawn == (tmp_path / f"a.{form}").read_bytes()
    assert drawn.startswith(start)
    assert repr(drawn) == f"Picture({form}, {len(drawn):,} bytes)"
    shown = {"png": drawn._repr_png_(), "svg": drawn._repr_svg_()}
    assert shown[form] == (drawn if form == "png" else drawn.decode())
    assert shown["svg" if form == "png" else "png"] is None


def test_a_runs_history_is_its_file_up_to_the_checkpoint(fedavg_run: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (fedavg_run / "history.jsonl").read_text().splitlines()]
    assert ecgfed.open_run(fedavg_run).history() == lines
    torn = copied(fedavg_run, tmp_path / "torn")
    with (torn / "history.jsonl").open("a") as file:
        file.write(json.dumps({**lines[-1], "round": lines[-1]["round"] + 1}) + "\n")
    assert ecgfed.open_run(torn).history() == lines, "a round that no checkpoint stands for"
    (torn / "history.jsonl").write_text("".join(json.dumps({**line, "loss_max": None}) + "\n" for line in lines))
    with pytest.raises(ecgfed.EcgfedError, match="loss_max"):
        ecgfed.open_run(torn).history()
