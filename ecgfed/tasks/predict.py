"""``predict``: a recording in, with a bundle or the model in the package; beats with labels out. Never any torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.base.files import check_free, sha256, write_together
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.extract import Windows, window_spans
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.path import BeatOptions, RecordingBeats, cut_beats, require_marks
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.recording import Annotation, AnyRecording, LongRecording, ReadOptions, read_options, spans
from ecgfed.domain.signal.block_quality import gaps_of
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.domain.signal.filters import band_pass, bridge_samples, fill_gaps
from ecgfed.domain.signal.long_filter import BandPassed, Bridged
from ecgfed.domain.signal.pacing import Pacing
from ecgfed.domain.signal.quality import Reason
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.model_warnings import ModelWarning
from ecgfed.exports.device.predictions import UNCLASSIFIED, Predictions
from ecgfed.exports.device.shipped import name_of, shipped_model
from ecgfed.reports.picture import Picture
from ecgfed.reports.strip import Stretches
from ecgfed.tasks.beat_files import beats_as_json, beats_as_table, rounded
from ecgfed.tasks.doubts import doubts_of, refuse_synthetic, same_lead, warn_of
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded, excluded_as_json
from ecgfed.tasks.predict_given import Given, bundle_and_recording
from ecgfed.tasks.records import open_for_model
from ecgfed.tasks.watch import NOBODY, Watch, minutes_told, report_exclusions

SUFFIX = "ecgfed"
#: The WFDB symbol of a paced beat.
PACED_SYMBOL = "/"
#: The subtype of uncertain beats in an annotation.
UNCERTAIN = 1
#: Beats that are written at once.
_AT_ONCE = 1 << 14


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RecordingPredictions(Predictions):
    """What a bundle says of a recording: ``Predictions``, and what is needed to write and draw them.

    Attributes:
        recording: the recording.
        labels: the bundle's classes and their WFDB symbols.
        poor: the reasons of the bad stretches each beat's window overlaps, ``gap+noise``, or "".
        pacing: detected in the signal: its paced beats have the symbol ``/``, and the label map's class of ``/`` where
            there is one; None where it was not looked for.
        warnings: what speaks against them, each a ``code`` of ``ecgfed.exports.device.model_warnings.CODES`` and a
            ``text``.
        cut: the beats as they were cut, with the quality of their lead.
        about: JSON-ready: record, lead, fs_hz, duration_s, patient, peaks, detector, bundle, signature, method,
            classes, intended_use, usable_s, poor_quality_s, certainty, warnings; ``pacing`` where any was detected.
    """

    recording: AnyRecording
    labels: LabelMap
    poor: tuple[str, ...]
    pacing: Pacing | None = None
    warnings: tuple[ModelWarning, ...] = ()
    cut: RecordingBeats
    about: dict[str, Any]

    def __repr__(self) -> str:
        name = shortened(self.recording.name, 60)
        return f"Predictions({name!r}: {count_of(len(self), 'beat')}: {self._counted() or 'none'})"

    @property
    def symbols(self) -> NDArray[np.str_]:
        """(beats,) the WFDB symbol of each beat: what overrides its class, its class's, or ``/`` of a paced one."""
        of_class = np.array([self.labels.symbol_of(name) for name in self.classes], dtype=np.str_)
        symbols = np.where(self.classified, of_class[self.label], self.override)
        if self.pacing:
            symbols[self.pacing.beats & self.classified] = PACED_SYMBOL
        return symbols

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(beats,) float32, the probability of each beat's class, and of a paced beat that it is paced."""
        confidence = super().confidence
        if not self.pacing:
            return confidence
        return np.where(self.pacing.beats, self.pacing.score, confidence).astype(np.float32)

    def beats(self) -> Iterator[dict[str, Any]]:
        """Yield each beat as ``Predictions.beats`` does, with its WFDB ``symbol``, ``poor_quality`` and ``far``."""
        for block in self.columns():
            for row in zip(*block.values(), strict=True):
                yield dict(zip(block, row, strict=True))

    def columns(self) -> Iterator[dict[str, list[Any]]]:
        """Yield what ``beats`` does as columns, so many beats at once that memory does not grow with the recording."""
        symbols = self.symbols
        confidence = self.confidence
        for start, stop in spans(len(self), _AT_ONCE):
            number, by_model = self.class_number[start:stop].tolist(), self.classified[start:stop].tolist()
            probability = zip(rounded(confidence[start:stop]), by_model, strict=True)
            yield {
                "sample": self.sample[start:stop].tolist(),
                "time_s": rounded(self.sample[start:stop] / self.fs_hz),
                "class": [self.classes[one] if one >= 0 else None for one in number],
                "symbol": symbols[start:stop].tolist(),
                "probability": [value if own else None for value, own in probability],
                "flags": self.flags[start:stop].tolist(),
                "poor_quality": list(self.poor[start:stop]),
                "uncertain": self.low_confidence[start:stop].tolist(),
                "far": self.out_of_distribution[start:stop].tolist(),
            }

    def to_dict(self) -> dict[str, Any]:
        """Return what ``RECORD.json`` holds: about, and beats."""
        return {**self.about, "beats": list(self.beats())}

    def summary(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return what there is to say without the beats, JSON-ready; ``files`` are those that were written."""
        poor, doubtful = sum(map(bool, self.poor)), self.reliability_counts()
        by_class = {"uncertain_counts": self.low_confidence_counts, "far_counts": self.out_of_distribution_counts}
        counted = {"beats": len(self), "counts": self.counts, "poor_quality_beats": poor, **doubtful, **by_class}
        grave = [one.code for one in self.warnings if one.severe]
        return {**self.about, **counted, "grave_warnings": grave, "files": [str(file) for file in files]}

    def targets(self, out: Path | str, *, strip: bool = False) -> list[Path]:
        """Return the files that ``save`` writes into a folder: ``.ecgfed`` (WFDB), ``.csv``, ``.json``, ``.png``."""
        return [Path(out) / f"{self.recording.name}.{end}" for end in (SUFFIX, "csv", "json", *["png"] * strip)]

    def save(
        self, out: Path | str, *, strip: bool = False, strip_at_s: float | None = None, overwrite: bool = False
    ) -> list[Path]:
        """Write the beats as WFDB annotation, CSV and JSON, all of them or none.

        Args:
            out: the folder to write into; made where it is not there.
            strip: also draw 10 s on ECG paper.
            strip_at_s: where the strip begins, in seconds; default: where most kinds of beats are.
            overwrite: replace files of these names, but never the recording itself.

        Returns:
            The files.

        Raises:
            OptionError: the files are there already, or the strip would begin past the end.
            StorageError: the disk refuses; nothing was changed.
        """
        strip = strip or strip_at_s is not None
        targets = self.targets(out, strip=strip)
        check_free(targets, self.recording.files, overwrite=overwrite)
        as_json = beats_as_json(self.about, self.columns())
        contents: list[bytes | Iterator[bytes]] = [self._annotation(), beats_as_table(self.columns()), as_json]
        if strip:
            contents.append(self.strip(strip_at_s))
        write_together(dict(zip(targets, contents, strict=True)))
        return targets

    def _annotation(self) -> bytes:
        """Return a WFDB annotation file.

        A class whose name is no symbol stands in the note beside its symbol; uncertain beats have ``UNCERTAIN`` for
        their subtype, those without class (``override``) too.
        """
        from ecgfed.domain.record.wfdb_writer import annotation_bytes

        symbols = self.symbols
        notes = tuple("" if name == mark else name for name, mark in zip(self.names, symbols.tolist(), strict=True))
        marks = Annotation(self.sample, symbols, notes, self.low_confidence * UNCERTAIN)
        return annotation_bytes(marks, self.fs_hz)

    def strip(self, at_s: float | None = None) -> Picture:
        """Draw 10 s on ECG paper and return the PNG's bytes, which a notebook shows.

        Args:
            at_s: where it begins, in seconds; default: where most kinds of beats are.

        Raises:
            OptionError: past the end of the recording.
        """
        from ecgfed.reports.strip import Strip, busiest_start, draw_strip

        recording, names = self.recording, list(self.names)
        if at_s is not None and not 0 <= at_s < recording.duration_s:
            expected = f"0 to less than {recording.duration_s:.1f} s, the record's length"
            raise OptionError("--strip-at", f"{at_s:g}", expected)
        usual = max(set(names), key=names.count) if names else ""
        filtered = _filtered(recording)
        drawn = Strip(
            filtered,
            recording.fs_hz,
            self.sample,
            [
                f"{name}?" if doubtful else name
                for name, doubtful in zip(names, self.low_confidence.tolist(), strict=True)
            ],
            usual,
            title=f"Record {recording.name}, lead {recording.lead}, {whose(self.about['patient'])}",
            footer=f"band-pass 0.5 to 40 Hz · {self.about['intended_use']}",
            remarks=tuple(one.text for one in self.warnings),
        )
        if at_s is None:
            at_s = busiest_start(self.sample, names, usual, recording.fs_hz, len(filtered))
        return Picture(draw_strip(drawn, at_s))


def _filtered(recording: AnyRecording) -> Stretches:
    """Return the lead in use through the band-pass; of a long recording what of it is asked for."""
    if not isinstance(recording, LongRecording):
        return band_pass(fill_gaps(recording.signal_mv, bridge_samples(recording.fs_hz))[0], recording.fs_hz)
    return BandPassed(Bridged(recording, recording.lead, gaps_of(recording, recording.lead)))


def whose(patient: str | None) -> str:
    """Say whose model it is."""
    return f"model of patient {patient}" if patient else "global model"


def predict(
    *given: Given,
    bundle: Bundle | Path | str | None = None,
    recording: AnyRecording | Path | str | None = None,
    patient: str | None = None,
    int8: bool = False,
    leads: str | Sequence[str] | None = None,
    peaks: str = "detected",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    annotator: str = "atr",
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    watch: Watch = NOBODY,
) -> RecordingPredictions:
    """Classify every beat of a recording with a bundle. Research use only, not for diagnosis.

    Args:
        given: a recording, or a bundle and a recording; without a bundle the model in the package is used.
        bundle: a bundle or its folder, by name.
        recording: a recording, or its file, by name.
        patient: use this patient's own model; default the global one.
        int8: use the model's int8 form, of a bundle that was exported with them.
        leads: lead names in order of preference; default the bundle's.
        peaks: ``detected`` or ``annotated`` R peaks.
        detector: for detected peaks: a registered name, or a ``Detector`` of your own.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for detectors that ask; None is 60.
        annotator: suffix of the annotation file, for annotated peaks.
        how: what a CSV or NumPy file leaves open.
        trusted: public keys (PEM files), one of which has to have signed the bundle; None takes any bundle.
        force: let a model of synthetic patients answer for other recordings too.
        watch: told what to keep in mind.

    Raises:
        EcgfedError: in one line, what cannot be used.

    Examples:
        >>> import ecgfed
        >>> ecgfed.predict("bundle", "cohort-records/demo01", patient="demo01", peaks="annotated")  # doctest: +ELLIPSIS
        Predictions('demo01': 71 beats: ...)
    """
    which, recording = bundle_and_recording(given, bundle, recording)
    opened = opened_bundle(which, trusted)
    classifier = opened.classifier(patient, int8=int8)
    options = BeatOptions(
        opened.leads if leads is None else lead_list(leads),
        peaks,
        detector,
        annotator,
        read_options(how),
        mains_hz,
        opened.rr_version or 1,
    )
    if not isinstance(recording, AnyRecording):
        recording = open_for_model(recording, opened.leads, leads, every_lead=options.every_lead, how=options.how)
    refuse_synthetic(opened, recording, force=force)
    beats = cut_beats(recording, options, on_samples=minutes_told(watch, "minutes read", recording))
    require_marks(beats, options)
    found = classifier.classify_blocks(_told(beats, watch))
    found = _with_paced(replace(found, sample=beats.r_samples, fs_hz=recording.fs_hz), opened.labels, beats.pacing)
    if same := same_lead(recording, opened):
        watch.note(same)
    warnings = doubts_of(opened, beats, found, patient)
    warn_of(warnings, watch)
    excluded = _excluded(beats, found)
    report_exclusions(excluded if beats.end_noise else excluded[1:], watch)  # of beats without signal alone doubts warn
    return RecordingPredictions(
        **{field.name: getattr(found, field.name) for field in fields(Predictions)},
        recording=recording,
        labels=opened.labels,
        poor=_poor(beats),
        pacing=beats.pacing,
        warnings=warnings,
        cut=beats,
        about={
            **_about(opened, beats, options, patient, int8=int8),
            "excluded": excluded_as_json(excluded),
            "warnings": [one.as_json() for one in warnings],
        },
    )


def _with_paced(found: Predictions, labels: LabelMap, pacing: Pacing) -> Predictions:
    """Give paced beats the class of ``/``, where the label map has one: no longer the model's answer, nor its doubt."""
    name = labels.symbols.get(PACED_SYMBOL)
    if not pacing or name is None:
        return found
    label = np.where(pacing.beats, found.classes.index(name), found.label)
    return replace(found, label=label, low_confidence=found.low_confidence & ~pacing.beats)


def opened_bundle(
    bundle: Bundle | Path | str | None, trusted: Path | str | Sequence[Path | str] | None = None
) -> Bundle:
    """Open a bundle of recordings; for None the model in the package.

    Raises:
        BundleError: as ``open_bundle``, and for one of images.
    """
    if not isinstance(bundle, Bundle) or trusted is not None:
        bundle = open_bundle(
            shipped_model() if bundle is None else bundle.path if isinstance(bundle, Bundle) else bundle,
            trusted=trusted,
        )
    bundle.require_ecg()
    return bundle


def _told(beats: RecordingBeats, watch: Watch) -> Iterator[Windows]:
    """Yield the blocks of beats; of a long recording it is told how many are done."""
    done = 0
    for block in beats.blocks():
        yield block
        done += len(block.flags)
        if isinstance(beats.recording, LongRecording):
            watch.progress("beats", done, len(beats.r_samples), beats.recording.name)


def beats_excluded(beats: RecordingBeats, found: Predictions) -> Exclusions:
    """Count the beats that have no class, since their lead shows no signal, and those that are noise at an end."""
    excluded = {"no_signal": int((found.override == UNCLASSIFIED).sum()), "end_noise": beats.end_noise}
    return Exclusions("beat", len(found) + beats.end_noise, excluded)


def _excluded(beats: RecordingBeats, found: Predictions) -> list[Exclusions]:
    """Count the beats without signal, which have no class, the annotations beyond the end, and channels not read."""
    return [
        beats_excluded(beats, found),
        annotations_excluded([beats.annotation]),
        channels_excluded([beats.recording]),
    ]


def _poor(beats: RecordingBeats) -> tuple[str, ...]:
    """Why each beat's window is in a bad stretch, where it is."""
    start, stop = window_spans(beats.recording.fs_hz, beats.r_samples)
    code, reasons = np.zeros(len(start), np.int64), tuple(Reason)
    for bit, reason in enumerate(reasons):
        code |= beats.quality.spans([reason]).overlap(start, stop).astype(np.int64) << bit
    names = ["+".join(why for bit, why in enumerate(reasons) if one >> bit & 1) for one in range(1 << len(reasons))]
    return tuple(names[one] for one in code.tolist())


def _about(
    bundle: Bundle, beats: RecordingBeats, options: BeatOptions, patient: str | None, *, int8: bool
) -> dict[str, Any]:
    recording, quality = beats.recording, beats.quality
    return {
        "record": recording.name,
        "sha256": {file.name: sha256(file) for file in recording.files},
        "lead": recording.lead,
        "fs_hz": recording.fs_hz,
        "duration_s": round(recording.duration_s, 3),
        "patient": patient,
        **({"precision": "int8"} if int8 else {}),
        "peaks": options.peaks,
        "detector": options.qrs_detector.name if options.peaks == "detected" else None,
        "bundle": name_of(bundle.path),  # its path is of this machine, and may hold a person's name
        "bundle_digest": bundle.manifest.get("digest"),  # version 0.1 wrote none
        "signature": None if bundle.signature is None else bundle.signature.as_json(),
        "method": bundle.manifest["method"],
        "classes": list(bundle.classes),
        "intended_use": bundle.manifest["intended_use"],
        "usable_s": round(quality.usable_s, 3),
        "poor_quality_s": quality.seconds(),
        **({"pacing": beats.pacing.summary()} if beats.pacing else {}),
    }
