"""The kind of beat of a class, from its WFDB symbols; descriptions of symbols and rhythms."""

from collections.abc import Iterable
from enum import IntEnum

from ecgfed.base.language import tr_later


class Kind(IntEnum):
    """Kinds of beats that are counted. ``SUPRA`` and ``VENTRICULAR`` are ectopic."""

    NORMAL = 0  # conducted from the sinus node, bundle branch block included; variability uses these
    SUPRA = 1  # supraventricular ectopic
    VENTRICULAR = 2  # ventricular ectopic, escape beats included, as EC57's VEB
    FUSION = 3  # of a ventricular and a normal beat
    PACED = 4  # paced, or a fusion with a paced beat
    OTHER = 5  # escape beats of the atria or the node, unclassifiable beats, and classes of several kinds


#: Names of the kinds of ectopic beats.
KIND_WORDS = {Kind.VENTRICULAR: "ventricular", Kind.SUPRA: "supraventricular"}
#: symbol -> its kind and description (WFDB Applications Guide, annotation codes).
_CODES: dict[str, tuple[Kind, str]] = {
    "N": (Kind.NORMAL, tr_later("normal beat")),
    "L": (Kind.NORMAL, tr_later("left bundle branch block beat")),
    "R": (Kind.NORMAL, tr_later("right bundle branch block beat")),
    "B": (Kind.NORMAL, tr_later("bundle branch block beat")),
    "A": (Kind.SUPRA, tr_later("atrial premature beat")),
    "a": (Kind.SUPRA, tr_later("aberrated atrial premature beat")),
    "J": (Kind.SUPRA, tr_later("nodal (junctional) premature beat")),
    "S": (Kind.SUPRA, tr_later("supraventricular premature or ectopic beat")),
    "V": (Kind.VENTRICULAR, tr_later("premature ventricular contraction")),
    "r": (Kind.VENTRICULAR, tr_later("R-on-T premature ventricular contraction")),
    "E": (Kind.VENTRICULAR, tr_later("ventricular escape beat")),
    "F": (Kind.FUSION, tr_later("fusion of ventricular and normal beat")),
    "/": (Kind.PACED, tr_later("paced beat")),
    "f": (Kind.PACED, tr_later("fusion of paced and normal beat")),
    "e": (Kind.OTHER, tr_later("atrial escape beat")),
    "j": (Kind.OTHER, tr_later("nodal (junctional) escape beat")),
    "n": (Kind.OTHER, tr_later("supraventricular escape beat")),
    "Q": (Kind.OTHER, tr_later("unclassifiable beat")),
    "?": (Kind.OTHER, tr_later("beat not classified")),
}
#: note of a rhythm annotation -> the rhythm (MIT-BIH Database Distribution, table of rhythm annotations).
_RHYTHMS = {
    "AB": tr_later("atrial bigeminy"),
    "AFIB": tr_later("AF"),
    "AFL": tr_later("atrial flutter"),
    "B": tr_later("ventricular bigeminy"),
    "BII": tr_later("second-degree AV block"),
    "IVR": tr_later("idioventricular rhythm"),
    "N": tr_later("sinus rhythm"),
    "NOD": tr_later("nodal rhythm"),
    "P": tr_later("paced"),
    "PREX": tr_later("pre-excitation"),
    "SBR": tr_later("sinus bradycardia"),
    "SVTA": tr_later("supraventricular tachyarrhythmia"),
    "T": tr_later("ventricular trigeminy"),
    "U": tr_later("no rhythm assessed"),
    "VF": tr_later("ventricular fibrillation"),
    "VFL": tr_later("ventricular flutter"),
    "VT": tr_later("ventricular tachycardia"),
}
#: Every name of a rhythm of an annotation.
RHYTHM_NAMES = tuple(sorted(_RHYTHMS.values()))
#: AAMI counts these as normal, WFDB's bxb as supraventricular: they take the kind of the rest of their class.
_ESCAPES = frozenset("ejn")


def kind_of(symbols: Iterable[str]) -> Kind:
    """Return the kind of a class from its symbols; ``OTHER`` where they are of several kinds."""
    of_class = set(symbols)
    kinds = {_CODES[symbol][0] if symbol in _CODES else Kind.OTHER for symbol in of_class - _ESCAPES}
    return kinds.pop() if len(kinds) == 1 else Kind.OTHER


def meaning_of(symbol: str) -> str:
    """Return the description of a symbol, ``""`` unless it is a beat's."""
    return _CODES[symbol][1] if symbol in _CODES else ""


def rhythm_name(note: str) -> str:
    """Return the rhythm that the note of an annotation marks, such as ``(AFIB``; an unknown one unchanged."""
    code = note.removeprefix("(")
    return _RHYTHMS.get(code, code)
