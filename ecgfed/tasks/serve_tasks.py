"""What ``serve`` does with a recording: read it, report, label, personalise, replay; each is a task of ecgfed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any

from ecgfed.base.errors import EcgfedError, OptionError, StorageError, spelled
from ecgfed.base.files import read_json, write_bytes, write_json
from ecgfed.base.language import current_language, joined_message, message, messages, tr_later, translated
from ecgfed.domain.labels.page import labels_name, page_data
from ecgfed.domain.record.file_summary import FileSummary, file_summary
from ecgfed.domain.record.leads import find_lead
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.domain.record.recording import Recording, is_synthetic
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.shipped import name_of
from ecgfed.tasks.label import label
from ecgfed.tasks.label_parts import label_page
from ecgfed.tasks.label_server import LabelStore, label_routes
from ecgfed.tasks.local_server import RefusedError, Route
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.records import open_for_model
from ecgfed.tasks.report import report
from ecgfed.tasks.serve_folder import Entry, WorkFolder
from ecgfed.tasks.serve_replay import Replay, Replays
from ecgfed.web.samples import packed

#: Seconds of a recording that the form shows.
PREVIEW_S = 10.0
#: Length from which on a recording is read by blocks, so that its tasks report how far they are.
BY_BLOCKS_S = 300.0
#: Files of a recording's reports: of the bundle's global model, and of the personal one.
REPORT, PERSONAL_REPORT = "report.html", "report-personal.html"
#: What a form expects as sampling rate.
_SAMPLES_A_SECOND = tr_later("samples a second, such as 250")


class RecordingTasks:
    """The tasks on the recordings of a working folder.

    Args:
        folder: the folder.
        bundle: whose global model is used.
    """

    def __init__(self, folder: WorkFolder, bundle: Bundle) -> None:
        self.folder, self.bundle = folder, bundle
        self.labelling: dict[str, dict[tuple[str, str], Route]] = {}
        self.replays = Replays()

    def read(self, entry: Entry, stated: object) -> dict[str, Any]:
        """Read a recording as a form states it, and store that; return its facts and its first seconds.

        Args:
            entry: the recording.
            stated: ``fs_hz``, ``units``, ``columns``, ``lead`` and ``repair``, as typed.

        Raises:
            EcgfedError: the file cannot be read so; nothing is changed.
        """
        how, lead = _stated(stated)
        facts = file_summary(entry.path, how=how, leads=(lead,) if lead else self.bundle.leads)
        missing = [{"parameter": problem.parameter, "reason": problem.parts[1]} for problem in facts.missing]
        if lead not in facts.leads:
            lead = ""
        if not lead and len(facts.leads) > 1 and find_lead(facts.leads, self.bundle.leads) is None:
            names = joined_message(self.bundle.leads, message(" or "))
            reason = message("no lead {names}, on which the model was trained", names=names)
            missing.append({"parameter": "leads", "reason": reason})
        stored = replace(entry, how=how, lead=lead, facts={**_as_json(facts), "missing": missing}, problem="")
        self.folder.save(stored)
        if (how, lead) != (entry.how, entry.lead):  # open pages of another reading end
            self.replays.end_of(entry.id)
            self.labelling.pop(entry.id, None)
            entry.revision += 1
        entry.how, entry.lead, entry.facts, entry.problem = how, lead, stored.facts, ""
        preview = None if facts.recording is None else _preview(facts.recording)
        return {"facts": facts_on_page(entry.facts), "preview": preview, "revision": entry.revision}

    def _recording(self, entry: Entry) -> Recording:
        """Open a recording as it was stated."""
        min_samples = round(BY_BLOCKS_S * float(entry.facts["fs_hz"]))
        return open_for_model(entry.path, self.bundle.leads, entry.leads, how=entry.how, min_samples=min_samples)

    def report(self, entry: Entry, personal: bool, language: str, progress: ProgressReporter) -> dict[str, Any]:
        """Make the report page in a language."""
        model = entry.models()[-1] if personal else None
        result = report(
            self._recording(entry),
            self.bundle if model is None else model,
            out=entry.folder / (PERSONAL_REPORT if personal else REPORT),
            patient=None if model is None else self._patient(entry, model),
            leads=entry.leads,
            how=entry.how,
            overwrite=True,
            language=language,
            progress=progress,
        )
        return {"said": messages("{n} beat counted.", "{n} beats counted.", result.parts.events.counted)}

    def label(self, entry: Entry, progress: ProgressReporter) -> dict[str, Any]:
        """Choose the beats to label, and make the labelling page, which then answers at ``label/``."""
        labelling = label(
            self._recording(entry),
            entry.folder,
            bundle=self.bundle,
            leads=entry.leads,
            how=entry.how,
            page_file=False,
            progress=progress,
        )
        try:
            store = LabelStore(page_data(labelling.page), labelling.labels_file, overwrite=False)
        except (OptionError, StorageError) as problem:
            if isinstance(problem, OptionError) and problem.code != "exists":
                raise
            file = labelling.labels_file  # the first new answer replaces it
            if file.is_file():
                copies = (file.with_name(f"{file.stem}-{number}.csv") for number in count(1))
                write_bytes(copy := next(copy for copy in copies if not copy.exists()), file.read_bytes())
                progress.note(
                    message(
                        "Earlier labels do not fit this page, so it begins anew; a copy of them is {file}.",
                        file=copy.name,
                    )
                )
            store = LabelStore(page_data(labelling.page), file, overwrite=True)
        html = partial(label_page, labelling.page, file=labelling.labels_file.name, ends=False)
        self.labelling[entry.id] = label_routes(html, store, ends=False)
        return {"said": messages("{n} beat to label.", "{n} beats to label.", labelling.page.count)}

    def personalize(self, entry: Entry, progress: ProgressReporter) -> dict[str, Any]:
        """Make a personal model of the labels, as a bundle in a zip file."""
        from ecgfed.tasks.personalize_labels import personalize_labels  # needs torch

        number = entry.next_number()
        result = personalize_labels(
            self._recording(entry),
            entry.folder / f"model-{number}.zip",
            labels=self.labels_file(entry),
            bundle=self.bundle,
            beats=entry.folder / f"beats-{number}",
            leads=entry.leads,
            how=entry.how,
            progress=progress,
        )
        sentences = result.sentences()
        write_json(entry.folder / f"model-{number}.json", {"patient": result.patient, "sentences": sentences})
        return {"said": joined_message(sentences, " ")}

    def labels_file(self, entry: Entry) -> Path:
        """Return the file of a recording's labels; raises RefusedError where there is none."""
        for file in entry.folder.glob("*-labels.csv"):
            return file
        raise RefusedError(
            HTTPStatus.CONFLICT, message("no labels yet ({file}): label beats first", file=labels_name(entry.path.stem))
        )

    def begin_replay(self, entry: Entry, personal: bool) -> dict[str, Any]:
        """Begin to replay a recording for a page."""
        if personal and not entry.models():
            raise RefusedError(HTTPStatus.CONFLICT, message("no personal model yet"))
        recording = self._recording(entry)
        bundle, patient = self.bundle, None
        if personal:
            bundle = open_bundle(entry.models()[-1])
            patient = self._patient(entry, entry.models()[-1])
        model = message("the global model of {bundle}", bundle=name_of(bundle.path))
        if patient:
            model = message("the personal model of {patient}", patient=patient)
        return self.replays.begin(entry.id, Replay(recording, bundle.classifier(patient), model))

    def _patient(self, entry: Entry, model: Path) -> str:
        """Return the patient of a personal model."""
        stored = read_json(model.with_suffix(".json"), EcgfedError)
        return str(stored["patient"])


def _stated(sent: object) -> tuple[ReadOptions, str]:
    """Return how to read a recording, and its lead, of a form; raises OptionError."""
    form = sent if isinstance(sent, Mapping) else {}
    text = {name: str(form.get(name) or "").strip() for name in ("fs_hz", "units", "columns", "lead")}
    try:
        fs_hz = float(text["fs_hz"].replace(",", ".")) if text["fs_hz"] else None
    except ValueError:
        raise OptionError("fs_hz", f"{text['fs_hz']!r:.40}", _SAMPLES_A_SECOND) from None
    if fs_hz is not None and not math.isfinite(fs_hz):
        raise OptionError("fs_hz", f"{text['fs_hz']!r:.40}", _SAMPLES_A_SECOND)
    columns = tuple(name.strip() for name in text["columns"].split(",")) if text["columns"] else ()
    return ReadOptions(fs_hz, text["units"] or None, columns, form.get("repair") is True), text["lead"]


def facts_on_page(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a recording with their texts in the current language."""
    notes = [translated(note) for note in facts.get("notes", ())]
    missing = [{**entry, "reason": spelled(translated(entry["reason"]))} for entry in facts.get("missing", ())]
    return {**facts, "notes": notes, "missing": missing} if facts else {}


def _as_json(facts: FileSummary) -> dict[str, Any]:
    names = ("format", "leads", "columns", "units", "fs_hz", "samples", "duration_s", "start", "notes")
    values = {name: getattr(facts, name) for name in names}
    lead = "" if facts.recording is None else facts.recording.lead
    synthetic = facts.recording is not None and is_synthetic(facts.recording)
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {**plain, "lead": lead, "synthetic": synthetic}


def _preview(recording: Recording) -> dict[str, Any]:
    """Return the first seconds of the lead in use, for ``paper.js``."""
    stop = min(recording.samples, math.ceil(PREVIEW_S * recording.fs_hz))
    samples = packed(recording.lead_mv(recording.lead, 0, stop).copy())
    leads = [{"name": recording.lead, "unit": "mV", "samples": samples}]
    return {"fs": recording.fs_hz, "start_s": 0, "seconds": round(stop / recording.fs_hz, 1), "leads": leads}


#: Jobs by name.
JOBS: dict[str, Callable[[RecordingTasks, Entry], Callable[[ProgressReporter], dict[str, Any]]]] = {
    "report": lambda tasks, entry: partial(tasks.report, entry, False, current_language()),
    "report-personal": lambda tasks, entry: partial(tasks.report, entry, True, current_language()),
    "label": lambda tasks, entry: partial(tasks.label, entry),
    "personalize": lambda tasks, entry: partial(tasks.personalize, entry),
}
