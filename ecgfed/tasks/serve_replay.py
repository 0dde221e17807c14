"""Replay of ``serve``: a recording's samples go through ecgfed's stream, and each page asks for the next seconds."""

import math
import threading
from typing import Any

import numpy as np

from ecgfed.base.errors import OptionError
from ecgfed.domain.record.leads import ecg_alone
from ecgfed.domain.record.recording import Recording
from ecgfed.exports.device.classifier import Classifier
from ecgfed.exports.device.stream import StreamBeat, StreamClassifier
from ecgfed.web.samples import packed

#: Longest part that is asked for at once.
MAX_S = 60.0


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
        self._stream = StreamClassifier(classifier, recording.fs_hz, leads=leads, lead=self._lead, early=True)
        self._at, self._lock = 0, threading.Lock()

    def begun(self) -> dict[str, Any]:
        """Return what the page shows of it, JSON-ready."""
        recording = self._recording
        about = {"fs": recording.fs_hz, "lead": recording.lead, "duration_s": recording.duration_s}
        return {**about, "samples": recording.samples, "model": self._name}

    def next(self, at: object, seconds: object) -> dict[str, Any]:
        """Return the next samples of the lead in use, and the beats that are reported with them, JSON-ready.

        Args:
            at: the sample number that the page expects.
            seconds: how many, more than 0 and at most ``MAX_S``.

        Raises:
            OptionError: another sample number, for another page replays it too, or a part that is too long.
        """
        with self._lock:
            if at != self._at:
                raise OptionError(
                    "at", "of another page that replays this recording", f"sample {self._at}", "start again"
                )
            known = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
            if not known or not 0 < float(seconds) <= MAX_S:  # type: ignore[arg-type]
                raise OptionError("seconds", f"{seconds!r:.20}", f"more than 0, at most {MAX_S:g}")
            count = max(1, round(float(seconds) * self._recording.fs_hz))  # type: ignore[arg-type]
            stop = min(self._at + count, self._recording.samples)
            samples = self._recording.read(self._at, stop)
            beats = self._stream.push(samples) if stop > self._at else []
            self._at, ended = stop, stop == self._recording.samples
            drift = self._stream.drift.text
            if ended:
                beats += self._stream.finish()
            signal = packed(np.array(samples[self._lead]))
            return {"at": stop, "samples": signal, "beats": [_beat(b) for b in beats], "drift": drift, "ended": ended}


def _beat(beat: StreamBeat) -> dict[str, Any]:
    """Return a beat JSON-ready; its class is ``""`` where it is withdrawn."""
    return {
        "sample": beat.sample,
        "class": beat.override or beat.name,
        "uncertain": beat.low_confidence,
        "stage": beat.stage,
    }
