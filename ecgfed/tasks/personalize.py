"""``personalize``: make a personal model for a new patient from a run and the patient's first labelled minutes."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import sha256
from ecgfed.base.options import Range, flat_options, option
from ecgfed.base.safe_io import MAX_TOML_BYTES, name_problem, parse_json, read_bounded
from ecgfed.base.text import count_of
from ecgfed.core.config import MOST_COUNT, BundleOptions
from ecgfed.core.evaluation.new_client import (
    FirstBeats,
    adapt_model,
    compare,
    first_beats,
    inputs_of,
    model_from_beats,
    model_from_class_distribution,
)
from ecgfed.core.federation.state import State
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.personal.apply import personal_name
from ecgfed.core.personal.registry import FROM_METHOD, personal_by_name
from ecgfed.core.runs.run import Run
from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.beats.path import BeatOptions, read_beats
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.record.reader import record_path
from ecgfed.domain.record.recording import ReadOptions
from ecgfed.domain.signal.detectors import OURS, Detector, stored_detector, stored_mains
from ecgfed.exports.bundles.export import PatientModel, write_bundle
from ecgfed.exports.bundles.packing import check_new_bundle
from ecgfed.exports.bundles.parity import PARITY_BEATS
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.evaluate import cohort_of
from ecgfed.tasks.opening import Passed, PassedNet, single_run
from ecgfed.tasks.progress import SILENT, ProgressReporter, report_exclusions

DEFAULT_MINUTES, DEFAULT_EPOCHS = 5.0, 10
#: Options of recordings that are those of the run's cohort.
AS_THE_COHORT = ("peaks", "mains_hz")


@dataclass(frozen=True, repr=False, eq=False)
class PersonalModel:
    """A new patient's personal model, and its scores on the rest of the recording.

    Attributes:
        patient: name of the model in the bundle.
        bundle: the bundle with this model and the global model.
        learned_from: JSON-ready: ``minutes``, ``epochs``, ``beats``, ``classes``; or ``class_mix``.
        scores: JSON-ready: the number of scored ``beats`` and, if there are any, the scores of ``global`` and
            ``personal`` (``macro_f1``, ``macro_f1_truth``, ``accuracy``).
        run: the run.
        method: the run's method.
        record: the recording, or None.
        modality: ``ecg`` or ``image``.
        cohort_fingerprint: fingerprint of the run's cohort.
        excluded: JSON-ready: beats (and annotations) of the recording that were read, used and excluded, by reason.
    """

    patient: str
    bundle: Bundle
    learned_from: dict[str, Any]
    scores: dict[str, Any]
    run: str
    method: str
    record: str | None
    modality: str
    cohort_fingerprint: str = ""
    excluded: dict[str, Counted] = field(default_factory=dict)

    def __repr__(self) -> str:
        if not self.scores["beats"]:
            return f"PersonalModel({self.patient!r}: not scored)"
        before, after = (self.scores[name]["macro_f1"] for name in ("global", "personal"))
        beats = count_of(self.scores["beats"], "beat")
        return f"PersonalModel({self.patient!r}: macro-F1 {before:.3f} -> {after:.3f} on {beats})"

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes, JSON-ready."""
        return {
            **{name: getattr(self, name) for name in ("run", "method", "patient", "record", "learned_from", "scores")},
            "bundle": str(self.bundle.path),
            "modality": self.modality,
            "parity": self.bundle.manifest["parity"],
            "cohort_fingerprint": self.cohort_fingerprint,
            "excluded": self.excluded,
        }


@dataclass(frozen=True)
class PersonalizeConfig(RecordingOptions):
    """How a new patient's model is made, and how the recording is read."""

    leads: str | Sequence[str] | None = option(None, "Lead names in order of preference; default the cohort's.")
    detector: str | Detector | None = option(  # type: ignore[assignment]  # noqa: RUF009
        None, "R-peak detector, if the cohort's R peaks were detected; default the cohort's detector."
    )
    minutes: float | None = option(
        None, "Train on the beats of the first minutes; default 5.", Range(0, math.inf, above=True, below=True)
    )
    epochs: int = option(
        DEFAULT_EPOCHS,
        "Passes over the beats of the first minutes, if the method trains on them.",
        Range(1, MOST_COUNT),
    )
    personal: str | None = option(
        None,
        "The personalization method, a name of ``ecgfed.core.personal``, or ``method`` for a round of the run's "
        "method. Default the one of the run's method.",
    )
    patient: str | None = option(None, "Name of the personal model; default the record's name.")


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(PersonalizeConfig, without=AS_THE_COHORT)
def personalize(
    run: Run | Path | str,
    out: Path | str,
    *,
    record: Path | str | None = None,
    class_mix: Mapping[str, float] | Path | str | None = None,
    cohort: Cohort | Path | str | None = None,
    how: ReadOptions | None = None,
    overwrite: bool = False,
    method: Passed = None,
    net: PassedNet = None,
    sign: Path | str | None = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> PersonalModel:
    """Make a personal model for a patient who was not in the training data; score it on the rest of the recording.

    Args:
        run: a run or its folder.
        out: the bundle folder to make, with this patient's model.
        record: the new patient's recording, with its annotation.
        class_mix: use the frequency of each class instead of beats: numbers by class, or a JSON or CSV file.
        cohort: the run's cohort, if it was moved.
        how: ``PersonalizeConfig``, or its part ``ReadOptions``.
        overwrite: replace an existing ``out``.
        method: the run's method, ``FILE.py:CLASS`` or the class, if it is custom; it is never loaded from the run.
        net: the same of a net of your own, ``FILE.py:CLASS``, its class or a function that returns a module.
        sign: a private key (PEM, Ed25519) to sign the bundle with.
        progress: receives progress, notes and warnings.
        options: the fields of ``PersonalizeConfig``; they take precedence over ``how``.

    Raises:
        EcgfedError: an invalid argument or input, as a single line.

    Examples:
        >>> import ecgfed
        >>> others = ecgfed.prepare_demo("others", patients=1, minutes=2, seed=1)
        >>> ecgfed.personalize(
        ...     "run", "newcomer", record="others-records/demo01", patient="new", minutes=1
        ... )  # doctest: +ELLIPSIS
        PersonalModel('new': macro-F1 ... -> ... on ... beats)
    """
    out = Path(out)
    record = None if record is None else Path(record)
    config = PersonalizeConfig.merged(how, options, "personalize", AS_THE_COHORT)
    name = _check(record, config, class_mix is not None)
    if config.personal is not None:
        personal_by_name(config.personal)
        if class_mix is not None:
            where = f"{param('personal')} and {param('class_mix')}"
            raise OptionError(where, "both given", "one of them", code="conflict")
    check_new_bundle(out, overwrite=overwrite)
    signer = None if sign is None else Signer(sign)
    opened = single_run(run, method, progress, net)
    federation = cohort_of(opened, cohort)
    if record is not None and federation.modality != "ecg":
        action = "name one with the patient's leads"
        raise OptionError(
            "record", f"a run on {federation.example_word}s", "a run on ECG beats", action, code="conflict"
        )
    state = opened.state()
    personal_name_used = FROM_METHOD if class_mix is not None else personal_name(opened, config.personal)
    personal_method = personal_by_name(personal_name_used)
    mix = None if class_mix is None else read_class_mix(class_mix, federation.classes)
    length = 0.0 if mix is not None else config.minutes or DEFAULT_MINUTES
    first, excluded = None, list[Exclusions]()
    known = name if name in {client.id for client in federation.federation} else None
    if record is not None:
        first, same, excluded = _first_beats(
            record, _as_the_cohort(federation, config), length, federation, opened, name, progress
        )
        known = same or known
    if known:
        progress.warn(f"{known} took part in training: the scores are not those of a new patient")
    if mix is not None:
        chain = _from_class_mix(opened, state, mix)
    else:
        assert first is not None
        chain = (
            adapt_model(opened, federation, state, first, config.epochs)
            if personal_method is None
            else model_from_beats(opened, federation, state, first, personal_method)
        )
    scores: dict[str, Any] = {"beats": 0} if first is None else _scores(opened, federation, state, first, chain)
    patient_scores = {"minutes": length, "beats": scores["beats"], **scores.get("personal", {})}
    model = _model(name, chain, federation, first, patient_scores, rr=opened.net.spec.rr)
    shared, kind = (opened, federation, state, out), BundleOptions()
    write_bundle(*shared, [model], None, kind, personal=personal_name_used, signer=signer, overwrite=overwrite)
    return PersonalModel(
        name,
        open_bundle(out),
        _learned_from(first, federation, length, None if personal_method else config.epochs, mix),
        scores,
        str(opened.path),
        opened.method.name,
        None if record is None else str(record),
        federation.modality,
        federation.fingerprint,
        {f"{entry.what}s": entry.as_json() for entry in excluded},
    )


def _check(record: Path | None, config: PersonalizeConfig, mix: bool) -> str:
    """Check the combination of options; return the patient's name."""
    if config.minutes is not None and mix:
        raise OptionError(f"{param('minutes')} and {param('class_mix')}", "both given", "one of them", code="conflict")
    if record is None and not mix:
        action = f"or pass {param('class_mix=FILE')}"
        raise OptionError("record", "is missing", "the new patient's recording", action, code="missing")
    name = config.patient or (record_path(record).name if record else "")
    if fault := name_problem(name):
        problem = f"{name!r:.100} {fault}"
        raise OptionError("patient", problem, "a name that can be a file's", "name the personal model with it")
    return name


def _as_the_cohort(cohort: Cohort, config: PersonalizeConfig) -> BeatOptions:
    """Return the options for the new patient's beats: as in the cohort, with detected R peaks if it has those."""
    peaks, where = cohort.meta.get("peaks") or "annotated", cohort.path / "cohort.json"
    mains_hz = stored_mains(cohort.meta.get("mains_hz"), where)
    stored, detector = cohort.meta.get("detector"), config.detector
    if detector is None:
        detector = stored_detector(stored, where) if peaks == "detected" and stored is not None else OURS
    as_cohort = replace(config, peaks=peaks, detector=detector, mains_hz=mains_hz)
    return as_cohort.beat_options(cohort.leads, cohort.rr_version)


def _first_beats(
    record: Path, options: BeatOptions, minutes: float, cohort: Cohort, run: Run, name: str, progress: ProgressReporter
) -> tuple[FirstBeats, str | None, list[Exclusions]]:
    """Return the labelled beats divided by time, the client with the same recording, and the exclusions."""
    cut = read_beats(record, options, annotated=True)
    labelled = cut.labelled(cohort.labels)
    first = first_beats(
        labelled,
        cut.recording.fs_hz,
        minutes,
        len(cohort.classes),
        name,
        rr=run.net.spec.rr,
        leave_out=run.plan.leave_out,
    )
    excluded = cut.exclusions(labelled, labelled.empty)
    report_exclusions(excluded, progress)
    return first, _participant(cut.recording.files, cohort), excluded


def _participant(files: tuple[Path, ...], cohort: Cohort) -> str | None:
    """Return the client that was trained on one of these files, compared by content."""
    read = {sha256(file) for file in files}
    client_of_record = {name: client.id for client in cohort.federation for name in client.records}
    for record in cohort.meta["records"]:
        if record["name"] in client_of_record and read & set(record["sha256"].values()):
            return client_of_record[record["name"]]
    return None


def _from_class_mix(run: Run, state: State, mix: NDArray[np.float64]) -> Pipeline:
    chain = model_from_class_distribution(run, state, mix)
    if chain is None:
        expected = "a method that makes models from class mixes"
        action = f"train with {param('method')} fed-rod-hyper, or pass {param('minutes')}"
        raise OptionError("class_mix", f"a run of {run.method.name}", expected, action, code="conflict")
    return chain


def _scores(run: Run, cohort: Cohort, state: State, first: FirstBeats, chain: Pipeline) -> dict[str, Any]:
    client_states = (run.client_state(state, client.index) for client in cohort.federation)
    everyone = run.method.global_model(state.server, client_states, "ensemble")
    return compare(run, first, {"global": everyone, "personal": chain})


def _model(
    name: str, chain: Pipeline, cohort: Cohort, first: FirstBeats | None, scores: dict[str, Any], *, rr: bool
) -> PatientModel:
    """Return the patient's entry for the bundle; without a recording, the graphs are checked on beats of the cohort."""
    if first is None:
        return PatientModel(name, name, chain, inputs_of(cohort, PARITY_BEATS, rr=rr), None)
    counts = first.data.class_counts(0).tolist()
    classes = tuple(name_of_class for name_of_class, count in zip(cohort.classes, counts, strict=True) if count)
    return PatientModel(name, name, chain, first.some(PARITY_BEATS), scores, classes)


def _learned_from(
    first: FirstBeats | None, cohort: Cohort, minutes: float, epochs: int | None, mix: NDArray[np.float64] | None
) -> dict[str, Any]:
    if mix is not None:
        shares = {name: float(n) for name, n in zip(cohort.classes, mix / mix.sum(), strict=True) if n}
        return {"beats": 0, "class_mix": shares}
    assert first is not None
    counts = first.data.class_counts(0).tolist()
    classes = {name: n for name, n in zip(cohort.classes, counts, strict=True) if n}
    trained = {} if epochs is None else {"epochs": epochs}
    return {"minutes": minutes, **trained, "beats": sum(counts), "classes": classes}


def read_class_mix(source: Mapping[str, float] | Path | str, classes: tuple[str, ...]) -> NDArray[np.float64]:
    """Return (classes,) numbers, not all 0, from a mapping, a JSON object or CSV lines ``class,number``.

    Raises:
        OptionError: it cannot be read, or has an unknown class or a negative number.
    """
    example = {classes[0]: 0.9, classes[-1]: 0.1}
    expected = f"JSON such as {json.dumps(example)}, or CSV lines CLASS,NUMBER"
    option = param("class_mix") if isinstance(source, Mapping) else f"{param('class_mix')} {source}"
    try:
        if isinstance(source, Mapping):
            pairs = [(str(name), float(value)) for name, value in source.items()]
        else:
            pairs = _pairs(read_bounded(Path(source), MAX_TOML_BYTES, OptionError, option).decode("utf-8"))
    except (OSError, ValueError, TypeError, AttributeError, OverflowError) as problem:
        raise OptionError(option, f"cannot be read ({problem})", expected) from problem
    mix = np.zeros(len(classes))
    for name, value in pairs:
        if name not in classes:
            raise OptionError(option, f"class {name!r}", f"one of {', '.join(classes)}", code="unknown-choice")
        if not 0 <= value < float("inf"):
            raise OptionError(option, f"{value:g} for class {name}", "0 or more")
        mix[classes.index(name)] += value
    if not mix.sum():
        raise OptionError(option, "no class occurs", expected)
    return mix


def _pairs(text: str) -> list[tuple[str, float]]:
    if text.lstrip().startswith("{"):
        return [(str(name), float(value)) for name, value in parse_json(text).items()]
    rows = [row for row in csv.reader(text.splitlines()) if row]
    rows = rows[1:] if rows and rows[0][0] == "class" else rows
    if bad_row := next((row for row in rows if len(row) != 2), None):
        raise ValueError(f"a line is {','.join(bad_row)!r:.60}")
    return [(name.strip(), float(value)) for name, value in rows]
