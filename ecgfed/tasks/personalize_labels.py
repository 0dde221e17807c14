"""``personalize --labels``: make a personal model from a recording and a few labels, and label all its beats.

No run is needed: training starts from the model in the package or from the model of a bundle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RecordError, param
from ecgfed.base.files import check_free, write_together
from ecgfed.base.language import message, messages
from ecgfed.base.options import Range, flat_options, option
from ecgfed.base.safe_io import name_problem
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.personal.base import Personal
from ecgfed.core.personal.registry import FROM_METHOD, personal_by_name
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.labels.contested import contested
from ecgfed.domain.labels.enough import judge
from ecgfed.domain.labels.spread import spread
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT
from ecgfed.domain.record.recording import ReadOptions, Recording
from ecgfed.exports.bundles.export import PatientModel
from ecgfed.exports.bundles.extend import check_extension, extended_bundle
from ecgfed.exports.bundles.parity import PARITY_BEATS
from ecgfed.exports.bundles.weights import GlobalModel, check_weights, global_model
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.cross_validation import FOLDS, CrossValidation, Learner, cross_validate, training_beats
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats, recording_id
from ecgfed.tasks.label_personalization import LabelPersonalization, cross_validation_dict
from ecgfed.tasks.label_warnings import own_label_warnings, unlabelled_classes
from ecgfed.tasks.matched_labels import MatchedLabels, match_labels, read_label_file
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.prediction_warnings import refuse_synthetic
from ecgfed.tasks.progress import SILENT, ProgressReporter, report_exclusions
from ecgfed.tasks.propagated_labels import PropagatedLabels, propagated_label_files
from ecgfed.tasks.records import open_for_model, recording_digests

#: Default personalization method.
DEFAULT_PERSONAL = "partway"


@dataclass(frozen=True)
class LabelsConfig(RecordingOptions):
    """How a model is made from labels, and how the recording is read."""

    minutes: float | None = option(None, "Use the labels and group the beats of the first minutes only; default all.")
    patient: str | None = option(None, "Name of the model in the bundle; default the recording's.")
    personal: str | type = option(  # noqa: RUF009
        DEFAULT_PERSONAL, "The personalization method, a name of ``ecgfed.core.personal``, or your own class."
    )
    seed: int = option(
        0, "Seed of the groups, the training and the folds; use the seed of ``label``.", Range(0, 1 << 31, below=True)
    )


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(LabelsConfig)
def personalize_labels(
    recording: Recording | Path | str,
    out: Path | str,
    *,
    labels: Path | str,
    bundle: Bundle | Path | str | None = None,
    beats: Path | str | None = None,
    how: ReadOptions | None = None,
    sign: Path | str | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> LabelPersonalization:
    """Train a personal model on a few labels of a recording, and label all its beats. Not for diagnosis.

    Each label is propagated to all beats of its group, on which the model is trained. Cross-validation decides which
    model is exported: the personal model only if neither the global model nor a model from scratch predicts more
    labels correctly.

    Args:
        recording: a recording, or its file.
        out: the bundle folder to make: a copy of ``bundle`` with this patient's model.
        labels: the table saved by ``ecgfed label``, a WFDB annotation, or a table of annotations.
        bundle: the bundle whose global model is the starting point; default the model in the package.
        beats: folder for the propagated labels; default ``OUT-beats``.
        how: ``LabelsConfig``, or its part ``ReadOptions``.
        sign: a private key (PEM, Ed25519) to sign the bundle with.
        trusted: public keys (PEM files), one of which must have signed ``bundle``; None accepts any bundle.
        force: start from a model trained on synthetic patients for other recordings, too.
        overwrite: replace ``out``, the files in ``beats``, and a patient of this name.
        progress: receives progress, notes and warnings.
        options: the fields of ``LabelsConfig``; they take precedence over ``how``.

    Raises:
        EcgfedError: an invalid argument or input, as a single line; nothing is written.

    Examples:
        >>> import ecgfed
        >>> others = ecgfed.prepare_demo("strangers", patients=1, minutes=1, seed=2)
        >>> ecgfed.personalize_labels(
        ...     "strangers-records/demo01", "own", labels="strangers-records/demo01.atr", patient="new"
        ... )  # doctest: +ELLIPSIS
        LabelPersonalization('new': ... labels -> ... beats; ...)
    """
    config = LabelsConfig.merged(how, options, "personalize_labels")
    personal_method, beat_options = _check(config.personal), config.beat_options()
    opened = opened_bundle(bundle, trusted)
    request = _opened_request(
        recording, Path(out), Path(labels), opened, beat_options, config.patient, beats, overwrite
    )
    refuse_synthetic(request.bundle, request.recording, force=force)
    signer = None if sign is None else Signer(sign)
    file_labels = read_label_file(request.labels, request.recording)
    grouped = grouped_beats(
        request.recording, beat_options, request.bundle,
        minutes=config.minutes, added=file_labels.added, seed=config.seed, progress=progress,
    )  # fmt: skip
    user_labels = match_labels(file_labels, request.labels, grouped, config.minutes)
    learner = _learner(grouped, request.start, user_labels, personal_method, config.seed)
    excluded = [grouped.excluded, channels_excluded([request.recording])]
    report_exclusions(excluded, progress)
    warnings = own_label_warnings(grouped, user_labels, learner)
    for text in warnings:
        progress.warn(text)
    choice = _choose_model(learner, grouped, user_labels, progress)
    enough = judge(grouped.groups, user_labels.label)
    confirm = contested(grouped.groups, user_labels.label, user_labels.confirmed)
    for text in (label_warnings := _label_warnings(grouped, user_labels, choice)):
        progress.warn(text)
    propagated = _write(request, grouped, user_labels, learner, choice, signer)
    if request.bundle.signature is not None and signer is None:
        progress.note(
            message("The new bundle is not signed: the signature of the original bundle is not valid for it.")
        )
    metadata = {
        "record": request.recording.name,
        "recording": recording_id(request.recording),
        "lead": request.recording.lead,
        "personal": personal_method.name,
        "minutes": config.minutes,
        "seed": config.seed,
        "started_from": name_of(request.bundle.path),
        "warnings": [*warnings, *label_warnings],
        "excluded": excluded_as_json(excluded),
        "groups_trusted": choice.groups_trusted,
    }
    return LabelPersonalization(
        request.name,
        open_bundle(request.out),
        propagated,
        user_labels,
        choice.exported,
        choice.checked,
        choice.unchecked,
        enough,
        confirm,
        tuple(request.targets),
        metadata,
        grouped.beats.r_samples,
    )


@dataclass(frozen=True, eq=False)
class PersonalizeRequest:
    """Inputs and outputs, checked before any work is done."""

    recording: Recording
    out: Path
    labels: Path
    bundle: Bundle
    start: GlobalModel
    name: str
    targets: list[Path]
    overwrite: bool


def _opened_request(
    recording: Recording | Path | str,
    out: Path,
    labels: Path,
    bundle: Bundle,
    options: BeatOptions,
    patient: str | None,
    beats: Path | str | None,
    overwrite: bool,
) -> PersonalizeRequest:
    """Open the inputs and check the outputs."""
    start = global_model(bundle)
    opened = open_for_model(recording, bundle.leads, options.leads or None, how=options.how)
    name = opened.name if patient is None else patient
    if fault := name_problem(name):
        problem = f"{name!r:.100} {fault}"
        raise OptionError("patient", problem, "a name that can be a file's", "name the personal model with it")
    check_extension(bundle, out, name, overwrite=overwrite)
    folder = out.with_name(f"{out.name}-beats") if beats is None else Path(beats)
    if out.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise OptionError("beats", f"{folder} is inside the bundle {out}", "another folder")
    if file := next((parent for parent in (folder, *folder.parents) if parent.exists() and not parent.is_dir()), None):
        raise OptionError("beats", f"{file} is a file", "a folder for the propagated labels", "choose another")
    targets = propagated_label_files(folder, opened)
    check_free(targets, [*opened.files, labels], overwrite=overwrite, option="beats")
    return PersonalizeRequest(opened, out, labels, bundle, start, name, targets, overwrite)


def _check(personal: str | type) -> Personal:
    """Return the personalization method; raises OptionError for one that needs a run."""
    method = personal_by_name(personal)
    if method is None:
        where = f"{param('personal')} {FROM_METHOD}"
        raise OptionError(where, "needs a run", "a method that needs labels only", "leave it out", code="conflict")
    return method


def _learner(
    grouped: GroupedBeats, start: GlobalModel, user_labels: MatchedLabels, how: Personal, seed: int
) -> Learner:
    """Cut the beats for training; raises BundleError if weights and graphs disagree, RecordError without a class."""
    bundle = grouped.bundle
    if not (set(user_labels.label.values()) & set(bundle.labels.symbols)):
        symbols = ", ".join(user_labels.counts)
        expected = f"some of the bundle's {' '.join(bundle.labels.symbols)}"
        raise RecordError(param("labels"), f"are {symbols} alone", expected)
    beats = training_beats(grouped, user_labels.label, whole=how.uses_unlabelled)
    metadata = bundle.trained_on
    counts = metadata.epoch_counts or metadata.class_counts or dict.fromkeys(bundle.classes, 1)
    everyone = torch.tensor([float(counts[name]) for name in bundle.classes])
    everyone = everyone if everyone.sum() > 0 else torch.ones(len(bundle.classes))
    learner = Learner(start, grouped.groups, bundle.labels, beats, how, everyone / everyone.sum(), seed)
    check_weights(bundle, start, learner.some(PARITY_BEATS))
    return learner


@dataclass(frozen=True, eq=False)
class _ExportChoice:
    """The model to export, and its cross-validation."""

    exported: str
    chain: Pipeline
    checked: CrossValidation | None
    unchecked: str
    single_class: bool = False

    @property
    def groups_trusted(self) -> bool:
        """Whether labels are propagated in groups: if cross-validation shows these not clearly worse than the model."""
        if self.checked is None or self.single_class:
            return False
        lead = self.checked.estimate("global") - self.checked.estimate("groups")
        return lead <= _MAX_GROUP_LOSS * self.checked.labels


#: Maximum lead of the global model over the groups, as a share of the labels, at which groups are trusted. Labels of a
#: test fold are the hardest ones for groups, since each belongs to another group.
_MAX_GROUP_LOSS = 0.1
#: Limits for warnings: share of labels on which the global model agrees at most; share of beats labelled as no beat.
_MAX_AGREED, _MAX_NO_BEAT = 1 / 3, 0.2


def _label_warnings(grouped: GroupedBeats, user_labels: MatchedLabels, choice: _ExportChoice) -> list[str]:
    """Return warnings about implausible labels, a sentence each."""
    warnings, checked = list[str](), choice.checked
    if checked is not None and checked.right["global"] <= _MAX_AGREED * checked.labels:
        warnings.append(
            messages(
                "the global model says the same of {agreed} of {n} label: check that the labels are correct and "
                "belong to this recording",
                "the global model says the same of {agreed} of {n} labels: check that the labels are correct and "
                "belong to this recording",
                checked.labels,
                agreed=checked.right["global"],
            )
        )
    if checked is not None and not choice.groups_trusted and not choice.single_class:
        warnings.append(
            message(
                "the groups predicted fewer of the labels held back than the global model, so beats without a label "
                "keep the model's: check that the labels are correct and at beats that 'ecgfed label' chose"
            )
        )
    no_beats = int((spread(grouped.groups, user_labels.label)[0] == NO_BEAT).sum())
    if no_beats > _MAX_NO_BEAT * grouped.grouped:
        warnings.append(
            message(
                "{n} of {total} beats would be no beats by these labels ({label})",
                n=no_beats,
                total=grouped.grouped,
                label=NO_BEAT,
            )
        )
    return warnings


def _choose_model(
    learner: Learner, grouped: GroupedBeats, user_labels: MatchedLabels, progress: ProgressReporter
) -> _ExportChoice:
    """Train the best model by cross-validation; the global model if there are too few labels for it."""
    on_progress = partial(progress.update, "checks")
    checked = cross_validate(learner, user_labels.label, grouped.predictions.label, on_progress)
    symbols = learner.labels.symbols
    classes = {symbols[symbol] for symbol in user_labels.label.values() if symbol in symbols}
    if checked is None:
        return _ExportChoice(
            "global",
            learner.start.chain,
            None,
            message(
                "with fewer than {n} labels nothing shows that a personal model is better: the global model stands in",
                n=FOLDS,
            ),
        )
    unchecked = ""
    if len(classes) == 1:
        (labelled,) = classes
        if reason := unlabelled_classes(grouped, labelled):
            return _ExportChoice("global", learner.start.chain, checked, reason, single_class=True)
        unchecked = message(
            "only {label} was labelled: how well the model tells other classes could not be checked", label=labelled
        )
    patient_beats = learner.patient_beats(user_labels.label)
    assert patient_beats is not None  # at least one label has a class
    chain = learner.start.chain
    if checked.best != "global":
        chain = learner.personal(patient_beats) if checked.best == "personal" else learner.from_scratch(patient_beats)
    return _ExportChoice(checked.best, chain, checked, unchecked)


def _write(
    request: PersonalizeRequest,
    grouped: GroupedBeats,
    user_labels: MatchedLabels,
    learner: Learner,
    choice: _ExportChoice,
    signer: Signer | None,
) -> PropagatedLabels:
    """Write the bundle and the propagated labels; return the labels."""
    bundle, learned = learner.labels, choice.exported != "global"
    labelled_classes = {bundle.symbols[name] for name in user_labels.label.values() if name in bundle.symbols}
    classes = tuple(name for name in bundle.classes if name in labelled_classes) if learned else None
    model = PatientModel(request.name, request.name, choice.chain, learner.some(PARITY_BEATS), None, classes)
    metadata = {
        "personal": learner.how.name if choice.exported == "personal" else choice.exported,
        "labels": user_labels.counts,
        "held_back": None if choice.checked is None else cross_validation_dict(choice.checked),
        **({"recordings": recording_digests(request.recording)} if learned else {}),
    }
    net, overwrite = request.start.net, request.overwrite
    with extended_bundle(
        request.bundle, request.out, model, net, metadata=metadata, signer=signer, overwrite=overwrite
    ) as extended:
        propagated = _propagate(grouped, user_labels, extended, request.name, groups=choice.groups_trusted)
        write_together(dict(zip(request.targets, (propagated.annotation(), propagated.table()), strict=True)))
    return propagated


def _propagate(
    grouped: GroupedBeats, user_labels: MatchedLabels, bundle: Bundle, patient: str, *, groups: bool
) -> PropagatedLabels:
    """Return a label for each beat: that of the labelled beat (in its group with ``groups``), else the model's."""
    beats, count = grouped.all_beats, len(grouped.all_beats.r_samples)
    predictions = bundle.classifier(patient).classify_recording(beats.blocks())
    classes = np.array([bundle.labels.symbol_of(name) for name in bundle.classes], dtype=np.str_)
    model = np.where(predictions.classified, classes[predictions.label], predictions.override)
    symbol, origin = model.copy(), np.full(count, -1, np.int64)
    source = np.full(count, "model", dtype="<U9")
    names, from_beat = spread(grouped.groups, user_labels.label)
    labelled = np.flatnonzero(names != CANNOT_TELL)
    if not groups:
        labelled = np.intersect1d(labelled, np.array(sorted(user_labels.label), dtype=np.int64))
    at = grouped.rows[labelled]
    symbol[at], origin[at], source[at] = names[labelled], grouped.beats.r_samples[from_beat[labelled]], "group"
    by_person = [int(grouped.rows[beat]) for beat, label in user_labels.label.items() if label != CANNOT_TELL]
    for beat, label in user_labels.without_signal.items():
        if label != CANNOT_TELL:
            symbol[beat], origin[beat] = label, beats.r_samples[beat]
            by_person.append(beat)
    source[by_person] = "clinician"
    of_group = bundle.labels.encode(symbol)
    disagrees = (of_group >= 0) & (of_group != predictions.label)
    uncertain = np.asarray(((source == "group") & disagrees) | ((source == "model") & predictions.low_confidence))
    return PropagatedLabels(beats.recording, beats.r_samples, symbol, source, origin, model, uncertain)
