"""``serve``: a local page on which recordings are dropped, reported, labelled, personalised and replayed."""

import re
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote

from ecgfed.base.errors import EcgfedError, StorageError, spelling
from ecgfed.base.language import LANGUAGES, check_language, message, tr, tr_later, translated
from ecgfed.base.locks import locked
from ecgfed.domain.cohort.demo import write_demo_records
from ecgfed.exports.device.bundle import Bundle
from ecgfed.reports.rendering import render
from ecgfed.tasks.local_server import (
    IDLE_S,
    OCTETS,
    Body,
    CutShortError,
    Download,
    LocalServer,
    RefusedError,
    Request,
    Route,
)
from ecgfed.tasks.page_errors import line_of
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.serve_folder import Entry, WorkFolder
from ecgfed.tasks.serve_jobs import Jobs
from ecgfed.tasks.serve_tasks import JOBS, PERSONAL_REPORT, REPORT, RecordingTasks, facts_on_page
from ecgfed.web.page import inline_page

STYLES = ("paper.css", "report.css", "serve.css")
SCRIPTS = ("language.js", "paper.js", "serve-parts.js", "serve-form.js", "serve-replay.js", "serve.js")
#: Length of the sample recording.
SAMPLE_MINUTES = 5.0
#: Parameters as the page calls them.
_NAMES = {
    "fs_hz": tr_later("the sampling rate"),
    "units": tr_later("the units"),
    "columns": tr_later("the columns"),
    "leads": tr_later("the lead"),
    "repair": tr_later("'read what is there'"),
    "repair=True": tr_later("'read what is there'"),
}
#: Languages by their own names, for the switch on the page.
_LANGUAGE_NAMES = {"en": "English", "de": "Deutsch", "fr": "Français", "es": "Español"}
_LANGUAGE = re.compile(rf"({'|'.join(LANGUAGES)})/")
_UPLOAD = re.compile(r"upload/(\d{4,9})/(?:(\d{1,3})|(done))")
_RECORDING = re.compile(r"recordings/([A-Za-z0-9._-]{1,100})/(.*)", re.DOTALL)


@dataclass(frozen=True)
class ServedWork:
    """Result of ``serve``.

    Attributes:
        folder: the working folder.
        recordings: number of recordings in it.
        ended: ``done`` by the page, ``idle`` if no page was open any more, ``interrupted`` by the keyboard.
    """

    folder: Path
    recordings: int
    ended: str


class _App:
    """The page's resources: ``state``, or ``de/state`` for the page in German."""

    def __init__(self, folder: WorkFolder, bundle: Bundle, language: str) -> None:
        self.folder, self.jobs, self.tasks = folder, Jobs(), RecordingTasks(folder, bundle)
        self.language, self.bundle = language, bundle

    def page(self, above: str) -> bytes:
        """Return the page in the current language; ``above`` leads from its address to the one without a language."""
        body = render(
            "serve.html.j2",
            intended_use=str(self.bundle.manifest["intended_use"]),
            folder=str(self.folder.path),
            languages=[(code, name, f"{above}{code}/") for code, name in _LANGUAGE_NAMES.items()],
        )
        title = tr("Recordings")
        return inline_page(title, body, styles=STYLES, scripts=SCRIPTS, data={}, served=True).encode()

    def find(self, method: str, resource: str) -> Route | None:
        """Return what answers a request, in the language of the page that asks."""
        match = _LANGUAGE.match(resource)
        route = self._find(method, resource[match.end() :] if match else resource, "../" if match else "")
        return route and replace(route, language=match[1] if match else self.language)

    def _find(self, method: str, resource: str, above: str) -> Route | None:
        fixed: dict[tuple[str, str], Route] = {
            ("GET", ""): Route(lambda _: self.page(above)),
            ("GET", "state"): Route(lambda _: self.state()),
            ("POST", "upload"): Route(self._announced),
            ("POST", "sample"): Route(self._sample),
            ("POST", "done"): Route(self._done, ends=True),
        }
        if (method, resource) in fixed:
            return _clear(fixed[method, resource], self.folder)
        if (match := _UPLOAD.fullmatch(resource)) and method == "POST":
            if match[3]:
                return _clear(Route(partial(self._uploaded, match[1])), self.folder)
            return _clear(Route(partial(self._file, match[1], int(match[2])), OCTETS), self.folder)
        match = _RECORDING.fullmatch(resource)
        entry = self.folder.entries.get(match[1]) if match else None
        if match is None or entry is None:
            return None
        route = self._of_recording(method, entry, match[2])
        return None if route is None else _clear(route, self.folder)

    def _of_recording(self, method: str, entry: Entry, resource: str) -> Route | None:
        if resource.startswith("label/"):
            return self.tasks.labelling.get(entry.id, {}).get((method, resource.removeprefix("label/")))
        if method == "GET" and resource.startswith("files/"):
            file = entry.results().get(unquote(resource.removeprefix("files/")))
            return None if file is None else Route(lambda _: _file_body(file))
        if method == "POST" and resource == "read":
            return Route(lambda request: self._read(entry, request))
        if method == "POST" and resource == "replay":
            return Route(lambda request: self._replay(entry, request))
        if method == "POST" and resource in JOBS:
            return Route(lambda request: self._job(entry, resource, request))
        return None

    def state(self) -> dict[str, Any]:
        """Return all recordings and jobs; what pages have left behind that are gone is removed."""
        self.folder.discard_abandoned()
        self.tasks.replays.end_abandoned()
        entries, jobs = list(self.folder.entries.values()), self.jobs.to_list()
        for job in jobs:
            job["problem"] = _without_folders(translated(job["problem"]), self.folder)
            job["lines"] = [_without_folders(translated(line), self.folder) for line in job["lines"]]
            job["result"] = {name: translated(text) for name, text in job["result"].items()}
            job["progress"] = {
                name: translated(value) if isinstance(value, str) else value for name, value in job["progress"].items()
            }
        return {"recordings": [self._entry(entry) for entry in entries], "jobs": jobs}

    def _entry(self, entry: Entry) -> dict[str, Any]:
        how = {"fs_hz": entry.how.fs_hz, "units": entry.how.units, "columns": ",".join(entry.how.columns)}
        results = {name: quote(name) for name in entry.results()}
        return {
            "id": entry.id,
            "name": entry.path.name,
            "how": {**how, "repair": entry.how.repair, "lead": entry.lead},
            "revision": entry.revision,
            "facts": facts_on_page(entry.facts),
            "stated": entry.is_stated,
            "problem": _without_folders(translated(entry.problem), self.folder),
            "results": results,
            "reports": {"report": REPORT in results, "personal": PERSONAL_REPORT in results},
            "labels": any(name.endswith("-labels.csv") and "/" not in name for name in results),
            "labelling": entry.id in self.tasks.labelling,
            "model": entry.models()[-1].name if entry.models() else "",
        }

    def _announced(self, request: Request) -> Body:
        sent = request.sent()
        return {"upload": self.folder.begin(sent.get("files") if isinstance(sent, Mapping) else None)}

    def _file(self, number: str, at: int, request: Request) -> Body:
        upload = self.folder.upload(number)
        if upload is None or at >= len(upload.names):
            raise RefusedError(HTTPStatus.NOT_FOUND, message("nothing here"))
        try:
            upload.write(at, request.parts(upload.sizes[at]))
        except (StorageError, CutShortError, ConnectionError, TimeoutError):
            self.folder.discard(number)  # a page begins anew, with all of the files
            raise
        return {"name": upload.names[at]}

    def _uploaded(self, number: str, request: Request) -> Body:
        request.sent()
        if self.folder.upload(number) is None:
            raise RefusedError(HTTPStatus.NOT_FOUND, message("nothing here"))
        return self._finished(number)

    def _sample(self, request: Request) -> Body:
        """Add a synthetic recording, the first that ``ecgfed prepare demo`` makes."""
        request.sent()
        with TemporaryDirectory() as temporary:
            (sample,) = write_demo_records(Path(temporary, "records"), patients=1, minutes=SAMPLE_MINUTES)
            files = [sample.records[0].with_suffix(end) for end in (".hea", ".dat")]
            number = self.folder.begin([{"name": file.name, "size": file.stat().st_size} for file in files])
            if upload := self.folder.upload(number):
                for at, file in enumerate(files):
                    upload.write(at, [file.read_bytes()])
        return self._finished(number)

    def _finished(self, number: str) -> Body:
        entries = self.folder.finish(number)
        for entry in entries:
            try:
                self.tasks.read(entry, {})
            except EcgfedError as problem:  # the form shows it, and may mend it
                entry.problem = line_of(problem)
                self.folder.save(entry)
        return {"recordings": [entry.id for entry in entries]}

    def _read(self, entry: Entry, request: Request) -> Body:
        sent = request.sent()
        with entry.lock:
            _check_revision(entry, sent)
            self.jobs.check_none_pending(entry.id)
            return self.tasks.read(entry, sent)

    def _job(self, entry: Entry, what: str, request: Request) -> Body:
        sent = request.sent()
        with entry.lock:
            _check_revision(entry, sent)
            if not entry.is_stated:
                raise RefusedError(HTTPStatus.CONFLICT, message("something of this recording is not stated yet"))
            if what == "report-personal" and not entry.models():
                raise RefusedError(HTTPStatus.CONFLICT, message("no personal model yet: personalise first"))
            if what == "personalize":
                self.tasks.labels_file(entry)
            return self.jobs.add(entry.id, what, JOBS[what](self.tasks, entry)).to_dict()

    def _replay(self, entry: Entry, request: Request) -> Body:
        sent = request.sent()
        if not isinstance(sent, Mapping) or not entry.is_stated:
            raise RefusedError(HTTPStatus.BAD_REQUEST, message("something of this recording is not stated yet"))
        if sent.get("begin") is True:
            with entry.lock:
                _check_revision(entry, sent)
                return self.tasks.begin_replay(entry, sent.get("personal") is True)
        if sent.get("end") is True:
            self.tasks.replays.end(sent.get("replay"))
            return {}
        replay = self.tasks.replays.get(entry.id, sent.get("replay"))
        if sent.get("pause") is True:
            return {}
        part = replay.next(sent.get("at"), sent.get("seconds"))
        if part["ended"]:
            self.tasks.replays.end(sent.get("replay"))
        return part

    def _done(self, request: Request) -> Body:
        sent = request.sent()
        if self.jobs.busy and not (isinstance(sent, Mapping) and sent.get("stop") is True):
            raise RefusedError(HTTPStatus.CONFLICT, message("a job runs, and would be stopped"), busy=True)
        return {"ended": True}


def _check_revision(entry: Entry, sent: object) -> None:
    """Raise RefusedError for a page that shows how a recording was read before another page read it in another way."""
    if isinstance(sent, Mapping) and sent.get("revision", entry.revision) != entry.revision:
        raise RefusedError(
            HTTPStatus.CONFLICT,
            message("another page has read this file in another way; this page shows that now"),
            stale=True,
        )


def _file_body(file: Path) -> Body:
    """Return a page as one, and any other file as a download; raises RefusedError."""
    try:
        data = file.read_bytes()
    except OSError as problem:
        raise RefusedError(HTTPStatus.NOT_FOUND, message("nothing here")) from problem
    return data if file.suffix == ".html" else Download(data, file.name)


def _without_folders(line: str, folder: WorkFolder) -> str:
    """Return a line with paths below the working folder as file names."""
    return re.sub(re.escape(str(folder.path)) + r"[/\\](?:uploads|recordings)[/\\][^/\\]+[/\\]", "", line)


def _clear(route: Route, folder: WorkFolder) -> Route:
    """Return a route whose errors are refusals, in one line."""

    def respond(request: Request) -> Body:
        try:
            return route.respond(request)
        except EcgfedError as problem:
            status = HTTPStatus.CONFLICT if problem.code == "exists" else HTTPStatus.BAD_REQUEST
            line = _without_folders(translated(line_of(problem)), folder)
            raise RefusedError(status, line, parameter=problem.parameter) from problem

    return replace(route, respond=respond)


def _on_the_page(name: str, value: str) -> str:
    """Spell a parameter as the page does."""
    return translated(_NAMES.get(f"{name}={value}" if value else name, _NAMES.get(name, name)))


def serve(
    work: Path | str,
    *,
    bundle: Bundle | Path | str | None = None,
    trusted: Path | str | Sequence[Path | str] | None = None,
    language: str = "en",
    opened: Callable[[str], object] = webbrowser.open,
    idle_s: float | None = None,
) -> ServedWork:
    """Serve a page on this machine, on which recordings are read, reported, labelled, personalised and replayed.

    It needs no network: the server listens on 127.0.0.1 alone, with a random token in the page's address. Research use
    only, not for diagnosis.

    Args:
        work: the working folder, created for its owner alone, or that of an earlier session, which goes on.
        bundle: the bundle whose global model is used; default the model in the package.
        trusted: public keys (PEM files), one of which must have signed the bundle; None accepts any bundle.
        language: of the page at first; a link on it changes to another of ``en``, ``de``, ``fr``, ``es``.
        opened: called with the page's address; anyone on this machine who knows it can use the page.
        idle_s: seconds without an open page and without a job after which the server ends; default five minutes.

    Raises:
        OptionError: the folder is another one, or cannot be created; no port is available; an unknown language.
        StorageError: the folder cannot be read, or another server uses it.
        BundleError: the bundle cannot be used.
    """
    check_language(language)
    model, path = opened_bundle(bundle, trusted), Path(work)
    folder = WorkFolder(path)
    with locked(path / "server"):
        folder.resume()
        app = _App(folder, model, language)
        server = LocalServer(app.find)
        try:
            with spelling(_on_the_page):
                why = server.run(opened, idle_s=idle_s or IDLE_S, busy=lambda: app.jobs.busy)
        finally:
            app.jobs.close()
    return ServedWork(folder.path, len(folder.entries), why)
