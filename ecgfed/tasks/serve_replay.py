"""Replays of ``serve``: a recording's samples go through ecgfed's stream, and a page asks for the next seconds.

Each page that replays a recording has a stream of its own.
"""

import math
import secrets
import threading
import time
from http import HTTPStatus
from typing import Any

import numpy as np

from ecgfed.base.errors import OptionError
from ecgfed.base.language import message, translated
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.recording import Recording
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.stream import StreamBeat, StreamClassifier
from ecgfed.tasks.local_server import RefusedError
from ecgfed.web.samples import packed

#: Longest part in one response.
MAX_S = 60.0
#: Seconds without a request after which a replay ends: its page is gone. A browser delays a hidden page by a minute.
REPLAY_IDLE_S = 180.0
#: Replays at the same time.
MAX_REPLAYS = 8


class Replay:
    """A recording that is classified as it would be while it is recorded.

    Args:
        recording: with the lead in use chosen; beats are looked for in all its ECG leads.
        classifier: the model.
        name: of the model, for the page.
    """

    def __init__(self, recording: Recording, classifier: Classifier, name: str) -> None:
        self._recording, self._name = ecg_alone(recording), name
        self._lead = self._recording.leads.index(self._recording.lead)
        leads = len(self._recording.leads)
        self._stream = StreamClassifier(classifier, recording.fs_hz, leads=leads, lead=self._lead, early="decided")
        self._at, self._lock = 0, threading.Lock()
        self.used = time.monotonic()

    def begun(self) -> dict[str, Any]:
        """Return what the page shows of it, JSON-ready."""
        recording = self._recording
        about = {"fs": recording.fs_hz, "lead": recording.lead, "duration_s": recording.duration_s}
        return {**about, "samples": recording.samples, "model": translated(self._name)}

    def next(self, at: object, seconds: object) -> dict[str, Any]:
        """Return the next samples of the lead in use, and the beats that are reported with them, JSON-ready.

        Args:
            at: the sample number that the page expects.
            seconds: how many, more than 0 and at most ``MAX_S``.

        Raises:
            OptionError: another sample number, where a response was lost, or a part that is too long.
        """
        with self._lock:
            if at != self._at:
                expected = message("sample {n}", n=self._at)
                raise OptionError("at", f"{at!r:.20}", expected, message("replay the recording again"))
            known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
            if not known or not 0 < float(seconds) <= MAX_S:  # type: ignore[arg-type]
                raise OptionError("seconds", f"{seconds!r:.20}", message("more than 0, at most {n:g}", n=MAX_S))
            count = max(1, round(float(seconds) * self._recording.fs_hz))  # type: ignore[arg-type]
            stop = min(self._at + count, self._recording.samples)
            samples = self._recording.read(self._at, stop)
            beats = self._stream.push(samples) if stop > self._at else []
            self._at, ended = stop, stop == self._recording.samples
            drift = translated(self._stream.drift.text)
            if ended:
                beats += self._stream.finish()
            signal = packed(np.array(samples[self._lead]))
            return {"at": stop, "samples": signal, "beats": [_beat(b) for b in beats], "drift": drift, "ended": ended}


class Replays:
    """The replays of all pages, each by a random id that only its page knows."""

    def __init__(self) -> None:
        self._all: dict[str, tuple[str, Replay]] = {}
        self._lock = threading.Lock()

    def begin(self, recording: str, replay: Replay) -> dict[str, Any]:
        """Add a replay of a recording, by its id; return its own id and what the page shows of it, JSON-ready.

        Raises:
            RefusedError: there are ``MAX_REPLAYS`` already.
        """
        self.end_abandoned()
        with self._lock:
            if len(self._all) >= MAX_REPLAYS:
                text = message("{n} replays are open, in this tab and others; close one of them", n=MAX_REPLAYS)
                raise RefusedError(HTTPStatus.CONFLICT, text)
            key = secrets.token_urlsafe(12)
            self._all[key] = recording, replay
        return {"replay": key, **replay.begun()}

    def get(self, recording: str, key: object) -> Replay:
        """Return the replay that a page asks for, which goes on; raises RefusedError where it has ended."""
        owner, replay = self._all.get(str(key), ("", None))
        if replay is None or owner != recording:
            text = message(
                "this replay has ended (the recording was read in another way, or the page was suspended); replay the "
                "recording again"
            )
            raise RefusedError(HTTPStatus.CONFLICT, text)
        replay.used = time.monotonic()
        return replay

    def end(self, key: object) -> None:
        """Forget a replay."""
        with self._lock:
            self._all.pop(str(key), None)

    def end_of(self, recording: str) -> None:
        """Forget all replays of a recording, which is read in another way from now on."""
        with self._lock:
            self._all = {key: pair for key, pair in self._all.items() if pair[0] != recording}

    def end_abandoned(self) -> None:
        """Forget the replays that no page has asked for since ``REPLAY_IDLE_S``."""
        before = time.monotonic() - REPLAY_IDLE_S
        with self._lock:
            self._all = {key: pair for key, pair in self._all.items() if pair[1].used >= before}

    def __len__(self) -> int:
        return len(self._all)


def _beat(beat: StreamBeat) -> dict[str, Any]:
    """Return a beat JSON-ready; its class is ``""`` where it is withdrawn."""
    return {
        "sample": beat.sample,
        "class": beat.override or beat.name,
        "uncertain": beat.low_confidence,
        "stage": beat.stage,
    }
