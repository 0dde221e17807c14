"""Twelve synthetic patients as WFDB records: no real recording is shipped, and none is needed to see the software run.

The model is the dynamical one of McSharry, Clifford, Tarassenko and Smith (IEEE Trans Biomed Eng 50(3):289-294, 2003):
a phase goes round once a beat, driven by an RR tachogram with Mayer (0.1 Hz) and respiratory (0.25 Hz) waves, and each
wave of the ECG is a Gaussian bump over that phase. It is evaluated in its closed form (the sum of the bumps; Sameni et
al., EURASIP J Adv Signal Process 2007:43407), beat by beat, so that every beat can be of a class of its own, with a
two-dimensional heart vector, so that two leads see one heart.

The generator is frozen: it proves that the software runs, never that a method is good. Nobody may tune it against a
model's score; a change to what it writes is a new ``GENERATOR`` number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import OptionError
from ecgfed.base.files import replacing_folder
from ecgfed.domain.cohort.sources import Source

GENERATOR = 1
#: The recorder's settings are those of MIT-BIH: 11 bits, 5 microvolt a step, format 212.
FS_HZ, GAIN, BASELINE, ADC_MAX = 360, 200, 1024, 2047
LEADS = ("MLII", "V1")
#: Long enough to hold some beats of each class; short enough for memory.
MIN_MINUTES, MAX_MINUTES, MAX_PATIENTS = 0.5, 60.0, 1000

#: What shows that a folder of records was made here and may be replaced: nobody's own recordings.
OWN_RECORDS = ("demo*.hea",)

Array = NDArray[np.float64]
OnProgress = Callable[[str, int, int], None]

#: The five waves in the order of the rows below.
P, Q, R, S, T = range(5)
#: For each class and wave: time from the R wave (ms), width (one standard deviation, ms), amplitude in MLII and in V1
#: (mV). A time is the model's angle times RR / 2 pi at RR = 1 s.
SHAPES: dict[str, tuple[tuple[float, float, float, float], ...]] = {
    # V1: a small r (septum), then a deep S while MLII has its R.
    "N": (
        (-165, 20, 0.13, 0.05),
        (-24, 8, -0.11, 0.20),
        (0, 11, 1.15, -0.75),
        (25, 9, -0.22, -0.28),
        (285, 46, 0.28, 0.06),
    ),
    # Left bundle branch block: slow and notched, all of it away from V1; T against the QRS.
    "L": (
        (-185, 20, 0.13, 0.05),
        (-41, 11, 0.50, -0.35),
        (0, 16, 1.30, -1.10),
        (36, 14, 0.45, -0.50),
        (325, 54, -0.26, 0.36),
    ),
    # Right bundle branch block: rsR' in V1, a late slurred S in MLII.
    "R": (
        (-170, 20, 0.13, 0.05),
        (-26, 8, -0.09, 0.30),
        (0, 11, 1.00, -0.50),
        (50, 18, -0.28, 0.85),
        (300, 48, 0.26, -0.26),
    ),
    # Premature ventricular beat: no P, wide, T against the QRS.
    "V": (
        (-160, 20, 0.0, 0.0),
        (-36, 13, 0.48, -0.40),
        (0, 18, 1.65, -1.20),
        (49, 17, -0.55, 0.45),
        (335, 60, -0.55, 0.48),
    ),
    # Paced from the right ventricle's apex behind a sensed P; the spike is added by itself.
    "/": (
        (-215, 20, 0.12, 0.04),
        (-36, 13, -0.42, -0.50),
        (0, 19, -1.60, -1.05),
        (42, 18, -0.45, -0.40),
        (340, 60, 0.62, 0.50),
    ),
}
#: The P of a premature atrial beat, from another place in the atria.
ECTOPIC_P = (-140, 14, 0.06, 0.10)
T_SKEW = 0.25  # a T wave rises more slowly than it falls
SPIKE_S, SPIKE_BEFORE_R_S = 0.0015, 0.070

#: Basic beat and shares of premature beats; patient n has the (n modulo 12)th.
MIXTURES: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("N", {"V": 0.12}),
    ("L", {"V": 0.08}),
    ("N", {"A": 0.14}),
    ("R", {"A": 0.10, "V": 0.05}),
    ("N", {}),
    ("/", {"V": 0.10}),
    ("N", {"V": 0.22}),
    ("N", {"A": 0.08, "V": 0.04}),
    ("L", {"V": 0.15}),
    ("R", {"A": 0.06, "V": 0.09}),
    ("N", {"V": 0.06, "A": 0.02}),
    ("N", {"V": 0.30}),
)


@dataclass(frozen=True)
class Patient:
    """What stays the same through one patient's recording.

    Attributes:
        name: ``demo01``.
        basic: symbol of the beats the sinus node (or pacemaker) makes.
        premature: symbol -> its share of all beats.
        rr_s: mean sinus interval, s.
        sdnn_s: standard deviation of the sinus intervals, s.
        lf_hf: ratio of the tachogram's power at 0.1 Hz to that of respiration.
        resp_hz: respiratory frequency.
        coupling: symbol -> how early a premature beat comes, as a share of the sinus interval.
        shapes: symbol -> (5 waves, 4) float64: time and width (s), amplitude in MLII and V1 (mV).
        mains_hz: 50 or 60.
        noise_mv: standard deviations of wander, muscle noise and the amplitude of mains hum.
    """

    name: str
    basic: str
    premature: Mapping[str, float]
    rr_s: float
    sdnn_s: float
    lf_hf: float
    resp_hz: float
    coupling: dict[str, float]
    shapes: dict[str, Array]
    mains_hz: int
    noise_mv: tuple[float, float, float]


def _centred(shape: Array) -> Array:
    """Shift a shape in time so that the largest deflection of its QRS in MLII stands at 0."""
    at = np.arange(-0.1, 0.1, 0.0005)
    qrs = shape[Q : S + 1]
    sum_mv = (qrs[:, 2, None] * np.exp(-0.5 * ((at - qrs[:, :1]) / qrs[:, 1:2]) ** 2)).sum(axis=0)
    shape[:, 0] -= at[np.abs(sum_mv).argmax()]
    return shape


def _patient_shape(rng: np.random.Generator, symbol: str, axis: float, gain: float) -> Array:
    """Return a class's shape as this patient has it: perturbed, and seen from another electrical axis (radian)."""
    shape: Array = np.array(SHAPES[symbol])
    shape[:, :2] *= 1e-3 * (1 + 0.06 * rng.standard_normal((5, 2)).clip(-2, 2))
    spread = np.array([0.25, 0.2, 0.1, 0.2, 0.3])[:, None]
    shape[:, 2:] *= gain * np.exp(spread * rng.standard_normal((5, 2)).clip(-2, 2))
    cos, sin = np.cos(axis), np.sin(axis)
    shape[:, 2:] = shape[:, 2:] @ np.array([[cos, sin], [-sin, cos]])
    return _centred(shape)


def _process(rng: np.random.Generator, samples: int, fs_hz: float, power: Callable[[Array], Array]) -> Array:
    """Return (samples,) Gaussian noise of a given power spectrum over frequency in Hz, mean 0, standard deviation 1."""
    count = samples + int(20 * fs_hz)  # longer than asked: the inverse transform is periodic
    magnitude = np.sqrt(power(np.asarray(np.fft.rfftfreq(count, 1 / fs_hz), dtype=np.float64)))
    magnitude[0] = 0
    spectrum = magnitude * np.exp(2j * np.pi * rng.random(len(magnitude)))
    value = np.fft.irfft(spectrum, count)[:samples]
    return np.asarray((value - value.mean()) / value.std())


def _rhythm(rng: np.random.Generator, patient: Patient, seconds: float) -> tuple[Array, list[str]]:
    """Return times of the R waves (s) and the symbols of one recording."""
    times = np.arange(0, seconds + 10, 0.25)

    def power(hz: Array) -> Array:
        low = patient.lf_hf * np.exp(-0.5 * ((hz - 0.1) / 0.01) ** 2)
        drift = 0.3 * np.exp(-0.5 * (hz / 0.02) ** 2)
        return np.asarray(low + np.exp(-0.5 * ((hz - patient.resp_hz) / 0.01) ** 2) + drift)

    waves = _process(rng, len(times), 4.0, power).clip(-2.5, 2.5)
    interval_s = patient.rr_s + patient.sdnn_s * waves
    expected = int(seconds / patient.rr_s)
    free = list(rng.permutation(np.arange(3, expected - 2)))
    plan: dict[int, str] = {}
    for early, share in patient.premature.items():
        count = max(1, round(share * expected))
        while count and free:
            at = int(free.pop())
            if at - 1 not in plan and at + 1 not in plan:
                plan[at] = early
                count -= 1
    r_s, symbols = [rng.uniform(0.4, 0.8)], [patient.basic]
    while True:
        last = r_s[-1]
        rr_s = float(np.interp(last, times, interval_s))
        symbol = plan.get(len(r_s), patient.basic)
        if symbol != patient.basic:
            after = rr_s * (patient.coupling[symbol] + 0.02 * rng.standard_normal())
        elif symbols[-1] == "V":  # left the sinus node alone: the next beat comes when it would have come anyway
            after = 2 * rr_s - (last - r_s[-2])
        elif symbols[-1] == "A":  # reset the sinus node, which takes a little longer to recover
            after = rr_s * rng.uniform(1.08, 1.16)
        else:
            after = rr_s
        if last + after > seconds - 0.4:
            return np.array(r_s), symbols
        r_s.append(last + after)
        symbols.append(symbol)


def _beats(rng: np.random.Generator, patient: Patient, r_s: Array, symbols: list[str], samples: int) -> Array:
    """Return (samples, 2) mV: the model's closed form, every bump of every beat summed, in both leads."""
    shape = np.stack([patient.shapes[symbol] for symbol in symbols])  # (beats, waves, 4)
    interval = np.diff(r_s, prepend=r_s[0] - patient.rr_s)
    cycle = np.sqrt(0.7 * patient.rr_s + 0.3 * interval)  # repolarisation goes with the root of RR, and remembers
    scale = np.ones((len(r_s), 5, 1))
    scale[:, T, 0] = cycle
    width = shape[:, :, 1:2] * scale * (1 + 0.02 * rng.standard_normal((len(r_s), 5, 1)).clip(-2, 2))
    breath = 0.04 * np.sin(2 * np.pi * patient.resp_hz * r_s)
    size = 1 + breath[:, None] + rng.normal(0, [0.08, 0.05, 0.02, 0.05, 0.06], (len(r_s), 5))
    first = np.rint((r_s - 0.42) * FS_HZ).astype(np.int64)
    at = first[:, None] + np.arange(int(1.2 * FS_HZ))
    from_wave = (at / FS_HZ - r_s[:, None])[:, None, :] - shape[:, :, :1] * scale  # (beats, waves, samples)
    skew = np.array([0, 0, 0, 0, T_SKEW])[:, None]
    bumps = np.exp(-0.5 * (from_wave / (width * (1 - skew * np.sign(from_wave)))) ** 2)
    leads = np.einsum("kws,kwl->ksl", bumps, shape[:, :, 2:] * size[:, :, None])
    margin = FS_HZ
    signal = np.zeros((samples + 2 * margin, 2))
    np.add.at(signal, at + margin, leads)
    return signal[margin:-margin]


def _spikes(patient: Patient, r_s: Array, symbols: list[str], samples: int) -> Array:
    """Return (samples, 2) mV: pacing pulses of 1.5 ms, each sample the mean over its 2.8 ms, as a recorder takes it."""
    signal = np.zeros((samples, 2))
    onset = (r_s[np.array(symbols) == "/"] - SPIKE_BEFORE_R_S) * FS_HZ
    first = np.floor(onset).astype(np.int64)
    overlap = np.minimum(onset + SPIKE_S * FS_HZ, first + 1) - onset
    for offset, share in ((0, overlap), (1, SPIKE_S * FS_HZ - overlap)):
        signal[first + offset] += share[:, None] * np.array([-1.6, -0.8])
    return signal


def _noise(rng: np.random.Generator, patient: Patient, samples: int) -> Array:
    """Return (samples, 2) mV: baseline wander, muscle noise that comes and goes, mains hum, electrode motion."""
    wander_mv, muscle_mv, mains_mv = patient.noise_mv
    time_s = np.arange(samples) / FS_HZ

    def process(power: Callable[[Array], Array]) -> Array:
        return np.stack([_process(rng, samples, FS_HZ, power) for _ in LEADS], axis=1)

    breath = np.sin(2 * np.pi * patient.resp_hz * time_s + np.sin(2 * np.pi * 0.02 * time_s))[:, None]
    slow = process(lambda hz: np.asarray(1 / (1 + (hz / 0.03) ** 2) * (hz < 0.5)))
    muscle = process(lambda hz: np.asarray(((hz > 15) & (hz < 130)) / (1 + (hz / 60) ** 2)))
    envelope = np.exp(0.5 * process(lambda hz: np.asarray(np.exp(-0.5 * (hz / 0.05) ** 2))))
    phase = 2 * np.pi * patient.mains_hz * time_s + 0.5 * process(lambda hz: np.asarray(1.0 * (hz < 0.1)))[:, 0]
    signal = wander_mv * (slow + 0.6 * breath * [1.0, 0.7]) + muscle_mv * envelope * muscle
    signal += mains_mv * np.sin(phase)[:, None] * [1.0, 1.4]
    for at_s in rng.uniform(0, samples / FS_HZ, rng.poisson(samples / FS_HZ / 90)):
        rise_s, fall_s = rng.uniform(0.1, 0.2), rng.uniform(0.3, 0.7)
        from_peak = time_s - at_s
        bump = np.exp(-0.5 * (from_peak / np.where(from_peak < 0, rise_s, fall_s)) ** 2)
        signal += bump[:, None] * rng.normal(0, 0.25, 2)
    return np.asarray(signal)


# The three files, byte by byte: they depend on no library's version, and the tests read them with the wfdb package.


def _header_text(patient: Patient, digital: NDArray[np.int64], seed: int) -> str:
    lines = [f"{patient.name} {len(LEADS)} {FS_HZ} {len(digital)}"]
    for channel, lead in enumerate(LEADS):
        checksum = (int(digital[:, channel].sum()) + 2**15) % 2**16 - 2**15
        start = digital[0, channel]
        lines.append(f"{patient.name}.dat 212 {GAIN} 11 {BASELINE} {start} {checksum} 0 {lead}")
    lines += [
        f"# synthetic, made by ecgfed prepare demo, seed {seed}",
        f"# no person's recording; it proves that software runs, never that a method is good; generator {GENERATOR}",
    ]
    return "\n".join(lines) + "\n"


def _write_patient(folder: Path, seed: int, number: int, seconds: float) -> str:
    """Write one patient's three files and return the name; a patient depends on the seed and the number alone."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
    basic, premature = MIXTURES[number % len(MIXTURES)]
    axis, gain = rng.uniform(-0.2, 0.2), rng.uniform(0.85, 1.25)
    shapes = {basic: _patient_shape(rng, basic, axis, gain)}
    focus = rng.uniform(-0.1, 0.3) + np.pi * rng.integers(2)  # of the ventricular beats: right or left ventricle
    shapes["V"] = _patient_shape(rng, "V", focus, gain)
    shapes["A"] = shapes[basic].copy()
    shapes["A"][P] = np.array(ECTOPIC_P) * [1e-3, 1e-3, gain, gain]
    rr_s = 60 / rng.uniform(58, 92)
    patient = Patient(
        name=f"demo{number + 1:02d}",
        basic=basic,
        premature=premature,
        rr_s=rr_s,
        sdnn_s=rr_s * rng.uniform(0.025, 0.05),
        lf_hf=rng.uniform(0.5, 2.0),
        resp_hz=rng.uniform(0.2, 0.3),
        coupling={"V": rng.uniform(0.58, 0.68), "A": rng.uniform(0.64, 0.74)},
        shapes=shapes,
        mains_hz=int(rng.choice([50, 60])),
        noise_mv=(rng.uniform(0.06, 0.14), rng.uniform(0.010, 0.024), rng.uniform(0.003, 0.008)),
    )
    samples = round(seconds * FS_HZ)
    r_s, symbols = _rhythm(rng, patient, samples / FS_HZ)
    signal_mv = _beats(rng, patient, r_s, symbols, samples) + _spikes(patient, r_s, symbols, samples)
    steps = np.rint((signal_mv + _noise(rng, patient, samples)) * GAIN).astype(np.int64)
    digital = np.clip(steps + BASELINE, 0, ADC_MAX)
    base = folder / patient.name
    first, second = digital[:, 0], digital[:, 1]
    packed = np.stack([first & 0xFF, (first >> 8) & 0xF | (second >> 8) << 4 & 0xF0, second & 0xFF], axis=1)
    base.with_suffix(".dat").write_bytes(packed.astype(np.uint8).tobytes())
    code = {"N": 1, "L": 2, "R": 3, "V": 5, "A": 8, "/": 12}
    since = np.diff(np.rint(r_s * FS_HZ).astype(np.int64), prepend=0)  # no pause lasts the 2.8 s that ten bits can hold
    words = np.array([code[symbol] for symbol in symbols]) << 10 | np.asarray(since)
    base.with_suffix(".atr").write_bytes(words.astype("<u2").tobytes() + b"\0\0")
    base.with_suffix(".hea").write_bytes(_header_text(patient, digital, seed).encode("ascii"))
    return patient.name


def _check(seed: int, patients: int, minutes: float) -> None:
    if seed < 0:
        raise OptionError("seed", f"{seed}", "0 or more")
    if not 1 <= patients <= MAX_PATIENTS:
        raise OptionError("patients", f"{patients}", f"1 to {MAX_PATIENTS}")
    if not MIN_MINUTES <= minutes <= MAX_MINUTES:
        raise OptionError("minutes", f"{minutes:g}", f"{MIN_MINUTES:g} to {MAX_MINUTES:g}")


def write_demo_records(
    folder: Path,
    *,
    seed: int = 0,
    patients: int = 12,
    minutes: float = 6.0,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> list[Source]:
    """Write synthetic patients as annotated WFDB records: ``demo01.hea``, ``.dat`` and ``.atr``, and so on.

    Each record has the leads MLII and V1 at 360 Hz in format 212 with 200 steps a millivolt, like MIT-BIH; each
    annotation stands on the largest deflection of the QRS in MLII. The same seed gives the same bytes.

    Args:
        folder: the folder to make; it must not exist, or be empty, unless ``overwrite``.
        seed: 0 or more; decides everything.
        patients: how many; the thirteenth has the first one's mixture of classes and a heart of its own.
        minutes: length of each recording.
        overwrite: replace what is in ``folder``.
        on_progress: called after each patient with the record's name, the number done and the number of all.

    Returns:
        One client a patient, for ``build_cohort``.

    Raises:
        OptionError: a folder that is taken, or a number out of range; nothing was written.
        StorageError: the disk refuses; what was in ``folder`` is still there.
    """
    _check(seed, patients, minutes)
    names = []
    with replacing_folder(folder, overwrite=overwrite, option="records", markers=OWN_RECORDS) as partial:
        for number in range(patients):
            names.append(_write_patient(partial, seed, number, minutes * 60))
            if on_progress:
                on_progress(names[-1], number + 1, patients)
    return [Source(name, name, (folder / name,)) for name in names]
