"""From recordings to a patient's report and ONNX files, on synthetic patients (what ``make demo`` runs).

    python examples/demo.py [--out demo]

Eleven patients train one model; the twelfth, who is new to it, gets a personal model from twenty labels. Nothing is
downloaded and no recording is real: the demo shows that the software runs, never that a method is good. It may be run
again: each step replaces its own output and nothing else.
"""

import argparse
import csv
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ecgfed

ECGFED = str(Path(sys.executable).with_name("ecgfed"))
#: The new patient: right bundle branch block, in a shape that the other patients do not have.
PATIENT = "demo04"
LABELS = 20
#: A beat of ours and an annotated one are the same within this time (ANSI/AAMI EC57).
MATCH_S = 0.15
STEPS = 8


class Demo:
    """The steps, and the files they write below one folder."""

    def __init__(self, out: Path) -> None:
        self.cohort, self.records, self.training, self.bundle = (
            out / name for name in ("cohort", "records", "run", "bundle")
        )
        self.labels, self.personal = out / "labels", out / "personal-bundle"
        self.by_global, self.by_personal = out / "predictions-global", out / "predictions-personal"
        self.report = out / f"{PATIENT}-report.html"
        self.record = self.records / PATIENT
        self.answers: dict[int, str] = {}
        self.step = 0

    def main(self) -> None:
        """Run every step; SystemExit with a command's exit code where it fails."""
        self.command("Recordings of twelve synthetic patients; one is not for training",
                     "prepare", "demo", "--records", self.records, "--holdout", PATIENT, out=self.cohort)  # fmt: skip
        self.command("Train one model on the other eleven: a short training", "train", self.cohort, "--passes", "5",
                     out=self.training)  # fmt: skip
        self.command("Export it as ONNX, with each patient's personal model", "export", self.training, out=self.bundle)
        self.answer_labels()
        self.command("Make the new patient's personal model from the labels", "personalize", self.record, "--labels",
                     self.labels / f"{PATIENT}-labels.csv", "--bundle", self.bundle, out=self.personal)  # fmt: skip
        self.command("Label every beat with the model for everybody", "predict", self.bundle, self.record,
                     out=self.by_global)  # fmt: skip
        self.command("Label every beat with the personal model", "predict", self.personal, self.record, "--patient",
                     PATIENT, "--strip", out=self.by_personal)  # fmt: skip
        self.command("Write the patient's report", "report", self.record, "--bundle", self.personal, "--patient",
                     PATIENT, out=self.report)  # fmt: skip
        self.summary()

    def announce(self, title: str, *arguments: str | Path, out: Path) -> list[str]:
        """Print a step and its command as a user would type it; return the command's arguments."""
        self.step += 1
        words = [*map(str, arguments), "--out", str(out), *(["--overwrite"] if out.exists() else [])]
        print(f"\n[{self.step}/{STEPS}] {title}\n$ ecgfed {' '.join(words)}", flush=True)
        return words

    def command(self, title: str, *arguments: str | Path, out: Path) -> None:
        """Run a command; SystemExit with its exit code where it fails."""
        if code := subprocess.run([ECGFED, *self.announce(title, *arguments, out=out)]).returncode:
            raise SystemExit(code)

    def answer_labels(self) -> None:
        """Make the labelling page, and give the answers that a person who knows the annotation gives on it."""
        self.announce(f"Choose {LABELS} beats worth a label", "label", self.record, "--bundle", self.bundle,
                      out=self.labels)  # fmt: skip
        labelling = ecgfed.label(
            self.record, self.labels, bundle=self.bundle, count=LABELS, overwrite=self.labels.exists()
        )
        self.answers = {}
        while len(self.answers) < LABELS and (sample := labelling.next_beat(self.answers)) is not None:
            self.answers[sample] = str(self.annotated(np.array([sample]))[0])
        labelling.save_labels(self.answers, overwrite=True)
        counts = ", ".join(f"{count} {symbol}" for symbol, count in Counter(self.answers.values()).most_common())
        print(
            f"The page is {self.labels / PATIENT}-label.html. Its answers here, from the synthetic annotation: {counts}"
        )

    def annotated(self, sample: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the annotated symbol at each R peak, (beats,); | where none is within ``MATCH_S``."""
        beats = ecgfed.read_annotation(self.record).beats()
        apart = np.abs(beats.sample[None, :] - sample[:, None])
        nearest = apart.argmin(axis=1)
        near = apart[np.arange(len(sample)), nearest] <= MATCH_S * ecgfed.read_recording(self.record).fs_hz
        return np.where(near, beats.symbol[nearest], "|")

    def wrong(self, folder: Path) -> tuple[int, int]:
        """Return how many predictions differ from the annotation, and of how many: all but the labelled beats."""
        with (folder / f"{PATIENT}.csv").open(encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.DictReader(stream) if int(row["sample"]) not in self.answers]
        truth = self.annotated(np.array([int(row["sample"]) for row in rows]))
        return int((truth != np.array([row["symbol"] for row in rows])).sum()), len(rows)

    def summary(self) -> None:
        """Print where everything is, and how both models did."""
        print(f"\nReport       {self.report}   (open it in a browser)")
        print(f"ONNX files   {self.personal / 'patients' / PATIENT}.onnx   (the new patient's personal model)")
        print(f"             {self.bundle / 'global.onnx'}   (the model for everybody)")
        print(
            f"             {self.bundle / 'patients'}   (the other {len(list((self.bundle / 'patients').iterdir()))}'s)"
        )
        print(f"Predictions  {self.by_personal / PATIENT}.csv, .json, .png (ECG paper), .ecgfed (WFDB annotation)")
        print(f"\n{PATIENT}, who took no part in training: wrong labels among the beats that were not asked for")
        for model, folder in (("Model for everybody:", self.by_global), ("Personal model:", self.by_personal)):
            wrong, beats = self.wrong(folder)
            print(f"{model:<21}{wrong:,} of {beats:,} beats ({wrong / beats:.1%})")
        print("\nSynthetic patients: this shows that the software runs, not how well it does on people (README.md).")
        print("On real recordings, fetched from PhysioNet (94 MB): . .venv/bin/activate, then")
        print("  ecgfed prepare mitbih --download --source mitdb --out cohort")


def main() -> int:
    """Run the demo; the exit code is the first failing command's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for all that is made; default: demo")
    started = time.perf_counter()
    try:
        Demo(parser.parse_args().out).main()
    except ecgfed.EcgfedError as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"Done in {time.perf_counter() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
