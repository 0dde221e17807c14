"""The C sources beside Python on every MIT-BIH record, and what they cost on a Cortex-M4.

``python benchmarks/mcu/run.py --source MITDB --run RUN --work DIR``

RUN is a run whose net takes RR features of version 1 or 4, or none. The global model's C sources read every record that
has its lead, and a patient's own sources the patient's record, beat by beat beside the int8 graphs of the same run's
bundle (and the float ones). Flash is what ``size`` says of the objects, stack is what was overwritten in QEMU,
instructions are QEMU's (``-icount``): not cycles, which depend on the chip's memory. Needs gcc, gcc-arm-none-eabi and
qemu-system-arm (``make mcu``); it starts them and the program they make.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

import ecgfed
from ecgfed.domain.beats.blocks import windows_around
from ecgfed.domain.record.reader import read_recording
from ecgfed.domain.signal.qrs import detect_qrs
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.predictions import Predictions
from ecgfed.tasks.export_mcu import McuExport, export_mcu

SOURCES = (
    *("ecgfed.c", "ecgfed_context.c", "ecgfed_counters.c", "ecgfed_signal.c"),
    *("ecgfed_early.c", "ecgfed_qrs.c", "ecgfed_qrs_net.c", "ecgfed_net.c", "ecgfed_rate.c"),
)
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
CORTEX_M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
TESTS = common.ROOT / "tests" / "mcu"
FS_HZ = 360.0
#: The limit of MIT-BIH's converter, mV: 2047 of 2048 steps of 1/200 mV about 1024.
RAIL_MV = 5.115
#: Instructions in a tick of the board's clock under -icount shift=0.
TICK = 40


def said_by(*command: object) -> str:
    """Run a program and return what it printed; raises CalledProcessError."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def lead_of(record: Path, leads: tuple[str, ...]) -> NDArray[np.float64] | None:
    """Return the lead in use of a record (samples,) mV, or None where it has none of them."""
    try:
        return np.asarray(read_recording(record, leads).signal_mv, np.float64)
    except ecgfed.EcgfedError:
        return None


def beats_in_c(folder: Path, signal_mv: NDArray[np.float64], work: Path) -> tuple[NDArray[np.float64], float]:
    """Return what the sources say, and CPU seconds.

    A row a beat: sample, label, probability, uncertain, far, padded, unclassified.
    """
    program, file = folder.parent / f"{folder.name}-driver", work / "signal.f32"
    if not program.exists():
        files = [TESTS / "driver.c", *(folder / name for name in SOURCES)]
        said_by("gcc", *STRICT, "-O2", f"-I{folder}", "-o", program, *files, "-lm")
    signal_mv.astype(np.float32).tofile(file)
    before = os.times().children_user
    *lines, _, _ = said_by(program, file, 360, 0, 0, RAIL_MV).splitlines()
    elapsed = os.times().children_user - before
    return np.array([line.split() for line in lines], np.float64).reshape(len(lines), 7), elapsed


def compared(bundle: Bundle, patient: str | None, folder: Path, record: Path, work: Path) -> dict[str, Any] | None:
    """Compare a model's C sources with its graphs on one record; None where the lead is missing."""
    signal_mv = lead_of(record, tuple(bundle.manifest["leads"]))
    if signal_mv is None:
        return None
    found, elapsed = beats_in_c(folder, signal_mv, work)
    peaks = detect_qrs(signal_mv, FS_HZ)
    same = found[:, 0].astype(np.int64).tolist() == peaks.tolist()
    result: dict[str, Any] = {"record": record.name, "model": patient or "global", "beats": len(peaks)}
    result |= {"same_peaks": same, "cpu_s_in_c": round(elapsed, 3)}
    if same:
        windows = windows_around(signal_mv, FS_HZ, peaks, rr_version=bundle.rr_version or 1)
        int8 = bundle.classifier(patient, int8=True).classify(windows)
        float32 = bundle.classifier(patient).classify(windows)
        label = found[:, 1].astype(np.int64)
        result |= {
            "other_labels": int((label != _labels(int8)).sum()),
            "other_labels_than_float": int((label != _labels(float32)).sum()),
            "other_uncertain": int(((found[:, 3] != 0) != int8.low_confidence).sum()),
            "largest_difference": float(np.abs(found[:, 2] - int8.probability.max(1))[int8.classified].max(initial=0)),
        }
    return result


def _labels(predictions: Predictions) -> NDArray[np.int64]:
    """Return class numbers (beats,); one past the last class for a beat without class, as in C."""
    return np.where(predictions.classified, predictions.label, len(predictions.classes))


def on_a_cortex_m4(folder: Path, optimise: str, work: Path) -> dict[str, Any]:
    """Compile for a Cortex-M4, and run the self-test in QEMU."""
    sizes = {}
    for name in SOURCES:
        said_by("arm-none-eabi-gcc", *STRICT, *CORTEX_M4, optimise, "-c", "-o", work / "one.o", folder / name)
        text, data, bss = map(int, said_by("arm-none-eabi-size", work / "one.o").splitlines()[1].split()[:3])
        sizes[name] = {"flash": text + data, "ram": data + bss}
    board, elf = TESTS / "qemu", work / "golden.elf"
    files = [board / "main.c", board / "board.c", *(folder / name for name in (*SOURCES, "ecgfed_golden.c"))]
    link = ["-nostartfiles", f"-T{board / 'link.ld'}", f"-I{folder}", f"-I{board}", "-ffunction-sections"]
    compiler = ["arm-none-eabi-gcc", *STRICT, *CORTEX_M4, optimise]
    said_by(*compiler, *link, "-Wl,--gc-sections", "-o", elf, *files, "-lm", "-lc", "-lgcc")
    machine = ["-M", "mps2-an386", "-icount", "shift=0", "-nographic"]
    hosting = ["-semihosting-config", "enable=on,target=native"]
    lines = said_by("qemu-system-arm", *machine, *hosting, "-kernel", elf).splitlines()
    said = {name: int(value) for name, value in (line.split() for line in lines)}
    instructions = {name.removesuffix("_ticks"): said[name] * TICK for name in said if name.endswith("_ticks")}
    return {
        "flash": sizes,
        "flash_total": sum(one["flash"] for one in sizes.values()),
        "state": said["state"],
        "stack": said["stack"],
        "golden_beats_that_differ": said["wrong"],
        "instructions": instructions,
    }


def sources_of(run: Path, patient: str | None, work: Path) -> tuple[McuExport, Path]:
    """Export a model's sources anew."""
    folder = work / f"c-{patient or 'global'}"
    made = export_mcu(run, folder, patient=patient, overwrite=True)
    (work / f"c-{patient or 'global'}-driver").unlink(missing_ok=True)
    return made, folder


def totals(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up the records of some models."""
    names = ("beats", "other_labels", "other_labels_than_float", "other_uncertain")
    found: dict[str, Any] = {name: sum(row[name] for row in rows if row["same_peaks"]) for name in names}
    found |= {"records": len(rows), "records_with_other_peaks": sum(not row["same_peaks"] for row in rows)}
    found["largest_difference"] = max(row.get("largest_difference", 0.0) for row in rows)
    found["median_cpu_s_in_c"] = float(np.median([row["cpu_s_in_c"] for row in rows]))
    return found


def main(given: argparse.Namespace) -> None:
    """Export, compare, measure and save."""
    given.work.mkdir(parents=True, exist_ok=True)
    kept = given.work / "bundle"
    bundle = ecgfed.open_bundle(kept) if kept.exists() else ecgfed.export(given.run, kept, int8=True)
    sources, folder = sources_of(given.run, None, given.work)
    records = sorted(path.with_suffix("") for path in given.source.glob("[12][0-9][0-9].hea"))
    rows = [row for one in records if (row := compared(bundle, None, folder, one, given.work))]
    own, refused = [], {}
    for patient in [one for one in given.patients.split(",") if one]:
        try:
            _, place = sources_of(given.run, patient, given.work)
        except ecgfed.EcgfedError as problem:
            refused[patient] = str(problem)
            continue
        own += [row for row in [compared(bundle, patient, place, given.source / patient, given.work)] if row]
    compiler = said_by("arm-none-eabi-gcc", "--version").splitlines()[0]
    board = {optimise: on_a_cortex_m4(folder, optimise, given.work) for optimise in ("-Os", "-O2")}
    results = {
        "compiler": compiler,
        "emulator": said_by("qemu-system-arm", "--version").splitlines()[0],
        "multiplications_a_beat": sources.model.multiplications,
        "cortex_m4": board,
        "global": totals(rows),
        "own": totals(own) if own else None,
        "refused": refused,
        "rows": [*rows, *own],
    }
    common.save(given, results)
    common.print_table(
        ("model", "records", "other peaks", "beats", "other labels"),
        [
            (name, one["records"], one["records_with_other_peaks"], one["beats"], one["other_labels"])
            for name, one in (("global", totals(rows)), *((("own", totals(own)),) if own else ()))
        ],
    )


if __name__ == "__main__":
    common.benchmark(
        main,
        common.option("--run", type=Path, required=True, help="a run with RR features of version 1 or 4, or none"),
        common.option("--patients", default="208,119,207,232", help="patients whose own models are compared too"),
    )
