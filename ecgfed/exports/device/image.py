"""The header of a model's image, ``model.img`` of C sources (docs/updates.md)."""

import struct
from pathlib import Path

from ecgfed.base.errors import BundleError, param
from ecgfed.exports.device.delta import ANY

MAGIC, VERSION = b"ECGFEDIM", 1
#: File of the image in a folder of C sources.
IMAGE = "model.img"
#: Fields of the header in order: magic, format version, header size, image size, tag of the layout, tag of the patient,
#: the bundle's digest, temperature, threshold, threshold of the distance, number of the self-test's beats.
HEADER = struct.Struct("<8sHHI32s32s32sfffI")


def check_image(data: bytes, where: Path) -> None:
    """Raise BundleError for bytes that are no image, or not all of it."""
    if data[: len(MAGIC)] != MAGIC or len(data) < HEADER.size:
        raise BundleError(where, "is no image of a model", f"{IMAGE} of 'ecgfed export --target mcu'")
    version, header, size = HEADER.unpack_from(data)[1:4]
    if (version, header) != (VERSION, HEADER.size) or size != len(data):
        actual = f"version {version}, {size:,} bytes by its header and {len(data):,} in the file"
        raise BundleError(where, actual, f"a whole image of version {VERSION}", "export it again")


def patient_tag(image: bytes) -> bytes:
    """Return the tag of the patient whose model an image is, zeros of the global one."""
    return bytes(HEADER.unpack_from(image)[5])


def check_replaces(base: bytes, result: bytes, where: Path) -> None:
    """Raise BundleError if an image cannot take another's place: it is of another layout, or another patient's."""
    if HEADER.unpack_from(base)[4] != HEADER.unpack_from(result)[4]:
        actual = "is an image of another net, other classes or another number of typical shapes"
        action = f"leave {param('delta')} out and build the firmware anew"
        raise BundleError(where, actual, "the same as of the run", action)
    if patient_tag(base) not in (ANY, patient_tag(result)):
        raise BundleError(where, "is another patient's model", "that patient's", "name another base")
