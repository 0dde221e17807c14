"""Random variations of training batches: of beats what leads and amplifiers differ in, of images what is usual.

``augment`` is a pure function of a batch and a generator, called while the batch is drawn, so that every engine trains
on the same bits. Test and validation batches, and the surveys before a round, are never varied.
"""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ecgfed.core.methods.base import Batch
from ecgfed.core.nets.context_net import INTERVALS, NEIGHBOURS, OWN, REFERENCE, RHYTHM, SIZE_MV
from ecgfed.core.nets.net import RR_COUNT
from ecgfed.core.nets.resnet1d import RR_SCALE, SHAPE_STEP

#: Standard deviation of the logarithm of the gain, and probability of the other polarity.
GAIN, INVERTED = 0.2, 0.3
#: Standard deviation of the noise in units of the QRS's size, constant over ``SHAPE_STEP`` samples (90 Hz, as the
#: windows are filtered to 40 Hz); of the patient's own beat, a mean of many, half as much.
NOISE = 0.15
#: Largest shift, in steps of ``SHAPE_STEP`` samples.
SHIFT = 2
#: Standard deviation of what is added to RR features; those of version 1, which are seconds, in units of ``RR_SCALE``.
JITTER = 0.15
#: Probability that a group of the RR features of version 3 is absent, which is 0: the rhythm, the neighbours, the
#: intervals. Patients differ in these most, and no patient who was trained on is a model of the next one's rhythm.
ABSENT, GROUPS = 0.3, np.repeat((0, 1, 2, 3), (OWN, RHYTHM, NEIGHBOURS * OWN, INTERVALS))
#: Pixels that an image is shifted by at most.
CROP = 4


def augment(batch: Batch, random: np.random.Generator) -> Batch:
    """Return a batch with its examples, and their RR features, varied; the argument is unchanged.

    Args:
        batch: windows (B, 1, 256) float32 in mV, with RR features of any version or without, or images
            (B, 3, 32, 32) uint8.
        random: decides everything.
    """
    inputs = batch.inputs
    if inputs.examples.dtype == torch.uint8:
        return replace(batch, inputs=replace(inputs, examples=_crop_and_flip(inputs.examples, random)))
    window_mv, rr = _vary_beats(inputs.examples.numpy(), None if inputs.rr is None else inputs.rr.numpy(), random)
    varied = replace(inputs, examples=torch.from_numpy(window_mv), rr=None if rr is None else torch.from_numpy(rr))
    return replace(batch, inputs=varied)


def _vary_beats(
    window_mv: NDArray[np.float32], rr: NDArray[np.float32] | None, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return windows (B, 1, 256) and RR features (B, features) with gain, polarity, noise, shift and jitter."""
    beats, samples = len(window_mv), window_mv.shape[2]
    gain = np.exp(GAIN * random.standard_normal((beats, 1), np.float32))
    gain[random.random(beats) < INVERTED] *= -1
    shift = random.integers(-SHIFT, SHIFT, (beats, 1), endpoint=True)
    noise = NOISE * random.standard_normal((beats, samples // SHAPE_STEP), np.float32)
    window_mv = window_mv[:, 0]
    size_mv = window_mv.std(axis=1, keepdims=True)
    if rr is not None:
        rr, features = rr.copy(), rr.shape[1]
        first_of_own = RR_COUNT[3] - REFERENCE
        intervals = rr[:, : first_of_own - 1]  # of versions 1 and 2 all
        unit = np.array(RR_SCALE if features == RR_COUNT[1] else 1.0, np.float32)
        intervals += JITTER * unit * random.standard_normal(intervals.shape, np.float32)
        if features == RR_COUNT[3]:  # the size of the patient's own QRS in mV, and his own beat in units of it
            size_mv = rr[:, first_of_own - 1 : first_of_own].clip(*SIZE_MV)
            own = gain * rr[:, first_of_own:]
            own += NOISE / 2 * random.standard_normal(own.shape, np.float32)
            absent = random.random((beats, 4)) < ABSENT
            absent[:, 0] = False  # the beat's own features stay
            intervals[absent[:, GROUPS]] = 0
            rr[:, first_of_own:] = _shifted(own, shift)
    window_mv = gain * window_mv + size_mv * noise.repeat(SHAPE_STEP, axis=1)
    return _shifted(window_mv, SHAPE_STEP * shift)[:, None], rr


def _shifted(rows: NDArray[np.float32], by: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return rows (B, samples) delayed by (B, 1) samples; the first or last value fills the gap."""
    index = np.arange(rows.shape[1]) - by
    return np.take_along_axis(rows, index.clip(0, rows.shape[1] - 1), axis=1)


def _crop_and_flip(images: torch.Tensor, random: np.random.Generator) -> torch.Tensor:
    """Return images (B, 3, 32, 32) shifted by up to ``CROP`` pixels over black, half of them mirrored."""
    count, _, height, width = images.shape
    top, left = random.integers(0, 2 * CROP, (2, count, 1), endpoint=True)
    row, column = top + np.arange(height), left + np.arange(width)
    column = np.where(random.random((count, 1)) < 0.5, column[:, ::-1], column)
    padded = F.pad(images, (CROP, CROP, CROP, CROP)).numpy()
    varied = padded[np.arange(count)[:, None, None], :, row[:, :, None], column[:, None, :]]
    return torch.from_numpy(varied.transpose(0, 3, 1, 2).copy())
