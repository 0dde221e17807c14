"""``export``: a run in, a bundle out."""

from pathlib import Path
from statistics import fmean
from typing import Any

from ecgfed.bundles.calibration import ACCURACY
from ecgfed.bundles.export import export_bundle
from ecgfed.bundles.int8_choice import Int8Rule
from ecgfed.cohort.cohort import Cohort
from ecgfed.device.bundle import Bundle, open_bundle
from ecgfed.device.int8 import INT8
from ecgfed.device.signatures import Signer
from ecgfed.errors import OptionError
from ecgfed.evaluation.scenarios import PROTOCOLS
from ecgfed.personal.registry import personal_by_name
from ecgfed.runs.run import Run
from ecgfed.tasks.evaluate import cohort_of
from ecgfed.tasks.opening import Passed, one_run
from ecgfed.tasks.watch import NOBODY, Watch


def export(
    run: Run | Path | str,
    out: Path | str,
    *,
    cohort: Cohort | Path | str | None = None,
    protocol: str = "ensemble",
    personal: str | None = None,
    global_only: bool = False,
    accuracy: float = ACCURACY,
    int8: bool = False,
    int8_loss: float | None = None,
    sign: Path | str | None = None,
    overwrite: bool = False,
    method: Passed = None,
    watch: Watch = NOBODY,
) -> Bundle:
    """Export a run as ONNX: the global model, each patient's, and a manifest; checked against the trained model.

    Args:
        run: a run or its folder.
        out: the bundle folder to make.
        cohort: the run's cohort, where it has moved.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        personal: the personal answers, a name of ``ecgfed.personal``, or ``method`` for what the method keeps; default
            what the method is made for.
        global_only: the global model alone, in the least room: no patient's model, no weights to start new ones from.
        accuracy: how often answers shall be right that are not marked uncertain, on validation beats.
        int8: also every model in int8, calibrated on training beats, where it answers as well on validation beats.
        int8_loss: the most macro-F1 that an int8 form may lose on them; default 0.01.
        sign: a private key (PEM, Ed25519) to sign the bundle with.
        overwrite: replace ``out`` where it exists.
        method: the run's own method, ``FILE.py:CLASS`` or its class, where it is somebody's own: never loaded because
            the run names it.
        watch: told of the progress.

    Raises:
        EcgfedError: in one line, what cannot be used; BundleError where a graph answers otherwise than the model.

    Example:
        >>> import ecgfed
        >>> ecgfed.export("run", "a-bundle")
        Bundle('a-bundle': fedavg, 3 patients, 12 classes)
    """
    if protocol not in PROTOCOLS:
        raise OptionError("--global", f"{protocol!r}", f"one of {', '.join(PROTOCOLS)}")
    if personal is not None:
        personal_by_name(personal)
        if global_only:
            raise OptionError("--personal", f"{personal} beside --global-only", "one of them")
    if not 0 < accuracy <= 1:
        raise OptionError("--accuracy", f"{accuracy:g}", "more than 0, at most 1: 0.99 is 99%")
    if int8_loss is not None:
        if not int8:
            raise OptionError("--int8-loss", f"{int8_loss:g} without --int8", "both", "add --int8, or leave it out")
        if not 0 <= int8_loss <= 1:
            raise OptionError("--int8-loss", f"{int8_loss:g}", "0 to 1: 0.01 is a hundredth of macro-F1")
    rule = Int8Rule() if int8_loss is None else Int8Rule(loss=int8_loss)
    signer = None if sign is None else Signer(sign)
    opened = one_run(run, method, watch)
    export_bundle(
        opened,
        cohort_of(opened, cohort),
        opened.state(),
        Path(out),
        protocol=protocol,
        personal=personal,
        global_only=global_only,
        accuracy=accuracy,
        int8=rule if int8 else None,
        signer=signer,
        overwrite=overwrite,
        progress=lambda done, total: watch.progress("patients", done, total),
    )
    bundle = open_bundle(Path(out))
    for line in _refused(bundle):
        watch.note(line)
    return bundle


def _forms(bundle: Bundle) -> dict[str, dict[str, Any]]:
    """Return what became of each model's int8 form, by whose it is."""
    entries = {"the global model": bundle.manifest["global"], **bundle.manifest["patients"]}
    return {whose: entry[INT8] for whose, entry in entries.items() if INT8 in entry}


def _refused(bundle: Bundle) -> list[str]:
    """Say of each model without an int8 form why it has none."""
    forms = _forms(bundle).items()
    return [f"no int8 form of {whose}: it {form['reason']}" for whose, form in forms if not form["accepted"]]


def int8_line(bundle: Bundle) -> str:
    """Say what the int8 forms of a bundle are like; the bundle was exported with them."""
    forms = [form for form in _forms(bundle).values() if form["accepted"]]
    said = f"int8: {len(forms)} of {len(_forms(bundle))} models"
    if not forms:
        return f"{said}."
    before, after = (fmean(form[name] for form in forms) for name in ("macro_f1_float", "macro_f1"))
    size = max(form["bytes"] for form in forms)
    return f"{said}, {size / 1e3:.1f} kB at most; mean macro-F1 on validation beats {before:.3f} in float, {after:.3f}."
