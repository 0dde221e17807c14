"""A model's numbers as one string of bytes, which ``ecgfed_image.c`` reads where it lies in flash (docs/updates.md).

The firmware is compiled with one model. An image of the same layout takes its place: other weights, scales, temperature
and thresholds, and the self-test's answers of the new model; the same layers, classes and number of typical shapes.
"""

import hashlib
import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ecgfed.exports.device.delta import TAG_BYTES, tag_of
from ecgfed.exports.device.image import HEADER, MAGIC, VERSION
from ecgfed.exports.mcu.golden import Golden, golden_signal_uv
from ecgfed.exports.mcu.model import McuModel, layer_arrays

#: Every array begins at a multiple of it.
_ALIGNED = 4


def layout_of(model: McuModel) -> bytes:
    """Return the tag of what an image leaves alone: layers and their shapes, classes, the self-test's recording."""
    layers = [
        [name, layer.kind, list(layer.weight.shape), layer.stride, layer.bias is not None]
        for name, layer in model.layers.items()
    ]
    norms = [[name, len(weight), model.spec.norm] for name, (weight, _) in model.norms.items()]
    prototypes = 0 if model.prototypes is None else len(model.prototypes.steps)
    recording = hashlib.sha512(golden_signal_uv().astype("<i2").tobytes()).hexdigest()
    layout = [VERSION, layers, norms, list(model.classes), model.spec.window_share, prototypes, recording]
    return hashlib.sha512(json.dumps(layout).encode()).digest()[:TAG_BYTES]


def layout_define(model: McuModel) -> str:
    """Return the tag of the layout as a macro, for ``model.h``."""
    return f"\n#define ECGFED_MODEL_LAYOUT {{{', '.join(map(str, layout_of(model)))}}}\n"


def image_of(model: McuModel, golden: Golden, bundle_digest: str, patient: str | None) -> bytes:
    """Return the image of a model.

    Args:
        golden: its self-test.
        bundle_digest: digest of the bundle it was made of, 64 hexadecimal digits.
        patient: whose model; None for the global one.
    """
    body = bytearray()
    for values in _arrays(model, golden):
        body += values.astype(values.dtype.newbyteorder("<")).tobytes()
        body += bytes(-len(body) % _ALIGNED)
    distance = 0.0 if model.prototypes is None else model.prototypes.threshold
    numbers = (model.certainty.temperature, model.certainty.threshold, distance, len(golden.sample))
    tags = (layout_of(model), tag_of(patient), bytes.fromhex(bundle_digest))
    return HEADER.pack(MAGIC, VERSION, HEADER.size, HEADER.size + len(body), *tags, *numbers) + bytes(body)


def _arrays(model: McuModel, golden: Golden) -> Iterator[NDArray[np.generic]]:
    """Yield the arrays in the order of the file."""
    for layer in model.layers.values():
        yield np.array([layer.input_scale], np.float32)
        yield np.array([layer.input_zero_point], np.int32)
        yield from layer_arrays(layer).values()
    for pair in model.norms.values():
        yield from pair
    if model.prototypes is not None:
        yield from (model.prototypes.steps, model.prototypes.scale)
    yield golden.sample.astype(np.int32)
    yield golden.label.astype(np.int16)
    yield golden.probability.astype(np.float32)
