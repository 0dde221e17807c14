"""What can be said of a recording as a whole: polarity, exchanged leads, heart rate, pacing; and what it rests on.

Two chest or Holter leads carry nothing that tells whether their cables were exchanged, so nothing is claimed of them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.language import capitalized, joined_message, message, messages
from ecgfed.domain.record.leads import are_ecg, best_match, position_in, usual_name
from ecgfed.domain.record.recording import Annotation, ReadingPool, Recording, spans
from ecgfed.domain.signal.beat_slopes import CHUNK_S, MIN_BEATS, around, steep_time_s
from ecgfed.domain.signal.chunked_quality import gaps_of
from ecgfed.domain.signal.filters import BandPassed, Bridged, Stretches
from ecgfed.domain.signal.pacing import Pacing, calibration_pulses, calibration_text, detect_pacing
from ecgfed.domain.signal.quality import runs
from ecgfed.domain.signal.size import lead_size, size_text, too_large
from ecgfed.domain.signal.spans import Spans

#: Leads in which the QRS points up in most hearts.
USUALLY_UP = ("MLII", "II", "I", "V4", "V5", "V6")
#: The QRS is looked for this far around a detected peak, and its level is the median of as long before that.
QRS_S, LEVEL_S = 0.06, 0.23
#: A beat points down when its lowest wave is this many times its highest; a lead, when so many of its beats do
#: (207's MLII 89%, the next of MIT-BIH's leads of these names 57%: 124's V4).
DOWN_TIMES, DOWN_SHARE = 1.5, 0.7
#: Up and down are alike when the smaller of the median waves has this share of the larger.
BIPHASIC_SHARE = 0.7
#: Heart rates a person can have, beats a minute.
RATE_PER_MIN = (20.0, 300.0)
#: Median time in which a QRS is steep (``steep_time_s``): 28 to 83 ms in the records of MIT-BIH. What a wrong header
#: does to it is told from that only when it is wrong by a factor of two and more; docs/quality.md has the figures.
STEEP_S = (0.025, 0.120)
#: Limb leads obey Einthoven's law, I + III = II, but for rounding and gains; the rest against I and II, root mean
#: square. Two of them exchanged in a heart of I 0.7, II 1.0, III 0.3 leave 0.49.
EINTHOVEN_REST = 0.2
_PACED = re.compile(r"\bpac(?:ed|ing|emaker)\b", re.IGNORECASE)
#: What says that nothing paces, or that the heart itself does: a wandering atrial pacemaker is a rhythm (113's).
_DENIED = re.compile(
    r"\b(?:no|not|without|never)\b[^.;]*\bpac(?:ed|ing|emaker)\b"
    r"|\b(?:wandering|migrating|shifting|ectopic|atrial|junctional|nodal|sinus)(?: \w+)? pacemaker\b",
    re.IGNORECASE,
)
#: Leads that are measured at once: each holds a chunk.
_AT_A_TIME = 2
#: Lead -> its band-passed signal in mV and where it is bad.
_Signals = dict[str, tuple[Stretches, Spans]]


@dataclass(frozen=True)
class Finding:
    """One thing to know about a recording.

    Attributes:
        kind: ``file`` (how it was read), ``annotation``, ``missing-lead``, ``no-ecg``, ``units``, ``no-beats``,
            ``calibration``, ``heart-rate``, ``sampling-frequency``, ``inverted``, ``biphasic``, ``limb-leads``,
            ``arm-electrodes`` or ``paced``.
        lead: the lead it concerns, or None for the whole recording.
        text: one sentence.
        evidence: the numbers behind it.
    """

    kind: str
    lead: str | None
    text: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Qrs:
    """Waves of a lead's beats: (beats,) heights above and depths below the level before, in mV."""

    up: NDArray[np.float64]
    down: NDArray[np.float64]

    @property
    def down_share(self) -> float:
        """Share of the beats that point down."""
        return float(np.mean(self.down > DOWN_TIMES * self.up))

    @property
    def up_share(self) -> float:
        """Share of the beats that point up."""
        return float(np.mean(self.up > DOWN_TIMES * self.down))


def record_findings(
    recording: Recording,
    peaks: NDArray[np.int64],
    bad: NDArray[np.bool_] | Sequence[Spans],
    annotation: Annotation | None = None,
    pacing: Pacing | None = None,
) -> list[Finding]:
    """Judge a recording from its leads, the chosen lead's R peaks, and its annotation where there is one.

    Args:
        recording: with every lead, in memory or on the disk.
        peaks: (peaks,) int64 R peaks detected in the chosen lead; may be empty.
        bad: where each lead is bad, (leads, samples) bool or stretches; what lies there is left out.
        annotation: the recording's reference annotation.
        pacing: what ``detect_pacing`` returned for these peaks; None detects it.
    """
    pacing = detect_pacing(recording, peaks) if pacing is None else pacing
    paced = paced_rhythm(recording, annotation, pacing)
    bad_spans = [_spans(item) for item in bad]
    units = _units(recording, peaks, bad_spans)
    if len(peaks) < MIN_BEATS:
        return [*units, _no_beats(recording, len(peaks)), *paced]
    fs_hz = recording.fs_hz
    bridged = {lead: Bridged(recording, lead, gaps_of(recording, lead)) for lead in recording.leads}
    signals: _Signals = {
        lead: (_band_passed(bridged[lead]), lost) for lead, lost in zip(recording.leads, bad_spans, strict=True)
    }
    lost = signals[recording.lead][1]
    names = _usual_names(recording.leads)
    signals = {usual: signals[name] for usual, name in names.items()}
    findings = units + _calibration(recording, peaks) + _rate(recording, peaks, lost)
    # a pacing spike is steeper than any QRS: 104's; so is a QRS itself by a header of too high a frequency
    if not paced or paced[0].evidence["from"] == "signal":
        findings += _sampling(recording, bridged[recording.lead], peaks[~lost.inside(peaks)])
    findings += paced
    leads = _with_avr(signals)
    with ReadingPool(_AT_A_TIME) as pool:
        judged = pool.map(lambda item: _qrs(item[0], item[1], fs_hz, peaks), leads.values())
        waves = dict(zip(leads, judged, strict=True))
    known = {lead: qrs for lead, qrs in waves.items() if qrs is not None}
    of_leads = _polarity(known) + _einthoven(signals, recording) + _arms(known)
    return findings + [replace(item, lead=names.get(item.lead, item.lead) if item.lead else None) for item in of_leads]


def _usual_names(leads: Sequence[str]) -> dict[str, str]:
    """Return each lead by the name it usually has (``ii`` by II), where no other one has it; else by its own."""
    usual = [usual_name(name) for name in leads]
    return {item if usual.count(item) == 1 else name: name for item, name in zip(usual, leads, strict=True)}


def _spans(bad: NDArray[np.bool_] | Spans) -> Spans:
    return bad if isinstance(bad, Spans) else Spans.merged(runs(bad))


def _band_passed(lead: Bridged) -> Stretches:
    """Return a lead through the band-pass; of a recording in memory it is computed once."""
    filtered = BandPassed(lead)
    return filtered if lead.recording.is_lazy else filtered[:]


@dataclass(frozen=True)
class _MinusMean:
    """Minus the mean of two leads."""

    lead_i: Stretches
    lead_ii: Stretches

    def __len__(self) -> int:
        return len(self.lead_i)

    def __getitem__(self, stretch: slice) -> NDArray[np.float64]:
        return -(self.lead_i[stretch] + self.lead_ii[stretch]) / 2


def _with_avr(signals: _Signals) -> _Signals:
    """Add aVR = -(I + II) / 2 (Goldberger) where it was not recorded but can be known."""
    if "aVR" in signals or not {"I", "II"} <= set(signals):
        return signals
    (lead_i, lost_i), (lead_ii, lost_ii) = signals["I"], signals["II"]
    return {**signals, "aVR": (_MinusMean(lead_i, lead_ii), Spans.merged([*lost_i, *lost_ii]))}


def no_ecg(recording: Recording) -> str:
    """Return a sentence if the lead in use is not an ECG by its name, else ``""``."""
    at = recording.leads.index(recording.lead)
    return "" if are_ecg(recording.leads)[at] else message("lead {lead} is no ECG by its name", lead=recording.lead)


def missing_lead(recording: Recording, leads: tuple[str, ...]) -> list[Finding]:
    """Say that none of ``leads`` is among the leads, where so."""
    if recording.lead in leads or best_match(leads, recording.lead)[1] or any(position_in(name) for name in leads):
        return []
    has = ", ".join(recording.leads)
    wanted = joined_message(leads, message(" or "))
    text = message(
        "There is no lead {wanted}; the recording has {present}; {lead} was looked at.",
        wanted=wanted,
        present=has,
        lead=recording.lead,
    )
    return [Finding("missing-lead", None, text, {"wanted": list(leads), "present": list(recording.leads)})]


def _units(recording: Recording, peaks: NDArray[np.int64], bad: Sequence[Spans]) -> list[Finding]:
    sizes = [lead_size(recording, lead, peaks, lost) for lead, lost in zip(recording.leads, bad, strict=True)]
    large = too_large(sizes)
    if not large:
        return []
    text, evidence = size_text(large), {size.lead: round(size.mv, 1) for size in large}
    return [Finding("units", large[0].lead, capitalized(text), {"mv": evidence})]


def heart_rate(peaks: NDArray[np.int64], fs_hz: float, bad: NDArray[np.bool_] | Spans) -> float | None:
    """Return the median heart rate in beats a minute over the intervals without a bad sample.

    Args:
        peaks: (beats,) int64 increasing, R peaks in samples.
        fs_hz: sampling frequency in Hz.
        bad: (samples,) bool, or stretches, where the lead is bad.

    Returns:
        None where no interval is without a bad sample.
    """
    if len(peaks) < 2:
        return None
    before = _spans(bad).before(peaks)
    interval = np.diff(peaks)[before[1:] == before[:-1]]
    return float(60.0 * fs_hz / np.median(interval)) if len(interval) else None


def _calibration(recording: Recording, peaks: NDArray[np.int64]) -> list[Finding]:
    pulses = calibration_pulses(recording, peaks)
    evidence = {"pulses": int(pulses.sum())}
    return [Finding("calibration", recording.lead, calibration_text(pulses), evidence)] if pulses.any() else []


def _no_beats(recording: Recording, beats: int) -> Finding:
    text = messages(
        "Only {n} beat was detected in {lead}: its polarity and the heart rate are not checked.",
        "Only {n} beats were detected in {lead}: its polarity and the heart rate are not checked.",
        beats,
        lead=recording.lead,
    )
    if not beats:
        text = message(
            "No beats were found in {lead}: is it an ECG, and is the electrode connected?", lead=recording.lead
        )
    return Finding("no-beats", recording.lead, text, {"beats": beats})


def _rate(recording: Recording, peaks: NDArray[np.int64], bad: Spans) -> list[Finding]:
    rate = heart_rate(peaks, recording.fs_hz, bad)
    if rate is None or RATE_PER_MIN[0] <= rate <= RATE_PER_MIN[1]:
        return []
    text = message(
        "The median heart rate is {rate:.0f}/min, outside {low:g} to {high:g}: is the header's sampling frequency, "
        "{fs:g} Hz, right?",
        rate=rate,
        low=RATE_PER_MIN[0],
        high=RATE_PER_MIN[1],
        fs=recording.fs_hz,
    )
    return [Finding("heart-rate", recording.lead, text, {"per_min": round(rate, 1)})]


def _sampling(recording: Recording, signal: Stretches, peaks: NDArray[np.int64]) -> list[Finding]:
    # as recorded: the band-pass rounds every wave to its own 40 Hz, whatever the header says
    steep_s = steep_time_s(signal, recording.fs_hz, peaks)
    if steep_s is None or STEEP_S[0] <= steep_s <= STEEP_S[1]:
        return []
    text = message(
        "The QRS is steep for {ms:.0f} ms, outside {low:.0f} to {high:.0f}: is the header's sampling frequency, {fs:g} "
        "Hz, right?",
        ms=1000 * steep_s,
        low=1000 * STEEP_S[0],
        high=1000 * STEEP_S[1],
        fs=recording.fs_hz,
    )
    return [Finding("sampling-frequency", recording.lead, text, {"steep_ms": round(1000 * steep_s, 1)})]


def _qrs(signal: Stretches, bad: Spans, fs_hz: float, peaks: NDArray[np.int64]) -> _Qrs | None:
    """Measure the waves of the beats that stand on good samples; None where there are too few."""
    half, level = round(QRS_S * fs_hz), round(LEVEL_S * fs_hz)
    up, down = [], []
    for beats in around(signal, fs_hz, peaks[~bad.inside(peaks)], half + level, half):
        waves = beats[:, level:] - np.median(beats[:, :level], axis=1, keepdims=True)
        up.append(waves.max(axis=1))
        down.append(-waves.min(axis=1))
    return _Qrs(np.concatenate(up), np.concatenate(down)) if up else None


def _polarity(waves: dict[str, _Qrs]) -> list[Finding]:
    findings = []
    for lead, qrs in waves.items():
        if lead not in USUALLY_UP:
            continue
        up, down = float(np.median(qrs.up)), float(np.median(qrs.down))
        evidence = {"up_mv": round(up, 3), "down_mv": round(down, 3), "down_share": round(qrs.down_share, 3)}
        if qrs.down_share >= DOWN_SHARE:
            text = message(
                "{lead}: the QRS points down in {share:.0%} of beats (median {down:.2f} mV down, {up:.2f} up): "
                "electrodes exchanged, or this heart's own axis; the direction of P and T waves tells which.",
                lead=lead,
                share=qrs.down_share,
                down=down,
                up=up,
            )
            findings.append(Finding("inverted", lead, text, evidence))
        elif min(up, down) >= BIPHASIC_SHARE * max(up, down):
            text = message(
                "{lead}: the QRS goes about as far down ({down:.2f} mV) as up ({up:.2f} mV), so a detector may mark "
                "the R wave in one beat and the S wave in the next.",
                lead=lead,
                down=down,
                up=up,
            )
            findings.append(Finding("biphasic", lead, text, evidence))
    return findings


def _einthoven(signals: _Signals, recording: Recording) -> list[Finding]:
    """Check Einthoven's law, which electrodes exchanged on the patient keep and leads misnamed in a file break."""
    if not {"I", "II", "III"} <= set(signals):
        return []
    three = [signals[lead][0] for lead in ("I", "II", "III")]
    bad = Spans.merged(edges for lead in ("I", "II", "III") for edges in signals[lead][1])
    squares, count = np.zeros(3), 0
    for start, stop in spans(recording.samples, round(CHUNK_S * recording.fs_hz)):
        good = ~bad.mask(start, stop)
        lead_i, lead_ii, third = (signal[start:stop][good] for signal in three)
        squares += np.array([np.sum(lead_i**2), np.sum(lead_ii**2), np.sum((lead_i + third - lead_ii) ** 2)])
        count += int(good.sum())
    mean = squares / count if count else squares
    scale = np.sqrt(mean[0] + mean[1])
    rest = float(np.sqrt(mean[2]) / scale) if scale > 0 else 0.0
    if rest <= EINTHOVEN_REST:
        return []
    text = message(
        "I + III is not II (the rest is {rest:.0%} of I and II): the names of the limb leads are exchanged.", rest=rest
    )
    return [Finding("limb-leads", None, text, {"rest": round(rest, 3)})]


def _arms(waves: dict[str, _Qrs]) -> list[Finding]:
    """Find what exchanged arm electrodes do: lead I upside down, and aVR upright in aVL's place."""
    lead_i, avr = waves.get("I"), waves.get("aVR")
    if lead_i is None or avr is None or lead_i.down_share < DOWN_SHARE or avr.up_share < DOWN_SHARE:
        return []
    text = message(
        "Lead I points down in {down:.0%} of beats and aVR up in {up:.0%}: the electrodes of the arms are exchanged, "
        "or the heart lies on the right.",
        down=lead_i.down_share,
        up=avr.up_share,
    )
    evidence = {"I_down_share": round(lead_i.down_share, 3), "aVR_up_share": round(avr.up_share, 3)}
    return [Finding("arm-electrodes", "I", text, evidence)]


def paced_rhythm(recording: Recording, annotation: Annotation | None, pacing: Pacing | None = None) -> list[Finding]:
    """Report a paced rhythm from the annotation, else from the header, else as it was detected in the signal.

    Args:
        recording: the recording.
        annotation: its reference annotation, where there is one.
        pacing: what ``detect_pacing`` returned for it.
    """
    if annotation is not None:
        beats = annotation.beats()
        paced = int(np.isin(beats.symbol, ["/", "f"]).sum())
        if paced:
            text = message(
                "Paced rhythm: {n} of {total} annotated beats are paced or pacing fusions.",
                n=paced,
                total=len(beats.symbol),
            )
            return [Finding("paced", None, text, {"from": "annotation", "beats": paced})]
    for comment in recording.comments:
        if _PACED.search(comment) and not _DENIED.search(comment):
            text = message("Paced rhythm, as the header says: {line}.", line=repr(comment.strip()))
            return [Finding("paced", None, text, {"from": "header"})]
    if pacing:
        text = message("Pacing in episodes, detected in the signal: {evidence}.", evidence=pacing.text)
        if pacing.paced:
            text = message("Paced rhythm, detected in the signal: {evidence}.", evidence=pacing.text)
        return [Finding("paced", None, text, {"from": "signal", **pacing.summary()})]
    return []
