"""A report's figures as FHIR R4: a Bundle of a DiagnosticReport, its Observations and the software as a Device.

https://hl7.org/fhir/R4/diagnosticreport.html and observation.html. What was not assessed is an Observation with a
``dataAbsentReason``. No resource names a patient or a time unless the user states them.
"""

from datetime import time
from html import escape

from ecgfed.domain.events.figure import LOINC, OWN_SYSTEM, Figure
from ecgfed.domain.record.exchange import Document
from ecgfed.reports.markup import clock

Json = dict[str, object]
_TERMINOLOGY = "http://terminology.hl7.org/CodeSystem"
_SYSTEMS = {LOINC: "http://loinc.org", OWN_SYSTEM: f"urn:oid:{OWN_SYSTEM}"}
_START = "start_time_of_day"
_UCUM = "http://unitsofmeasure.org"
#: Printable names of UCUM codes.
_UNITS = {"1": "", "/min": "beats/minute"}


def fhir_bundle(document: Document, duration_s: float) -> Json:
    """Return a Bundle of type ``collection``, JSON-ready.

    Args:
        document: the figures, and what the user states of patient and time.
        duration_s: length of the recording in seconds.
    """
    device: Json = {
        "resourceType": "Device",
        "deviceName": [{"name": "ecgfed", "type": "model-name"}],
        "version": [{"value": document.version}],
    }
    observations = [_observation(figure, document, duration_s) for figure in document.figures]
    names = [figure.name for figure in document.figures]
    at, period = document.stated.start.time, document.stated.period(duration_s)
    if at is not None and (period is None or period[0].utcoffset() is None):
        names.append(_START)
        observations.append(_time_of_day(document, duration_s, at))
    report: Json = {
        "resourceType": "DiagnosticReport",
        **_shared(document, duration_s),
        "category": [_concept((f"{_TERMINOLOGY}/v2-0074", "EC", "Electrocardiac (e.g., EKG,  EEC, Holter)"))],
        "code": _concept((_SYSTEMS[LOINC], "11524-6", "EKG study")),
        "result": [{"reference": _urn(document, name)} for name in names],
        "text": _narrative(document),
    }
    if document.conclusion:  # a draft is nobody's conclusion
        report["conclusion"] = document.conclusion
    resources = [("report", report), ("device", device), *zip(names, observations, strict=True)]
    return {
        "resourceType": "Bundle",
        "type": "collection",
        "entry": [{"fullUrl": _urn(document, name), "resource": resource} for name, resource in resources],
    }


def _urn(document: Document, name: str) -> str:
    return f"urn:uuid:{document.uuid(f'fhir {name}')}"


def _concept(coding: tuple[str, str, str], text: str = "") -> Json:
    system, code, display = coding
    concept: Json = {"coding": [{"system": system, "code": code, "display": display}]}
    return {**concept, "text": text} if text else concept


def _shared(document: Document, duration_s: float) -> Json:
    """Return status, patient and time, which report and observations have in common."""
    stated = document.stated
    period = stated.period(duration_s)
    shared: Json = {"status": "final" if document.reviewed else "preliminary"}
    if stated.subject:
        shared["subject"] = {"type": "Patient", "identifier": {"value": stated.subject}}
    if period is not None:  # a dateTime of FHIR has a time of day only with its offset from UTC
        texts = [at.isoformat() if at.utcoffset() is not None else at.date().isoformat() for at in period]
        shared["effectivePeriod"] = dict(zip(("start", "end"), texts, strict=True))
    return shared


def _observation(figure: Figure, document: Document, duration_s: float) -> Json:
    system, code, display = figure.code
    observation: Json = {
        "resourceType": "Observation",
        **_shared(document, duration_s),
        "category": [_concept((f"{_TERMINOLOGY}/observation-category", "procedure", "Procedure"))],
        "code": _concept((_SYSTEMS[system], code, display), figure.title),
        "device": {"reference": _urn(document, "device")},
    }
    if figure.value is None:
        absent = (f"{_TERMINOLOGY}/data-absent-reason", "unknown", "Unknown")
        observation["dataAbsentReason"] = _concept(absent, figure.reason)
    else:
        quantity: Json = {"value": figure.value, "system": _UCUM, "code": figure.unit}
        unit = _UNITS.get(figure.unit, figure.unit)
        observation["valueQuantity"] = {**quantity, "unit": unit} if unit else quantity
    place = "" if figure.start_s is None else f"at {clock(figure.start_s)} from the start of the recording"
    if text := "; ".join(filter(None, (figure.remark, place))):
        observation["note"] = [{"text": text}]
    return observation


def _time_of_day(document: Document, duration_s: float, at: time) -> Json:
    """Return the time of day at which the recording begins, of which FHIR's periods need a date and an offset."""
    title = "Time of day at the start of the recording"
    return {
        "resourceType": "Observation",
        **_shared(document, duration_s),
        "category": [_concept((f"{_TERMINOLOGY}/observation-category", "procedure", "Procedure"))],
        "code": _concept((_SYSTEMS[OWN_SYSTEM], _START, title), title),
        "valueTime": at.replace(tzinfo=None).isoformat(),
    }


def _narrative(document: Document) -> Json:
    """Return what the figures are for, whether a person reviewed the labels, and the warnings' codes, as XHTML."""
    of_file = "The labels are a file's; whether a person reviewed them is not known."
    labels = "The labels have not been reviewed by a person." if document.provisional else of_file
    labels = "A person reviewed the report." if document.reviewed else labels
    warnings = f" Warnings: {', '.join(document.warnings)}." if document.warnings else ""
    older = " The figures have changed since the conclusion was accepted or written." if document.older else ""
    text = escape(f"{document.intended_use} {labels}{warnings}{older}")
    return {"status": "generated", "div": f'<div xmlns="http://www.w3.org/1999/xhtml"><p>{text}</p></div>'}
