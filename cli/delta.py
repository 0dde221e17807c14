"""``ecgfed delta``: show a signed update of a model, and apply it; ``export --delta`` makes one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of

from .output import JsonOption, OverwriteOption, QuietOption, note
from .reading import TrustedOption
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed.tasks.delta import DeltaSummary

app = typer.Typer(help="Signed updates of a model on a device: show one, apply it.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A delta of 'ecgfed export --delta'.")]


@app.command("show")
def show_command(
    file: FileArgument, trusted: TrustedOption = None, json_output: JsonOption = False, quiet: QuietOption = False
) -> None:
    """Verify a delta's form and signature, and say what it changes."""
    from ecgfed.tasks.delta import show_delta

    output = Output(json_output=json_output, quiet=quiet)
    print_delta(show_delta(file, trusted=trusted), output)


@app.command("apply")
def apply_command(
    file: FileArgument,
    *,
    base: Annotated[
        Path, typer.Option("--base", metavar="FROM", help="What is on the device: a bundle, or C sources (model.img).")
    ],
    out: Annotated[Path, typer.Option("--out", help="The new bundle (a folder or .zip), or the new image (.img).")],
    trusted: Annotated[
        list[Path], typer.Option("--trusted", metavar="KEY", help="A public key that may have signed it; repeatable.")
    ],
    last_counter: Annotated[
        int, typer.Option("--last-counter", min=0, help="Counter of the delta that was applied last.")
    ] = 0,
    patient: Annotated[str | None, typer.Option(help="Whose device it is.")] = None,
    device: Annotated[str | None, typer.Option(help="The device's id.")] = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Verify a delta, apply it and check the golden vectors; the result is what a full export writes, byte for byte."""
    from ecgfed.tasks.delta import apply_delta

    output = Output(json_output=json_output, quiet=quiet)
    summary = apply_delta(
        file, base, out, trusted=trusted, last_counter=last_counter, patient=patient, device=device, overwrite=overwrite
    )
    output.show({**summary.to_dict(), "out": str(out)}, lambda: note(f"Wrote {out} in {output.seconds}."))


def check_delta(delta: Path | None, counter: int | None, device: str | None, sign: Path | None) -> None:
    """Say which options of ``export`` lack ``--delta``, or it them; raises OptionError."""
    for option, typed in (("--counter", counter), ("--device", device)):
        if delta is None and typed is not None:
            raise OptionError(option, f"{typed!r:.40} without --delta", "--delta FROM", f"leave {option} out")
    for option, value, word in (("--sign", sign, "KEY"), ("--counter", counter, "N")):
        if delta is not None and value is None:
            raise OptionError("--delta", f"{delta} without {option}", f"{option} {word}", "add it", code="missing")


def print_delta(summary: "DeltaSummary", output: Output) -> None:
    """Print what a delta does."""
    header = summary.delta.header

    def print_text() -> None:
        note(
            f"{summary.path}: {summary.delta.size:,} bytes, counter {header.counter}; "
            f"{count_of(summary.delta.new_bytes, 'byte')} of {header.result_bytes:,} are new."
        )
        note(f"From SHA-512 {header.base_sha512.hex()[:32]}... to {header.result_sha512.hex()[:32]}...")
        note(f"Signed by {summary.signature.key}{', which is trusted' if summary.signature.trusted else ''}.")

    output.show(summary.to_dict(), print_text)
