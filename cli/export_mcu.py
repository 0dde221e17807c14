"""``ecgfed export --target mcu``: a run in, the C sources of one model out."""

import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of

from .output import note, print_json, seconds
from .watch import watching

TARGETS = ("bundle", "mcu")


@dataclass(frozen=True)
class McuOptions:
    """What ``export`` was told that holds for C sources too."""

    patient: str | None
    cohort: Path | None
    personal: str | None
    accuracy: float
    int8_loss: float | None
    fs_hz: int | None
    overwrite: bool
    method: str | None


def export_for_target(
    run_path: Path,
    out: Path,
    *,
    target: str,
    refused: dict[str, bool],
    options: McuOptions,
    json_output: bool,
    quiet: bool,
) -> None:
    """Write the C sources, or say what was asked for that cannot be."""
    if target not in TARGETS:
        raise OptionError("--target", f"{target!r:.40}", f"one of {', '.join(TARGETS)}")
    if target == "bundle":
        option, value = ("--fs", options.fs_hz) if options.patient is None else ("--patient", options.patient)
        problem = f"{value!r:.40} for a bundle, which holds every patient and takes any rate"
        raise OptionError(option, problem, "--target mcu", "leave it out")
    for option, is_refused in refused.items():
        if is_refused:
            raise OptionError(option, "given with --target mcu", "one of them", f"leave {option} out")
    from ecgfed.tasks.export_mcu import export_mcu

    started = time.perf_counter()
    with watching(quiet=quiet, json_output=json_output) as watch:
        package = export_mcu(
            run_path,
            out,
            patient=options.patient,
            cohort=options.cohort,
            personal=options.personal,
            accuracy=options.accuracy,
            int8_loss=options.int8_loss,
            fs_hz=360 if options.fs_hz is None else options.fs_hz,
            overwrite=options.overwrite,
            method=options.method,
            watch=watch,
        )
    if json_output:
        model = package.model
        print_json(
            {
                "folder": str(out),
                "files": list(package.files),
                "about": dict(model.metadata),
                "classes": list(model.classes),
                "multiplications": model.multiplications,
                "seconds": round(time.perf_counter() - started, 2),
            }
        )
        return
    note(
        f"{package.model.metadata['model'].capitalize()}: {count_of(len(package.model.classes), 'class')}, "
        f"{package.model.multiplications:,} multiplications a beat.",
        quiet=quiet,
    )
    elapsed = seconds(time.perf_counter() - started)
    note(f"Wrote {out} in {elapsed}. Next: make -C {shlex.quote(str(out))} test", quiet=quiet)
