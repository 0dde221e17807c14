"""Write the C sources of one model atomically: into a folder, or as a library into a zip file."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from ecgfed.base.files import check_new_folder, replacing_folder, write_bytes, write_text
from ecgfed.exports.bundles.packing import check_new_bundle, is_zip, replacing_bundle
from ecgfed.exports.device.image import IMAGE
from ecgfed.exports.mcu.detector import early_header, qrs_weights_header, taps_header
from ecgfed.exports.mcu.golden import Golden, example_lines, golden_header
from ecgfed.exports.mcu.image import layout_define
from ecgfed.exports.mcu.library import FOLDER, library_files
from ecgfed.exports.mcu.model import McuModel, model_header
from ecgfed.exports.mcu.monitor import monitor_header
from ecgfed.exports.mcu.rate import rate_header
from ecgfed.exports.mcu.readme import readme

#: Sources that are the same for every model.
SOURCES = (
    *("ecgfed.h", "ecgfed.c", "ecgfed_qrs.h", "ecgfed_qrs.c", "ecgfed_qrs_net.h", "ecgfed_qrs_net.c"),
    *("ecgfed_qrs_parts.h", "ecgfed_early.h", "ecgfed_early.c"),
    *("ecgfed_net.h", "ecgfed_net.c", "ecgfed_rate.h", "ecgfed_rate.c", "ecgfed_golden.h", "ecgfed_golden.c"),
    *("ecgfed_signal.h", "ecgfed_signal.c", "ecgfed_counters.h", "ecgfed_counters.c", "ecgfed_build.h"),
    *("ecgfed_context.h", "ecgfed_context.c"),
    *("ecgfed_monitor.h", "ecgfed_monitor.c", "ecgfed_drift.h", "ecgfed_drift.c", "ecgfed_pacing.h", "ecgfed_pacing.c"),
    *("ecgfed_quality.h", "ecgfed_quality.c", "ecgfed_quality_blocks.h", "ecgfed_quality_blocks.c"),
    *("ecgfed_image.h", "ecgfed_image.c", "ecgfed_update.h", "ecgfed_update.c", "ecgfed_update_crypto.h"),
    *("golden_test.c", "example_main.c", "example_flash.c", "MISRA.md", "Makefile"),
)

#: Files generated for a model and a device's sampling rate.
_GENERATED: dict[str, Callable[[McuModel, Golden, int], str]] = {
    "ecgfed_qrs_weights.h": lambda model, golden, fs_hz: qrs_weights_header(),
    "ecgfed_early_marks.h": lambda model, golden, fs_hz: early_header(),
    "ecgfed_taps.h": lambda model, golden, fs_hz: taps_header(),
    "ecgfed_monitor_taps.h": lambda model, golden, fs_hz: monitor_header(),
    "ecgfed_rate_taps.h": lambda model, golden, fs_hz: rate_header(fs_hz),
    "model.h": lambda model, golden, fs_hz: model_header(model) + layout_define(model),
    "golden.h": lambda model, golden, fs_hz: golden_header(golden),
    "example.txt": lambda model, golden, fs_hz: example_lines(fs_hz),
    "README.md": lambda model, golden, fs_hz: readme(model, fs_hz),
}
#: The file that marks an exported folder, and everything a replaced folder may contain: an export and what ``make``
#: built there. Users may work in such folders.
_MARKERS = ("ecgfed.h",)
_CONTENTS = (*SOURCES, *_GENERATED, IMAGE, "example", "golden_test", "*.o")


def source(name: str) -> str:
    """Return the text of one of ``SOURCES``."""
    return files("ecgfed.exports.mcu").joinpath("c", name).read_text("utf-8")


def mcu_files(model: McuModel, golden: Golden, fs_hz: int) -> dict[str, str]:
    """Return the content of all files of an export, by name."""
    generated = {name: make(model, golden, fs_hz) for name, make in _GENERATED.items()}
    return {name: source(name) for name in SOURCES} | generated


def check_sources_folder(out: Path, *, overwrite: bool = False) -> None:
    """Refuse what exists, or with ``overwrite`` a folder with files other than an export and what ``make`` builds.

    Raises:
        OptionError: the folder or zip file cannot be used; nothing was removed.
    """
    if is_zip(out):
        check_new_bundle(out, overwrite=overwrite)
        return
    check_new_folder(out, overwrite=overwrite, markers=_MARKERS, contents=_CONTENTS)


def write_mcu(
    out: Path, model: McuModel, golden: Golden, image: bytes, *, fs_hz: int, overwrite: bool = False
) -> tuple[str, ...]:
    """Write the folder atomically; if ``out`` ends in ``.zip``, a library for Arduino, PlatformIO and Zephyr.

    Args:
        out: the folder or zip file to create.
        golden: the model's self-test.
        image: its numbers, from ``image_of``.
        fs_hz: the device's sampling rate, Hz.
        overwrite: replace ``out`` if it exists.

    Returns:
        The sorted names of the files, in a zip file their paths.

    Raises:
        OptionError: ``out`` exists.
        StorageError: it cannot be written; what exists is unchanged.
    """
    contents = mcu_files(model, golden, fs_hz)
    if is_zip(out):
        contents, place = library_files(contents), f"{FOLDER}/{IMAGE}"
        with replacing_bundle(out, overwrite=overwrite) as folder:
            for name, text in contents.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, "utf-8")
            (folder / place).write_bytes(image)
    else:
        place = IMAGE
        with replacing_folder(out, overwrite=overwrite, markers=_MARKERS, contents=_CONTENTS) as folder:
            for name, text in contents.items():
                write_text(folder / name, text)
            write_bytes(folder / place, image)
    return tuple(sorted([*contents, place]))
