"""``label --second``: a page that asks a second reader the beats that a first one labelled, blinded. No torch."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.files import check_free, write_together
from ecgfed.base.language import page_language, tr, trn
from ecgfed.base.options import flat_options, merged, taken
from ecgfed.base.safe_io import name_problem
from ecgfed.base.text import count_of
from ecgfed.domain.beats.extract import MATCH_S, match_peaks
from ecgfed.domain.beats.path import cut_beats, require_marks
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.labels.page import LABELS, labels_name
from ecgfed.domain.record.recording import ReadOptions, Recording
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports import label_page as html
from ecgfed.reports.options import PageOptions
from ecgfed.tasks.grouped import recording_id
from ecgfed.tasks.label_parts import drawn_leads
from ecgfed.tasks.label_server import Served, serve
from ecgfed.tasks.label_strips import label_strips
from ecgfed.tasks.matched_labels import MAX_UNMATCHED, FileLabels, read_label_file
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.progress import SILENT, ProgressReporter, minutes_reporter
from ecgfed.tasks.records import open_for_model

#: Who reads where no name was given; beats of a page at most.
READER, MAX_BEATS = "second", 1000


@dataclass(frozen=True, repr=False, eq=False)
class SecondReading:
    """The page for a second reader. It has no label of the first one, no group and no class of a model.

    Attributes:
        data: what the page's scripts read, JSON-ready.
        first: the first reader's file.
        reader: the second reader's name or initials.
        intended_use: in one sentence.
        folder: the output folder, or None.
        files: the files written.
        seed: seed of the order of the beats.
        language: of the page.
    """

    data: dict[str, Any]
    first: Path
    reader: str
    intended_use: str
    folder: Path | None = None
    files: tuple[Path, ...] = ()
    seed: int = 0
    language: str = "en"

    def __repr__(self) -> str:
        return f"SecondReading({self.data['record']!r}: {count_of(self.data['beats'], 'beat')} for {self.reader!r})"

    @cached_property
    def html(self) -> str:
        """The page: a self-contained HTML document that needs no network."""
        return self._page("")

    @property
    def labels_file(self) -> Path:
        """The label file that ``serve`` writes; the page's download has the same name."""
        return (self.folder or Path()) / str(self.data["file_name"])

    def serve(self, opened: Callable[[str], None], *, overwrite: bool = False) -> Served:
        """Serve the page on this machine; every label is in ``labels_file`` before the next beat is shown.

        Args:
            opened: called with the page's address.
            overwrite: replace labels of another page; labels of this page are continued.

        Raises:
            EcgfedError: as ``Labelling.serve``.
        """
        page, language = self._page(str(self.labels_file)), self.language
        return serve(page, self.data, self.labels_file, opened=opened, language=language, overwrite=overwrite)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready summary."""
        return {
            "record": self.data["record"],
            "recording": self.data["recording"],
            "first": str(self.first),
            "reader": self.reader,
            "count": self.data["beats"],
            "leads": self.data["leads"],
            "seed": self.seed,
            "labels_file": str(self.labels_file),
            "files": [str(file) for file in self.files],
        }

    def _page(self, file: str) -> str:
        data = self.data | {"served": bool(file), "file": file}
        with page_language(self.language):
            summary = trn(
                "{n} beat, {leads}; band-pass {low:g} to {high:g} Hz",
                "{n} beats, {leads}; band-pass {low:g} to {high:g} Hz",
                self.data["beats"],
                leads=tr(" and ").join(self.data["leads"]),
                low=0.5,
                high=40,
            )
            return html.label_page(data, summary=summary, intended_use=self.intended_use)


@flat_options(PageOptions, RecordingOptions)
def second_reader_page(
    recording: Recording | Path | str,
    first: Path | str,
    out: Path | str | None = None,
    *,
    reader: str = READER,
    bundle: Bundle | Path | str | None = None,
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    seed: int = 0,
    page_file: bool = True,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> SecondReading:
    """Make a page that asks a second reader the beats of a first reader's labels, in random order.

    The page holds neither the first reader's labels nor anything that a model says of the beats.

    Args:
        recording: a recording or its file.
        first: the first reader's labels, in any format that ``personalize_labels`` reads.
        out: the folder for ``RECORD-label-READER.html`` and the labels; None writes nothing.
        reader: name or initials of the second reader, in the names of both files.
        bundle: the bundle whose leads are preferred; default the model in the package.
        how: how the recording is read: ``ReadOptions``, or all options of the last lines.
        trusted: public keys (PEM files), one of which must have signed the bundle; None accepts any bundle.
        seed: seed of the order.
        page_file: write the page to a file; if False, the folder is only used by ``serve``.
        overwrite: replace an existing page; labels are never replaced here.
        progress: receives progress, notes and warnings.
        options: the fields of ``PageOptions``, and those of ``RecordingOptions``, which take precedence over ``how``.

    Raises:
        EcgfedError: an invalid argument or input, such as labels of another recording; the message is a single line.
    """
    if fault := name_problem(reader):
        raise OptionError("reader", f"{reader!r:.60} {fault}", "a name or initials that can be part of a file's name")
    stated = merged(PageOptions, None, taken(options, PageOptions), "second_reader_page")
    opened = opened_bundle(bundle, trusted)
    chosen = RecordingOptions.merged(how, options, "second_reader_page")
    beat_options = chosen.beat_options(opened.leads)
    recording = open_for_model(recording, opened.leads, chosen.leads, how=beat_options.how)
    if labels_name(recording.name, reader).casefold() == Path(first).name.casefold():
        problem = f"{reader!r:.60} is the reader of {Path(first).name}, and both tables would have one name"
        raise OptionError("reader", problem, "the name or initials of another person")
    folder, name = None if out is None else Path(out), f"{recording.name}-label-{reader}.html"
    target = None if folder is None or not page_file else folder / name
    if target is not None:
        check_free([target], [*recording.files, Path(first)], overwrite=overwrite)
    labels = read_label_file(Path(first), recording)
    wanted = labels.sample
    if len(wanted) > MAX_BEATS:
        problem = f"labels {len(wanted):,} beats"
        raise RecordError(Path(first), problem, f"at most {MAX_BEATS:,}", "leave some of them out")
    beats = cut_beats(recording, beat_options, on_samples=minutes_reporter(progress, "minutes read", recording))
    require_marks(beats, beat_options)
    peaks = _with_labelled(beats.r_samples, labels, Path(first), recording)
    leads = drawn_leads(beats)
    order = np.random.default_rng(seed).permutation(wanted)
    strips = list(label_strips(leads, peaks, np.searchsorted(peaks, order).tolist()).values())
    data = _page_data(recording, reader, order, strips, leads.names)
    files = () if target is None else (target,)
    use = str(opened.manifest["intended_use"])
    reading = SecondReading(data, Path(first), reader, use, folder, files, seed, stated.language)
    if target is not None:
        write_together({target: reading.html.encode()})
    return reading


def _with_labelled(
    peaks: NDArray[np.int64], labels: FileLabels, first: Path, recording: Recording
) -> NDArray[np.int64]:
    """Return the R peaks with the labelled beats in place of those within 150 ms; raises RecordError."""
    wanted = labels.sample
    at_peak, matched = match_peaks(peaks, wanted, round(MATCH_S * recording.fs_hz))
    without = len(np.setdiff1d(np.delete(wanted, matched), labels.added))  # the detector finds no added beat
    if without > MAX_UNMATCHED * len(wanted):
        problem = f"{without:,} of {len(wanted):,} labels lie at no beat of {recording.name}"
        expected = "each within 150 ms of an R peak"
        raise RecordError(first, problem, expected, f"check the recording, {param('leads')} and {param('detector')}")
    return np.union1d(np.delete(peaks, at_peak), wanted)


def _page_data(
    recording: Recording, reader: str, order: NDArray[np.int64], strips: list[dict[str, Any]], leads: Sequence[str]
) -> dict[str, Any]:
    """Return the data of the page's scripts (``domain/labels/page.py``): each beat is a group, in the page's order."""
    name = recording_id(recording)
    points = {
        str(at): {"sample": sample, "time_s": float(f"{sample / recording.fs_hz:.3f}"), "leaf": at, "at": []}
        for at, sample in enumerate(order.tolist())
    }
    return {
        "version": 1,
        "record": recording.name,
        "recording": name,
        "reader": reader,
        "digest": hashlib.sha256(np.asarray(order, "<i8").tobytes()).hexdigest()[:32],
        "file_name": labels_name(recording.name, reader),
        "fs": recording.fs_hz,
        "beats": len(order),
        "count": len(order),
        "leads": list(leads),
        "interval_ms": None,
        "labels": [{"symbol": symbol, "key": key, "words": words} for symbol, key, words in LABELS],
        "groups": [{"parent": -1, "size": 1, "beat": at} for at in range(len(order))],
        "points": points,
        "parts": {},
        "rule": {"kind_of": {}},
        "errors": None,
        "strips": dict(enumerate(strips)),
        "pictures": {},
    }


__all__ = ["SecondReading", "second_reader_page"]
