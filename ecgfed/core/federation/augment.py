"""Random variations of training batches: of beats what leads and amplifiers differ in, of images what is usual.

``augment`` is a pure function of a batch and a generator, called while the batch is drawn, so that every engine trains
on the same bits. Test and validation batches, and the surveys before a round, are never varied.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.core.methods.base import Batch
from ecgfed.core.nets.context_net import AFTER, BEFORE, BESIDE, CONTEXT, DIFFERENCE, SIZE_MV, STRIP
from ecgfed.core.nets.net import RR_COUNT
from ecgfed.core.nets.resnet1d import CONTEXT_SCALE, RR_SCALE, SHAPE_STEP
from ecgfed.domain.beats import past

#: Standard deviation of the logarithm of the gain, and probability of the other polarity.
GAIN, INVERTED = 0.2, 0.1
#: Standard deviation of the noise in units of the QRS's size, constant over ``SHAPE_STEP`` samples (90 Hz, as the
#: windows are filtered to 40 Hz).
NOISE = 0.05
#: Largest shift, in steps of ``SHAPE_STEP`` samples.
SHIFT = 2
#: Standard deviation of what is added to RR features, in the units that the net scales them to.
JITTER = 0.15
#: Share of beats whose interval to the next one is void in training, and the features that follow from it.
NEXT_VOID = 0.2
_OF_NEXT = np.array([name.startswith("next_over_") for name in past.FEATURES])
_VOID_NEXT = past.FEATURES.index("void_next")
#: Pixels that an image is shifted by at most.
CROP = 4
Pixel = TypeVar("Pixel", bound=np.generic)


def augment(batch: Batch, random: np.random.Generator, rr_version: int = 1) -> Batch:
    """Return a batch with its examples, and their RR features, varied; the argument is unchanged.

    Args:
        batch: windows (B, 1, 256) float32 in mV, with RR features of any version or without, or images
            (B, 3, 32, 32) uint8.
        random: decides everything.
        rr_version: of the RR features. Of version 4 the interval after a beat is void in ``NEXT_VOID`` of the beats, as
            it is for a device that answers before the next beat.
    """
    inputs = batch.inputs
    if inputs.examples.dtype == torch.uint8:
        images = torch.from_numpy(CropAndFlip(CROP)(inputs.examples.numpy(), random))
        return replace(batch, inputs=replace(inputs, examples=images))
    window_mv, rr = _vary_beats(inputs.examples.numpy(), None if inputs.rr is None else inputs.rr.numpy(), random)
    if rr is not None and rr_version == 4:
        is_void = random.random(len(rr)) < NEXT_VOID
        rr[is_void[:, None] & _OF_NEXT] = 0.0
        rr[is_void, _VOID_NEXT] = 1.0
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
    window_mv, rr = window_mv[:, 0], None if rr is None else rr.copy()
    if rr is not None and rr.shape[1] == RR_COUNT[3]:
        size_mv = rr[:, CONTEXT:BESIDE].clip(*SIZE_MV)
        noise = NOISE * random.standard_normal((beats, STRIP), np.float32)
        beside_mv = (size_mv * rr[:, BESIDE:DIFFERENCE]).repeat(SHAPE_STEP, axis=1)
        first, stop = SHAPE_STEP * BEFORE, SHAPE_STEP * BEFORE + samples
        strip_mv = np.concatenate([beside_mv[:, :first], window_mv, beside_mv[:, first:]], axis=1)
        strip_mv = _varied(strip_mv, gain, size_mv * noise, shift)
        beside = strip_mv[:, ::SHAPE_STEP] / size_mv
        rr[:, BESIDE:DIFFERENCE] = np.concatenate([beside[:, :BEFORE], beside[:, -AFTER:]], axis=1)
        rr[:, DIFFERENCE:] = _shifted(gain * rr[:, DIFFERENCE:] + noise, shift)
        window_mv = strip_mv[:, first:stop]
    else:
        noise = NOISE * random.standard_normal((beats, samples // SHAPE_STEP), np.float32)
        window_mv = _varied(window_mv, gain, window_mv.std(axis=1, keepdims=True) * noise, shift)
    if rr is not None:
        context = rr[:, :CONTEXT]
        unit = np.array(RR_SCALE if rr.shape[1] == RR_COUNT[1] else [1 / scale for scale in CONTEXT_SCALE], np.float32)
        context += JITTER * unit * random.standard_normal(context.shape, np.float32)
    return window_mv[:, None], rr


def _varied(
    window_mv: NDArray[np.float32], gain: NDArray[np.float32], noise_mv: NDArray[np.float32], by: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return rows (B, samples) times (B, 1), with noise of ``SHAPE_STEP`` samples each, delayed by (B, 1) steps."""
    return _shifted(gain * window_mv + noise_mv.repeat(SHAPE_STEP, axis=1), SHAPE_STEP * by)


def _shifted(rows: NDArray[np.float32], by: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return rows (B, samples) delayed by (B, 1) samples; the first or last value fills the gap."""
    index = np.arange(rows.shape[1]) - by
    return np.take_along_axis(rows, index.clip(0, rows.shape[1] - 1), axis=1)


@dataclass(frozen=True)
class CropAndFlip:
    """Shifts images by up to some pixels over black, and mirrors half of them; an ``augmentation`` of ``train``.

    Attributes:
        pixels: the largest shift in each direction.
    """

    pixels: int

    def __call__(self, images: NDArray[Pixel], random: np.random.Generator) -> NDArray[Pixel]:
        """Return images of the same shape (B, channels, height, width) and dtype."""
        count, _, height, width = images.shape
        top, left = random.integers(0, 2 * self.pixels, (2, count, 1), endpoint=True)
        row, column = top + np.arange(height), left + np.arange(width)
        column = np.where(random.random((count, 1)) < 0.5, column[:, ::-1], column)
        padded = np.pad(images, ((0, 0), (0, 0), (self.pixels, self.pixels), (self.pixels, self.pixels)))
        varied = padded[np.arange(count)[:, None, None], :, row[:, :, None], column[:, None, :]]
        return np.ascontiguousarray(varied.transpose(0, 3, 1, 2))
