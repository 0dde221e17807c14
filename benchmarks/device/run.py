"""What a model costs on a device, in five forms: size, load, latency, throughput, a record from end to end, memory.

    python benchmarks/device/run.py --source MITDB --work DIR [--tflite FILE [--litert PYTHON]] [--quick]

The forms are ONNX in float and int8 (``onnxruntime``), the trained net in torch, plain and by ``torch.compile``, and a
TFLite file of the same patient (``--tflite``, or the bundle's own), run by ``ai-edge-litert`` with ``--litert``. Each
lives in a process of its own, so that load time and peak memory are its own, on one thread. They are timed in turns, in
an order drawn anew each turn, and compared with float ONNX of the same turn. A model is a patient's own: the record's.

It reads any run with its bundle (``--run RUN --bundle BUNDLE``, exported with ``--int8``); where none is named it
trains the 46 clients by record for ``--passes``. Every patient's int8 form is scored against the float one on test
beats. ``--quick`` trains synthetic patients and takes few turns: it shows that all runs, and no figure of it is worth
anything.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, benchmark, option, prepared, save, short, table, trained
from forms import agreed, by_patient, chain_bytes, logits_of, summary, test_rows

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.exports.device.bundle import Bundle

BATCH, PASSES = 256, 5.0
#: turns; calls a turn of one beat, and of 256
WHOLE, QUICK = (40, 100, 4), (2, 10, 2)
FORMS = ("onnx", "int8", "eager", "compile", "tflite")
NAMES = {
    "onnx": "ONNX Runtime, float",
    "int8": "ONNX Runtime, int8",
    "eager": "torch",
    "compile": "`torch.compile`",
    "tflite": "TensorFlow Lite, int8",
}
WORKER = Path(__file__).with_name("worker.py")


class Worker:
    """One form in a process that answers line by line.

    Args:
        form: a name of ``FORMS``.
        command: the interpreter and what the worker is given.
        log: where what else it says is written.
    """

    def __init__(self, form: str, command: list[str], log: Path) -> None:
        self.form, self.log = form, log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
            )
        self.about = self._answer()

    def ask(self, **asked: Any) -> dict[str, Any]:
        """Send a request and return the answer; raises OptionError where the process has died."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            last = self.log.read_text().strip().splitlines()[-1:]
            raise OptionError(f"the form {self.form}", f"has failed: {' '.join(last)}", "an answer", f"see {self.log}")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def model(given: argparse.Namespace) -> tuple[ecgfed.Run, Bundle]:
    """Return the run and its bundle: those that are named, or ones made in ``--work``."""
    if (given.run is None) != (given.bundle is None):
        raise OptionError("--run and --bundle", "one of them alone", "both or neither")
    if given.run is not None:
        run, bundle = ecgfed.open_run(given.run), ecgfed.open_bundle(given.bundle)
        if "int8" not in bundle.manifest:
            raise OptionError("--bundle", f"{given.bundle} has no int8 forms", "one of 'ecgfed export --int8'")
        return run, bundle
    if given.quick:
        options = {"verb": "prepare_demo", "patients": 3, "minutes": 2.0}
        cohort = prepared_demo(given.work, options)
        run = trained(cohort, given.work / "run", method="grp-fed", rounds=4, eval_every=0)
    else:
        run = trained(
            prepared(given.source, given.work, by="record"),
            given.work / "run",
            method="grp-fed",
            passes=given.passes or PASSES,
        )
    if not (given.work / "bundle").is_dir():
        ecgfed.export(run, given.work / "bundle", int8=True)
    return run, ecgfed.open_bundle(given.work / "bundle")


def prepared_demo(work: Path, options: dict[str, Any]) -> ecgfed.Cohort:
    """Return the synthetic cohort in ``work``, made where it is not there yet."""
    if not (work / "cohort").is_dir():
        work.mkdir(parents=True, exist_ok=True)
        return ecgfed.prepare_demo(work / "cohort", patients=options["patients"], minutes=options["minutes"])
    return ecgfed.open_cohort(work / "cohort")


def command_of(
    form: str, given: argparse.Namespace, run: ecgfed.Run, bundle: Bundle, patient: str, tflite: Path | None
) -> list[str]:
    """Return what starts a form of a patient's model: the interpreter, the worker and the model, without the beats."""
    interpreter = given.litert or sys.executable if form == "tflite" else sys.executable
    model = {
        "onnx": [bundle.path.resolve(), patient],
        "eager": [run.path.resolve(), patient],
        "tflite": [] if tflite is None else [tflite.resolve()],
    }
    model |= {"int8": model["onnx"], "compile": model["eager"]}
    return [str(word) for word in (interpreter, WORKER, form, *model[form])]


def workers(given: argparse.Namespace, run: ecgfed.Run, bundle: Bundle, patient: str, beats: Path) -> list[Worker]:
    """Start a process for each form that is asked for; TFLite's where there is a file."""
    started = []
    for form in FORMS:
        if form in given.forms and (form != "tflite" or given.tflite is not None):
            command = command_of(form, given, run, bundle, patient, given.tflite)
            started.append(Worker(form, [*command, str(beats.resolve())], given.work / f"{form}.log"))
    return started


def in_turns(
    forms: list[Worker], turns: int, ask: Callable[[Worker], list[float]], seed: int
) -> dict[str, list[list[float]]]:
    """Return the seconds of each form's calls, a list a turn; the first turn warms up and is left out."""
    order, found = random.Random(seed), {one.form: [] for one in forms}
    for turn in range(turns + 1):
        for one in order.sample(forms, len(forms)):
            seconds = ask(one)
            if turn:
                found[one.form].append(seconds)
    return found


def ratio(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Return how often faster than the others a form is: the median over turns of their medians' ratio."""
    return statistics.median(statistics.median(b) / statistics.median(a) for a, b in zip(ours, theirs, strict=True))


def timed(forms: list[Worker], given: argparse.Namespace, record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each form costs in time."""
    turns, single, many = QUICK if given.quick else WHOLE
    one = in_turns(forms, turns, lambda form: form.ask(calls=single, beats=1)["seconds"], 1)
    batch = in_turns(forms, turns, lambda form: form.ask(calls=many, beats=BATCH)["seconds"], 2)
    reading = [form for form in forms if form.form != "tflite"]  # its environment reads no recording
    whole = in_turns(reading, max(2, turns // 4), lambda form: [form.ask(**record)["seconds"]], 3)
    found: dict[str, dict[str, Any]] = {}
    for form in forms:
        name = form.form
        calls = np.concatenate(one[name])
        found[name] = {
            "ready_s": form.about["ready_s"],
            "p50_us": float(np.quantile(calls, 0.5) * 1e6),
            "p99_us": float(np.quantile(calls, 0.99) * 1e6),
            "beats_per_s": BATCH / statistics.median(np.concatenate(batch[name])),
            "record_s": statistics.median(np.concatenate(whole[name])) if name in whole else None,
            "speed_one": ratio(one[name], one["onnx"]) if "onnx" in one else None,
            "speed_batch": ratio(batch[name], batch["onnx"]) if "onnx" in batch else None,
            "peak_mb": form.ask(peak=True)["peak_mb"],
        }
    return found


def accuracy(forms: list[Worker], bundle: Bundle, cohort: ecgfed.Cohort, patient: str) -> dict[str, Any]:
    """Compare what every form says of the patient's test beats with float ONNX."""
    rows = test_rows(cohort, patient)
    base = logits_of(bundle, cohort, patient, rows, int8=False)
    found = {}
    for form in forms:
        found[form.form] = agreed(cohort.label[rows], base, np.array(form.ask(logits=True)["logits"], np.float32))
    return found


def of_all(given: argparse.Namespace, run: ecgfed.Run, bundle: Bundle, form: str) -> list[dict[str, Any]]:
    """Compare what the torch or the TFLite form of every patient's model says of its test beats with float ONNX.

    Raises:
        OptionError: a form's process has died.
    """
    cohort, found, beats = run.cohort(), [], given.work / "beats-of-one.npz"
    for patient in bundle.patients:
        rows, tflite = test_rows(cohort, patient), own_tflite(given, bundle, patient)
        if not len(rows) or (form == "tflite" and tflite is None):
            continue
        write_beats(beats, bundle, cohort, rows)
        command = command_of(form, given, run, bundle, patient, tflite)
        worker = Worker(form, [*command, str(beats.resolve())], given.work / "one.log")
        try:
            logits = np.array(worker.ask(logits=True)["logits"], np.float32)
        finally:
            worker.close()
        base = logits_of(bundle, cohort, patient, rows, int8=False)
        found.append({"client": patient, "accepted": True, **agreed(cohort.label[rows], base, logits)})
    return found


def write_beats(file: Path, bundle: Bundle, cohort: ecgfed.Cohort, rows: np.ndarray) -> None:
    """Write what a form's process reads: windows, RR features, and what TFLite leaves to whoever runs it."""
    rr = {"rr": cohort.rr[rows]} if bundle.rr_version else {}
    np.savez(file, window=np.take(cohort.beats, rows, axis=0), **rr, **in_front(bundle.rr_version))


def own_tflite(given: argparse.Namespace, bundle: Bundle, patient: str) -> Path | None:
    """Return the bundle's own TFLite file of a patient, if there is one and a python for it."""
    said = bundle.manifest["patients"].get(patient, {}).get("tflite") or {}
    return bundle.path / said["file"] if given.litert and said.get("file") else None


def in_front(rr_version: int) -> dict[str, Any]:
    """Return what a TFLite file leaves to whoever runs it: how windows and RR features are normalised."""
    from ecgfed.core.nets.layers import WINDOW_VARIANCE_FLOOR
    from ecgfed.core.nets.resnet1d import CONTEXT_SCALE, RR_CENTRE, RR_LIMIT, RR_SCALE

    front = {"variance_floor": np.float32(WINDOW_VARIANCE_FLOOR)}
    centre, scale, limit = (
        (RR_CENTRE, RR_SCALE, RR_LIMIT) if rr_version == 1 else (0.0, 1 / np.array(CONTEXT_SCALE), 1e9)
    )
    found = {"rr_centre": centre, "rr_scale": scale, "rr_limit": limit}
    return {**front, **{name: np.asarray(value, np.float32) for name, value in found.items()}}


def size_of(form: str, given: argparse.Namespace, bundle: Bundle, patient: str) -> int | None:
    """Return the bytes of what a form reads to answer for the patient; None of the torch forms, which read a run."""
    if form == "tflite":
        return int(given.tflite.stat().st_size)
    return chain_bytes(bundle, patient, int8=form == "int8") if form in ("onnx", "int8") else None


def main(given: argparse.Namespace) -> None:
    given.work.mkdir(parents=True, exist_ok=True)
    run, bundle = model(given)
    cohort = run.cohort()
    made_up = given.quick and given.run is None
    patient = bundle.patients[0] if made_up else given.record
    given.tflite = given.tflite or own_tflite(given, bundle, patient)
    if patient not in bundle.patients:
        raise OptionError(
            "--record", f"{patient!r} is no patient of the bundle", f"one of {', '.join(bundle.patients)}"
        )
    if not bundle.manifest["patients"][patient]["int8"]["accepted"]:
        given.forms = [form for form in given.forms if form != "int8"]
        print(f"no int8 form of {patient}: it {bundle.manifest['patients'][patient]['int8']['reason']}", flush=True)
    source = given.work / "cohort-records" if made_up else given.source
    if source is None:
        raise OptionError("--source", "is missing", f"the folder with record {patient}")
    rows, beats = test_rows(cohort, patient), given.work / "beats.npz"
    write_beats(beats, bundle, cohort, rows)
    record = {
        "record": str((source / patient).resolve()),
        "leads": list(bundle.leads),
        "rr_version": bundle.rr_version or 1,
    }
    forms = workers(given, run, bundle, patient, beats)
    try:
        same = accuracy(forms, bundle, cohort, patient)
        costs = timed(forms, given, record)
    finally:
        for form in forms:
            form.close()
    costed = {
        name: {"bytes": size_of(name, given, bundle, patient), **cost, "on_test_beats": same[name]}
        for name, cost in costs.items()
    }
    patients = by_patient(bundle, cohort)
    others = {form: of_all(given, run, bundle, form) for form in ("eager", "tflite") if form in costed}
    about = {"patient": patient, "rounds": run.plan.rounds}
    results = {**about, "quick": given.quick, "forms": costed, "int8": summary(patients), "patients": patients}
    results["others"] = others
    save(given, results)
    print(costs_table(costed), all_table(results), sep="\n\n")


def costs_table(forms: dict[str, dict[str, Any]]) -> str:
    """Return the README's table of what each form costs."""
    columns = ("form", "bytes", "ready (s)", "p50 (us)", "p99 (us)", "beats a second", "record (s)", "peak (MB)")
    columns += ("speed, single beats", f"speed, {BATCH} beats", "same labels")
    keys = ("ready_s", "p50_us", "p99_us", "beats_per_s", "record_s", "peak_mb", "speed_one", "speed_batch")
    rows = [
        (
            NAMES[name],
            "-" if row["bytes"] is None else f"{row['bytes']:,}",
            *("-" if row[key] is None else short(row[key]) for key in keys),
            percent(row["on_test_beats"]["agreement"]),
        )
        for name, row in forms.items()
    ]
    return "\n".join(table(columns, rows))


def all_table(results: dict[str, Any]) -> str:
    """Return the README's table of what each form that was accepted says of the test beats of all patients."""
    columns = ("form", "patients", "test beats", "T_p in float, in this form", "same labels", "least of one patient")
    forms, rows = {"int8": [row for row in results["patients"] if row["client"]], **results["others"]}, []
    for name, found in forms.items():
        if own := [row for row in found if row["accepted"]]:
            beats = sum(row["beats"] for row in own)
            same = sum(row["agreement"] * row["beats"] for row in own) / beats
            scores = [f"{statistics.fmean(row[key] for row in own):.3f}" for key in ("macro_f1_float", "macro_f1")]
            least, apart = min(row["agreement"] for row in own), max(row["max_logit_difference"] for row in own)
            shares = (percent(same), percent(least))
            rows.append((NAMES[name], len(own), f"{beats:,}", ", ".join(scores), *shares, f"{apart:.2g}"))
    return "\n".join(table((*columns, "largest logit difference"), rows))


def percent(share: float) -> str:
    """Return a share of 1 as ``99.97%``."""
    return f"{100 * share:.2f}%"


if __name__ == "__main__":
    benchmark(
        main,
        option("--run", type=Path, help="a run; default: one is trained in --work"),
        option("--bundle", type=Path, help="its bundle, exported with --int8"),
        option("--passes", type=float, help=f"of a run that is trained here; default {PASSES:g}"),
        option("--record", default="208", help="the patient and record that is timed"),
        option("--tflite", type=Path, help="the patient's model as a TFLite file"),
        option("--litert", type=Path, help="a python with ai-edge-litert; default this one"),
        option("--forms", nargs="+", choices=FORMS, default=list(FORMS)),
        option("--quick", action="store_true", help="synthetic patients, few turns: no figures"),
        required=False,
    )
