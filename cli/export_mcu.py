"""``ecgfed export --target mcu``: a run in, the C sources of one model out."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ecgfed.base.errors import OptionError
from ecgfed.base.text import count_of

from .output import note
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed.tasks.export_mcu import McuExport

TARGETS = ("bundle", "mcu")


def check_target(target: str, patient: str | None, fs_hz: int | None, refused: Mapping[str, bool]) -> None:
    """Say what was asked for that cannot be; raises OptionError.

    Args:
        target: one of ``TARGETS``.
        patient: whose model, for C sources alone.
        fs_hz: the device's sampling frequency, for C sources alone.
        refused: option that is not for C sources -> whether it was typed.
    """
    if target not in TARGETS:
        raise OptionError("--target", f"{target!r:.40}", f"one of {', '.join(TARGETS)}")
    if target == "bundle":
        option, value = ("--fs", fs_hz) if patient is None else ("--patient", patient)
        problem = f"{value!r:.40} for a bundle, which holds every patient and takes any rate"
        raise OptionError(option, problem, "--target mcu", "leave it out")
    for option, is_refused in refused.items():
        if is_refused:
            raise OptionError(option, "given with --target mcu", "one of them", f"leave {option} out")


def show_package(package: "McuExport", out: Path, output: Output) -> None:
    """Print what the C sources hold."""
    model = package.model

    def print_text() -> None:
        classes = count_of(len(model.classes), "class")
        note(f"{model.metadata['model'].capitalize()}: {classes}, {model.multiplications:,} multiplications a beat.")
        is_folder = out.is_dir()
        action = f"make -C {shlex.quote(str(out))} test" if is_folder else "install it in Arduino, PlatformIO or Zephyr"
        note(f"Wrote {out} in {output.seconds}. Next: {action}")

    value = {"folder": str(out), "files": list(package.files), "about": dict(model.metadata)}
    output.show({**value, "classes": list(model.classes), "multiplications": model.multiplications}, print_text)
