"""Synthetic clients with labelled beats, for checking methods: no recording, no file."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecgfed.core.federation.data import TrainingData
from ecgfed.domain.beats.windows import R_INDEX, WINDOW_SAMPLES

CLASSES = 3
#: Maximum number of validation beats per client.
VALID = 4


def synthetic_federation(
    labels: Sequence[Sequence[int]], *, rr: bool = False, noise: float = 0.1, seed: int = 11
) -> TrainingData:
    """Simulate clients with these training labels; each class has a Gaussian bump, each client a gain and noise.

    Args:
        labels: for each client the class of each training beat, 0 to 2; the first few are repeated as validation beats.
        rr: with RR features.
        noise: its standard deviation, where the bumps are 1 high.
        seed: determines the noise.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(WINDOW_SAMPLES)
    rows: dict[int, NDArray[np.int64]] = {}
    valid_rows: dict[int, NDArray[np.int64]] = {}
    windows, every = [], list[int]()
    for client, training in enumerate(labels):
        start, both = len(every), [*training, *training[:VALID]]
        for label in both:
            bump = np.exp(-0.5 * ((time - R_INDEX - 20 * label) / (4 + 3 * label)) ** 2)
            windows.append((1 + 0.2 * client) * bump + noise * rng.standard_normal(WINDOW_SAMPLES))
        rows[client] = np.arange(start, start + len(training))
        valid_rows[client] = np.arange(start + len(training), start + len(both))
        every += both
    return TrainingData(
        clients=np.arange(len(labels)),
        rows=rows,
        examples=np.array(windows, np.float32)[:, None, :],
        rr=rng.uniform(0.5, 1.2, (len(every), 4)).astype(np.float32) if rr else None,
        label=np.array(every),
        classes=CLASSES,
        valid_rows=valid_rows,
    )
