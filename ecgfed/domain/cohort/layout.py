"""Which arrays a cohort has: beats with RR features, images, or arrays of any shape (docs/decisions/0015, 0105)."""

import math
from collections.abc import Mapping
from typing import Any

from ecgfed.domain.beats.rr import RR_DEFAULT, RR_NAMES

#: More beats than any cohort has: 100 patients for a year.
MAX_ROWS = 2**32
#: Axes that an example of a cohort of arrays has at most.
MAX_AXES = 8
Layout = dict[str, tuple[str, tuple[int, ...]]]
#: name -> (dtype, shape of one beat); the first is what a net sees
ARRAYS: Layout = {
    "beats": ("float32", (1, 256)),
    "rr": ("float32", (len(RR_NAMES[RR_DEFAULT]),)),
    "label": ("int16", ()),
    "client": ("int32", ()),
    "record": ("int32", ()),
    "sample": ("int64", ()),
    "split": ("uint8", ()),
    "flags": ("uint8", ()),
}
_NO_BEATS: Layout = {name: ARRAYS[name] for name in ("label", "client", "sample", "split")}
#: the same of a cohort of images
IMAGE_ARRAYS: Layout = {"images": ("uint8", (3, 32, 32)), **_NO_BEATS}
#: the same of a cohort of arrays, whose ``cohort.json`` has dtype and shape of its examples under ``EXAMPLE``
OWN_ARRAYS: Layout = {"examples": ("float32", ()), **_NO_BEATS}
EXAMPLE, EXAMPLE_DTYPES = "example", ("float32", "uint8", "int64")
#: modality -> arrays of one row an example; the one place that names them (docs/decisions/0015, 0105)
MODALITIES: dict[str, Layout] = {"ecg": ARRAYS, "image": IMAGE_ARRAYS, "array": OWN_ARRAYS}
#: modality -> what an example is called
EXAMPLE_WORDS = {"ecg": "beat", "image": "image", "array": "example"}
#: Which examples of the common test pool stand for which client: arrays of a length of their own, not of ECG cohorts.
DRAWN_ARRAYS: Layout = {"test_client": ("int32", ()), "test_row": ("int64", ())}


def modality_of(meta: dict[str, Any]) -> str:
    """Return the modality that ``cohort.json`` says: ``ecg`` where it says none, as before there were images."""
    return str(meta.get("modality", "ecg"))


def rr_version_of(meta: dict[str, Any]) -> int:
    """Return the version of the RR features that ``cohort.json`` says: 1 where it says none, as before there were two.

    Raises ValueError for one that is not known.
    """
    version = meta.get("rr_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version not in RR_NAMES:
        raise ValueError(f"a known rr_version (it says {version!r:.40})")
    return version


def layout_of(
    modality: str, rr_version: int = RR_DEFAULT, example: tuple[str, tuple[int, ...]] | None = None
) -> Layout:
    """Return the arrays of a cohort; those of beats have as many RR features as their version. Raises KeyError.

    Args:
        modality: a key of ``MODALITIES``.
        rr_version: of the RR features of beats.
        example: dtype and shape of an example of a cohort of arrays.
    """
    layout = MODALITIES[modality]
    if example is not None:
        return {**layout, next(iter(layout)): example}
    return {**layout, "rr": ("float32", (len(RR_NAMES[rr_version]),))} if "rr" in layout else layout


def example_of(meta: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
    """Return dtype and shape of an example of a cohort of arrays, None of others; raises KeyError, ValueError."""
    if modality_of(dict(meta)) != "array":
        return None
    dtype, shape = meta[EXAMPLE]["dtype"], meta[EXAMPLE]["shape"]
    sizes = isinstance(shape, list) and all(type(size) is int and size >= 1 for size in shape)
    if dtype not in EXAMPLE_DTYPES or not sizes or not 1 <= len(shape) <= MAX_AXES or math.prod(shape) > MAX_ROWS:
        raise ValueError(f"a known form of an example (it says {meta[EXAMPLE]!r:.60})")
    return dtype, tuple(shape)
