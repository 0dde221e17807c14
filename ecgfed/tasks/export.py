"""``export``: export a run as a bundle."""

from pathlib import Path
from statistics import fmean
from typing import Any

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import flat_options, merged
from ecgfed.core.config import BundleOptions, ExportOptions
from ecgfed.core.personal.registry import personal_by_name
from ecgfed.core.runs.run import Run
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.exports.bundles.export import export_bundle
from ecgfed.exports.bundles.graph_writer import large_ensemble
from ecgfed.exports.bundles.int8_variants import Int8Rule
from ecgfed.exports.bundles.tflite import TFLITE, tflite_python
from ecgfed.exports.device.bundle import Bundle, open_bundle
from ecgfed.exports.device.int8 import INT8
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.evaluate import cohort_of
from ecgfed.tasks.opening import Passed, PassedNet, single_run
from ecgfed.tasks.progress import SILENT, ProgressReporter


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(ExportOptions)
def export(
    run: Run | Path | str,
    out: Path | str,
    *,
    cohort: Cohort | Path | str | None = None,
    sign: Path | str | None = None,
    overwrite: bool = False,
    method: Passed = None,
    net: PassedNet = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Bundle:
    """Export a run as ONNX: the global model, the personal models and a manifest, checked against the trained models.

    Args:
        run: a run or its folder.
        out: the bundle to make: a folder, or a single file if the name ends in ``.zip``.
        cohort: the run's cohort, if it was moved.
        sign: a private key (PEM, Ed25519) to sign the bundle with.
        overwrite: replace an existing ``out``.
        method: the run's method, ``FILE.py:CLASS`` or the class, if it is custom; it is never loaded from the run.
        net: the same of a net of your own, ``FILE.py:CLASS``, its class or a function that returns a module.
        progress: receives progress, notes and warnings.
        options: the fields of ``ExportOptions``.

    Raises:
        EcgfedError: an invalid argument or input, as a single line; BundleError if a graph differs from its model.

    Examples:
        >>> import ecgfed
        >>> ecgfed.export("run", "a-bundle")
        Bundle('a-bundle': fedavg, 3 patients, 12 classes)
    """
    chosen = merged(ExportOptions, None, options, "export")
    if chosen.personal is not None:
        personal_by_name(chosen.personal)
    if chosen.int8_loss is not None and not chosen.int8:
        problem = f"{chosen.int8_loss:g} without {param('int8')}"
        raise OptionError("int8_loss", problem, "both", f"add {param('int8')}, or leave it out", code="missing")
    python = tflite_python() if chosen.tflite else None
    signer = None if sign is None else Signer(sign)
    opened = single_run(run, method, progress, net)
    manifest = export_bundle(
        opened,
        cohort_of(opened, cohort),
        opened.state(),
        Path(out),
        int8=Int8Rule(loss=Int8Rule.loss if chosen.int8_loss is None else chosen.int8_loss) if chosen.int8 else None,
        tflite=python,
        signer=signer,
        overwrite=overwrite,
        on_progress=lambda completed, total: progress.update("patients", completed, total),
        **chosen.shared_with(BundleOptions),
    )
    if size_warning := large_ensemble(manifest["files"]):
        progress.warn(size_warning)
    bundle = open_bundle(Path(out))
    for line in [*_refused(bundle, INT8, "int8 form"), *_refused(bundle, TFLITE, "TensorFlow Lite file")]:
        progress.note(line)
    return bundle


def _variants(bundle: Bundle, kind: str) -> dict[str, dict[str, Any]]:
    """Return the manifest entries for a kind of variant, by model."""
    entries = {"the global model": bundle.manifest["global"], **bundle.manifest["patients"]}
    return {owner: entry[kind] for owner, entry in entries.items() if kind in entry}


def _refused(bundle: Bundle, kind: str, what: str) -> list[str]:
    """Return the reasons for missing variants, a sentence each."""
    variants = _variants(bundle, kind).items()
    return [f"no {what} of {owner}: it {variant['reason']}" for owner, variant in variants if not variant["accepted"]]


def int8_line(bundle: Bundle) -> str:
    """Describe the int8 variants of a bundle that was exported with them."""
    return _line("int8", _variants(bundle, INT8))


def tflite_line(bundle: Bundle) -> str:
    """Describe the TensorFlow Lite files of a bundle that was exported with them."""
    variants = _variants(bundle, TFLITE)
    accepted = [variant for variant in variants.values() if variant["accepted"]]
    arenas = [variant["arena_bytes"] for variant in accepted if "arena_bytes" in variant]
    arena = f" They run in {max(arenas) / 1e3:.1f} kB of arena." if arenas else ""
    return _line("TensorFlow Lite", variants) + arena


def _line(kind: str, all_variants: dict[str, dict[str, Any]]) -> str:
    variants = [variant for variant in all_variants.values() if variant["accepted"]]
    accepted = f"{kind}: {len(variants)} of {len(all_variants)} models"
    if not variants:
        return f"{accepted}."
    before, after = (fmean(variant[name] for variant in variants) for name in ("macro_f1_float", "macro_f1"))
    size = max(variant["bytes"] for variant in variants)
    scores = f"mean macro-F1 on validation beats {before:.3f} in float, {after:.3f}"
    return f"{accepted}, {size / 1e3:.1f} kB at most; {scores}."
