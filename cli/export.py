"""``ecgfed export``: a run in, a bundle out."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.base.text import count_of
from ecgfed.core.config import HELD_OUT, PROTOCOLS, ExportOptions

from .complete import choices
from .delta import check_delta, print_delta
from .expand import takes_options
from .export_mcu import check_target, show_package
from .options import MethodOption, MovedCohortOption, NetOption, RunArgument, SignOption, personal_names
from .output import JsonOption, OverwriteOption, QuietOption, note
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed import Bundle


@takes_options(
    "options",
    ExportOptions,
    insert={"int8_loss": ("target", "patient"), "tflite": ("fs_hz",)},
    complete={"protocol": choices(*PROTOCOLS), "personal": personal_names},
)
def export_command(
    run_path: RunArgument,
    *,
    out: Annotated[
        Path, typer.Option("--out", help="The bundle to make: a folder, or one file where the name ends in .zip.")
    ],
    cohort_path: MovedCohortOption = None,
    options: ExportOptions,
    target: Annotated[str, typer.Option(help="'bundle', or 'mcu': C sources of one model in int8.")] = "bundle",
    patient: Annotated[
        str | None,
        typer.Option(help="With --target mcu: whose model; default the global one. With --delta: whose device."),
    ] = None,
    fs_hz: Annotated[
        int | None, typer.Option("--fs", help="With --target mcu: samples a second of the device; default 360.")
    ] = None,
    method: MethodOption = None,
    net: NetOption = None,
    sign: SignOption = None,
    delta: Annotated[
        Path | None,
        typer.Option("--delta", metavar="FROM", help="Write a signed update of FROM, what the device has, to --out."),
    ] = None,
    counter: Annotated[
        int | None, typer.Option(help="With --delta: above that of every delta for the patient's devices so far.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="With --delta: id of the one device that takes it.")] = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Export a run as ONNX: the global model, each patient's, and a manifest; checked against the trained model."""
    output = Output(json_output=json_output, quiet=quiet)
    shared: dict[str, Any] = {"cohort": cohort_path, "overwrite": overwrite, "method": method, "net": net}
    check_delta(delta, counter, device, sign)
    if target != "bundle" or (patient is not None and delta is None) or fs_hz is not None:
        signed = sign is not None and delta is None
        bundle_only = {"--global-only": options.global_only, "--sign": signed, "--tflite": options.tflite}
        bundle_only |= {"--global": "protocol" in options.given, "--batch": options.batch is not None}
        bundle_only["--certainty"] = "certainty" in options.given
        check_target(target, patient, fs_hz, bundle_only)
        of_both = ("personal", "accuracy", "int8_loss")
        shared |= {name: value for name, value in options.given_values().items() if name in of_both}
        shared |= {} if fs_hz is None else {"fs_hz": fs_hz}
    else:
        shared |= options.given_values()
    if delta is not None and sign is not None and counter is not None:
        from ecgfed.tasks.export_delta import export_delta

        shared |= {"target": target, "patient": patient, "device": device}
        with output.reporter() as progress:
            summary = export_delta(run_path, out, delta, sign=sign, counter=counter, **shared, progress=progress)
        print_delta(summary, output)
        return
    if target == "mcu":
        from ecgfed.tasks.export_mcu import export_mcu

        with output.reporter() as progress:
            package = export_mcu(run_path, out, patient=patient, **shared, progress=progress)
        show_package(package, out, output)
        return
    from ecgfed.tasks.export import export

    with output.reporter() as progress:
        bundle = export(run_path, out, **shared, sign=sign, progress=progress)
    value = {"bundle": str(out), **_as_json(bundle, int8=options.int8)}
    output.show(value, lambda: _print(bundle, out, output.seconds, int8=options.int8, tflite=options.tflite))


def _bytes_of(bundle: "Bundle") -> int:
    return int(sum(entry["bytes"] for entry in bundle.manifest["files"].values()))


def _as_json(bundle: "Bundle", *, int8: bool) -> dict[str, object]:
    manifest = bundle.manifest
    return {
        "files": len(manifest["files"]),
        "bytes": _bytes_of(bundle),
        "patients": len(bundle.patients),
        "parity": manifest["parity"],
        "certainty": manifest["certainty"],
        **({"int8": manifest["int8"]} if int8 else {}),
        "signature": None if bundle.signature is None else bundle.signature.as_json(),
    }


def _print(bundle: "Bundle", out: Path, elapsed: str, *, int8: bool, tflite: bool) -> None:
    """Say what the bundle holds, and how close its graphs and its probabilities come."""
    from ecgfed.tasks.export import int8_line, tflite_line

    manifest = bundle.manifest
    note(
        f"{count_of(len(bundle.patients), 'patient')}, {count_of(len(manifest['files']), 'file')}, "
        f"{_bytes_of(bundle) / 1e6:.2f} MB; "
        f"logits differ by at most {manifest['parity']['max_logit_difference']:.1e} from the trained model on "
        f"{count_of(manifest['parity']['beats'], 'beat')}."
    )
    if (after := manifest["certainty"]["ece_after"]) is not None:
        before = manifest["certainty"]["ece_before"]
        note(
            "Calibration error on validation beats, mean over patients (worst patient): "
            f"{before['mean']:.3f} ({before['worst']:.3f}) before, {after['mean']:.3f} ({after['worst']:.3f}) after."
        )
    if (entry := manifest["global"]["certainty"]).get("fitted_on") == HELD_OUT:
        note(
            f"The global model, on {count_of(entry['patients'], 'held-out patient')}, each measured without itself: "
            f"calibration error {entry['ece_before']:.3f} before, {entry['ece_after']:.3f} after; "
            f"{1 - entry['kept']:.0%} of the beats are uncertain."
        )
    if int8:
        note(int8_line(bundle))
    if tflite:
        note(tflite_line(bundle))
    if bundle.signature is not None:
        note(f"Signed by {bundle.signature.key}.")
    command = f"ecgfed predict {shlex.quote(str(out))} RECORD --out predictions"
    note(f"Wrote {out} in {elapsed}.{f' Next: {command}' if bundle.modality == 'ecg' else ''}")
