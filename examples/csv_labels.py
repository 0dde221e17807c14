"""A data set of one's own: CSV files whose beats are labelled in words.

    python examples/csv_labels.py my-data --records my-records --out my-cohort

What such a folder holds (``SHAPE`` below): ``visits.csv`` with a line for each recording (patient, file, sampling
frequency), the recordings as one column of whole microvolts, and ``beats.csv`` with file, second and word of each beat.

What any data set needs is here: recordings and annotations in a format that is read (docs/formats.md; this one writes
NumPy files and CSV annotations), a ``Source`` for each patient, and which symbols are which class.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

from ecgfed import Cohort, EcgfedError, LabelMap, open_cohort
from ecgfed.base.errors import CohortError
from ecgfed.base.files import replacing_folder
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.cohort.build import PrepareOptions, Source, build_cohort

SHAPE = {"visits.csv": ("patient", "file", "fs_hz"), "beats.csv": ("file", "second", "word")}
LEAD = "II"
#: the data set's words -> WFDB's symbols, the common tongue of annotations
SYMBOLS = {"normal": "N", "bundle branch block": "L", "atrial": "A", "ventricular": "V"}
LABELS = LabelMap("csv-labels", tuple(SYMBOLS), {symbol: word for word, symbol in SYMBOLS.items()})


def table(path: Path) -> list[dict[str, str]]:
    """Read a table's lines as dictionaries; raises CohortError where it is not as ``SHAPE`` says."""
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            columns = tuple(reader.fieldnames or ())
            if columns != SHAPE[path.name]:
                raise CohortError(path, f"has columns {', '.join(columns) or 'none'}", ", ".join(SHAPE[path.name]))
            return list(reader)
    except OSError as problem:
        raise CohortError(path, f"cannot be read ({problem.strerror})", action="check the folder") from problem


def write_recording(folder: Path, visit: dict[str, str], beats: list[dict[str, str]], to: Path) -> None:
    """Write one recording as ``to`` (.npz), and its beats beside it; raises CohortError."""
    file = folder / visit["file"]
    if file.parent != folder:
        raise CohortError(folder / "visits.csv", f"names the file {visit['file']!r}", "one of this folder")
    try:
        fs_hz = float(visit["fs_hz"])
        signal_uv = np.genfromtxt(file, skip_header=1)  # what is no number is a gap
    except (OSError, ValueError) as problem:
        raise CohortError(file, f"cannot be read ({problem})", "one column of microvolts") from problem
    unknown = sorted({beat["word"] for beat in beats} - set(SYMBOLS))
    if unknown:
        raise CohortError(folder / "beats.csv", f"the word {unknown[0]!r}", f"one of {', '.join(SYMBOLS)}")
    np.savez(to, signal=signal_uv, fs=fs_hz, units="uV", leads=[LEAD])
    lines = [f"{beat['second']},{SYMBOLS[beat['word']]}\n" for beat in beats]
    to.with_suffix(".atr.csv").write_text("time_s,symbol\n" + "".join(lines))


def sources(folder: Path, records: Path) -> list[Source]:
    """Write every recording of the folder into ``records``, and return the patients with theirs; raises CohortError."""
    visits, beats = table(folder / "visits.csv"), table(folder / "beats.csv")
    of_patients: dict[str, list[Path]] = {}
    for visit in visits:
        patient = visit["patient"]
        if not patient.isalnum():  # it names files of a bundle
            raise CohortError(folder / "visits.csv", f"patient {patient!r}", "letters and digits")
        mine = of_patients.setdefault(patient, [])
        mine.append(records / f"{patient}-{len(mine) + 1}.npz")
        write_recording(folder, visit, [beat for beat in beats if beat["file"] == visit["file"]], mine[-1])
    return [Source(patient, patient, tuple(paths)) for patient, paths in of_patients.items()]


def prepare(folder: Path, records: Path, out: Path, *, overwrite: bool = False) -> Cohort:
    """Make a cohort of the folder; both ``records`` and ``out`` are made, or neither. Raises EcgfedError."""
    options = PrepareOptions(BeatOptions((LEAD,), "annotated"), LABELS)
    with replacing_folder(records, overwrite=overwrite, option="--records") as partial:
        build_cohort(sources(folder, partial), out, options, kind="csv-labels", overwrite=overwrite, workers=1)
    return open_cohort(out)


def main() -> int:
    """Make a cohort; a mistake is one line and exit code 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=Path, required=True, help="folder for the recordings as ecgfed reads them")
    parser.add_argument("--out", type=Path, required=True, help="the cohort folder to make")
    parser.add_argument("--overwrite", action="store_true")
    given = parser.parse_args()
    try:
        print(prepare(given.folder, given.records, given.out, overwrite=given.overwrite))
    except EcgfedError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
