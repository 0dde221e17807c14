"""``ecgfed export``: a run in, a bundle out."""

import time
from pathlib import Path
from typing import Annotated

import typer

from ecgfed.errors import OptionError

from .output import (
    JsonOption,
    OverwriteOption,
    QuietOption,
    note,
    open_run_and_cohort,
    print_json,
    progress_bar,
    seconds,
)


def export_command(
    run_path: Annotated[Path, typer.Argument(metavar="RUN", help="A run made by 'ecgfed train'.")],
    out: Annotated[Path, typer.Option("--out", help="The bundle folder to make.")],
    cohort_path: Annotated[Path | None, typer.Option("--cohort", help="The cohort, where it has moved.")] = None,
    protocol: Annotated[
        str, typer.Option("--global", help="A method without a global model answers by its ensemble or average.")
    ] = "ensemble",
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Export a run as ONNX: the global model, each patient's, and a manifest; checked against the trained model."""
    from ecgfed.bundles.export import export_bundle
    from ecgfed.evaluation.scenarios import PROTOCOLS

    if protocol not in PROTOCOLS:
        raise OptionError("--global", f"{protocol!r}", f"one of {', '.join(PROTOCOLS)}")
    started = time.perf_counter()
    run, cohort = open_run_and_cohort(run_path, cohort_path)
    state = run.state()
    with progress_bar(quiet) as bar:
        task = bar.add_task("patients", total=None, about="")
        manifest = export_bundle(
            run,
            cohort,
            state,
            out,
            protocol=protocol,
            overwrite=overwrite,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    size = sum(about["bytes"] for about in manifest["files"].values())
    elapsed = time.perf_counter() - started
    summary = {
        "bundle": str(out),
        "files": len(manifest["files"]),
        "bytes": size,
        "patients": len(manifest["patients"]),
        "parity": manifest["parity"],
        "seconds": round(elapsed, 2),
    }
    if json_output:
        print_json(summary)
        return
    note(
        f"{len(manifest['patients'])} patients, {len(manifest['files'])} files, {size / 1e6:.2f} MB; "
        f"logits differ by at most {manifest['parity']['max_logit_difference']:.1e} from the trained model on "
        f"{manifest['parity']['beats']:,} beats.",
        quiet=quiet,
    )
    after = f" Next: ecgfed predict {out} RECORD --out predictions" if cohort.modality == "ecg" else ""
    note(f"Wrote {out} in {seconds(elapsed)}.{after}", quiet=quiet)
