"""``label``: make a page on which a person labels the most informative beats of a recording. No torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.language import page_language
from ecgfed.base.options import flat_options, merged, taken
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.labels.choose import next_group
from ecgfed.domain.labels.page import LabelPage, labels_name, page_data
from ecgfed.domain.labels.spread import spread
from ecgfed.domain.labels.user_labels import SYMBOLS, UserLabel, label_table
from ecgfed.domain.record.recording import ReadOptions, Recording
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.reports.options import PageOptions
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats, recording_id
from ecgfed.tasks.label_parts import label_page, label_page_of
from ecgfed.tasks.label_server import Served, serve
from ecgfed.tasks.local_server import IDLE_S
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.prediction_warnings import model_warnings, refuse_synthetic
from ecgfed.tasks.progress import SILENT, ProgressReporter, report_exclusions
from ecgfed.tasks.records import open_for_model

DEFAULT_COUNT, MAX_LABELS = 20, 1000


@dataclass(frozen=True, repr=False, eq=False)
class Labelling:
    """The labelling page of a recording.

    Attributes:
        grouped: its grouped beats.
        page: the contents of the page.
        folder: the output folder, or None.
        files: the files written.
        seed: seed for choosing beats.
        language: of the page.
    """

    grouped: GroupedBeats
    page: LabelPage
    folder: Path | None = None
    files: tuple[Path, ...] = ()
    seed: int = 0
    language: str = "en"

    def __repr__(self) -> str:
        name, beats = shortened(self.page.record, 60), count_of(self.grouped.grouped, "beat")
        return f"Labelling({name!r}: {beats} in {count_of(len(set(self.grouped.groups.leaf.tolist())), 'group')})"

    @cached_property
    def html(self) -> str:
        """The page: a self-contained HTML document that needs no network."""
        with page_language(self.language):
            return label_page(self.page)

    @property
    def labels_file(self) -> Path:
        """The label file that ``serve`` writes; the page's download has the same name."""
        return (self.folder or Path()) / labels_name(self.page.record)

    @renamed_parameters("0.3", "0.5", answers="labels")
    def next_beat(self, labels: Mapping[int, str]) -> int | None:
        """Return the beat that the page would query next, as the sample number of its R peak; None if all are labelled.

        Args:
            labels: R peak of a queried beat -> its label, a symbol of the page.

        Raises:
            OptionError: a sample that is not the R peak of a grouped beat, or an unknown label.
        """
        group = next_group(self.grouped.groups, self._by_beat(labels), rule=self.page.rule)
        return None if group is None else int(self.page.sample[self.grouped.groups.beat[group]])

    @renamed_parameters("0.3", "0.5", answers="labels")
    def save_labels(self, labels: Mapping[int, str], *, overwrite: bool = False) -> Path:
        """Write labels in the format of the page, for ``personalize_labels``; return the file, ``labels_file``.

        Args:
            labels: R peak of a queried beat -> its label.
            overwrite: replace an existing file.

        Raises:
            OptionError: no label, a sample that is not the R peak of a grouped beat, an unknown label, or an existing
                file.
            StorageError: the file cannot be written; nothing was changed.
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
        """Return the labels by beat number; raises OptionError."""
        number = {sample: beat for beat, sample in enumerate(self.page.sample[: self.grouped.grouped].tolist())}
        for sample, label in labels.items():
            if sample not in number:
                raise OptionError("labels", f"{sample} is no beat in a group", "R peaks as next_beat returns them")
            if label not in SYMBOLS:
                expected = f"one of {' '.join(sorted(SYMBOLS))}"
                raise OptionError("labels", f"{label!r:.40} at {sample}", expected, code="unknown-choice")
        return {number[sample]: label for sample, label in labels.items()}

    def serve(self, opened: Callable[[str], None], *, idle_s: float | None = None, overwrite: bool = False) -> Served:
        """Serve the page on this machine; every label is in ``labels_file`` before the next beat is shown.

        Args:
            opened: called with the page's address.
            idle_s: seconds without an open page after which the server ends; default five minutes.
            overwrite: replace labels of another page; labels of this page are continued.

        Raises:
            OptionError: existing labels belong to another page.
            StorageError: they cannot be read, or another server is writing them.
        """
        with page_language(self.language):
            html = label_page(self.page, file=str(self.labels_file))
        return serve(
            html,
            page_data(self.page),
            self.labels_file,
            opened=opened,
            language=self.language,
            idle_s=IDLE_S if idle_s is None else idle_s,
            overwrite=overwrite,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready summary."""
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


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(PageOptions, RecordingOptions)
def label(
    recording: Recording | Path | str,
    out: Path | str | None = None,
    *,
    bundle: Bundle | Path | str | None = None,
    count: int = DEFAULT_COUNT,
    minutes: float | None = None,
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    seed: int = 0,
    page_file: bool = True,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Labelling:
    """Choose the most informative beats of a recording and make the page for labelling them.

    Args:
        recording: a recording or its file.
        out: the folder for ``RECORD-label.html`` and the labels; None writes nothing.
        bundle: the bundle whose global model is used for choosing; default the model in the package.
        count: number of labels to query.
        minutes: choose among the beats of the first minutes only.
        how: how the recording is read: ``ReadOptions``, or all options of the last lines.
        trusted: public keys (PEM files), one of which must have signed the bundle; None accepts any bundle.
        force: apply a model trained on synthetic patients to other recordings.
        seed: seed for choosing among the beats of a long recording.
        page_file: write the page to a file; if False, the folder is only used by ``serve``.
        overwrite: replace an existing page; labels are never replaced here.
        progress: receives progress, notes and warnings.
        options: the fields of ``PageOptions``, and those of ``RecordingOptions``, which take precedence over ``how``.

    Raises:
        EcgfedError: an invalid argument or input; the message is a single line.

    Examples:
        >>> import ecgfed
        >>> ecgfed.label("cohort-records/demo01", force=True)
        Labelling('demo01': 71 beats in 71 groups)
    """
    if isinstance(count, bool) or not 1 <= count <= MAX_LABELS:
        raise OptionError("count", f"{count}", f"1 to {MAX_LABELS} labels")
    stated = merged(PageOptions, None, taken(options, PageOptions), "label")
    opened = opened_bundle(bundle, trusted)
    resolved = RecordingOptions.merged(how, options, "label")
    beat_options = resolved.beat_options(opened.leads)
    recording = open_for_model(recording, opened.leads, resolved.leads, how=beat_options.how)
    refuse_synthetic(opened, recording, force=force)
    folder = None if out is None else Path(out)
    target = None if folder is None or not page_file else folder / f"{recording.name}-label.html"
    if target is not None:
        check_free([target], recording.files, overwrite=overwrite)
    grouped = grouped_beats(recording, beat_options, opened, minutes=minutes, seed=seed, progress=progress)
    if grouped.all_beats.end_noise:  # beats without signal are already mentioned on the page
        report_exclusions([grouped.excluded], progress)
    warnings = model_warnings(opened, grouped.all_beats, grouped.all_predictions, None)
    page = label_page_of(
        grouped,
        recording_id=recording_id(recording),
        model=name_of(opened.path),
        count=min(count, grouped.grouped),
        minutes=minutes,
        notices=tuple(warning.text for warning in warnings),
    )
    labelling = Labelling(grouped, page, folder, (), seed, stated.language)
    if target is None:
        return labelling
    write_together({target: labelling.html.encode()})
    return replace(labelling, files=(target,))


__all__ = ["Labelling", "Served", "label"]
