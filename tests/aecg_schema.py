"""What the schema of HL7 aECG demands of a document: which elements stand in which, in which order and how often.

Facts of ``PORT_MT020001.xsd`` (2003-12), as FDA/aecg-python has it (src/aecg/data/hl7), for the elements that ecgfed
writes or that it demands. ``?`` is none or one, ``+`` one or more, ``*`` any number.
"""

import re
from xml.etree.ElementTree import Element

CHILDREN = {
    "AnnotatedECG": "id code text? effectiveTime confidentialityCode? reasonCode? componentOf component*",
    "AnnotatedECG/componentOf": "timepointEvent",
    "timepointEvent": "code? effectiveTime? reasonCode* performer? componentOf",
    "timepointEvent/componentOf": "subjectAssignment",
    "subjectAssignment": "subject definition? componentOf",
    "subject": "trialSubject",
    "trialSubject": "id code? subjectDemographicPerson?",
    "subjectAssignment/componentOf": "clinicalTrial",
    "clinicalTrial": "id title? activityTime? componentOf? author? location* responsibleParty*",
    "AnnotatedECG/component": "series",
    "series": "id? code effectiveTime author? secondaryPerformer* support? controlVariable* component+ subjectOf* "
    "derivation*",
    "author": "seriesAuthor",
    "seriesAuthor": "id? manufacturedSeriesDevice manufacturerOrganization?",
    "manufacturedSeriesDevice": "id* code? manufacturerModelName? softwareName?",
    "series/component": "sequenceSet",
    "sequenceSet": "controlVariable* component+",
    "sequenceSet/component": "sequence",
    "sequence": "code value controlVariable*",
    "subjectOf": "annotationSet",
    "annotationSet": "code? activityTime? methodCode* author* controlVariable* component*",
    "annotationSet/component": "annotation",
    "annotation": "code text? value? support? component*",
    "support": "supportingROI",
    "supportingROI": "code component+",
    "supportingROI/component": "boundary",
    "boundary": "code value?",
    # of its data types
    "effectiveTime": "low? high?",
    "value": "origin? scale? digits? head? increment? low? high?",
}
#: Elements of data types without elements inside.
LEAVES = {"id", "code", "text", "low", "high", "head", "increment", "origin", "scale", "digits", "softwareName"}


def schema_errors(root: Element) -> list[str]:
    """Return what in a document is against these facts."""
    return list(_errors(root, "")) if root.tag == "{urn:hl7-org:v3}AnnotatedECG" else [f"root {root.tag}"]


def _errors(element: Element, parent: str) -> list[str]:
    name = element.tag.rpartition("}")[2]
    within = [child.tag.rpartition("}")[2] for child in element]
    form = CHILDREN.get(f"{parent}/{name}", CHILDREN.get(name))
    if form is None:
        return [] if name in LEAVES and not within else [f"{parent}/{name}"]
    pattern = "".join(f"(?:{word.rstrip('?+*')} ){word[len(word.rstrip('?+*')) :]}" for word in form.split())
    errors = [] if re.fullmatch(pattern, "".join(f"{child} " for child in within)) else [f"{name}: {within[:12]}"]
    if name == "code" and element.get("code") is None:
        errors.append("a code without a code")
    return errors + [error for child in element for error in _errors(child, name)]
