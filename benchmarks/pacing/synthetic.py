"""Synthetic paced beats: real beats, widened as a paced QRS is, with a synthetic pulse through a recorder's filter."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfilt

from ecgfed.domain.signal.pacing_features import margins, resampling_matrix, window_features

Floats = NDArray[np.float64]

#: Pulses are made and filtered at about this frequency.
OVERSAMPLED_HZ = 4000.0
#: Pulse widths (s), recorders' low-passes (Hz) and their orders; published pacemaker and monitor settings span these.
WIDTH_S, LOW_PASS_HZ, ORDERS = (0.0003, 0.002), (40.0, 60.0, 100.0, 150.0), (1, 2, 4)
#: Bipolar: no tail. Unipolar: the electrode's discharge, up to this share of the pulse, for so long (s).
TAIL_SHARE, TAIL_S = 0.4, (0.004, 0.04)
#: Height of the recorded spike by that of the QRS in the window, and the least in mV: an invisible one teaches nothing.
HEIGHT, LEAST_MV = (0.2, 3.0), 0.12
#: Normal beats are widened by the first, beats that are wide already (V, L, R) by the second factor.
WIDENED, WIDE_ALREADY = (1.4, 2.3), (1.0, 1.3)
#: Pulses are made from so long before a window on (s).
LEAD_IN_S = 0.3
#: From the onset of the QRS to its R peak (s), and how long before the onset the spike lies (s).
ONSET_S, LATENCY_S = 0.045, 0.03


#: An atrial spike lies so long before the ventricular one (s); its height by the ventricular one's.
AV_DELAY_S, ATRIAL_HEIGHT = (0.08, 0.2), (0.3, 1.0)
#: Patients with two leads in the heart, and the share of beats whose QRS is conducted: the spike falls into it.
DUAL_SHARE, FUSION_SHARE = 0.3, 0.15


class Kind(IntEnum):
    """What a synthetic window shows."""

    WIDE = 0  # a wide beat without a spike
    SINGLE = 1  # one spike and a wide beat
    DUAL = 2  # an atrial spike before the ventricular one
    FUSION = 3  # a spike at the onset of a conducted beat
    NO_CAPTURE = 4  # a spike and, apart from it, a conducted beat: not trained on


@dataclass(frozen=True)
class Synthetic:
    """Windows of one synthetic patient, in order: what was made of each beat follows one another.

    Attributes:
        features: (windows, leads, features) float64.
        kind: (windows,) int64, a ``Kind``.
        height: the ventricular spike's height by the QRS's.
        unipolar: the pulse has a tail.
        low_pass_hz: of the recorder.
    """

    features: Floats
    kind: NDArray[np.int64]
    height: float
    unipolar: bool
    low_pass_hz: float

    @property
    def paced(self) -> NDArray[np.bool_]:
        """(windows,) whether a spike belongs to the beat."""
        return np.isin(self.kind, [Kind.SINGLE, Kind.DUAL, Kind.FUSION])


@dataclass(frozen=True)
class Pulse:
    """A pacing pulse and the recorder it went through; ``tail`` is its share, 0 of a bipolar one."""

    width_s: float
    low_pass_hz: float
    order: int
    tail: float
    tail_s: float

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Pulse":
        """Draw one."""
        unipolar = rng.random() < 0.5
        return cls(
            rng.uniform(*WIDTH_S),
            float(rng.choice(LOW_PASS_HZ)),
            int(rng.choice(ORDERS)),
            float(unipolar * rng.uniform(0.05, TAIL_SHARE) * rng.choice([-1, -1, 1])),
            rng.uniform(*TAIL_S),
        )

    def samples(self, fs_hz: float, count: int, at: float) -> Floats:
        """Return ``count`` samples of it from sample ``at`` on, its highest value 1."""
        over = round(OVERSAMPLED_HZ / fs_hz)
        hz = fs_hz * over
        lead_in = round(LEAD_IN_S * fs_hz)  # a pulse may precede the window
        time_s = (np.arange(-lead_in * over, count * over) - at * over) / hz
        low_pass = butter(self.order, self.low_pass_hz, fs=hz, output="sos")
        pulse = sosfilt(low_pass, ((time_s >= 0) & (time_s < self.width_s)).astype(float))
        decay = np.where(time_s >= self.width_s, np.exp(-np.clip(time_s - self.width_s, 0, None) / self.tail_s), 0)
        wave = pulse / np.abs(pulse).max() + self.tail * sosfilt(low_pass, decay)
        if fs_hz < 2.4 * self.low_pass_hz:  # the converter's own filter
            wave = sosfilt(butter(4, 0.42 * fs_hz, fs=hz, output="sos"), wave)
        wave = wave[::over]
        return np.asarray(wave[lead_in:] / np.abs(wave).max())


def synthesise(
    rng: np.random.Generator,
    signals_mv: Floats,
    fs_hz: float,
    r_samples: NDArray[np.int64],
    symbol: NDArray[np.str_],
    count: int,
    limit_hz: float,
) -> Synthetic:
    """Return up to ``count`` beats of a recording as one synthetic patient's: without, with, with a lost spike.

    Args:
        rng: draws beats, widths and pulses.
        signals_mv: (leads, samples) millivolt without gaps.
        fs_hz: sampling frequency in Hz.
        r_samples: (beats,) R peaks at least a second from both ends.
        symbol: (beats,) WFDB symbols, ``""`` where unknown.
        count: how many beats.
        limit_hz: of the weights' band.
    """
    before, after = margins(fs_hz)
    leads, count_samples = len(signals_mv), before + after + 1
    pulse, height = Pulse.drawn(rng), float(np.exp(rng.uniform(*np.log(HEIGHT))))
    shares, signs = rng.uniform(0.4, 1, leads), rng.choice([-1, 1], leads)
    dual, delay_s, atrial = rng.random() < DUAL_SHARE, rng.uniform(*AV_DELAY_S), rng.uniform(*ATRIAL_HEIGHT)

    def wave(beat: int, factor: float, centre: float) -> Floats:
        place = r_samples[beat] + (np.arange(-before, after + 1) + centre * fs_hz) / factor
        low, high = int(place[0]) - 1, int(place[-1]) + 2
        found = np.stack([np.interp(place, np.arange(low, high), lead[low:high]) for lead in signals_mv])
        return np.asarray(found + rng.normal(0, rng.uniform(0.002, 0.008), found.shape))

    def spike(of: Floats, at_s: float) -> Floats:
        mv = np.maximum(height * np.ptp(of, axis=1) * shares, LEAST_MV)
        return np.outer(mv * signs, pulse.samples(fs_hz, count_samples, at_s * fs_hz + before))

    windows, kind = [], []
    for beat in rng.choice(len(r_samples), min(count, len(r_samples)), replace=False):
        fusion = rng.random() < FUSION_SHARE
        wide = WIDE_ALREADY if str(symbol[beat]) in ("V", "L", "R") else WIDENED
        factor = 1.0 if fusion else rng.uniform(*wide)
        at_s = -ONSET_S * factor - rng.uniform(0, LATENCY_S)
        # detectors mark the spike itself, or some wave of the QRS
        centre = at_s + rng.uniform(0, 0.006) if rng.random() < 0.4 else rng.uniform(-0.02, 0.03 * factor)
        clean = wave(beat, factor, centre)
        spiked = clean + spike(clean, at_s - centre)
        if dual:
            spiked += atrial * spike(clean, at_s - centre - delay_s)
        lost = wave(beat, 1.0, 0.0)
        lost += spike(lost, rng.choice([rng.uniform(-0.16, -0.1), rng.uniform(0.05, 0.08)]))
        windows += [clean, spiked, lost]
        kind += [Kind.WIDE, Kind.FUSION if fusion else Kind.DUAL if dual else Kind.SINGLE, Kind.NO_CAPTURE]
    resampled = np.array(windows) @ resampling_matrix(fs_hz, limit_hz)
    features = np.stack([window_features(resampled[:, lead]) for lead in range(leads)], axis=1)
    return Synthetic(features, np.array(kind, np.int64), height, pulse.tail != 0, pulse.low_pass_hz)
