"""Writing an HL7 annotated ECG (aECG): the signal of every lead, and the beats as annotations.

HL7 aECG Implementation Guide, final, 21 March 2005, and its schema ``PORT_MT020001.xsd`` (2003-12). A sequence cannot
leave samples out: where nothing was recorded, the last sample is repeated and an annotation says so.
"""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from ecgfed.domain.events.figure import OWN_SYSTEM
from ecgfed.domain.record.aecg_files import MAX_BYTES, SPACE
from ecgfed.domain.record.exchange import Document, beat_code, lead_code, unsuitable
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.record.wfdb_writer import choose_gain
from ecgfed.domain.record.xml_tree import MAX_ELEMENTS

FORMAT = "aecg"
_MDC, _ACT, _CPT = "2.16.840.1.113883.6.24", "2.16.840.1.113883.5.4", "2.16.840.1.113883.6.12"
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
_TIME = f'<code code="TIME_RELATIVE" codeSystem="{_ACT}"/>'


def check_aecg(recording: Recording) -> None:
    """Refuse a recording whose samples alone would be more than ``read_aecg`` takes; raises OptionError."""
    _check_size(2 * recording.samples * len(recording.leads), 0)  # a digit and a blank each, at least


def _check_size(size: int, elements: int) -> None:
    for count, limit, what in ((size, MAX_BYTES, "bytes"), (elements, MAX_ELEMENTS, "elements")):
        if count > limit:
            reason, action = f"would have {count:,} {what} or more", "take dicom for a long recording"
            raise unsuitable(FORMAT, reason, f"at most {limit:,}", action)


def aecg_bytes(recording: Recording, document: Document) -> bytes:
    """Return a recording and its beats as an aECG document.

    Args:
        recording: with every lead to write.
        document: the beats, and what the user states of patient and time.

    Raises:
        OptionError: more samples or beats than ``read_aecg`` takes.
    """
    signals = [recording.lead_mv(lead, 0, recording.samples) for lead in recording.leads]
    sequences = [_sequence(name, signal) for name, signal in zip(document.leads, signals, strict=True)]
    annotations = [*_beats(document, recording.fs_hz), *_gaps(document, signals, recording.fs_hz)]
    time = _effective_time(document, recording.duration_s)
    text = "".join(
        (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<AnnotatedECG xmlns="{SPACE}" xmlns:xsi="{_XSI}" '
            f'type="Observation"><id root="{document.uuid("aecg")}"/>'
            f'<code code="93000" codeSystem="{_CPT}" codeSystemName="CPT-4"/>{time}{_subject(document)}'
            f'<component><series><id root="{document.uuid("series")}"/><code code="RHYTHM" codeSystem="{_ACT}"/>{time}'
            f"<author><seriesAuthor><manufacturedSeriesDevice><softwareName>ecgfed {document.version}</softwareName>"
            "</manufacturedSeriesDevice></seriesAuthor></author><component><sequenceSet>"
            f'<component><sequence>{_TIME}<value xsi:type="GLIST_PQ"><head value="0" unit="s"/>'
            f'<increment value="{1 / recording.fs_hz:.17g}" unit="s"/></value></sequence></component>',
            *sequences,
            "</sequenceSet></component><subjectOf><annotationSet>",
            *annotations,
            "</annotationSet></subjectOf></series></component></AnnotatedECG>\n",
        )
    )
    data = text.encode()
    _check_size(len(data), text.count("</") + text.count("/>"))
    return data


def _subject(document: Document) -> str:
    """Return the subject, and the trial that the schema asks for, which is unknown (``NI``)."""
    unknown, subject = '<id nullFlavor="NI"/>', document.stated.subject
    identifier = f'<id root="{document.uuid("subjects")}" extension={quoteattr(subject)}/>' if subject else unknown
    return (
        f"<componentOf><timepointEvent><componentOf><subjectAssignment><subject><trialSubject>{identifier}"
        f"</trialSubject></subject><componentOf><clinicalTrial>{unknown}</clinicalTrial></componentOf>"
        "</subjectAssignment></componentOf></timepointEvent></componentOf>"
    )


def _effective_time(document: Document, duration_s: float) -> str:
    period = document.stated.period(duration_s)
    if period is None:
        return '<effectiveTime nullFlavor="NI"/>'
    low, high = (f"{time:%Y%m%d%H%M%S}.{time.microsecond // 1000:03d}{time:%z}"[:23] for time in period)
    return f'<effectiveTime><low value="{low}"/><high value="{high}"/></effectiveTime>'


def _lead(name: str) -> str:
    """Return the code of a lead: of ISO/IEEE 11073 for a standard one, else its name."""
    standard = lead_code(name)
    if standard is None:
        return f'<code code={quoteattr(name)} codeSystem="{OWN_SYSTEM}"/>'
    return f'<code code="MDC_ECG_LEAD_{standard[1].upper()}" codeSystem="{_MDC}" codeSystemName="MDC"/>'


def _sequence(name: str, signal_mv: NDArray[np.float64]) -> str:
    """Return a lead: ``origin + scale * digits`` in microvolt."""
    gain, zero = choose_gain(signal_mv)
    missing = np.isnan(signal_mv)
    last = np.maximum.accumulate(np.where(missing, 0, np.arange(len(signal_mv))))
    digits = (np.rint(np.nan_to_num(signal_mv[last]) * gain) + zero).astype(np.int64)
    scale = 1000 / gain
    return (
        f'<component><sequence>{_lead(name)}<value xsi:type="SLIST_PQ"><origin value="{-zero * scale:.12g}" unit="uV"/>'
        f'<scale value="{scale:.12g}" unit="uV"/><digits>{" ".join(map(str, digits.tolist()))}</digits></value>'
        "</sequence></component>"
    )


def _beats(document: Document, fs_hz: float) -> Iterator[str]:
    """Yield an annotation of each beat, at its R peak, with what limits its label as text."""
    codes = {
        symbol: f'<code code="{beat_code(symbol)[1]}" codeSystem="{_MDC}" codeSystemName="MDC"/>'
        for symbol in sorted(set(document.symbol.tolist()))
    }
    rows = zip(document.sample.tolist(), document.symbol.tolist(), document.remark.tolist(), strict=True)
    for sample, symbol, remark in rows:
        text = f"<text>{escape(remark)}</text>" if remark else ""
        yield _annotation(codes[symbol] + text, f'<value xsi:type="PQ" value="{sample / fs_hz:.6f}" unit="s"/>')


def _gaps(document: Document, signals: list[NDArray[np.float64]], fs_hz: float) -> Iterator[str]:
    """Yield an annotation of each stretch of each lead in which nothing was recorded."""
    code = f'<code code="MDC_ECG_NOISE_NOSIGNAL" codeSystem="{_MDC}" codeSystemName="MDC"/>'
    for name, signal in zip(document.leads, signals, strict=True):
        edges = np.flatnonzero(np.diff(np.isnan(signal).astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
        for start, stop in (edges / fs_hz).tolist():
            span = f'<low value="{start:.6f}" unit="s"/><high value="{stop:.6f}" unit="s"/>'
            of_lead = f"<component><boundary>{_lead(name)}</boundary></component>"
            yield _annotation(code, f'<value xsi:type="IVL_PQ">{span}</value>', of_lead)


def _annotation(content: str, value: str, more: str = "") -> str:
    """Return an annotation of a region of interest: where in time, and in which lead unless in all of them."""
    return (
        f'<component><annotation>{content}<support><supportingROI><code code="ROIPS" codeSystem="{_ACT}"/>'
        f"<component><boundary>{_TIME}{value}</boundary></component>{more}</supportingROI></support></annotation>"
        "</component>"
    )
