"""The recordings of a batch of predictions, one by one or by an executor's workers."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ecgfed.base.errors import BundleError, EcgfedError
from ecgfed.base.executors import in_order
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.signatures import Signature
from ecgfed.tasks.batch_state import entry_of, manifest_sha256
from ecgfed.tasks.predict import predict
from ecgfed.tasks.progress import Messages, ProgressReporter


@dataclass(frozen=True)
class BatchRequest:
    """A recording, its name in the summary, the folder for its predictions, and why it cannot be read, where known."""

    path: Path
    name: str
    out: Path
    not_read: EcgfedError | None = None


@dataclass
class RecordingReporter(ProgressReporter):
    """Forwards notes and warnings, each with the recording's name before it."""

    reporter: ProgressReporter
    name: str = field(default="")

    def note(self, text: str) -> None:
        """Forward a note."""
        self.reporter.note(f"{self.name}: {text}")

    def warn(self, text: str) -> None:
        """Forward a warning."""
        self.reporter.warn(f"{self.name}: {text}")


@dataclass(frozen=True)
class Work:
    """What is done with each recording: the arguments of ``predict`` and of ``RecordingPredictions.save``."""

    patient: str | None
    int8: bool
    how: RecordingOptions
    force: bool
    annotator: str
    drawn: dict[str, Any]

    def __call__(self, bundle: Bundle, request: BatchRequest, progress: ProgressReporter) -> dict[str, Any]:
        """Predict a recording and write its files; return its line in the state file."""
        predictions = predict(
            bundle=bundle,
            recording=request.path,
            patient=self.patient,
            int8=self.int8,
            how=self.how,
            force=self.force,
            progress=RecordingReporter(progress, request.name),
        )
        files = predictions.save(request.out, **self.drawn)
        result = {key: value for key, value in predictions.summary([]).items() if key != "files"}
        inputs = predictions.recording.files
        return entry_of(request.name, request.path, self.annotator, inputs, files, result)


class _BundleFile(NamedTuple):
    """A bundle as a worker opens it: its manifest is 45 kB, and dask's scheduler holds 1,000 tasks of each worker."""

    path: Path
    manifest_sha256: str
    signature: Signature | None


@lru_cache(maxsize=4)
def _opened(file: _BundleFile) -> Bundle:
    """Open the caller's bundle again, once per process; raises BundleError if it is another one by now."""
    bundle = replace(open_bundle(file.path, verify=False), signature=file.signature)
    if manifest_sha256(bundle) != file.manifest_sha256:
        raise BundleError(file.path, "has another manifest than when the batch began", action="start the batch again")
    return bundle


def _elsewhere(file: _BundleFile, work: Work, request: BatchRequest) -> tuple[dict[str, Any], Messages]:
    """Run on a worker: return the recording's line, or ``problem`` and its like, and the messages."""
    messages = Messages()
    try:
        return work(_opened(file), request, messages), messages
    except EcgfedError as problem:
        return problem.as_json(), messages


def lines_of(
    bundle: Bundle, work: Work, requests: Sequence[BatchRequest], executor: Executor | None, progress: ProgressReporter
) -> Iterator[dict[str, Any]]:
    """Yield the line of each recording, or ``problem`` and its like, in order."""
    if executor is None:
        for request in requests:
            try:
                yield work(bundle, request, progress)
            except EcgfedError as problem:
                yield problem.as_json()
        return
    file = _BundleFile(bundle.path.absolute(), manifest_sha256(bundle), bundle.signature)
    placed = (replace(request, path=request.path.absolute(), out=request.out.absolute()) for request in requests)
    tasks = ((file, work, request) for request in placed)
    for line, messages in in_order(executor, _elsewhere, tasks, parameters=vars(work.how)):
        messages.report(progress)
        yield line
