"""``ecgfed report``: the page, what it counts, and what it refuses."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import synthetic_signal, write_record
from record_files import write_212, write_signals
from support import Command, assert_full_disk, assert_refused, exported, run_limited, snapshot

from ecgfed.tasks import pdf
from ecgfed.testing.ecg import synthetic_ecg

FS = 360


def page_data(page: Path) -> dict[str, Any]:
    """What the page's scripts read."""
    (text,) = re.findall(r'<script type="application/json" id="page-data">(.*?)</script>', page.read_text())
    data: dict[str, Any] = json.loads(text)
    return data


def reported(ecgfed: Command, *arguments: object) -> dict[str, Any]:
    said = ecgfed("report", *arguments, "--json")
    assert said.code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer


@pytest.fixture(scope="module")
def ectopic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two minutes at 75/min with a run of 4 V, a couplet, bigeminy, and 3 s of a flat line."""
    folder = tmp_path_factory.mktemp("ectopic")
    symbols = "N" * 30 + "VVVV" + "N" * 20 + "VV" + "N" * 10 + "NVNVNVNV" + "N" * 66
    signal, at = synthetic_signal(symbols, seed=3)
    signals = np.stack([signal, 0.6 * signal], axis=1)
    start = int(at[100]) + 60  # between two beats
    signals[start : start + 3 * FS, 0] = 0.1
    write_signals(folder, "rec", signals.T, fs_hz=FS, leads=("MLII", "V1"), adc_gain=200.0)
    keep = (at < start) | (at > start + 3 * FS)
    wfdb.wrann("rec", "atr", at[keep], list(np.array(list(symbols))[keep]), write_dir=str(folder))
    return folder / "rec"


def test_a_files_labels_are_counted_by_the_rules(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    told = reported(ecgfed, ectopic, "--labels", ectopic.with_suffix(".atr"), "--out", out)
    found = told["ventricular"]
    assert found["total"] == 10
    assert ([one["beats"] for one in found["runs"]], len(found["couplets"])) == ([4], 1)
    assert [one["beats"] for one in found["bigeminy"]] == [4]
    assert found["singles"] == 0
    assert found["percent"] == pytest.approx(100 * 10 / told["counted"])
    assert told["supraventricular"]["total"] == 0  # looked for by who labelled it
    assert told["pauses"]["found"] == []  # 3 s without a beat, but of no signal
    assert told["pauses"]["not_assessed"] == 1
    assert told["rates"]["mean"] == pytest.approx(75, abs=2)
    assert told["labelled_by"] == "the file rec.atr"
    assert told["files"] == [str(out)]
    assert told["rules"]["pause_s"] == 3.0
    data = page_data(out)
    assert data["codes"][:1] == ["N"]
    assert sum(map(sum, data["timeline"]["counts"])) == told["counted"]
    titles = [entry["options"].get("name", "") for entry in data["strips"]]
    assert titles[0].startswith("Longest ventricular run")
    assert any(title.startswith("Longest ventricular bigeminy") for title in titles)
    text = out.read_text()
    assert "Research use only, not for diagnosis" in text
    body = re.sub(r"<script.*?</script>", "", text.split("</style>")[1], flags=re.DOTALL)
    assert body.count("not for diagnosis") == 1  # and at the foot of each printed sheet
    assert "No model was used" in text
    assert "flat 3.0 s" in text or "flat 2.9 s" in text
    # at another rule the same beats are another count
    other = reported(
        ecgfed, ectopic, "--labels", ectopic.with_suffix(".atr"), "--out", tmp_path / "b.html", "--rule", "run_beats=5"
    )
    assert (other["ventricular"]["runs"], len(other["ventricular"]["short"])) == ([], 1)
    assert "5 of a kind in a row or more" in (tmp_path / "b.html").read_text()


def test_a_strip_holds_the_bands_own_samples(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    """The page's microvolts against the band-pass of the whole lead, computed here."""
    import base64

    from ecgfed.domain.signal.filters import band_pass

    out = tmp_path / "page.html"
    reported(ecgfed, ectopic, "--labels", ectopic.with_suffix(".atr"), "--out", out)
    record = wfdb.rdrecord(str(ectopic)).p_signal
    data = page_data(out)
    for strip in (data["strips"][0]["strip"], data["timeline"]["strips"][5]):
        first = round(strip["start_s"] * FS)
        for row, lead in enumerate(strip["leads"]):
            shown = np.frombuffer(base64.b64decode(lead["samples"]["int16"]), "<i2") / lead["samples"]["per_unit"]
            whole = band_pass(record[:, row], FS)[first : first + 10 * FS]
            np.testing.assert_allclose(shown, whole, atol=0.00051)
        beats = wfdb.rdann(str(ectopic), "atr").sample
        inside = beats[(beats >= first) & (beats < first + 10 * FS)] - first
        assert [beat[0] for beat in strip["beats"]] == inside.tolist()


def test_a_models_labels_and_what_it_is(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    bundle, out = exported(fedavg_run), tmp_path / "page.html"
    told = reported(ecgfed, records / "p1", "--bundle", bundle, "--out", out)
    assert told["labelled_by"] == "the global model"
    predicted = ecgfed("predict", bundle, records / "p1", "--out", tmp_path / "p", "--json")
    counts = json.loads(predicted.out)["counts"]
    assert told["beats"] == sum(counts.values())
    assert told["by_class"] == counts  # no stretch of it is unusable
    text = out.read_text()
    assert "provisional" in text
    assert "fedavg" in text
    assert "not scored: it is not a personal model" in text
    first = out.read_bytes()
    assert_refused(ecgfed("report", records / "p1", "--bundle", bundle, "--out", out), "--out", "page.html")
    reported(ecgfed, records / "p1", "--bundle", bundle, "--out", out, "--overwrite")
    assert out.read_bytes() == first  # the same record, the same bytes


def test_a_patients_own_model_beside_the_global_one(
    ecgfed: Command, local_run: Path, records: Path, tmp_path: Path
) -> None:
    bundle, out = exported(local_run), tmp_path / "page.html"
    told = reported(ecgfed, records / "p1", "--bundle", bundle, "--patient", "p1", "--out", out)
    assert told["labelled_by"] == "the model of patient p1"
    text = out.read_text()
    assert "The model of patient p1 beside the global model" in text
    own, other = (
        json.loads(ecgfed("predict", bundle, records / "p1", *patient, "--out", tmp_path / name, "--json").out)["beats"]
        for name, patient in (("a", ("--patient", "p1")), ("b", ()))
    )
    assert own == other == told["beats"]
    names = [
        [beat["symbol"] for beat in json.loads((tmp_path / name / "p1.json").read_text())["beats"]] for name in "ab"
    ]
    apart = sum(one != two for one, two in zip(*names, strict=True))
    assert f"Of {told['counted']:,} beats, the model of patient p1 and the global model call {apart:,} " in text or (
        f"call {apart:,} (" in text
    )


def test_labels_and_a_model_are_compared(ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    told = reported(
        ecgfed, records / "p1", "--bundle", exported(fedavg_run), "--labels", records / "p1.atr", "--out", out
    )
    assert told["by_class"]["V"] == 12
    assert "The file p1.atr beside the global model" in out.read_text()


def test_predictions_can_be_read_back_as_labels(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path
) -> None:
    assert ecgfed("predict", exported(fedavg_run), records / "p1", "--out", tmp_path, "--quiet").code == 0
    one, two = (
        reported(ecgfed, records / "p1", "--labels", tmp_path / f"p1.{end}", "--out", tmp_path / f"{end}.html")
        for end in ("csv", "ecgfed")
    )
    assert one["by_class"] == two["by_class"]


def test_what_it_prints(ecgfed: Command, ectopic: Path, tmp_path: Path) -> None:
    labels = ("--labels", ectopic.with_suffix(".atr"))
    said = ecgfed("report", ectopic, *labels, "--out", tmp_path / "a.html")
    assert (said.code, said.err) == (0, "")
    assert "not for diagnosis" in said.out
    assert "1 run" in said.out
    assert "a.html" in said.out
    quiet = ecgfed("report", ectopic, *labels, "--out", tmp_path / "b.html", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_doubts_are_shown_where_predictions_carry_them(
    ecgfed: Command, fedavg_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third beat uncertain, and a warning: marked on strips, counted by class, said on top."""
    from ecgfed.tasks import report
    from ecgfed.tasks.training_warnings import ModelWarning

    def doubtful(*given: Any, **how: Any) -> Any:
        found = predict(*given, **how)
        said = (ModelWarning("far-beats", "Some beats are <far> from those it learned from."),)
        return replace(found, warnings=said, low_confidence=np.arange(len(found)) % 3 == 0)

    predict = report.predict
    monkeypatch.setattr(report, "predict", doubtful)
    out = tmp_path / "page.html"
    record = write_record(tmp_path, "long", "NNNNV" * 20)
    told = reported(ecgfed, record, "--bundle", exported(fedavg_run), "--out", out)
    assert {"code": "far-beats", "text": "Some beats are <far> from those it learned from."} in told["notes"]
    text = out.read_text()
    assert "Some beats are &lt;far&gt; from those it learned from." in text
    assert '<th scope="col">Low confidence</th>' in text
    strips = page_data(out)["timeline"]["strips"]
    flags = [beat[2] for strip in strips[:-1] for beat in strip["beats"]]  # columns of 10 s, each shown whole
    assert flags == [int(number % 3 == 0) for number in range(len(flags))]
    assert len(flags) > 40


def test_certain_runs_come_first_and_doubtful_ones_are_marked(
    ecgfed: Command, fedavg_run: Path, records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of V, the second of low confidence; six S, all of low confidence: withheld, in no headline."""
    from ecgfed.tasks import report

    def relabelled(*given: Any, **how: Any) -> Any:
        found = predict(*given, **how)
        number = {name: at for at, name in enumerate(found.classes)}
        label = np.full(len(found), number["N"])
        label[[10, 11, 12, 20, 21, 22]], label[30:42:2] = number["V"], number["A"]
        low = np.isin(np.arange(len(found)), [20, 21, 22, *range(30, 42, 2)])
        probability = np.full((len(found), len(found.classes)), 0.01, np.float32)
        probability[np.arange(len(found)), label] = np.where(low, 0.5, 0.99)
        return replace(
            found,
            label=label,
            probability=probability,
            low_confidence=low,
            out_of_distribution=np.zeros(len(found), np.bool_),
        )

    predict = report.predict
    monkeypatch.setattr(report, "predict", relabelled)
    out = tmp_path / "page.html"
    told = reported(ecgfed, records / "p1", "--bundle", exported(fedavg_run), "--out", out)
    ventricular = told["ventricular"]
    assert [(run["beats"], run["review"], run["bridged"]) for run in ventricular["runs"]] == [
        (3, False, 0),
        (3, True, 0),
    ]
    assert (ventricular["certain_runs"], ventricular["runs_to_review"]) == (1, 1)
    assert told["supraventricular"] is None
    assert (told["to_review"]["supraventricular"]["total"], list(told["withheld"])) == (6, ["supraventricular"])
    assert [hour["supra"] for hour in told["hours"]] == [None]
    assert [hour["ventricular"] for hour in told["hours"]] == [6]
    text = out.read_text()
    assert "1 run, 1 more to review" in text
    assert "Withheld. About 6, 6 of them of low confidence" in text
    said = ecgfed("report", records / "p1", "--bundle", exported(fedavg_run), "--out", tmp_path / "b.html")
    assert "1 run, 1 more to review" in " ".join(said.out.split())


def test_rhythms_that_a_file_marks_are_in_the_json(ecgfed: Command, tmp_path: Path) -> None:
    """Sinus rhythm to 20 s, atrial fibrillation to 30 s, then paced to the end of the 40 s or so."""
    signal, at = synthetic_signal("N" * 50)
    wfdb.wrsamp(
        "r", fs=FS, units=["mV"], sig_name=["MLII"], p_signal=signal[:, None], fmt=["16"], write_dir=str(tmp_path)
    )
    marks = sorted(
        [*((int(sample), "N", "") for sample in at), (0, "+", "(N"), (20 * FS, "+", "(AFIB"), (30 * FS, "+", "(P")]
    )
    samples, symbols, notes = zip(*marks, strict=True)
    wfdb.wrann("r", "atr", np.array(samples), list(symbols), aux_note=list(notes), write_dir=str(tmp_path))
    told = reported(ecgfed, tmp_path / "r", "--labels", tmp_path / "r.atr", "--out", tmp_path / "page.html")
    rhythms = {one["rhythm"]: one for one in told["rhythms"]}
    end = len(signal) / FS
    assert rhythms["AF"] == {"rhythm": "AF", "seconds": 10.0, "episodes": [[20.0, 30.0]], "source": "labels"}
    assert rhythms["sinus rhythm"]["episodes"] == [[0.0, 20.0]]
    assert rhythms["paced"]["seconds"] == pytest.approx(end - 30, abs=0.001)
    assert told["withheld"] == {}


@pytest.mark.parametrize(("share", "place"), [(0.4, "notes"), (0.6, "warnings")])
def test_low_confidence_of_most_beats_is_a_warning(
    ecgfed: Command,
    fedavg_run: Path,
    records: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    place: str,
) -> None:
    """Of fewer it is a note: counts that rest on such beats are marked themselves."""
    from ecgfed.tasks import report
    from ecgfed.tasks.training_warnings import ModelWarning

    def doubtful(*given: Any, **how: Any) -> Any:
        found = predict(*given, **how)
        low = np.arange(len(found)) < share * len(found)
        said = (ModelWarning("uncertain-beats", "Many beats are uncertain."), ModelWarning("resampled", "Resampled."))
        return replace(found, warnings=said, low_confidence=low)

    predict = report.predict
    monkeypatch.setattr(report, "predict", doubtful)
    told = reported(ecgfed, records / "p1", "--bundle", exported(fedavg_run), "--out", tmp_path / "page.html")
    where = {name: {one["code"] for one in told[name]} for name in ("warnings", "notes")}
    assert "uncertain-beats" in where[place]
    assert "uncertain-beats" not in where["notes" if place == "warnings" else "warnings"]
    assert "resampled" in where["notes"]


@pytest.mark.parametrize("what", ["flat", "gap"])
def test_a_record_without_a_beat_has_a_report(ecgfed: Command, fedavg_run: Path, tmp_path: Path, what: str) -> None:
    value = 1024 if what == "flat" else -2048
    still = write_212(tmp_path, "still", [[value] * 7200, [value] * 7200])
    out = tmp_path / "page.html"
    told = reported(ecgfed, still, "--bundle", exported(fedavg_run), "--lead", "#1", "--out", out)
    assert told["beats"] == 0
    assert "no-beats" in {one["code"] for one in told["warnings"]}
    assert (told["rates"]["mean"], told["pauses"]["longest"], told["variability"]["sdnn_ms"]) == (None, None, None)
    assert (told["ventricular"], told["supraventricular"]) == (None, None)
    text = out.read_text()
    assert "No beat was found" in text
    assert text.count("not assessed") > 5


def test_noise_has_a_report(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 0.2, (60 * FS, 1))
    np.save(tmp_path / "noise.npy", noise)
    told = reported(
        ecgfed,
        tmp_path / "noise.npy",
        *("--fs", FS, "--units", "mV", "--columns", "MLII"),
        *("--bundle", exported(fedavg_run), "--out", tmp_path / "page.html"),
    )
    assert told["counted"] == 0  # whatever the detector found, all of it lies in what cannot be used
    (lost,) = (one["text"] for one in told["warnings"] if one["code"] == "left-out")
    assert "Nothing of MLII can be used (noise)" in lost
    assert (told["ventricular"], told["supraventricular"]) == (None, None)


def test_hostile_names_are_text(ecgfed: Command, tmp_path: Path) -> None:
    """Lead names and notes that would be markup, or would end a script."""
    name = "</script><img src=x onerror=alert(1)>"
    signal, at = synthetic_signal("N" * 40)
    np.savetxt(tmp_path / "r.csv", signal, fmt="%.3f", header=f'"{name}"', comments="", delimiter=",")
    rows = [f"{sample},N," for sample in at.tolist()] + [f"{at[3]},+,(<b>bold"]
    (tmp_path / "l.csv").write_text("\n".join(["sample,symbol,note", *rows]) + "\n")
    out = tmp_path / "page.html"
    said = ecgfed(
        "report", tmp_path / "r.csv", "--labels", tmp_path / "l.csv", "--fs", FS, "--units", "mV", "--out", out
    )
    assert said.code == 0, said.err
    text = out.read_text()
    assert "<img" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;bold" in text
    assert page_data(out)["leads"] == [name]
    assert text.count("</script>") == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--out", "page.txt"), ("--out", "ends in .html")),
        (("--out", "none/deep/page.html"), ()),
        (("--labels", "none.atr"), ("none.atr",)),
        (("--rule", "pause=3"), ("--rule", "pause_s")),
        (("--rule", "pause_s=0"), ("--rule pause_s", "1 to 60")),
        (("--lead", "V9"), ("no lead V9",)),
        (("--patient", "p1"), ("--patient", "--bundle")),
    ],
)
def test_what_it_refuses(
    ecgfed: Command,
    ectopic: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = {"--out": "page.html", "--labels": str(ectopic.with_suffix(".atr"))} | {more[0]: more[1]}
    said = ecgfed("report", ectopic, *[part for pair in usual.items() for part in pair])
    if not words:  # a folder that is not there is made, as everywhere
        assert said.code == 0, said.err
        return
    assert_refused(said, *words)
    assert list(tmp_path.iterdir()) == []


def test_what_it_cannot_do_is_said(
    ecgfed: Command, ectopic: Path, local_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "page.html"
    assert_refused(ecgfed("report", ectopic, "--patient", "p1", "--out", out), "--patient", "--bundle")
    bundle = exported(local_run)
    assert_refused(ecgfed("report", ectopic, "--bundle", bundle, "--patient", "p9", "--out", out), "no patient 'p9'")
    monkeypatch.setattr(pdf.shutil, "which", lambda name: None)
    labels = ("--labels", ectopic.with_suffix(".atr"))
    assert_refused(ecgfed("report", ectopic, *labels, "--pdf", "--out", out), "--pdf", "chromium")
    marks = tmp_path / "empty.csv"
    marks.write_text("sample,symbol\n")
    assert_refused(ecgfed("report", ectopic, "--labels", marks, "--out", out), "empty.csv", "marks no beat")
    marks.unlink()
    assert list(tmp_path.iterdir()) == []


def test_the_recording_is_never_written_over(ecgfed: Command, tmp_path: Path) -> None:
    record = write_record(tmp_path, "r", "N" * 20)
    before = snapshot(tmp_path)
    (tmp_path / "page.html").mkdir()
    said = ecgfed(
        "report", record, "--labels", record.with_suffix(".atr"), "--out", tmp_path / "page.html", "--overwrite"
    )
    assert_refused(said, "--out", "is a folder")
    (tmp_path / "page.html").rmdir()
    assert snapshot(tmp_path) == before


def test_a_full_disk_leaves_nothing(ectopic: Path, tmp_path: Path) -> None:
    labels = ("--labels", ectopic.with_suffix(".atr"))
    assert_full_disk(run_limited(3000, "report", ectopic, *labels, "--out", tmp_path / "p.html"), "p.html")
    assert list(tmp_path.iterdir()) == []


def test_what_predict_warns_of_the_report_says(ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    other = write_record(tmp_path, "other", "N" * 30, leads=("V5", "V2"), comments=["The rhythm is paced."])
    said = ecgfed("report", other, "--bundle", exported(fedavg_run), "--lead", "V5", "--out", tmp_path / "p.html")
    assert said.code == 0
    text = (tmp_path / "p.html").read_text()
    for words in ("Lead V5 is not MLII, which the model was trained on", "aced"):
        assert words in said.out.replace("\n", " ")
        assert words in text


def test_where_nobody_marked_a_beat_nothing_is_counted(ecgfed: Command, tmp_path: Path) -> None:
    """Ventricular flutter, from ``[`` to ``]``: no pause, no rate, no run goes across it."""
    signal, at = synthetic_signal("N" * 60)
    np.savetxt(tmp_path / "r.csv", signal, fmt="%.3f", header="MLII", comments="")
    keep = [sample for number, sample in enumerate(at.tolist()) if not 20 <= number < 30]
    rows = [f"{sample},N" for sample in keep] + [f"{at[20]},[", f"{at[29]},]"]
    (tmp_path / "l.csv").write_text("\n".join(["sample,symbol", *rows]) + "\n")
    told = reported(
        ecgfed,
        *(tmp_path / "r.csv", "--labels", tmp_path / "l.csv", "--fs", FS, "--units", "mV"),
        *("--out", tmp_path / "page.html"),
    )
    assert told["pauses"]["found"] == []
    assert told["pauses"]["not_assessed"] == 1
    assert told["counted"] == 50
    assert {one["code"] for one in told["warnings"]} == {"unmarked", "left-out"}
    assert not told["rates"]["lowest"]["confirmed"]  # a sixth of the time is not known


@pytest.mark.mitdb
@pytest.mark.parametrize(("name", "moving"), [("208", True), ("232", False)])
def test_the_other_lead_tells_a_pause_from_a_lead_that_fell_off(
    ecgfed: Command, mitdb: Path, tmp_path: Path, name: str, moving: bool
) -> None:
    """In 208 MLII falls off at 21:10 and V1 shows the beats; the pauses of 232 are pauses."""
    out = tmp_path / "page.html"
    beats = ecgfed("detect", mitdb / name, "--out", tmp_path, "--quiet")
    assert beats.code == 0, beats.err
    reported(ecgfed, mitdb / name, "--labels", tmp_path / f"{name}.qrs", "--out", out)
    assert ("in V1 the signal moves meanwhile as in a beat" in out.read_text()) is moving


@pytest.mark.mitdb
def test_reference_labels_of_a_real_record(ecgfed: Command, mitdb: Path, tmp_path: Path) -> None:
    """208: 992 V, 2 V in a row at 164 places and so on, counted here from the annotation by another way."""
    told = reported(ecgfed, mitdb / "208", "--labels", mitdb / "208.atr", "--out", tmp_path / "208.html")
    assert told["beats"] == 2955
    assert 2900 < told["counted"] < 2955  # some lie where MLII fell off: both numbers are said, at the top too
    assert f"{told['counted']:,} counted of 2,955 found" in (tmp_path / "208.html").read_text()
    assert 980 <= told["ventricular"]["total"] <= 992
    letters = "".join("V" if one in "VE" else "A" if one in "AaJS" else "N" for one in beat_symbols(mitdb / "208"))
    couplets = len(re.findall(r"(?<!V)VV(?!V)", letters))
    runs = [len(one) for one in re.findall(r"V{3,}", letters)]
    assert abs(len(told["ventricular"]["couplets"]) - couplets) <= 3  # a few lie in unusable stretches
    assert abs(len(told["ventricular"]["runs"]) - len(runs)) <= 1


def beat_symbols(record: Path) -> list[str]:
    marks = wfdb.rdann(str(record), "atr")
    return [one for one in marks.symbol if one in "NLRBAaJSVrFejnE/fQ?"]


@pytest.mark.parametrize("kind", ["short", "noise", "long"])
def test_no_rhythm_is_said_to_be_absent_that_was_not_looked_for(kind: str, ecgfed: Command, tmp_path: Path) -> None:
    signal = synthetic_ecg(FS, 4.2 if kind == "short" else 60.0).signals_mv[0]
    if kind == "noise":
        signal = 0.3 * np.random.default_rng(0).standard_normal(60 * FS)
    write_signals(tmp_path, "rec", signal[None], fs_hz=FS)
    out = tmp_path / "page.html"
    reported(ecgfed, tmp_path / "rec", "--out", out)
    text = re.sub(r"<script.*?</script>", "", out.read_text(), flags=re.DOTALL)
    absent = re.findall(r"no atrial fibrillation or flutter[^<;]* detected[^<;]*", text)
    assert ["bradycardia" in one for one in absent] == ([True] if kind == "long" else [])
    if kind == "short":
        assert "not assessed" in re.findall(r"<dt>Rhythm</dt><dd>([^<]*)", text)[0]


def test_the_terminal_says_which_rhythms_were_found(ecgfed: Command, tmp_path: Path) -> None:
    signal, _ = synthetic_signal("N" * 60, seed=3)
    stop = 0.005 * np.random.default_rng(0).standard_normal(12 * FS)
    write_signals(tmp_path, "rec", np.concatenate([signal, stop, signal])[None], fs_hz=FS)
    said = ecgfed("report", tmp_path / "rec", "--out", tmp_path / "page.html")
    assert re.search(r"rhythm +no beats \d+", said.out + said.err)
