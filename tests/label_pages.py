"""A labelling page of a real recording, as ``ecgfed label`` makes one, for tests of the page and of its scripts."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.extract import windows_around
from ecgfed.labels.choose import FEATURES, KIND_OF, Rule
from ecgfed.labels.groups import Groups, group_beats
from ecgfed.labels.likeness import KINDS, points_of
from ecgfed.labels.page import LabelPage
from ecgfed.labels.pictures import group_pictures
from ecgfed.record.opening import open_every_lead
from ecgfed.record.reader import read_annotation
from ecgfed.signal.long_quality import quality_of
from ecgfed.tasks.label_strips import label_strips
from ecgfed.tasks.predict import predict
from ecgfed.tasks.report_signal import ShownLeads

#: A rule as the package's could be: a small prior, a large group, far away, more likely differs.
RULE = Rule(
    np.array([-0.8, 0.5, -0.1, -0.2, 0.9, 0.6, 0.4, -0.3, 0.2, 0.1, 0.4, 0.3, -0.2, 0.5, 0.2]), -1.2
)
assert len(RULE.weight) == len(FEATURES)


def page_of(path: Path, *, count: int = 20, leaves: int = 200, rule: Rule = RULE) -> tuple[LabelPage, NDArray[np.str_]]:
    """Return the page of a WFDB record with reference beats, and their symbols."""
    marks = read_annotation(open_every_lead(path, ("MLII",)), "atr").beats()
    found = predict(path, peaks="annotated", leads="MLII")
    recording, r_samples = open_every_lead(path, (found.recording.lead,)), found.sample
    assert np.array_equal(marks.sample, r_samples)
    names = (recording.lead, *[name for name in recording.leads if name != recording.lead])[:2]
    quality = {name: quality_of(recording, name) for name in names}
    cut = found.cut.windows
    blocks: list[Callable[[], Iterable[NDArray[np.float32]]]] = []
    for name in names:
        signal = recording.signals_mv[list(recording.leads).index(name)]
        windows = windows_around(signal, recording.fs_hz, r_samples, quality[name]).window_mv[:, 0]
        blocks.append(partial(_in_blocks, windows))
    interval_s = np.concatenate([[np.nan], np.diff(r_samples) / recording.fs_hz])
    groups = group_beats(points_of(blocks, interval_s, cut.rr_s, _prior(found.probability, found.classes)), leaves)
    leads = ShownLeads(recording, names, quality, 1)
    page = LabelPage(
        record=recording.name,
        recording="0123456789abcdef" * 2,
        model="ecgfed/model",
        fs_hz=recording.fs_hz,
        duration_s=recording.duration_s,
        count=count,
        leads=names,
        groups=groups,
        sample=r_samples,
        rule=rule,
        strips=label_strips(leads, r_samples, np.unique(groups.beat).tolist()),
        pictures=group_pictures(groups, blocks, interval_s),
        interval_s=interval_s,
    )
    return page, marks.symbol


def _in_blocks(windows: NDArray[np.float32], many: int = 700) -> Iterable[NDArray[np.float32]]:
    return (windows[start : start + many] for start in range(0, len(windows), many))


def _prior(probability: NDArray[np.float32], classes: tuple[str, ...]) -> NDArray[np.float64]:
    kinds = np.zeros((len(probability), len(KINDS)))
    for number, name in enumerate(classes):
        kinds[:, KINDS.index(KIND_OF.get(name, name))] += probability[:, number]
    return kinds


def reference(groups: Groups, symbol: NDArray[np.str_]) -> dict[int, str]:
    """Return the label that a person who knows the reference gives each beat that may be asked for."""
    return {beat: str(symbol[beat]) for beat in np.unique(groups.beat).tolist()}
