"""``label --serve``: a local server for the labelling page, which writes the label file after every label."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeGuard

from ecgfed.base.errors import EcgfedError, OptionError, RecordError, StorageError, param
from ecgfed.base.files import read_json, write_together
from ecgfed.base.language import message
from ecgfed.base.locks import locked
from ecgfed.base.safe_io import check_links
from ecgfed.domain.cohort.problems import error_line
from ecgfed.domain.labels.user_labels import SOURCES, UserLabel, label_table, read_user_labels
from ecgfed.tasks.local_server import IDLE_S, LocalServer, RefusedError, Request, Route


@dataclass(frozen=True)
class Served:
    """Result of serving a page.

    Attributes:
        file: the label file.
        labels: number of labels in it; 0 if it does not exist because no beat was labelled.
        ended: ``done`` by the page, ``idle`` if no page was open any more, ``interrupted`` by the keyboard.
    """

    file: Path
    labels: int
    ended: str


def actions_file(labels_file: Path) -> Path:
    """Return the file beside the label file that stores every action, so that undo works in a later session."""
    return labels_file.with_suffix(".answers.json")


def labels_csv(data: Mapping[str, Any], rows: list[list[Any]]) -> bytes:
    """Return the label file (RFC 4180), identical to the page's download.

    Args:
        data: the page's data (``labels.page.page_data``).
        rows: sample, label, beats and source of each label, in order of time.
    """
    labels = [UserLabel(sample, label, beats, source, data["recording"]) for sample, label, beats, source in rows]
    return label_table(labels, data["fs"])


class LabelStore:
    """The label file of a page's data, and the action file beside it, for one writer at a time."""

    def __init__(self, data: Mapping[str, Any], file: Path, *, overwrite: bool) -> None:
        self.data, self.file, self.actions_path = data, file, actions_file(file)
        self.state: dict[str, Any] | None = None
        self.labels = 0
        self.lock = threading.Lock()
        self._samples = {point["sample"] for point in data["points"].values()}
        self._symbols = {entry["symbol"] for entry in data["labels"]}
        if file.is_dir() or (file.parent.exists() and not file.parent.is_dir()):
            raise OptionError("out", f"{file} cannot be a file", "a folder to write labels into")
        check_links(file.parent, [file.name, self.actions_path.name], OptionError)
        if file.exists() or self.actions_path.exists():
            self._resume(overwrite)

    def _resume(self, overwrite: bool) -> None:
        """Load the actions of an earlier session; refuse to overwrite labels that do not match them."""
        action = f"choose another {param('out')}, or pass {param('overwrite=True')}"
        stored = None
        if self.actions_path.is_file():
            try:
                stored = read_json(self.actions_path, StorageError)
            except StorageError:
                if not overwrite:
                    raise
        if self._is_valid(stored):
            if not overwrite and self.file.exists() and not self._file_matches(stored["given"]):
                expected = f"the labels of its {self.actions_path.name}, which the next answer would write there"
                reason = f"{self.file} has been changed since it was written"
                raise OptionError("out", reason, expected, action, code="exists")
            self.state, self.labels = stored, len(stored["given"])
        elif not overwrite and stored is not None:
            expected = "answers about this recording and its present groups"
            reason = f"{self.actions_path} holds answers of another page"
            raise OptionError("out", reason, expected, action, code="exists")
        elif not overwrite:
            problem = f"{self.file} is there, without its {self.actions_path.name}"
            allowed = f"a new file, or labels made with {param('serve')}"
            raise OptionError("out", problem, allowed, action, code="exists")

    def _is_valid(self, state: object) -> TypeGuard[dict[str, Any]]:
        return (
            isinstance(state, dict)
            and state.get("version") == 1
            and state.get("recording") == self.data["recording"]
            and state.get("groups") == self.data["digest"]
            and _is_count(state.get("revision"))
            and _is_count(state.get("cursor"))
            and isinstance(state.get("actions"), list)
            and isinstance(state.get("given"), list)
        )

    def _file_matches(self, labels: list[Any]) -> bool:
        """Return whether the label file contains exactly these labels, even if another program saved it."""
        if not labels:  # everything was undone: the file has only its header
            return self.file.read_bytes() == labels_csv(self.data, [])
        try:
            return [[label.sample, label.label] for label in read_user_labels(self.file)] == labels
        except RecordError:
            return False

    def _checked_rows(self, rows: object) -> list[list[Any]]:
        """Return rows that belong to this page; raises RefusedError."""
        if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
            raise RefusedError(HTTPStatus.BAD_REQUEST, message("no rows of labels"))
        for sample, label, beats, source in rows:
            fits = _is_count(sample) and sample in self._samples and _is_count(beats) and isinstance(label, str)
            if not fits or label not in self._symbols or source not in SOURCES:
                raise RefusedError(HTTPStatus.BAD_REQUEST, message("a row that is not of this page"))
        samples = [row[0] for row in rows]
        if samples != sorted(set(samples)) or sum(row[2] for row in rows) not in (0, self.data["beats"]):
            raise RefusedError(HTTPStatus.BAD_REQUEST, message("rows that do not add up"))
        return rows

    def save(self, sent: object) -> dict[str, Any]:
        """Write the labels sent by a page durably, and only then confirm; raises RefusedError."""
        if not isinstance(sent, dict) or not self._is_valid(sent.get("kept")) or not _is_count(sent.get("base")):
            raise RefusedError(HTTPStatus.BAD_REQUEST, message("no answers of this page"))
        rows = self._checked_rows(sent.get("rows"))
        with self.lock:
            if self.state is not None and sent["base"] < self.state["revision"]:
                raise RefusedError(HTTPStatus.CONFLICT, message("another page has newer answers"), kept=self.state)
            state = {**sent["kept"], "given": [[sample, label] for sample, label, *_ in rows]}
            document = json.dumps(state, allow_nan=False).encode() + b"\n"
            try:
                write_together({self.actions_path: document, self.file: labels_csv(self.data, rows)})
            except (EcgfedError, OSError) as problem:
                if isinstance(problem, EcgfedError):
                    line = error_line(problem, self.file.parent)  # the page shows no folder of this machine
                else:
                    line = problem.strerror or "cannot be written"
                raise RefusedError(HTTPStatus.INSUFFICIENT_STORAGE, line) from problem
            self.state, self.labels = state, len(rows)
        return {"revision": state["revision"]}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def label_routes(
    page: Callable[[], str], store: LabelStore, *, ends: bool, language: str = "en"
) -> dict[tuple[str, str], Route]:
    """Return what answers a labelling page, by method and resource.

    Args:
        page: returns the page, in the current language.
        store: its labels.
        ends: the server ends with the page.
        language: of the page.
    """

    def finished(request: Request) -> dict[str, Any]:
        request.sent()
        return {"labels": store.labels, "ended": ends}

    return {
        ("GET", ""): Route(lambda _: page().encode(), language=language),
        ("GET", "state"): Route(lambda _: {"kept": store.state}, language=language),
        ("GET", "alive"): Route(lambda _: {}, language=language),
        ("POST", "save"): Route(lambda request: store.save(request.sent()), language=language),
        ("POST", "done"): Route(finished, ends=ends, language=language),
    }


def serve(
    page_html: str,
    data: Mapping[str, Any],
    labels_file: Path,
    *,
    opened: Callable[[str], None],
    language: str = "en",
    idle_s: float = IDLE_S,
    overwrite: bool = False,
) -> Served:
    """Serve a labelling page on this machine until it is finished or idle; write the labels after every change.

    Args:
        page_html: the page, from ``label_page(page, file=...)``.
        data: its data (``page_data(page)``).
        labels_file: the label file to write, CSV. The actions are stored beside it (``actions_file``); if both exist
            and belong to the same groups, the session continues from them.
        opened: called with the page's address once it can be opened; anyone who knows it can label.
        language: of the page.
        idle_s: seconds without a request after which the server ends.
        overwrite: replace labels of another page at the first new label; labels of this page are continued in any case.

    Raises:
        OptionError: existing labels belong to another page or were changed since, ``labels_file`` cannot be a file, or
            its folder cannot be made.
        StorageError: the actions cannot be read, or another server is writing the labels.
    """
    try:
        labels_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"{labels_file.parent} cannot be a folder ({error.strerror})"
        raise OptionError("out", problem, "a folder for the labels") from error
    # keeps a second server from overwriting the labels; the lock of the file itself is for single writes
    with locked(labels_file.with_name(f"{labels_file.name}.served")):
        store = LabelStore(data, labels_file, overwrite=overwrite)
        routes = label_routes(lambda: page_html, store, ends=True, language=language)
        server = LocalServer(lambda method, resource: routes.get((method, resource)))
        why = server.run(opened, idle_s=idle_s)
        with store.lock:  # wait for a write in progress
            exists = labels_file.exists()  # the file of an earlier session may have been moved
            return Served(labels_file, store.labels if exists else 0, why)
