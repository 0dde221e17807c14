"""Deltas: a signed file that turns one version of a patient's model into the next (docs/updates.md).

A delta changes one string of bytes, the *image*, into another: a bundle in one zip file, or the image of a model that C
sources read (``ecgfed.exports.mcu.image``). Its header has a fixed size, names the SHA-512 of both images and is signed
with Ed25519; nothing after it is used before the signature holds. ``ecgfed_update.c`` does the same on a device.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np

from ecgfed.base.errors import BundleError, param
from ecgfed.base.safe_io import read_bounded
from ecgfed.exports.device.signatures import SIGNATURE_BYTES, Signature, Signer, check_message

MAGIC, VERSION = b"ECGFEDUP", 1
#: Fields of the header in order: magic, format version, kind, header size, counter, sizes of base, result and payload,
#: number of instructions, tags of device and patient, SHA-512 of base, result and payload, public key.
_FIELDS = struct.Struct("<8sHHIQIIII32s32s64s64s64s32s")
#: An instruction: first byte of the base to copy, how many, and how many new bytes follow.
_INSTRUCTION = struct.Struct("<III")
HEADER_BYTES = _FIELDS.size + SIGNATURE_BYTES
#: Largest image and largest delta that this implementation reads.
MAX_IMAGE_BYTES = 256 << 20
TAG_BYTES = 32
#: Tag of a delta for any device, or for any patient.
ANY = bytes(TAG_BYTES)
#: Bytes that have to agree for a copy to begin, at multiples of it in the base; and where one goes on at its place.
_BLOCK, _AGAIN = 32, 16
_REPEAT = "ask for the delta again"


class Kind(IntEnum):
    """What a delta changes."""

    BUNDLE = 1
    MCU = 2


@dataclass(frozen=True)
class DeltaHeader:
    """The signed part of a delta.

    Attributes:
        kind: what it changes.
        counter: larger than that of every delta that the device has applied.
        base_bytes, result_bytes, payload_bytes: sizes of both images and of all that follows the header.
        instructions: number of instructions in the payload.
        device, patient: tags (``tag_of``), or ``ANY``.
        base_sha512, result_sha512, payload_sha512: digests.
        public_key: of the signer, 32 bytes.
    """

    kind: Kind
    counter: int
    base_bytes: int
    result_bytes: int
    payload_bytes: int
    instructions: int
    device: bytes
    patient: bytes
    base_sha512: bytes
    result_sha512: bytes
    payload_sha512: bytes
    public_key: bytes

    def packed(self) -> bytes:
        """Return the bytes that are signed."""
        sizes = (self.base_bytes, self.result_bytes, self.payload_bytes, self.instructions)
        digests = (self.base_sha512, self.result_sha512, self.payload_sha512)
        first = (MAGIC, VERSION, self.kind, HEADER_BYTES, self.counter)
        return _FIELDS.pack(*first, *sizes, self.device, self.patient, *digests, self.public_key)


@dataclass(frozen=True, eq=False)
class Delta:
    """A delta whose form was checked; ``check`` checks its signature.

    Attributes:
        path: the file.
        header: its signed part.
        signature: 64 bytes.
        payload: instructions and new bytes.
    """

    path: Path
    header: DeltaHeader
    signature: bytes
    payload: bytes

    def check(self, trusted: Path | str | Sequence[Path | str] | None = None) -> Signature:
        """Check the signature, and with ``trusted`` whose it is.

        Raises:
            BundleError: it does not hold, or is that of another key.
            OptionError: a trusted key that cannot be read.
            MissingExtraError: cryptography is not installed.
        """
        return check_message(self.path, self.header.packed(), self.signature, self.header.public_key, trusted)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return HEADER_BYTES + len(self.payload)

    @property
    def new_bytes(self) -> int:
        """How many bytes of the result are in the delta; the others are copied."""
        return len(self.payload) - self.header.instructions * _INSTRUCTION.size


def tag_of(name: str | None) -> bytes:
    """Return the tag of an id: the first 32 bytes of the SHA-512 of its UTF-8; ``ANY`` for None."""
    return ANY if name is None else hashlib.sha512(name.encode()).digest()[:TAG_BYTES]


def make_delta(
    base: bytes, result: bytes, *, kind: Kind, counter: int, device: bytes, patient: bytes, signer: Signer
) -> bytes:
    """Return the delta from one image to another.

    Args:
        base: the image on the device.
        result: the image after the update.
        kind: what both are.
        counter: 1 to 2^64 - 1.
        device: tag of the one device that takes it, or ``ANY``.
        patient: tag of the patient whose devices take it, or ``ANY``.
        signer: signs it.
    """
    instructions = list(_instructions(base, result))
    payload = b"".join(_INSTRUCTION.pack(at, copied, len(new)) + new for at, copied, new in instructions)
    header = DeltaHeader(
        kind,
        counter,
        base_bytes=len(base),
        result_bytes=len(result),
        payload_bytes=len(payload),
        instructions=len(instructions),
        device=device,
        patient=patient,
        base_sha512=hashlib.sha512(base).digest(),
        result_sha512=hashlib.sha512(result).digest(),
        payload_sha512=hashlib.sha512(payload).digest(),
        public_key=signer.public_key,
    ).packed()
    return header + signer.sign(header) + payload


def read_delta(path: Path) -> Delta:
    """Read a delta and check its form: sizes, digest of the payload, and that its instructions make the result.

    Raises:
        BundleError: no delta, one of another version, or a damaged one.
    """
    data = read_bounded(path, MAX_IMAGE_BYTES, BundleError)
    if data[: len(MAGIC)] != MAGIC:
        raise BundleError(path, "is no delta", f"a file that begins with {MAGIC.decode()}", "make one with --delta")
    if len(data) < HEADER_BYTES:
        raise BundleError(path, f"has {len(data):,} bytes", f"a header of {HEADER_BYTES}", _REPEAT)
    _, version, kind, header_bytes, *fields = _FIELDS.unpack_from(data)
    if version != VERSION or header_bytes != HEADER_BYTES:
        actual = f"format version {version} with a header of {header_bytes:,} bytes"
        raise BundleError(path, actual, f"version {VERSION} with {HEADER_BYTES}", "use a newer ecgfed")
    if kind not in list(Kind):
        raise BundleError(path, f"kind {kind}", "1 (bundle) or 2 (C sources)", "use a newer ecgfed")
    header, payload = DeltaHeader(Kind(kind), *fields), data[HEADER_BYTES:]
    if len(payload) != header.payload_bytes:
        raise BundleError(path, f"has {len(payload):,} bytes after its header", f"{header.payload_bytes:,}", _REPEAT)
    if hashlib.sha512(payload).digest() != header.payload_sha512:
        raise BundleError(path, "was changed (its SHA-512 is not the header's)", action=_REPEAT)
    delta = Delta(path, header, data[_FIELDS.size : HEADER_BYTES], payload)
    for _ in _pieces(delta):
        pass
    return delta


def applied(delta: Delta, base: bytes, where: Path) -> bytes:
    """Return the image that a delta makes of another.

    Args:
        delta: whose signature the caller has checked.
        base: the image on the device.
        where: what it was read from, for errors.

    Raises:
        BundleError: the delta is for another base.
    """
    header = delta.header
    if len(base) != header.base_bytes or hashlib.sha512(base).digest() != header.base_sha512:
        actual = f"is not what {delta.path} applies to (SHA-512 {hashlib.sha512(base).hexdigest()[:16]}...)"
        expected = f"SHA-512 {header.base_sha512.hex()[:16]}..."
        raise BundleError(where, actual, expected, f"ask for a delta from this one ({param('delta')})")
    result = b"".join(base[start : start + copied] + new for start, copied, new in _pieces(delta))
    if hashlib.sha512(result).digest() != header.result_sha512:
        raise BundleError(delta.path, "makes another result than its header says", action=_REPEAT)
    return result


def _pieces(delta: Delta) -> Iterator[tuple[int, int, bytes]]:
    """Yield the instructions: first byte to copy, how many, and the new bytes after them; raises BundleError."""
    header, payload, at, made = delta.header, delta.payload, 0, 0
    broken = BundleError(delta.path, "has instructions that do not make its result", action=_REPEAT)
    if header.result_bytes > MAX_IMAGE_BYTES:
        raise BundleError(delta.path, f"a result of {header.result_bytes:,} bytes", f"at most {MAX_IMAGE_BYTES:,}")
    for _ in range(header.instructions):
        if at + _INSTRUCTION.size > len(payload):
            raise broken
        start, copied, new = _INSTRUCTION.unpack_from(payload, at)
        at += _INSTRUCTION.size
        made += copied + new
        if not copied + new or start + copied > header.base_bytes or at + new > len(payload):
            raise broken
        if made > header.result_bytes:
            raise broken
        yield start, copied, payload[at : at + new]
        at += new
    if at != len(payload) or made != header.result_bytes:
        raise broken


def _instructions(base: bytes, result: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield instructions that make ``result``; each copy begins with an equal block and is as long as it can be."""
    places: dict[bytes, int] = {}
    for start in range(0, len(base) - _BLOCK + 1, _BLOCK):
        places.setdefault(base[start : start + _BLOCK], start)
    copy, new_from, at, shift = (0, 0), 0, 0, 0
    while at + _AGAIN <= len(result):
        start = at + shift  # at the place that goes on where the last copy ended, as after a changed number
        if start < 0 or base[start : start + _AGAIN] != result[at : at + _AGAIN]:
            start = places.get(result[at : at + _BLOCK], -1)
        if start < 0:
            at += 1
            continue
        while at > new_from and start and base[start - 1] == result[at - 1]:
            at, start = at - 1, start - 1
        if any(copy) or at > new_from:
            yield *copy, result[new_from:at]
        length = _common(base, start, result, at)
        copy, shift = (start, length), start - at
        at = new_from = at + length
    if any(copy) or new_from < len(result):
        yield *copy, result[new_from:]


def _common(base: bytes, start: int, result: bytes, at: int) -> int:
    """Return how many bytes agree from two places on."""
    most = min(len(base) - start, len(result) - at)
    one, other = (np.frombuffer(data, np.uint8, most, begin) for data, begin in ((base, start), (result, at)))
    for begin in range(0, most, 1 << 16):
        differ = np.flatnonzero(one[begin : begin + (1 << 16)] != other[begin : begin + (1 << 16)])
        if len(differ):
            return begin + int(differ[0])
    return most
