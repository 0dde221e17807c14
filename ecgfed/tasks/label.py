"""``label``: a recording in, a page out on which a person labels the few beats that say most. No torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.locks import locked
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.labels.choose import next_group
from ecgfed.domain.labels.page import LabelPage, label_page, labels_name, page_data
from ecgfed.domain.labels.spread import spread
from ecgfed.domain.labels.user_labels import SYMBOLS, UserLabel, label_table
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.recording import AnyRecording, ReadOptions, read_options
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.tasks.doubts import doubts_of, refuse_synthetic
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats, recording_id
from ecgfed.tasks.label_parts import label_page_of
from ecgfed.tasks.label_server import Served, serve
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.records import open_for_model
from ecgfed.tasks.watch import NOBODY, Watch, report_exclusions

DEFAULT_COUNT, MAX_LABELS = 20, 1000


@dataclass(frozen=True, repr=False, eq=False)
class Labelling:
    """The labelling page of a recording.

    Attributes:
        grouped: its beats in groups.
        page: what the page shows.
        folder: where its files go, or None.
        files: what was written.
        seed: of the choice.
    """

    grouped: GroupedBeats
    page: LabelPage
    folder: Path | None = None
    files: tuple[Path, ...] = ()
    seed: int = 0

    def __repr__(self) -> str:
        name, beats = shortened(self.page.record, 60), count_of(self.grouped.grouped, "beat")
        return f"Labelling({name!r}: {beats} in {count_of(len(set(self.grouped.groups.leaf.tolist())), 'group')})"

    @cached_property
    def html(self) -> str:
        """The page: one HTML document that needs no other file and no network."""
        return label_page(self.page)

    @property
    def labels_file(self) -> Path:
        """Where labels are written by ``serve``, and what the page's download is called."""
        return (self.folder or Path()) / labels_name(self.page.record)

    @renamed_parameters("0.3", "0.5", answers="labels")
    def next_beat(self, labels: Mapping[int, str]) -> int | None:
        """Return the beat that the page would ask for next: its R peak, a sample number; None where all are answered.

        Args:
            labels: R peaks that were asked for -> the labels they were given, symbols of ``label``'s page.

        Raises:
            OptionError: an answer at no beat of a group, or with no such label.
        """
        group = next_group(self.grouped.groups, self._by_beat(labels), rule=self.page.rule)
        return None if group is None else int(self.page.sample[self.grouped.groups.beat[group]])

    @renamed_parameters("0.3", "0.5", answers="labels")
    def save_labels(self, labels: Mapping[int, str], *, overwrite: bool = False) -> Path:
        """Write answers as the page saves them, for ``personalize_labels``; return the file, ``labels_file``.

        Args:
            labels: R peaks that were asked for -> the labels they were given.
            overwrite: replace the file where it is.

        Raises:
            OptionError: no answer, one at no beat of a group or with no such label, or a file that is there already.
            StorageError: the disk refuses; nothing was changed.
        """
        if not labels:
            raise OptionError("labels", "are none", "at least one label")
        by_beat, sample = self._by_beat(labels), self.page.sample
        labelled_beats = np.bincount(spread(self.grouped.groups, by_beat)[1], minlength=len(sample))
        rows = [
            UserLabel(int(sample[beat]), label, int(labelled_beats[beat]), recording=self.page.recording)
            for beat, label in by_beat.items()
        ]
        check_free([self.labels_file], self.grouped.beats.recording.files, overwrite=overwrite)
        write_together({self.labels_file: label_table(rows, self.page.fs_hz)})
        return self.labels_file

    def _by_beat(self, labels: Mapping[int, str]) -> dict[int, str]:
        """Return the answers by the number of their beat; raises OptionError."""
        number = {sample: beat for beat, sample in enumerate(self.page.sample[: self.grouped.grouped].tolist())}
        for sample, label in labels.items():
            if sample not in number:
                raise OptionError("labels", f"{sample} is no beat in a group", "R peaks as next_beat returns them")
            if label not in SYMBOLS:
                raise OptionError("labels", f"{label!r:.40} at {sample}", f"one of {' '.join(sorted(SYMBOLS))}")
        return {number[sample]: label for sample, label in labels.items()}

    def serve(self, opened: Callable[[str], None], *, idle_s: float | None = None, overwrite: bool = False) -> Served:
        """Serve the page on this machine; every answer is in ``labels_file`` before the next question.

        Args:
            opened: told the page's address.
            idle_s: seconds without an open page after which it ends; default five minutes.
            overwrite: begin anew where there are labels of another page; those of this one are gone on with.

        Raises:
            OptionError: there are labels that were not made for this page.
            StorageError: they cannot be read, or another server writes them.
        """
        try:
            self.labels_file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"{self.labels_file.parent} cannot be a folder ({error.strerror})"
            raise OptionError("--out", problem, "a folder for the labels") from error
        html = label_page(self.page, file=str(self.labels_file))
        limit = {} if idle_s is None else {"idle_s": idle_s}
        # two servers of one file would write over one another's answers; the file's own lock is for who writes it
        with locked(self.labels_file.with_name(f"{self.labels_file.name}.served")):
            return serve(html, page_data(self.page), self.labels_file, opened=opened, overwrite=overwrite, **limit)

    def to_dict(self) -> dict[str, Any]:
        """Return what was made, JSON-ready."""
        page, recording = self.page, self.grouped.beats.recording
        return {
            "record": page.record,
            "recording": page.recording,
            "lead": recording.lead,
            "leads": list(page.leads),
            "duration_s": round(page.duration_s, 3),
            "minutes": page.minutes,
            "beats": self.grouped.grouped,
            "groups": len(set(self.grouped.groups.leaf.tolist())),
            "count": page.count,
            "seed": self.seed,
            "model": page.model,
            "notices": list(page.notices),
            "excluded": excluded_as_json([self.grouped.excluded, channels_excluded([recording])]),
            "labels_file": str(self.labels_file),
            "files": [str(file) for file in self.files],
        }


def label(
    recording: AnyRecording | Path | str,
    out: Path | str | None = None,
    *,
    bundle: Bundle | Path | str | None = None,
    count: int = DEFAULT_COUNT,
    minutes: float | None = None,
    leads: str | Sequence[str] | None = None,
    peaks: str = "detected",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    annotator: str = "atr",
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    seed: int = 0,
    page_file: bool = True,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> Labelling:
    """Choose the beats of a recording that are worth a label, and make the page to label them on.

    Args:
        recording: a recording or its file.
        out: the folder for ``RECORD-label.html`` and for the labels; None writes nothing.
        bundle: whose global model helps to choose; default the model in the package.
        count: labels the page asks for.
        minutes: choose among the beats of the first minutes alone.
        leads: lead names in order of preference; default the bundle's.
        peaks: ``detected`` or ``annotated`` R peaks.
        detector: for detected peaks: a registered name, or a ``Detector`` of your own.
        mains_hz: 50 or 60, the mains' frequency where it was recorded; None is 60.
        annotator: suffix of the annotation file, for annotated peaks.
        how: what a CSV or NumPy file leaves open.
        trusted: public keys (PEM files), one of which has to have signed the bundle; None takes any bundle.
        force: let a model of synthetic patients look at other recordings too.
        seed: for the choice among the beats of a long recording.
        page_file: write the page as a file; without it the folder is for ``serve`` alone.
        overwrite: replace the page where it is; labels are never replaced here.
        watch: told what to keep in mind.

    Raises:
        EcgfedError: in one line, what cannot be used.

    Examples:
        >>> import ecgfed
        >>> ecgfed.label("cohort-records/demo01", force=True)
        Labelling('demo01': 71 beats in 71 groups)
    """
    if isinstance(count, bool) or not 1 <= count <= MAX_LABELS:
        raise OptionError("--count", f"{count}", f"1 to {MAX_LABELS} labels")
    opened = opened_bundle(bundle, trusted)
    preferred = opened.leads if leads is None else lead_list(leads)
    options = BeatOptions(preferred, peaks, detector, annotator, read_options(how), mains_hz)
    recording = open_for_model(recording, opened.leads, leads, how=options.how)
    refuse_synthetic(opened, recording, force=force)
    folder = None if out is None else Path(out)
    target = None if folder is None or not page_file else folder / f"{recording.name}-label.html"
    if target is not None:
        check_free([target], recording.files, overwrite=overwrite)
    grouped = grouped_beats(recording, options, opened, minutes=minutes, seed=seed, watch=watch)
    if grouped.all_beats.end_noise:  # of beats without signal there is a notice
        report_exclusions([grouped.excluded], watch)
    warnings = doubts_of(opened, grouped.all_beats, grouped.all_predictions, None)
    page = label_page_of(
        grouped,
        recording_id=recording_id(recording),
        model=name_of(opened.path),
        count=min(count, grouped.grouped),
        minutes=minutes,
        notices=tuple(warning.text for warning in warnings),
    )
    labelling = Labelling(grouped, page, folder, (), seed)
    if target is None:
        return labelling
    write_together({target: labelling.html.encode()})
    return Labelling(grouped, page, folder, (target,), seed)


__all__ = ["Labelling", "Served", "label"]
