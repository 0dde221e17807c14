"""The words that channels are named by: leads and their synonyms, and what else a recorder writes.

Sources: the SCP-ECG list of leads (EN 1064, table of lead identification), IEC 60601-2-25 (C1 to C6), and the headers
of PhysioNet's databases (docs/formats.md).
"""

import re
import unicodedata
from typing import NamedTuple


class KnownLead(NamedTuple):
    """A lead that has a name of its own.

    Attributes:
        lead: its usual name, ``II``.
        electrodes: how its electrodes were moved: ``ML`` (limb leads from the trunk), ``MCL`` and ``MV`` (chest leads
            with the reference moved), ``mod`` (a header says modified and no more), or ``""``.
    """

    lead: str
    electrodes: str = ""


def _table() -> dict[str, KnownLead]:
    """Return what each name means, in the form of ``folded``."""
    names: dict[str, KnownLead] = {}
    for number, roman in enumerate(("I", "II", "III"), 1):
        for alias in (roman, f"D{roman}", f"D{number}"):
            names[alias.casefold()] = KnownLead(roman)
        for alias in (f"ML{roman}", f"ML{number}"):
            names[alias.casefold()] = KnownLead(roman, "ML")
    for number in range(1, 10):
        names[f"v{number}"] = KnownLead(f"V{number}")
        names[f"v{number}r"] = KnownLead(f"V{number}R")
        if number <= 6:
            names[f"c{number}"] = KnownLead(f"V{number}")
            names[f"mcl{number}"] = KnownLead(f"V{number}", "MCL")
            names[f"mv{number}"] = KnownLead(f"V{number}", "MV")
            names |= {f"c{kind}{number}": KnownLead(f"C{kind.upper()}{number}") for kind in "mcs"}
    for axis in "xyz":
        names[axis] = names[f"v{axis}"] = KnownLead(axis.upper())
    # EASI, inverted, and those whose place a name does not tell
    unlimited_names = (
        "aVR",
        "aVL",
        "aVF",
        "-aVR",
        "ES",
        "AS",
        "AI",
        "V",
        "MCL",
        "NASA",
        "D4",
        "D5",
        "ML4",
        "ML5",
        "ML6",
    )
    return names | {name.casefold(): KnownLead(name) for name in unlimited_names}


_LEADS = _table()
#: What may stand before a lead's name; a number behind it counts channels, so ``ECG 1`` is not lead I.
_KIND = re.compile(r"(?:ecg|ekg)?(?:lead|ableitung|derivation)?(?=.)")
_MODIFIED = re.compile(r"mod(?:ified)?")
#: Words of other signals: those that may have an end of their own, and those that may not.
_BEGINNING = (
    "resp|breath|pneum|ventil|thor|abdo|airflow|flow|nasal|canul|cannul|snor|pleth|ppg|spo|sao|sto2|osat|satur|oxim|capno|etco|temp|press|"
    "eeg|emg|eog|eng|acc|gyro|magnet|angular|posit|mark|event|status|trig|stim|annot|batter|light|noise|sync|"
    "nbp|nibp|abp|ibp|pap|icp|cvp|pcg|phono|scg|icg|bcg|gsr|eda|imped|heartrate|pulse|puls|motion|activ|counter|timestamp"
)
_WHOLE = (
    "res|air|abd|bp|art|ao|lap|rap|uap|uvp|fap|ubp|fbp|pcwp|pawp|paw|so2|o2|co2|hr|pr|rr|ox|stat|loc|roc|lap|edr|imp|"
    "cal|off|pos|rip|rsp|vent|nirs|skt|pes|bvp|ibi|cpap|sv|cos|tidal|vol|chin|leg|time|t|sample|label"
)
_OTHER = re.compile(rf"(?<![a-z])(?:(?:{_BEGINNING})|(?:{_WHOLE})(?![a-z]))")
#: A name that says ECG loses only to what a channel measures: these say where, how or when an ECG was taken.
_SAYS_ECG = re.compile(r"ecg|ekg")
_ABOUT_ECG = re.compile(r"(?<![a-z])(?:(?:event|thor|abdo)[a-z]*|(?:cal|sample|chin|leg|abd)(?![a-z]))")
#: Electrodes of the 10-20 system, one alone (C3 and C4 are also V3 and V4 of IEC's names), or one against another.
_ONE = r"(?:fp[12z]|af[z3478]|f[z3478]|fc[z1-6]|ft[789]|t[3-8]|cp[z1-6]|tp[789]|p[z3478]|po[z3478]|o[z12]|cz)"
_PAIR = rf"(?:{_ONE}|c[34])(?:{_ONE}|c[34]|[am][12]|ref|le|avg?)"
_EEG = re.compile(rf"(?:eeg)?(?:{_ONE}|{_PAIR})(?:ref|le)?")
#: The number of one of several leads of a name, ``II (2)``.
NUMBERED = re.compile(r"\s*\(([0-9]{1,4})\)$")
#: Names that number a channel, and common ones of other signals: they name nobody.
_NUMBERED = re.compile(
    r"(?:ecg|ekg|ch|chan|channel|lead|sig|signal|column|col)?(?:[0-9]{0,3}|i{1,3})(?:\([0-9]{1,4}\))?"
)
_COMMON = re.compile(
    r"(?:resp|abp|bp|nbp|nibp|pap|cvp|icp|pleth|ppg|spo2|so2|sao2|co2|temp|eeg|emg|eog|marker|event|status)"
    r"[0-9]{0,2}(?:\([0-9]{1,4}\))?"
)


def folded(name: str) -> str:
    """Return a name without case, blanks, hyphens, underscores and points; a minus before or behind it stays."""
    text = unicodedata.normalize("NFKC", name).casefold().strip()
    bare = re.sub(r"[\s\-_.,:;]+", "", text)
    return ("-" if text.startswith("-") else "") + bare + ("-" if bare and text.endswith("-") else "")


def known_lead(text: str) -> KnownLead | None:
    """Return the lead that a folded name means, with or without ``ECG`` and ``lead`` before it, or None."""
    if (lead := _LEADS.get(text)) is not None:
        return lead
    bare = _KIND.sub("", text, count=1)
    modified = _MODIFIED.match(bare)
    lead = _LEADS.get(bare[modified.end() :] if modified else bare)
    return KnownLead(lead.lead, lead.electrodes or "mod") if lead and modified else lead


def electrode_of_eeg(name: str) -> bool:
    """Say whether a name is that of an EEG, or of an electrode on the head or two of them."""
    text = folded(name).strip("-")
    return text.startswith("eeg") or (_EEG.fullmatch(text) is not None and known_lead(text) is None)


def is_named_ecg(name: str) -> bool:
    """Say whether a name holds the word ECG or EKG."""
    return _SAYS_ECG.search(folded(name)) is not None


def is_another_signal(name: str, *, brain: bool = False) -> bool:
    """Say whether a name is one of something else than an ECG.

    Args:
        name: as it is written.
        brain: other channels are EEG: then C3 is one too, and not V3.
    """
    text = folded(name)
    if known_lead(text) is not None:
        return brain and re.fullmatch(r"c[1-6]", text) is not None
    of = text.removesuffix("cal")
    if of != text and (known_lead(of) is not None or _SAYS_ECG.fullmatch(of)):  # MDC_ECG_LEAD_IIcal: a calibration
        return True
    words = unicodedata.normalize("NFKC", name).casefold().replace(".", "").replace("_", " ")
    if _SAYS_ECG.search(words):
        words = _ABOUT_ECG.sub("", words)
    return _OTHER.search(words) is not None or electrode_of_eeg(name)


def is_impersonal(name: str) -> bool:
    """Say whether a name is a lead's, a numbered channel's or another signal's usual one: no text, and no person's."""
    text = folded(name)
    plain = re.sub(r"\([0-9]{1,4}\)$", "", text)
    return bool(text) and any((known_lead(plain), _NUMBERED.fullmatch(text), _COMMON.fullmatch(text)))


def _scp_leads() -> dict[int, str]:
    """Return the names of EN 1064's lead codes.

    They are ISO/IEEE 11073's too, and so DICOM's: ``2:1`` is lead I, MDC_ECG_LEAD_I is 131072 + 1.
    """
    first = ["", "I", "II", *(f"V{number}" for number in range(1, 8)), *(f"V{number}R" for number in range(2, 8))]
    first += ["X", "Y", "Z", "CC5", "CM5", "LA", "RA", "LL", *(f"f{electrode}" for electrode in "IECAMFH")]
    later_codes = ["III", "aVR", "aVL", "aVF", "-aVR", "V8", "V9", "V8R", "V9R", "D", "A", "J", "Defib", "Extern"]
    later_codes += [f"A{number}" for number in range(1, 5)]
    # between them the calibrations of the first ones, behind them those of the later ones
    calibrations = {number + 30: f"{name}-cal" for number, name in enumerate(first) if number}
    return (
        {number: name for number, name in enumerate(first) if number} | calibrations | dict(enumerate(later_codes, 61))
    )


SCP_LEADS = _scp_leads()
