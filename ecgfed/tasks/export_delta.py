"""``export --delta``: a signed update of what a device has (docs/updates.md)."""

import tempfile
from pathlib import Path
from typing import Any

from ecgfed.base.errors import OptionError, param
from ecgfed.base.files import write_bytes
from ecgfed.base.outputs import check_free
from ecgfed.core.runs.run import Run
from ecgfed.exports.device.bundle import open_bundle
from ecgfed.exports.device.container import ZIP
from ecgfed.exports.device.delta import Kind, make_delta, tag_of
from ecgfed.exports.device.image import IMAGE, check_replaces, patient_tag
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.delta import TARGETS, DeltaSummary, image_at, kind_at, show_delta
from ecgfed.tasks.export import export
from ecgfed.tasks.export_mcu import export_mcu
from ecgfed.tasks.progress import SILENT, ProgressReporter

#: Largest counter: 63 bits, which every language can count.
MAX_COUNTER = 2**63 - 1


def export_delta(
    run: Run | Path | str,
    out: Path | str,
    base: Path | str,
    *,
    sign: Path | str,
    counter: int,
    target: str = "bundle",
    patient: str | None = None,
    device: str | None = None,
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> DeltaSummary:
    """Write the signed delta from an exported model to a newer one.

    Args:
        run: a run or its folder, exported as by ``export`` or ``export_mcu``; or what one of them wrote.
        out: the delta to write.
        base: what is on the device: a bundle, or a folder of C sources (or its ``model.img``).
        sign: a private key (PEM, Ed25519); it signs the delta, and the new bundle of a run.
        counter: larger than that of every delta for this patient's devices so far.
        target: ``bundle`` or ``mcu``, the kind of ``base``.
        patient: id of the patient whose devices take it; of C sources, whose model it is.
        device: id of the one device that takes it; None: any.
        overwrite: replace an existing ``out``.
        progress: receives progress, notes and warnings.
        options: of ``export`` or ``export_mcu``.

    Raises:
        EcgfedError: an invalid argument or input, as a single line; nothing is written.
    """
    if type(counter) is not int or not 1 <= counter <= MAX_COUNTER:
        raise OptionError("counter", f"{counter!r:.40}", f"a whole number, 1 to {MAX_COUNTER}")
    out, base = Path(out), Path(base)
    check_free([out], [base], overwrite=overwrite)
    signer, (kind, before) = Signer(sign), image_at(base)
    if TARGETS.get(kind) != target:
        expected = "a bundle" if target == "bundle" else f"a folder of C sources, or its {IMAGE}"
        raise OptionError("delta", f"{base}: is of {param('target')} {TARGETS[kind]}", expected, code="conflict")
    with tempfile.TemporaryDirectory(prefix="ecgfed-delta-") as folder:
        made = _exported(run, Path(folder), kind, patient, sign, progress, options)
        new_kind, after = image_at(made)
        if new_kind is not kind:
            raise OptionError("RUN", f"{made}: is of {param('target')} {TARGETS[new_kind]}", f"one of {TARGETS[kind]}")
        tag = _patient_tag(made, kind, after, patient)
        if kind is Kind.MCU:
            check_replaces(before, after, base)
    write_bytes(
        out, make_delta(before, after, kind=kind, counter=counter, device=tag_of(device), patient=tag, signer=signer)
    )
    return show_delta(out)


def _exported(
    run: Run | Path | str,
    folder: Path,
    kind: Kind,
    patient: str | None,
    sign: Path | str,
    progress: ProgressReporter,
    options: dict[str, Any],
) -> Path:
    """Export a run into a folder; return where, or the given path if it was exported before."""
    if isinstance(run, Path | str) and kind_at(Path(run)) is not None:
        if typed := [name for name, value in options.items() if value not in (None, False)]:
            raise OptionError(typed[0], f"given with {run}, which was exported before", "a run", "leave it out")
        return Path(run)
    if kind is Kind.MCU:
        return export_mcu(run, folder / "new", patient=patient, progress=progress, **options).path
    return export(run, folder / f"new{ZIP}", sign=sign, progress=progress, **options).path


def _patient_tag(made: Path, kind: Kind, image: bytes, patient: str | None) -> bytes:
    """Return the tag of the patient whose devices take a delta; raises OptionError for another one's model."""
    if kind is Kind.MCU:
        tag = patient_tag(image)
        if patient is not None and tag != tag_of(patient):
            raise OptionError("patient", f"{patient!r:.60}", f"whose model {made} is", "name that patient")
        return tag
    if patient is not None:
        open_bundle(made, verify=False).classifier(patient)  # which says what patients there are
    return tag_of(patient)
