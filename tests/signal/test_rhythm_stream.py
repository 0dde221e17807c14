"""Fibrillation in a stream is that of the whole recording, however its samples come, and is decided in time."""

import numpy as np
import pytest
from paced_recordings import BEFORE_S, spikes
from signal_rhythms import joined, recording, rhythm

from ecgfed.domain.beats.path import BeatOptions, cut_beats
from ecgfed.domain.beats.stream import BeatStream
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.rhythm_stream import DECIDED_WITHIN_S, RhythmStream

FS_HZ = 200.0


def streamed(of: Recording) -> tuple[RhythmEpisodes, float | None]:
    """The episodes at the end of a stream, and how many seconds had come when it had the first."""
    signals, first_s = of.read(0, of.samples), None
    beats = BeatStream(of.fs_hz, len(signals), 0, 1, (), early=False)
    stream = RhythmStream(of.fs_hz, 0, beats.quality)
    for first in range(0, of.samples, beats.step):
        part = signals[:, first : first + beats.step]
        stream.look(part, beats.look(part).detected)
        if stream.episodes.episodes and first_s is None:
            first_s = first / of.fs_hz
    stream.look(signals[:, :0], beats.look(signals[:, :0], ended=True).detected, ended=True)
    return stream.episodes, first_s


def same(of: Recording) -> RhythmEpisodes:
    """The episodes of the whole recording, after those of the stream were compared with them."""
    whole, (found, _) = cut_beats(of, BeatOptions()).fibrillation, streamed(of)
    assert np.array(found.episodes) == pytest.approx(np.array(whole.episodes), abs=1e-6)
    assert found.certainty == pytest.approx(whole.certainty, abs=1e-6)
    return whole


@pytest.mark.parametrize("seconds", [(200, 180, 207.3), (20, 25, 8), (0, 33, 0)])
def test_a_stream_ends_with_the_episodes_of_the_whole(seconds: tuple[float, float, float]) -> None:
    of, _ = joined(FS_HZ, *zip(seconds, (False, True, False), strict=True))
    same(of)
    if seconds[0] == 200:
        _, reported_s = streamed(of)
        assert reported_s is not None
        assert 200 < reported_s < 260 + DECIDED_WITHIN_S


def test_noise_gaps_standstills_flutter_and_pacing_are_excluded_as_in_the_whole() -> None:
    rng = np.random.default_rng(0)
    lead, _ = rhythm(700, FS_HZ, atrial=True)
    at = (np.arange(len(lead)) / FS_HZ).__getitem__

    def part(start_s: int, stop_s: int) -> slice:
        return slice(round(start_s * FS_HZ), round(stop_s * FS_HZ))

    lead[part(100, 130)] = rng.normal(0, 0.01, 30 * 200)  # a standstill
    lead[part(200, 240)] = np.nan
    lead[part(330, 420)] = rng.normal(0, 0.5, 90 * 200)
    lead[part(520, 560)] = 0.8 * np.sin(2 * np.pi * 4 * at(part(520, 560)))  # as ventricular flutter
    whole = same(recording(lead[None], FS_HZ))
    assert whole.inside(np.array([50.0, 160.0, 290.0, 470.0, 640.0])).all()
    assert not whole.inside(np.array([115.0, 220.0, 331.0, 375.0, 419.0, 540.0])).any()


@pytest.mark.parametrize("paced", [False, True])
def test_a_paced_part_is_not_assessed_in_a_stream_either(paced: bool) -> None:
    """Wide complexes at intervals as irregular as in fibrillation, behind spikes or not."""
    fs_hz = 360.0
    lead, r_samples = rhythm(150, fs_hz, atrial=True)
    time_s, r_s = np.arange(len(lead)) / fs_hz, r_samples / fs_hz
    lead += np.exp(-0.5 * ((time_s - r_s[:, None]) / 0.03) ** 2).sum(0)
    if paced:
        lead += 0.8 * spikes(r_s - BEFORE_S, fs_hz, len(lead), 0.0)
    assert bool(same(recording(lead[None], fs_hz)).episodes) is not paced
