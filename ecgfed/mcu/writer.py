"""Writing the C sources of one model into a folder: all of them, or nothing."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from ecgfed.errors import OptionError
from ecgfed.files import check_new_folder, replacing_folder, write_text
from ecgfed.mcu.detector import qrs_weights_header, taps_header
from ecgfed.mcu.golden import Golden, example_lines, golden_header
from ecgfed.mcu.model import McuModel, model_header
from ecgfed.mcu.rate import rate_header
from ecgfed.mcu.readme import readme

#: The sources that are the same for every model.
SOURCES = (
    *("ecgfed.h", "ecgfed.c", "ecgfed_qrs.h", "ecgfed_qrs.c", "ecgfed_qrs_net.h", "ecgfed_qrs_net.c"),
    *("ecgfed_net.h", "ecgfed_net.c", "ecgfed_rate.h", "ecgfed_rate.c", "ecgfed_golden.h", "ecgfed_golden.c"),
    *("golden_test.c", "example_main.c", "Makefile"),
)

#: What is made for a model and a device's samples a second, beside them.
_MADE: dict[str, Callable[[McuModel, Golden, int], str]] = {
    "ecgfed_qrs_weights.h": lambda model, golden, fs_hz: qrs_weights_header(),
    "ecgfed_taps.h": lambda model, golden, fs_hz: taps_header(),
    "ecgfed_rate_taps.h": lambda model, golden, fs_hz: rate_header(fs_hz),
    "model.h": lambda model, golden, fs_hz: model_header(model),
    "golden.h": lambda model, golden, fs_hz: golden_header(golden),
    "example.txt": lambda model, golden, fs_hz: example_lines(fs_hz),
    "README.md": lambda model, golden, fs_hz: readme(model, fs_hz),
}
#: What shows that a folder was made here, and all that may lie in one that is replaced: an export, and what ``make``
#: built there. People work in such folders.
_PROOFS = ("ecgfed.h",)
_CONTENTS = (*SOURCES, *_MADE, "example", "golden_test", "*.o")


def source(name: str) -> str:
    """Return one of ``SOURCES`` as it lies in the package."""
    return files("ecgfed.mcu").joinpath("c", name).read_text("utf-8")


def mcu_files(model: McuModel, golden: Golden, fs_hz: int) -> dict[str, str]:
    """Return every file of a folder of C sources, by name."""
    made = {name: make(model, golden, fs_hz) for name, make in _MADE.items()}
    return {name: source(name) for name in SOURCES} | made


def check_sources_folder(out: Path, *, overwrite: bool = False) -> None:
    """Refuse a folder that is taken, or that holds more than an export and what ``make`` builds there.

    Raises:
        OptionError: in one line; nothing was removed.
    """
    if out.suffix.casefold() == ".zip":
        raise OptionError("--out", f"{out}: C sources are a folder, no zip file", "a folder to create")
    check_new_folder(out, overwrite=overwrite, proofs=_PROOFS, contents=_CONTENTS)


def write_mcu(out: Path, model: McuModel, golden: Golden, *, fs_hz: int, overwrite: bool = False) -> None:
    """Write the folder; until all of it is there, nothing is.

    Args:
        out: the folder to make.
        model: the model.
        golden: the self-test, of that model.
        fs_hz: the device's samples a second.
        overwrite: replace ``out`` where it exists.

    Raises:
        OptionError: ``out`` is taken.
        StorageError: it cannot be written; what was there is as it was.
    """
    contents = mcu_files(model, golden, fs_hz)
    with replacing_folder(out, overwrite=overwrite, proofs=_PROOFS, contents=_CONTENTS) as folder:
        for name, text in contents.items():
            write_text(folder / name, text)
