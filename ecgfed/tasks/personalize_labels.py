"""``personalize --labels``: a recording and a few labels in; the patient's own model in a bundle, and a label for every
beat of the recording out. No run is needed: it begins from the model in the package, or from any bundle's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.safe_io import name_problem
from ecgfed.base.text import count_of
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.personal.base import Personal
from ecgfed.core.personal.registry import FROM_METHOD, personal_by_name
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.labels.contested import contested
from ecgfed.domain.labels.enough import judge
from ecgfed.domain.labels.spread import spread
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT
from ecgfed.domain.record.leads import NameMatch, best_match, lead_list
from ecgfed.domain.record.recording import AnyRecording, ReadOptions, read_options
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.exports.bundles.export import PatientModel
from ecgfed.exports.bundles.extend import check_extension, extended_bundle
from ecgfed.exports.bundles.parity import PARITY_BEATS
from ecgfed.exports.bundles.weights import GlobalModel, check_weights, global_model
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.cross_validation import FOLDS, CrossValidation, Learner, cross_validate, training_beats
from ecgfed.tasks.doubts import refuse_synthetic, took_part
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats, recording_id
from ecgfed.tasks.label_personalization import LabelPersonalization, cross_validation_dict
from ecgfed.tasks.matched_labels import MatchedLabels, match_labels, read_label_file
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.propagated_labels import PropagatedLabels, propagated_label_files
from ecgfed.tasks.records import open_for_model, recording_digests
from ecgfed.tasks.watch import NOBODY, Watch, report_exclusions

#: How a patient's model is made where nobody says.
DEFAULT_PERSONAL = "partway"


def personalize_labels(
    recording: AnyRecording | Path | str,
    out: Path | str,
    *,
    labels: Path | str,
    bundle: Bundle | Path | str | None = None,
    minutes: float | None = None,
    patient: str | None = None,
    personal: str = DEFAULT_PERSONAL,
    beats: Path | str | None = None,
    leads: str | Sequence[str] | None = None,
    peaks: str = "detected",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    annotator: str = "atr",
    how: ReadOptions | None = None,
    seed: int = 0,
    sign: Path | str | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    force: bool = False,
    overwrite: bool = False,
    watch: Watch = NOBODY,
) -> LabelPersonalization:
    """Make a patient's own model from a few labels of a recording, and label all its beats. Not for diagnosis.

    Each label goes to all beats of its group; the model learns from these. Labels are held back in turn to see what
    it is worth: it is exported only where neither the global model nor one from scratch had more of them right.

    Args:
        recording: a recording, or its file.
        out: the bundle folder to make: the given bundle's, with this patient's model.
        labels: the table that ``ecgfed label`` saves, a WFDB annotation, or a table of marks.
        bundle: whose global model is begun from, default the model in the package.
        minutes: only labels of the first minutes count, and only their beats are put into groups; default all.
        patient: name of the model in the bundle; default the recording's.
        personal: how the model is made, a name of ``ecgfed.core.personal``.
        beats: folder for the recording's own labels; default ``OUT-beats``.
        leads: lead names in order of preference; default the bundle's.
        peaks: ``detected`` or ``annotated`` R peaks.
        detector: for detected peaks: a registered name, or a ``Detector`` of your own.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for detectors that ask; None is 60.
        annotator: suffix of the annotation file, for annotated peaks.
        how: what a CSV or NumPy file leaves open.
        seed: of the groups, the training and the parts that are held back; that of ``label``.
        sign: a private key (PEM, Ed25519) to sign the bundle with.
        trusted: public keys (PEM files), one of which has to have signed the given bundle; None takes any.
        force: begin from a model of synthetic patients for other recordings too.
        overwrite: replace ``out``, the files in ``beats``, and a patient of this name.
        watch: told how far it is, and what to keep in mind.

    Raises:
        EcgfedError: in one line, what cannot be used; nothing is written.

    Examples:
        >>> import ecgfed
        >>> others = ecgfed.prepare_demo("strangers", patients=1, minutes=1, seed=2)
        >>> ecgfed.personalize_labels(
        ...     "strangers-records/demo01", "own", labels="strangers-records/demo01.atr", patient="new"
        ... )  # doctest: +ELLIPSIS
        LabelPersonalization('new': ... labels -> ... beats; ...)
    """
    personal_method = _check(personal, seed)
    options = BeatOptions(
        () if leads is None else lead_list(leads), peaks, detector, annotator, read_options(how), mains_hz
    )
    request = _opened_request(
        recording, Path(out), Path(labels), opened_bundle(bundle, trusted), options, patient, beats, overwrite
    )
    refuse_synthetic(request.bundle, request.recording, force=force)
    signer = None if sign is None else Signer(sign)
    file_labels = read_label_file(request.labels, request.recording)
    grouped = grouped_beats(request.recording, options, request.bundle, minutes=minutes, seed=seed, watch=watch)
    user_labels = match_labels(file_labels, request.labels, grouped, minutes)
    learner = _learner(grouped, request.start, user_labels, personal_method, seed)
    excluded = [grouped.excluded, channels_excluded([request.recording])]
    report_exclusions(excluded, watch)
    warnings = _model_warnings(grouped, user_labels, learner)
    for text in warnings:
        watch.warn(text)
    choice = _choose_model(learner, grouped, user_labels, watch)
    enough = judge(grouped.groups, user_labels.label)
    confirm = contested(grouped.groups, user_labels.label, user_labels.confirmed)
    for text in (label_warnings := _label_warnings(grouped, user_labels, choice)):
        watch.warn(text)
    propagated = _write(request, grouped, user_labels, learner, choice, signer)
    if request.bundle.signature is not None and signer is None:
        watch.note(
            "The bundle is another one now, and not signed: the signature of the one it began from does not hold."
        )
    metadata = {
        "record": request.recording.name,
        "recording": recording_id(request.recording),
        "lead": request.recording.lead,
        "personal": personal_method.name,
        "minutes": minutes,
        "seed": seed,
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
    """What was asked for, as far as it can be refused before any work."""

    recording: AnyRecording
    out: Path
    labels: Path
    bundle: Bundle
    start: GlobalModel
    name: str
    targets: list[Path]
    overwrite: bool


def _opened_request(
    recording: AnyRecording | Path | str,
    out: Path,
    labels: Path,
    bundle: Bundle,
    options: BeatOptions,
    patient: str | None,
    beats: Path | str | None,
    overwrite: bool,
) -> PersonalizeRequest:
    """Open what is to be read, and refuse what could not be written in the end."""
    start = global_model(bundle)
    opened = open_for_model(recording, bundle.leads, options.leads or None, how=options.how)
    name = opened.name if patient is None else patient
    if fault := name_problem(name):
        problem = f"{name!r:.100} {fault}"
        raise OptionError("--patient", problem, "a name that can be a file's", "name the personal model with it")
    check_extension(bundle, out, name, overwrite=overwrite)
    targets = propagated_label_files(_beats_folder(out, beats), opened)
    check_free(targets, [*opened.files, labels], overwrite=overwrite, option="--beats")
    return PersonalizeRequest(opened, out, labels, bundle, start, name, targets, overwrite)


def _check(personal: str, seed: int) -> Personal:
    """Refuse what needs no file to be refused; return how the model is made."""
    method = personal_by_name(personal)
    if method is None:
        raise OptionError(f"--personal {FROM_METHOD}", "needs a run", "one that labels are enough for", "leave it out")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 31:
        raise OptionError("--seed", f"{seed!r:.40}", "a whole number, 0 or more")
    return method


def _beats_folder(out: Path, beats: Path | str | None) -> Path:
    """Return the folder of the recording's own labels; not inside the bundle, which holds what its manifest names."""
    folder = out.with_name(f"{out.name}-beats") if beats is None else Path(beats)
    if out.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise OptionError("--beats", f"{folder} is inside the bundle {out}", "another folder")
    if file := next((parent for parent in (folder, *folder.parents) if parent.exists() and not parent.is_dir()), None):
        raise OptionError("--beats", f"{file} is a file", "a folder for the recording's own labels", "name another")
    return folder


def _learner(
    grouped: GroupedBeats, start: GlobalModel, user_labels: MatchedLabels, how: Personal, seed: int
) -> Learner:
    """Cut the beats that are learned from, and see that the weights answer them as the bundle's graphs do.

    Raises:
        BundleError: they do not.
        RecordError: no label has a class of the bundle.
    """
    bundle = grouped.bundle
    if not (set(user_labels.label.values()) & set(bundle.labels.symbols)):
        symbols = ", ".join(user_labels.counts)
        raise RecordError("--labels", f"are {symbols} alone", f"some of the bundle's {' '.join(bundle.labels.symbols)}")
    beats = training_beats(grouped, user_labels.label)
    counts = bundle.trained_on.class_counts or dict.fromkeys(bundle.classes, 1)
    everyone = torch.tensor([float(counts[name]) for name in bundle.classes])
    everyone = everyone if everyone.sum() > 0 else torch.ones(len(bundle.classes))
    learner = Learner(start, grouped.groups, bundle.labels, beats, how, everyone / everyone.sum(), seed)
    check_weights(bundle, start, learner.some(PARITY_BEATS))
    return learner


def _model_warnings(grouped: GroupedBeats, user_labels: MatchedLabels, learner: Learner) -> list[str]:
    """Return what to keep in mind beside the model, a sentence each."""
    warnings = []
    if user_labels.unmatched:
        warnings.append(
            f"labels at no beat that was found, or at one that has a label, are left out: {user_labels.unmatched:,}"
        )
    if user_labels.past_minutes:
        warnings.append(f"labels past the first minutes are left out: {user_labels.past_minutes:,}")
    name, likeness = best_match(grouped.bundle.leads, grouped.beats.recording.lead)
    if likeness == NameMatch.OTHER:
        warnings.append(f"lead {grouped.beats.recording.lead} is not {name}, which the global model was trained on")
    if silent := len(user_labels.without_signal):
        lead = grouped.beats.recording.lead
        warnings.append(f"labels at beats without a signal in {lead} are of these beats alone: {silent:,}")
    of_no_class = {
        symbol: count
        for symbol, count in user_labels.counts.items()
        if symbol not in learner.labels.symbols and symbol not in (NO_BEAT, CANNOT_TELL)
    }
    if of_no_class:
        counts = ", ".join(f"{count:,} {symbol}" for symbol, count in of_no_class.items())
        warnings.append(f"the bundle has no class for {counts}: the beats keep these labels, no model learns them")
    if took_part(grouped.bundle, grouped.beats.recording):
        warnings.append("the global model was trained on this very recording: on a new patient it would do less well")
    return warnings


@dataclass(frozen=True, eq=False)
class _ExportChoice:
    """Which model a patient gets, and why."""

    exported: str
    chain: Pipeline
    checked: CrossValidation | None
    unchecked: str

    @property
    def groups_trusted(self) -> bool:
        """Whether beats take their group's label: not where the groups found clearly fewer of the labels held back than
        the global model, nor where nothing was held back. Then a label is of its own beat alone."""
        if self.checked is None:
            return False
        right = self.checked.right
        return right["global"] - right["groups"] <= _MAX_GROUP_LOSS * self.checked.labels


#: Groups that find so much fewer of the labels than the global model, as a share of the labels, are not trusted: labels
#: held back are the hardest for groups, each being of another one.
_MAX_GROUP_LOSS = 0.1
#: Warned of: the global model has no more than this share of the labels right, or more than that share of the beats
#: would be no beats.
_MAX_AGREED, _MAX_NO_BEAT = 1 / 3, 0.2


def _label_warnings(grouped: GroupedBeats, user_labels: MatchedLabels, choice: _ExportChoice) -> list[str]:
    """Return what makes the labels themselves doubtful, a sentence each."""
    warnings, checked = [], choice.checked
    if checked is not None and checked.right["global"] <= _MAX_AGREED * checked.labels:
        agreed = f"the global model says the same of {checked.right['global']} of {count_of(checked.labels, 'label')}"
        warnings.append(f"{agreed}: look whether the labels are right, and of this recording")
    if checked is not None and not choice.groups_trusted:
        warnings.append(
            "the groups found fewer of the labels held back than the global model: beats without a label of their own "
            "keep the model's; are the labels right, and of beats that 'ecgfed label' asked for?"
        )
    no_beats = int((spread(grouped.groups, user_labels.label)[0] == NO_BEAT).sum())
    if no_beats > _MAX_NO_BEAT * grouped.grouped:
        warnings.append(f"{no_beats:,} of {grouped.grouped:,} beats would be no beats by these labels ({NO_BEAT})")
    return warnings


def _choose_model(learner: Learner, grouped: GroupedBeats, user_labels: MatchedLabels, watch: Watch) -> _ExportChoice:
    """Make the model that answered most of the labels held back; the global one where nobody can know."""

    def on_progress(completed: int, total: int) -> None:
        watch.progress("checks", completed, total)

    checked = cross_validate(learner, user_labels.label, grouped.predictions.label, on_progress)
    classes = {
        learner.labels.symbols[symbol] for symbol in user_labels.label.values() if symbol in learner.labels.symbols
    }
    if checked is None:
        reason = (
            f"with fewer than {FOLDS} labels nothing shows that a personal model is better: the global model stands in"
        )
        return _ExportChoice("global", learner.start.chain, None, reason)
    unchecked = ""
    if len(classes) == 1:
        unchecked = f"only {min(classes)} was labelled: how well the model tells other classes could not be checked"
    patient_beats = learner.patient_beats(user_labels.label)
    assert patient_beats is not None  # a label has a class
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
    """Write the bundle and the recording's own labels, and return these."""
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
    """Say what each beat of the recording is: as its answered beat's label says, else as the patient's model does.

    Without ``groups`` a label is of its own beat alone.
    """
    beats, count = grouped.all_beats, len(grouped.all_beats.r_samples)
    predictions = bundle.classifier(patient).classify_blocks(beats.blocks())
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
    return PropagatedLabels(
        beats.recording,
        beats.r_samples,
        symbol,
        source,
        origin,
        model,
        _uncertain(bundle, predictions.label, predictions.low_confidence, symbol, source),
    )


def _uncertain(
    bundle: Bundle,
    label: NDArray[np.integer],
    uncertain: NDArray[np.bool_],
    symbol: NDArray[np.str_],
    source: NDArray[np.str_],
) -> NDArray[np.bool_]:
    """Say which labels to doubt: of a group where the model says another class, of the model where it is unsure."""
    of_group = bundle.labels.encode(symbol)
    disagrees = (of_group >= 0) & (of_group != label)
    return np.asarray(((source == "group") & disagrees) | ((source == "model") & uncertain))
