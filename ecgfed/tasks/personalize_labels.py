"""``personalize --labels``: a recording and a few labels in; the patient's own model in a bundle, and a label for every
beat of the recording out. No run is needed: it begins from the model in the package, or from any bundle's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.safe_io import name_problem
from ecgfed.base.text import count_of
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.personal.base import Personal
from ecgfed.core.personal.registry import FROM_METHOD, personal_by_name
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.labels.answers import CANNOT_TELL, NO_BEAT
from ecgfed.domain.labels.contested import contested
from ecgfed.domain.labels.enough import judge
from ecgfed.domain.labels.spread import spread
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
from ecgfed.tasks.excluded import channels_excluded, excluded_as_json
from ecgfed.tasks.grouped import GroupedBeats, grouped_beats, recording_id
from ecgfed.tasks.own_files import OwnLabels, own_targets
from ecgfed.tasks.own_labels import Answered, at_beats, read_marks
from ecgfed.tasks.own_model import OwnModel, held_dict
from ecgfed.tasks.own_models import PARTS, HeldBack, Learner, held_back, learned_beats
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.prediction_warnings import refuse_synthetic, took_part
from ecgfed.tasks.progress import SILENT, ProgressReporter, report_exclusions
from ecgfed.tasks.records import open_for_model, recording_digests

#: How a patient's model is made where nobody says.
DEFAULT_PERSONAL = "partway"


@renamed_parameters("0.3", "0.5", watch="progress")
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
    progress: ProgressReporter = SILENT,
) -> OwnModel:
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
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: in one line, what cannot be used; nothing is written.

    Examples:
        >>> import ecgfed
        >>> others = ecgfed.prepare_demo("strangers", patients=1, minutes=1, seed=2)
        >>> ecgfed.personalize_labels(
        ...     "strangers-records/demo01", "own", labels="strangers-records/demo01.atr", patient="new"
        ... )  # doctest: +ELLIPSIS
        OwnModel('new': ... labels -> ... beats; ...)
    """
    made = _check(personal, seed)
    options = BeatOptions(
        () if leads is None else lead_list(leads), peaks, detector, annotator, read_options(how), mains_hz
    )
    asked = _asked(
        recording, Path(out), Path(labels), opened_bundle(bundle, trusted), options, patient, beats, overwrite
    )
    refuse_synthetic(asked.bundle, asked.recording, force=force)
    signer = None if sign is None else Signer(sign)
    marks = read_marks(asked.labels, asked.recording)
    grouped = grouped_beats(asked.recording, options, asked.bundle, minutes=minutes, seed=seed, progress=progress)
    answered = at_beats(marks, asked.labels, grouped, minutes)
    learner = _learner(grouped, asked.start, answered, made, seed)
    excluded = [grouped.excluded, channels_excluded([asked.recording])]
    report_exclusions(excluded, progress)
    warnings = _doubts(grouped, answered, learner)
    for text in warnings:
        progress.warn(text)
    choice = _chosen(learner, grouped, answered, progress)
    enough = judge(grouped.groups, answered.label)
    confirm = contested(grouped.groups, answered.label, answered.confirmed)
    for text in (suspicions := _suspicions(grouped, answered, choice)):
        progress.warn(text)
    own = _written(asked, grouped, answered, learner, choice, signer)
    if asked.bundle.signature is not None and signer is None:
        progress.note(
            "The bundle is another one now, and not signed: the signature of the one it began from does not hold."
        )
    about = {
        "record": asked.recording.name,
        "recording": recording_id(asked.recording),
        "lead": asked.recording.lead,
        "personal": made.name,
        "minutes": minutes,
        "seed": seed,
        "started_from": name_of(asked.bundle.path),
        "warnings": [*warnings, *suspicions],
        "excluded": excluded_as_json(excluded),
        "groups_trusted": choice.groups_trusted,
    }
    return OwnModel(
        asked.name,
        open_bundle(asked.out),
        own,
        answered,
        choice.kept,
        choice.checked,
        choice.unchecked,
        enough,
        confirm,
        tuple(asked.targets),
        about,
        grouped.beats.r_samples,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """What was asked for, as far as it can be refused before any work."""

    recording: AnyRecording
    out: Path
    labels: Path
    bundle: Bundle
    start: GlobalModel
    name: str
    targets: list[Path]
    overwrite: bool


def _asked(
    recording: AnyRecording | Path | str,
    out: Path,
    labels: Path,
    bundle: Bundle,
    options: BeatOptions,
    patient: str | None,
    beats: Path | str | None,
    overwrite: bool,
) -> _Asked:
    """Open what is to be read, and refuse what could not be written in the end."""
    start = global_model(bundle)
    opened = open_for_model(recording, bundle.leads, options.leads or None, how=options.how)
    name = opened.name if patient is None else patient
    if fault := name_problem(name):
        found = f"{name!r:.100} {fault}"
        raise OptionError("--patient", found, "a name that can be a file's", "name the personal model with it")
    check_extension(bundle, out, name, overwrite=overwrite)
    targets = own_targets(_beats_folder(out, beats), opened)
    check_free(targets, [*opened.files, labels], overwrite=overwrite, option="--beats")
    return _Asked(opened, out, labels, bundle, start, name, targets, overwrite)


def _check(personal: str, seed: int) -> Personal:
    """Refuse what needs no file to be refused; return how the model is made."""
    made = personal_by_name(personal)
    if made is None:
        raise OptionError(f"--personal {FROM_METHOD}", "needs a run", "one that labels are enough for", "leave it out")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 31:
        raise OptionError("--seed", f"{seed!r:.40}", "a whole number, 0 or more")
    return made


def _beats_folder(out: Path, beats: Path | str | None) -> Path:
    """Return the folder of the recording's own labels; not inside the bundle, which holds what its manifest names."""
    folder = out.with_name(f"{out.name}-beats") if beats is None else Path(beats)
    if out.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise OptionError("--beats", f"{folder} is inside the bundle {out}", "another folder")
    if file := next((one for one in (folder, *folder.parents) if one.exists() and not one.is_dir()), None):
        raise OptionError("--beats", f"{file} is a file", "a folder for the recording's own labels", "name another")
    return folder


def _learner(grouped: GroupedBeats, start: GlobalModel, answered: Answered, how: Personal, seed: int) -> Learner:
    """Cut the beats that are learned from, and see that the weights answer them as the bundle's graphs do.

    Raises:
        BundleError: they do not.
        RecordError: no label has a class of the bundle.
    """
    bundle = grouped.bundle
    if not (set(answered.label.values()) & set(bundle.labels.symbols)):
        said = ", ".join(answered.counts)
        raise RecordError("--labels", f"are {said} alone", f"some of the bundle's {' '.join(bundle.labels.symbols)}")
    beats = learned_beats(grouped, answered.label)
    counts = bundle.trained_on.class_counts or dict.fromkeys(bundle.classes, 1)
    everyone = torch.tensor([float(counts[name]) for name in bundle.classes])
    everyone = everyone if everyone.sum() > 0 else torch.ones(len(bundle.classes))
    learner = Learner(start, grouped.groups, bundle.labels, beats, how, everyone / everyone.sum(), seed)
    check_weights(bundle, start, learner.some(PARITY_BEATS))
    return learner


def _doubts(grouped: GroupedBeats, answered: Answered, learner: Learner) -> list[str]:
    """Return what to keep in mind beside the model, a sentence each."""
    found = []
    if answered.apart:
        found.append(f"labels at no beat that was found, or at one that has a label, are left out: {answered.apart:,}")
    if answered.later:
        found.append(f"labels past the first minutes are left out: {answered.later:,}")
    name, likeness = best_match(grouped.bundle.leads, grouped.beats.recording.lead)
    if likeness == NameMatch.OTHER:
        found.append(f"lead {grouped.beats.recording.lead} is not {name}, which the global model was trained on")
    if silent := len(answered.without_signal):
        lead = grouped.beats.recording.lead
        found.append(f"labels at beats without a signal in {lead} are of these beats alone: {silent:,}")
    of_no_class = {
        symbol: count
        for symbol, count in answered.counts.items()
        if symbol not in learner.labels.symbols and symbol not in (NO_BEAT, CANNOT_TELL)
    }
    if of_no_class:
        said = ", ".join(f"{count:,} {symbol}" for symbol, count in of_no_class.items())
        found.append(f"the bundle has no class for {said}: the beats keep these labels, no model learns them")
    if took_part(grouped.bundle, grouped.beats.recording):
        found.append("the global model was trained on this very recording: on a new patient it would do less well")
    return found


@dataclass(frozen=True, eq=False)
class _Choice:
    """Which model a patient gets, and why."""

    kept: str
    chain: Pipeline
    checked: HeldBack | None
    unchecked: str

    @property
    def groups_trusted(self) -> bool:
        """Whether beats take their group's label: not where the groups found clearly fewer of the labels held back than
        the global model, nor where nothing was held back. Then a label is of its own beat alone."""
        if self.checked is None:
            return False
        right = self.checked.right
        return right["global"] - right["groups"] <= _CLEARLY * self.checked.labels


#: Groups that find so much fewer of the labels than the global model, as a share of the labels, are not trusted: labels
#: held back are the hardest for groups, each being of another one.
_CLEARLY = 0.1
#: Warned of: the global model has no more than this share of the labels right, or more than that share of the beats
#: would be no beats.
_STRANGE, _MANY = 1 / 3, 0.2


def _suspicions(grouped: GroupedBeats, answered: Answered, choice: _Choice) -> list[str]:
    """Return what makes the labels themselves doubtful, a sentence each."""
    found, checked = [], choice.checked
    if checked is not None and checked.right["global"] <= _STRANGE * checked.labels:
        agreed = f"the global model says the same of {checked.right['global']} of {count_of(checked.labels, 'label')}"
        found.append(f"{agreed}: look whether the labels are right, and of this recording")
    if checked is not None and not choice.groups_trusted:
        found.append(
            "the groups found fewer of the labels held back than the global model: beats without a label of their own "
            "keep the model's; are the labels right, and of beats that 'ecgfed label' asked for?"
        )
    none = int((spread(grouped.groups, answered.label)[0] == NO_BEAT).sum())
    if none > _MANY * grouped.grouped:
        found.append(f"{none:,} of {grouped.grouped:,} beats would be no beats by these labels ({NO_BEAT})")
    return found


def _chosen(learner: Learner, grouped: GroupedBeats, answered: Answered, progress: ProgressReporter) -> _Choice:
    """Make the model that answered most of the labels held back; the global one where nobody can know."""

    def told(done: int, total: int) -> None:
        progress.update("checks", done, total)

    checked = held_back(learner, answered.label, grouped.answers.label, told)
    classes = {learner.labels.symbols[one] for one in answered.label.values() if one in learner.labels.symbols}
    if checked is None:
        said = (
            f"with fewer than {PARTS} labels nothing shows that a personal model is better: the global model stands in"
        )
        return _Choice("global", learner.start.chain, None, said)
    unchecked = ""
    if len(classes) == 1:
        unchecked = f"only {min(classes)} was labelled: how well the model tells other classes could not be checked"
    own = learner.own_beats(answered.label)
    assert own is not None  # a label has a class
    chain = learner.start.chain
    if checked.best != "global":
        chain = learner.personal(own) if checked.best == "personal" else learner.scratch(own)
    return _Choice(checked.best, chain, checked, unchecked)


def _written(
    asked: _Asked, grouped: GroupedBeats, answered: Answered, learner: Learner, choice: _Choice, signer: Signer | None
) -> OwnLabels:
    """Write the bundle and the recording's own labels, and return these."""
    bundle, learned = learner.labels, choice.kept != "global"
    there = {bundle.symbols[one] for one in answered.label.values() if one in bundle.symbols}
    classes = tuple(one for one in bundle.classes if one in there) if learned else None
    model = PatientModel(asked.name, asked.name, choice.chain, learner.some(PARITY_BEATS), None, classes)
    facts = {
        "personal": learner.how.name if choice.kept == "personal" else choice.kept,
        "labels": answered.counts,
        "held_back": None if choice.checked is None else held_dict(choice.checked),
        **({"recordings": recording_digests(asked.recording)} if learned else {}),
    }
    net, again = asked.start.net, asked.overwrite
    with extended_bundle(asked.bundle, asked.out, model, net, metadata=facts, signer=signer, overwrite=again) as made:
        own = _own_labels(grouped, answered, made, asked.name, groups=choice.groups_trusted)
        write_together(dict(zip(asked.targets, (own.annotation(), own.table()), strict=True)))
    return own


def _own_labels(grouped: GroupedBeats, answered: Answered, bundle: Bundle, patient: str, *, groups: bool) -> OwnLabels:
    """Say what each beat of the recording is: as its answered beat's label says, else as the patient's model does.

    Without ``groups`` a label is of its own beat alone.
    """
    beats, count = grouped.all_beats, len(grouped.all_beats.r_samples)
    found = bundle.classifier(patient).classify_blocks(beats.blocks())
    classes = np.array([bundle.labels.symbol_of(name) for name in bundle.classes], dtype=np.str_)
    model = np.where(found.classified, classes[found.label], found.override)
    symbol, origin = model.copy(), np.full(count, -1, np.int64)
    source = np.full(count, "model", dtype="<U9")
    names, from_beat = spread(grouped.groups, answered.label)
    told = np.flatnonzero(names != CANNOT_TELL)
    if not groups:
        told = np.intersect1d(told, np.array(sorted(answered.label), dtype=np.int64))
    at = grouped.rows[told]
    symbol[at], origin[at], source[at] = names[told], grouped.beats.r_samples[from_beat[told]], "group"
    seen = [int(grouped.rows[beat]) for beat, label in answered.label.items() if label != CANNOT_TELL]
    for beat, label in answered.without_signal.items():
        if label != CANNOT_TELL:
            symbol[beat], origin[beat] = label, beats.r_samples[beat]
            seen.append(beat)
    source[seen] = "clinician"
    return OwnLabels(
        beats.recording,
        beats.r_samples,
        symbol,
        source,
        origin,
        model,
        _uncertain(bundle, found.label, found.low_confidence, symbol, source),
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
    otherwise = (of_group >= 0) & (of_group != label)
    return np.asarray(((source == "group") & otherwise) | ((source == "model") & uncertain))
