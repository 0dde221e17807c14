"""Fibrillation in a stream is that of the whole recording, however its samples come, and is decided in time."""

import numpy as np
import pytest
from signal_rhythms import joined

from ecgfed.domain.signal.rhythm import fibrillation
from ecgfed.domain.signal.rhythm_stream import DECIDED_WITHIN_S, RhythmStream


@pytest.mark.parametrize("seconds", [(200, 180, 207.3), (20, 25, 8), (0, 33, 0)])
def test_a_stream_ends_with_the_episodes_of_the_whole(seconds: tuple[float, float, float]) -> None:
    fs_hz = 200.0
    of, r_samples = joined(fs_hz, *zip(seconds, (False, True, False), strict=True))
    signals, stream, first = of.read(0, of.samples), RhythmStream(fs_hz, 0), 0
    onset_s, reported_s = seconds[0], None
    for size in np.random.default_rng(0).integers(1, 900, 10_000).tolist():
        part = signals[:, first : first + size]
        late = round(5 * fs_hz)  # R peaks are detected some seconds after they came
        inside = (r_samples >= first - late) & (r_samples < first + part.shape[1] - late)
        stream.look(part, r_samples[inside])
        first += part.shape[1]
        if stream.episodes.episodes and reported_s is None:
            reported_s = first / fs_hz
        if first == of.samples:
            break
    stream.look(signals[:, :0], r_samples[r_samples >= of.samples - late], ended=True)
    whole = fibrillation(of, r_samples)
    assert stream.episodes.episodes == whole.episodes
    assert stream.episodes.certainty == pytest.approx(whole.certainty, abs=1e-6)
    if seconds[0] == 200:
        assert reported_s is not None
        assert onset_s < reported_s < onset_s + 60 + DECIDED_WITHIN_S
