"""``delta show``, ``delta apply``: signed updates of a model on a device (docs/updates.md)."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import BundleError, OptionError, param
from ecgfed.base.files import create_folder, write_bytes
from ecgfed.base.outputs import check_free
from ecgfed.base.safe_io import read_bounded
from ecgfed.exports.bundles.packing import check_new_bundle, in_order, packed, replacing_bundle
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.container import ZIP
from ecgfed.exports.device.delta import ANY, MAX_IMAGE_BYTES, Delta, Kind, applied, read_delta, tag_of
from ecgfed.exports.device.golden import check_golden
from ecgfed.exports.device.graph import MAX_FILE_BYTES
from ecgfed.exports.device.image import IMAGE, check_image
from ecgfed.exports.device.manifest import MANIFEST
from ecgfed.exports.device.signatures import PUBLIC_KEY, SIGNATURE, Signature

#: Targets of ``export``, by what they write.
TARGETS = {Kind.BUNDLE: "bundle", Kind.MCU: "mcu"}
_SUFFIX = ".img"


@dataclass(frozen=True)
class DeltaSummary:
    """What a delta does.

    Attributes:
        path: the file.
        delta: its contents.
        signature: whose it is.
    """

    path: Path
    delta: Delta
    signature: Signature

    def __repr__(self) -> str:
        kind, counter = TARGETS[self.delta.header.kind], self.delta.header.counter
        return f"DeltaSummary({str(self.path)!r}: {kind}, counter {counter})"

    def to_dict(self) -> dict[str, object]:
        """Return the output of ``ecgfed delta show --json``."""
        header = self.delta.header
        return {
            "delta": str(self.path),
            "target": TARGETS[header.kind],
            "counter": header.counter,
            "bytes": self.delta.size,
            "new_bytes": self.delta.new_bytes,
            "base": {"bytes": header.base_bytes, "sha512": header.base_sha512.hex()},
            "result": {"bytes": header.result_bytes, "sha512": header.result_sha512.hex()},
            "device": None if header.device == ANY else header.device.hex(),
            "patient": None if header.patient == ANY else header.patient.hex(),
            "signature": self.signature.as_json(),
        }


def show_delta(path: Path | str, *, trusted: Path | str | list[Path] | None = None) -> DeltaSummary:
    """Verify a delta's form and signature, and return what it does.

    Args:
        path: the delta.
        trusted: public keys (PEM files) of which one must have signed it; None: any.

    Raises:
        BundleError: a damaged delta, or a signature that does not hold or is of another key.
        MissingExtraError: cryptography is not installed.
    """
    delta = read_delta(Path(path))
    return DeltaSummary(Path(path), delta, delta.check(trusted))


def apply_delta(
    path: Path | str,
    base: Path | str,
    out: Path | str,
    *,
    trusted: Path | str | list[Path],
    last_counter: int = 0,
    patient: str | None = None,
    device: str | None = None,
    overwrite: bool = False,
) -> DeltaSummary:
    """Verify a delta, apply it, check the golden vectors of a bundle that it makes, and write the result.

    Args:
        path: the delta.
        base: what it applies to: a bundle, or a folder of C sources or its ``model.img``.
        out: what to write: a bundle (a folder or a ``.zip``), or an image (``.img``).
        trusted: public keys (PEM files) of which one must have signed it.
        last_counter: counter of the last delta that was applied; older and repeated ones are refused.
        patient: whose device this is.
        device: id of this device.
        overwrite: replace an existing ``out``.

    Raises:
        EcgfedError: an invalid argument or input, as a single line; nothing is written.
    """
    summary, out = show_delta(path, trusted=trusted), Path(out)
    header, base = summary.delta.header, Path(base)
    for name, tag, own in (("device", header.device, device), ("patient", header.patient, patient)):
        if tag not in (ANY, tag_of(own)):
            actual = f"is for one {name}, " + ("which was not named" if own is None else f"not for {own!r:.60}")
            raise BundleError(summary.path, actual, f"{param(name)} it was made for", f"ask for this {name}'s")
    if header.counter <= last_counter:
        actual = f"has counter {header.counter}, which is not above {last_counter}"
        raise BundleError(summary.path, actual, "a newer delta", "old and repeated deltas are refused", code="old")
    _check_out(out, header.kind, base, overwrite=overwrite)
    kind, before = image_at(base)
    if kind is not header.kind:
        raise BundleError(base, f"is of {param('target')} {TARGETS[kind]}", f"of {TARGETS[header.kind]}, as the delta")
    result = applied(summary.delta, before, base)
    if kind is Kind.MCU:
        check_image(result, summary.path)
        write_bytes(out, result)
        return summary
    with tempfile.TemporaryDirectory(prefix="ecgfed-delta-") as folder:
        packed_result = Path(folder) / f"result{ZIP}"
        packed_result.write_bytes(result)
        bundle = open_bundle(packed_result, trusted=None)
        if not (check := check_golden(bundle)).agrees:
            raise BundleError(summary.path, f"makes a bundle that {check}", "its golden vectors", "report this")
        with replacing_bundle(out, overwrite=overwrite) as new:
            for name in _names(bundle):
                create_folder((new / name).parent)
                write_bytes(new / name, bundle.container.read(name, MAX_FILE_BYTES))
    return summary


def _check_out(out: Path, kind: Kind, base: Path, *, overwrite: bool) -> None:
    if kind is Kind.BUNDLE:
        check_new_bundle(out, overwrite=overwrite)
    elif out.suffix != _SUFFIX:
        raise OptionError("out", f"{out}", f"a name that ends in {_SUFFIX}")
    else:
        check_free([out], [base], overwrite=overwrite)


def kind_at(path: Path) -> Kind | None:
    """Return what was exported to a path; None if it is something else."""
    if path.suffix.casefold() == ZIP or (path / MANIFEST).is_file():
        return Kind.BUNDLE
    return Kind.MCU if path.suffix == _SUFFIX or (path / IMAGE).is_file() else None


def image_at(path: Path) -> tuple[Kind, bytes]:
    """Return what lies at a path, and its image; raises BundleError."""
    kind = kind_at(path)
    if kind is None:
        raise BundleError(path, "is no bundle and no folder of C sources", f"{MANIFEST} or {IMAGE} in it")
    if kind is Kind.MCU:
        file = path / IMAGE if path.is_dir() else path
        data = read_bounded(file, MAX_IMAGE_BYTES, BundleError)
        check_image(data, file)
        return kind, data
    bundle = open_bundle(path)
    data = b"".join(packed(_names(bundle), lambda name: bundle.container.read(name, MAX_FILE_BYTES)))
    if len(data) > MAX_IMAGE_BYTES:
        raise BundleError(path, f"has {len(data):,} bytes", f"at most {MAX_IMAGE_BYTES:,}", "export the bundle in full")
    return kind, data


def _names(bundle: Bundle) -> list[str]:
    """Return the names of a bundle's files as they follow one another in its zip file."""
    more = [name for name in (SIGNATURE, PUBLIC_KEY) if bundle.container.holds(name)]
    return in_order([MANIFEST, *more, *bundle.manifest["files"]])
