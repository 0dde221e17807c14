"""``predict``: classify the beats of a recording with a bundle or the packaged model, without torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_fields, renamed_parameters
from ecgfed.base.errors import OptionError
from ecgfed.base.files import check_free, sha256, write_together
from ecgfed.base.options import flat_options
from ecgfed.base.text import count_of, shortened
from ecgfed.domain.beats.exclusions import Exclusions
from ecgfed.domain.beats.extract import Windows, window_spans
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.domain.beats.path import BeatOptions, RecordingBeats, cut_beats, require_marks
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.recording import Annotation, ReadingPool, ReadOptions, Recording, spans
from ecgfed.domain.signal.chunked_quality import gaps_of
from ecgfed.domain.signal.filters import BandPassed, Bridged
from ecgfed.domain.signal.pacing import Pacing
from ecgfed.domain.signal.quality import Reason
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.predictions import UNCLASSIFIED, Predictions
from ecgfed.exports.device.shipped import name_of, shipped_model
from ecgfed.reports.picture import Picture
from ecgfed.tasks.beat_files import beats_as_json, beats_as_table, rounded
from ecgfed.tasks.excluded import annotations_excluded, channels_excluded, excluded_as_json
from ecgfed.tasks.predict_inputs import PredictInput, bundle_and_recording
from ecgfed.tasks.prediction_warnings import model_warnings, refuse_synthetic, report_severe, same_lead
from ecgfed.tasks.progress import SILENT, ProgressReporter, minutes_reporter, report_exclusions
from ecgfed.tasks.records import open_for_model
from ecgfed.tasks.rhythms import (
    every_rhythm,
    fibrillation_text,
    rhythms_as_table,
    sure_episodes,
    with_rhythms,
    without_supraventricular,
)
from ecgfed.tasks.training_warnings import ModelWarning

SUFFIX = "ecgfed"
#: What the files of a recording end in.
ENDINGS = (SUFFIX, "csv", "json", "rhythms.csv")
#: The WFDB symbol of a paced beat.
PACED_SYMBOL = "/"
#: Annotation subtype of low-confidence beats.
UNCERTAIN = 1
#: Beats per block of output.
_AT_ONCE = 1 << 14


@renamed_fields("0.3", "0.5", about="metadata")
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RecordingPredictions(Predictions):
    """Predictions for a recording, with what is needed to write and draw them.

    Attributes:
        recording: the recording.
        labels: the bundle's classes and their WFDB symbols.
        poor: (beats,) reasons of poor quality within the beat's window, such as ``gap+noise``, or "".
        pacing: detected pacing: paced beats have the symbol ``/``, and the label map's class of ``/`` if it has one;
            None if not analysed.
        rhythms: those with episodes: atrial fibrillation or flutter, in which no beat is supraventricular, possible
            ventricular flutter or fibrillation, no beats, bradycardia, tachycardia.
        warnings: warnings, each with a ``code`` of ``ecgfed.tasks.prediction_warnings.CODES`` and a ``text``.
        cut: the beats with the quality of their lead.
        metadata: JSON-ready: record, lead, fs_hz, duration_s, patient, peaks, detector, bundle, signature, method,
            classes, intended_use, usable_s, poor_quality_s, certainty, rhythms, warnings; ``pacing`` where any was
            detected.
    """

    recording: Recording
    labels: LabelMap
    poor: tuple[str, ...]
    pacing: Pacing | None = None
    rhythms: tuple[RhythmEpisodes, ...] = ()
    warnings: tuple[ModelWarning, ...] = ()
    cut: RecordingBeats
    metadata: dict[str, Any]

    def __repr__(self) -> str:
        name = shortened(self.recording.name, 60)
        return f"Predictions({name!r}: {count_of(len(self), 'beat')}: {self._counted() or 'none'})"

    @property
    def symbols(self) -> NDArray[np.str_]:
        """(beats,) WFDB symbols: that of the class, the override if there is one, ``/`` for paced beats."""
        of_class = np.array([self.labels.symbol_of(name) for name in self.classes], dtype=np.str_)
        symbols = np.where(self.classified, of_class[self.label], self.override)
        if self.pacing:
            symbols[self.pacing.beats & self.classified] = PACED_SYMBOL
        return symbols

    @property
    def confidence(self) -> NDArray[np.float32]:
        """(beats,) float32, probability of each beat's class; for a paced beat, the score of the pacing detector."""
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
        """Yield the beats as columns, in blocks of a bounded size."""
        symbols = self.symbols
        confidence = self.confidence
        for start, stop in spans(len(self), _AT_ONCE):
            number, by_model = self.class_number[start:stop].tolist(), self.classified[start:stop].tolist()
            probability = zip(rounded(confidence[start:stop]), by_model, strict=True)
            yield {
                "sample": self.sample[start:stop].tolist(),
                "time_s": rounded(self.sample[start:stop] / self.fs_hz),
                "class": [self.classes[index] if index >= 0 else None for index in number],
                "symbol": symbols[start:stop].tolist(),
                "probability": [value if classified else None for value, classified in probability],
                "flags": self.flags[start:stop].tolist(),
                "poor_quality": list(self.poor[start:stop]),
                "uncertain": self.low_confidence[start:stop].tolist(),
                "far": self.out_of_distribution[start:stop].tolist(),
            }

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of ``RECORD.json``: metadata and beats."""
        return {**self.metadata, "beats": list(self.beats())}

    def summary(self, files: Sequence[Path]) -> dict[str, Any]:
        """Return a JSON-ready summary without the beats; ``files`` are the files written."""
        poor, reliability = sum(map(bool, self.poor)), self.reliability_counts()
        by_class = {"uncertain_counts": self.low_confidence_counts, "far_counts": self.out_of_distribution_counts}
        counted = {"beats": len(self), "counts": self.counts, "poor_quality_beats": poor, **reliability, **by_class}
        severe_codes = [warning.code for warning in self.warnings if warning.severe]
        return {**self.metadata, **counted, "grave_warnings": severe_codes, "files": [str(file) for file in files]}

    def targets(self, out: Path | str, *, strip: bool = False) -> list[Path]:
        """Return the files that ``save`` writes into a folder: those of ``ENDINGS``, and ``.png``."""
        return [Path(out) / f"{self.recording.name}.{end}" for end in (*ENDINGS, *["png"] * strip)]

    def save(
        self, out: Path | str, *, strip: bool = False, strip_at_s: float | None = None, overwrite: bool = False
    ) -> list[Path]:
        """Write the beats as WFDB annotation, CSV and JSON, and a CSV of rhythms, all of them or none.

        Args:
            out: output folder; created if missing.
            strip: also draw 10 s on ECG paper.
            strip_at_s: start of the strip in seconds; default: where most kinds of beats are.
            overwrite: replace files of these names, but never the recording itself.

        Returns:
            The files.

        Raises:
            OptionError: the files exist, or the strip would start beyond the end.
            StorageError: the files cannot be written; nothing was changed.
        """
        strip = strip or strip_at_s is not None
        targets = self.targets(out, strip=strip)
        check_free(targets, self.recording.files, overwrite=overwrite)
        as_json = beats_as_json(self.metadata, self.columns())
        contents: list[bytes | Iterator[bytes]] = [self._annotation(), beats_as_table(self.columns()), as_json]
        contents.append(rhythms_as_table(self.rhythms))
        if strip:
            contents.append(self.strip(strip_at_s))
        write_together(dict(zip(targets, contents, strict=True)))
        return targets

    def _annotation(self) -> bytes:
        """Return a WFDB annotation file.

        The note holds the class name if it is not the symbol; low-confidence beats, and those without a class
        (``override``), have the subtype ``UNCERTAIN``. Rhythms are marked as ``with_rhythms`` does.
        """
        from ecgfed.domain.record.wfdb_writer import annotation_bytes

        symbols = self.symbols
        notes = tuple("" if name == symbol else name for name, symbol in zip(self.names, symbols.tolist(), strict=True))
        beats = Annotation(self.sample, symbols, notes, self.low_confidence * UNCERTAIN)
        marked = with_rhythms(beats, self.cut.fibrillation, self.cut.flutter, self.fs_hz, self.recording.samples)
        return annotation_bytes(marked, self.fs_hz)

    def strip(self, at_s: float | None = None) -> Picture:
        """Draw 10 s on ECG paper and return the PNG's bytes, which a notebook shows.

        Args:
            at_s: start in seconds; default: where most kinds of beats are.

        Raises:
            OptionError: a start beyond the end of the recording.
        """
        from ecgfed.reports.strip import Strip, busiest_start, draw_strip

        recording, names = self.recording, list(self.names)
        if at_s is not None and not 0 <= at_s < recording.duration_s:
            expected = f"0 to less than {recording.duration_s:.1f} s, the record's length"
            raise OptionError("strip_at_s", f"{at_s:g}", expected)
        usual = max(set(names), key=names.count) if names else ""
        filtered = BandPassed(Bridged(recording, recording.lead, gaps_of(recording, recording.lead)))
        drawn = Strip(
            filtered,
            recording.fs_hz,
            self.sample,
            [
                f"{name}?" if low_confidence else name
                for name, low_confidence in zip(names, self.low_confidence.tolist(), strict=True)
            ],
            usual,
            title=f"Record {recording.name}, lead {recording.lead}, {describe_model(self.metadata['patient'])}",
            footer=f"band-pass 0.5 to 40 Hz · {self.metadata['intended_use']}",
            remarks=tuple(warning.text for warning in self.warnings),
        )
        if at_s is None:
            at_s = busiest_start(self.sample, names, usual, recording.fs_hz, len(filtered))
        return Picture(draw_strip(drawn, at_s))


def describe_model(patient: str | None) -> str:
    """Return ``global model`` or ``model of patient NAME``."""
    return f"model of patient {patient}" if patient else "global model"


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(RecordingOptions)
def predict(
    *args: PredictInput,
    bundle: Bundle | Path | str | None = None,
    recording: Recording | Path | str | None = None,
    patient: str | None = None,
    int8: bool = False,
    how: ReadOptions | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> RecordingPredictions:
    """Classify every beat of a recording with a bundle. Research use only, not for diagnosis.

    Args:
        args: a recording, or a bundle and a recording; default bundle: the packaged model.
        bundle: a bundle or its folder.
        recording: a recording, or its file.
        patient: use this patient's personal model; default the global one.
        int8: use the quantized model, if the bundle has one.
        how: how the recording is read: ``ReadOptions``, or all options of the last lines.
        trusted: public keys (PEM files), one of which must have signed the bundle; None accepts any bundle.
        force: allow a model of synthetic patients for real recordings.
        progress: receives progress, notes and warnings.
        options: the fields of ``RecordingOptions``; they take precedence over ``how``.

    Raises:
        EcgfedError: an input cannot be used.

    Examples:
        >>> import ecgfed
        >>> ecgfed.predict("bundle", "cohort-records/demo01", patient="demo01", peaks="annotated")  # doctest: +ELLIPSIS
        Predictions('demo01': 71 beats: ...)
    """
    bundle, recording = bundle_and_recording(args, bundle, recording)
    opened = opened_bundle(bundle, trusted)
    classifier = opened.classifier(patient, int8=int8)
    resolved = RecordingOptions.merged(how, options, "predict")
    beat_options = resolved.beat_options(opened.leads, opened.rr_version or 1)
    if not isinstance(recording, Recording):
        recording = open_for_model(
            recording, opened.leads, resolved.leads, every_lead=beat_options.every_lead, how=beat_options.how
        )
    refuse_synthetic(opened, recording, force=force)
    beats = cut_beats(recording, beat_options, on_samples=minutes_reporter(progress, "minutes read", recording))
    require_marks(beats, beat_options)
    with ReadingPool(1) as pool:  # while the beats are cut and classified
        pending = pool.submit(lambda: (beats.pacing, every_rhythm(beats)))
        predictions = classifier.classify_recording(_reported_blocks(beats, progress))
        pacing, rhythms = pending.result()
    predictions = _with_paced(
        replace(predictions, sample=beats.r_samples, fs_hz=recording.fs_hz), opened.labels, pacing
    )
    inside = sure_episodes(beats.fibrillation).inside(beats.r_samples / recording.fs_hz)
    predictions, relabelled = without_supraventricular(predictions, opened.labels, inside)
    if same := same_lead(recording, opened):
        progress.note(same)
    warnings = model_warnings(opened, beats, predictions, patient)
    if beats.fibrillation.episodes:
        text = fibrillation_text(beats.fibrillation, recording.duration_s, relabelled)
        warnings = (*warnings, ModelWarning("fibrillation", text))
    report_severe(warnings, progress)
    excluded = [
        beats_excluded(beats, predictions),
        annotations_excluded([beats.annotation]),
        channels_excluded([recording]),
    ]
    # beats without signal have a warning of their own
    report_exclusions(excluded if beats.end_noise else excluded[1:], progress)
    return RecordingPredictions(
        **{field.name: getattr(predictions, field.name) for field in fields(Predictions)},
        recording=recording,
        labels=opened.labels,
        poor=_poor(beats),
        pacing=pacing,
        rhythms=rhythms,
        warnings=warnings,
        cut=beats,
        metadata={
            **_metadata(opened, beats, beat_options, patient, int8=int8),
            **({"averaged_over_alike_beats": True} if classifier.averaged_over_alike_beats else {}),
            "excluded": excluded_as_json(excluded),
            "rhythms": [rhythm.to_dict() for rhythm in rhythms],
            "warnings": [warning.as_json() for warning in warnings],
        },
    )


def _with_paced(predictions: Predictions, labels: LabelMap, pacing: Pacing) -> Predictions:
    """Assign paced beats the class of ``/``, if the label map has one, with high confidence."""
    name = labels.symbols.get(PACED_SYMBOL)
    if not pacing or name is None:
        return predictions
    label = np.where(pacing.beats, predictions.classes.index(name), predictions.label)
    return replace(predictions, label=label, low_confidence=predictions.low_confidence & ~pacing.beats)


def opened_bundle(
    bundle: Bundle | Path | str | None, trusted: Path | str | Sequence[Path | str] | None = None
) -> Bundle:
    """Open a bundle of ECG recordings; the packaged model for None.

    Raises:
        BundleError: as ``open_bundle``, and for a bundle of images.
    """
    if not isinstance(bundle, Bundle) or trusted is not None:
        bundle = open_bundle(
            shipped_model() if bundle is None else bundle.path if isinstance(bundle, Bundle) else bundle,
            trusted=trusted,
        )
    bundle.require_ecg()
    return bundle


def _reported_blocks(beats: RecordingBeats, progress: ProgressReporter) -> Iterator[Windows]:
    """Yield the blocks of beats; report the progress of a long recording."""
    completed = 0
    for block in beats.blocks():
        yield block
        completed += len(block.flags)
        if beats.recording.is_lazy:
            progress.update("beats", completed, len(beats.r_samples), beats.recording.name)


def beats_excluded(beats: RecordingBeats, predictions: Predictions) -> Exclusions:
    """Count unclassified beats (no signal in the lead), and detections in noise at the ends."""
    pulses = int(beats.pulses.sum())
    no_signal = int((predictions.override == UNCLASSIFIED).sum()) - pulses
    excluded = {"calibration": pulses, "no_signal": no_signal, "end_noise": beats.end_noise}
    return Exclusions("beat", len(predictions) + beats.end_noise, excluded)


def _poor(beats: RecordingBeats) -> tuple[str, ...]:
    """Return the reasons of poor quality within each beat's window."""
    start, stop = window_spans(beats.recording.fs_hz, beats.r_samples)
    code, reasons = np.zeros(len(start), np.int64), tuple(Reason)
    for bit, reason in enumerate(reasons):
        code |= beats.quality.spans([reason]).overlap(start, stop).astype(np.int64) << bit
    names = [
        "+".join(reason for bit, reason in enumerate(reasons) if bits >> bit & 1) for bits in range(1 << len(reasons))
    ]
    return tuple(names[bits] for bits in code.tolist())


def _metadata(
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
        "bundle": name_of(bundle.path),  # the path may contain a person's name
        "bundle_digest": bundle.manifest.get("digest"),  # absent in version 0.1
        "signature": None if bundle.signature is None else bundle.signature.as_json(),
        "method": bundle.manifest["method"],
        "classes": list(bundle.classes),
        "intended_use": bundle.manifest["intended_use"],
        "usable_s": round(quality.usable_s, 3),
        "poor_quality_s": quality.seconds(),
        **({"pacing": beats.pacing.summary()} if beats.pacing else {}),
    }
