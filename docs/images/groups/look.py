"""What an answer of the labelling page speaks for: ``python docs/images/groups/look.py`` writes ``numbers.json``.

The synthetic patient of the label page (``docs/images/label-page``): the first questions are answered with the truth,
and every beat takes the label of the answered beat that is nearest in the tree of groups.
"""

import json
import tempfile
from pathlib import Path
from typing import TypedDict

import numpy as np

import ecgfed
from ecgfed.domain.labels.spread import spread

HERE = Path(__file__).parent
PATIENT, ANSWERS = "demo04", 5
#: Beats of each group that are drawn, evenly over time, and every how many of their samples.
DRAWN, STEP = 6, 4


class Group(TypedDict):
    """An answered beat and those that it speaks for; windows in hundredths of a millivolt."""

    label: str
    time_s: float
    beats: int
    right: int
    answered: list[int]
    some: list[list[int]]


class Numbers(TypedDict):
    """What ``numbers.json`` holds."""

    beats: int
    groups: list[Group]


def numbers(folder: Path) -> Numbers:
    """Make the recording in an empty folder, answer, and look at what each answer speaks for."""
    ecgfed.prepare_demo(folder / "cohort", records=folder / "records", patients=4, minutes=10.0)
    record = folder / "records" / PATIENT
    labelling = ecgfed.label(record, folder / "labels")
    marks = ecgfed.read_annotation(ecgfed.read_recording(record, ("MLII",)), "atr").beats()
    sample = labelling.page.sample
    truth = marks.symbol[np.abs(marks.sample[None] - sample[:, None]).argmin(1)]
    number = {int(one): place for place, one in enumerate(sample)}
    answers: dict[int, str] = {}
    while len(answers) < ANSWERS:
        asked = labelling.next_beat(answers)
        assert asked is not None
        answers[asked] = str(truth[number[asked]])
    grouped = labelling.grouped
    label, origin = spread(grouped.groups, {number[one]: said for one, said in answers.items()})
    windows = np.rint(100 * grouped.beats.windows.window_mv[:, 0, ::STEP]).astype(int)
    groups: list[Group] = []
    for one, said in answers.items():
        members = np.flatnonzero(origin == number[one])
        some = members[np.linspace(0, len(members) - 1, min(DRAWN, len(members))).astype(int)]
        groups.append(
            {
                "label": said,
                "time_s": round(one / labelling.page.fs_hz, 1),
                "beats": len(members),
                "right": int((truth[members] == label[members]).sum()),
                "answered": windows[number[one]].tolist(),
                "some": windows[some].tolist(),
            }
        )
    return {"beats": len(sample), "groups": groups}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = numbers(Path(temporary))
    (HERE / "numbers.json").write_text(json.dumps(found) + "\n", "utf-8")
