"""``export``: a run in, a bundle out."""

from pathlib import Path

from ecgfed.bundles.calibration import ACCURACY
from ecgfed.bundles.export import export_bundle
from ecgfed.cohort.cohort import Cohort
from ecgfed.device.bundle import Bundle, open_bundle
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
    sign: Path | str | None = None,
    overwrite: bool = False,
    method: Passed = None,
    watch: Watch = NOBODY,
) -> Bundle:
    """Export a run as ONNX: the global model, each patient's, and a manifest; checked against the trained model.

    Args:
        run: a run or its folder.
        out: the bundle to make: a folder, or one file where its name ends in ``.zip``.
        cohort: the run's cohort, where it has moved.
        protocol: how a method without a global model answers globally, ``ensemble`` or ``average``.
        personal: the personal answers, a name of ``ecgfed.personal``, or ``method`` for what the method keeps; default
            what the method is made for.
        global_only: the global model alone, in the least room: no patient's model, no weights to start new ones from.
        accuracy: how often answers shall be right that are not marked uncertain, on validation beats.
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
        signer=signer,
        overwrite=overwrite,
        progress=lambda done, total: watch.progress("patients", done, total),
    )
    return open_bundle(Path(out))
