"""A model's numbers as one string of bytes, which ``ecgfed_image.c`` reads where it lies in flash (docs/updates.md).

The firmware is compiled with one model. An image of the same layout takes its place: other weights, scales, temperature
and thresholds, and the self-test's answers of the new model; the same layers, classes and number of typical shapes.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError, param
from ecgfed.exports.device.delta import ANY, TAG_BYTES, tag_of
from ecgfed.exports.mcu.golden import Golden, golden_signal_uv
from ecgfed.exports.mcu.model import McuModel, layer_arrays

MAGIC, VERSION = b"ECGFEDIM", 1
#: File of the image in a folder of C sources.
IMAGE = "model.img"
#: Fields of the header in order: magic, format version, header size, image size, tag of the layout, tag of the patient,
#: the bundle's digest, temperature, threshold, threshold of the distance, number of the self-test's beats.
_HEADER = struct.Struct("<8sHHI32s32s32sfffI")
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
    return _HEADER.pack(MAGIC, VERSION, _HEADER.size, _HEADER.size + len(body), *tags, *numbers) + bytes(body)


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


def check_image(data: bytes, where: Path) -> None:
    """Raise BundleError for bytes that are no image, or not all of it."""
    if data[: len(MAGIC)] != MAGIC or len(data) < _HEADER.size:
        raise BundleError(where, "is no image of a model", f"{IMAGE} of 'ecgfed export --target mcu'")
    version, header, size = _HEADER.unpack_from(data)[1:4]
    if (version, header) != (VERSION, _HEADER.size) or size != len(data):
        actual = f"version {version}, {size:,} bytes by its header and {len(data):,} in the file"
        raise BundleError(where, actual, f"a whole image of version {VERSION}", "export it again")


def patient_tag(image: bytes) -> bytes:
    """Return the tag of the patient whose model an image is, zeros of the global one."""
    return bytes(_HEADER.unpack_from(image)[5])


def check_replaces(base: bytes, result: bytes, where: Path) -> None:
    """Raise BundleError if an image cannot take another's place: it is of another layout, or another patient's."""
    if _HEADER.unpack_from(base)[4] != _HEADER.unpack_from(result)[4]:
        actual = "is an image of another net, other classes or another number of typical shapes"
        action = f"leave {param('delta')} out and build the firmware anew"
        raise BundleError(where, actual, "the same as of the run", action)
    if patient_tag(base) not in (ANY, patient_tag(result)):
        raise BundleError(where, "is another patient's model", "that patient's", "name another base")
