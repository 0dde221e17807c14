"""Warnings of ``personalize --labels`` about the labels and the model that they start from."""

from ecgfed.base.language import joined_message, message, messages
from ecgfed.domain.labels.user_labels import CANNOT_TELL, NO_BEAT
from ecgfed.domain.record.leads import NameMatch, best_match
from ecgfed.tasks.cross_validation import Learner
from ecgfed.tasks.grouped import GroupedBeats
from ecgfed.tasks.matched_labels import MatchedLabels
from ecgfed.tasks.training_warnings import took_part

#: Labels of one class are not propagated where the global model predicts others for so many beats, and this share.
_MIN_OTHER, _MIN_OTHER_SHARE = 3, 0.01


def own_label_warnings(grouped: GroupedBeats, user_labels: MatchedLabels, learner: Learner) -> list[str]:
    """Return warnings about the labels and the global model, a sentence each."""
    warnings: list[str] = []
    if user_labels.unmatched:
        warnings.append(message("labels without a beat of their own are ignored: {n}", n=user_labels.unmatched))
    if user_labels.past_minutes:
        warnings.append(message("labels after the first minutes are ignored: {n}", n=user_labels.past_minutes))
    lead, trained = grouped.beats.recording.lead, grouped.bundle.leads
    if best_match([*trained, *grouped.bundle.trained_on.other_leads], lead)[1] == NameMatch.OTHER:
        names = joined_message(trained, message(" or "))
        warnings.append(
            message("lead {lead} is not {names}, which the global model was trained on", lead=lead, names=names)
        )
    if silent := len(user_labels.without_signal):
        warnings.append(
            message("labels at beats without a signal in {lead} are not propagated: {n}", lead=lead, n=silent)
        )
    known = {*learner.labels.symbols, NO_BEAT, CANNOT_TELL}
    counts = {symbol: count for symbol, count in user_labels.counts.items() if symbol not in known}
    if counts:
        listed = joined_message([message("{n} {name}", n=count, name=symbol) for symbol, count in counts.items()], ", ")
        warnings.append(
            message(
                "the bundle has no class for {counts}: the beats keep these labels, no model learns them", counts=listed
            )
        )
    if took_part(grouped.bundle, grouped.beats.recording):
        warnings.append(
            message("the global model was trained on this very recording: on a new patient it would do less well")
        )
    return warnings


def unlabelled_classes(grouped: GroupedBeats, labelled: str) -> str:
    """Return why labels of a single class are not propagated; "" if the model predicts hardly any other class."""
    # cross-validation holds back beats of that class alone: it cannot show that the other classes would disappear
    predicted = grouped.predictions.label
    other = int((predicted != grouped.bundle.classes.index(labelled)).sum())
    if other < max(_MIN_OTHER, _MIN_OTHER_SHARE * len(predicted)):
        return ""
    return messages(
        "only {label} was labelled, and the global model predicts another class for {other} of {n} beat: label "
        "some of these; until then the global model stands in",
        "only {label} was labelled, and the global model predicts another class for {other} of {n} beats: label "
        "some of these; until then the global model stands in",
        len(predicted),
        label=labelled,
        other=other,
    )
