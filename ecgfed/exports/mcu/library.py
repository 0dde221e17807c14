"""The C sources as one archive that Arduino, PlatformIO and Zephyr install as a library."""

import json
from collections.abc import Mapping
from importlib.resources import files

from ecgfed import __version__

#: The archive's only folder, which the Arduino IDE takes for the library's name.
FOLDER = "ecgfed"
#: Programs with a ``main`` of their own, and what only they need.
_PROGRAMS = ("golden_test.c", "example_main.c", "example_flash.c", "example.txt", "Makefile")
#: Files at the places where Zephyr and Arduino look for them.
_PLACES = {
    "zephyr/module.yml": "module.yml",
    "zephyr/Kconfig": "Kconfig",
    "zephyr/CMakeLists.txt": "CMakeLists.txt",
    "examples/Recording/Recording.ino": "Recording.ino",
}
_SENTENCE = "Beats of one ECG lead with their class, by a neural network in int8."
_PARAGRAPH = "One struct of memory, no allocation, no operating system. Research use only, not for diagnosis."
_URL = "https://arxiv.org/abs/2108.13858"


def library_files(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of the archive by path, for the files of an export by name.

    Arduino (1.5 layout) and PlatformIO compile everything in ``src``; ``zephyr/module.yml`` makes the same folder a
    Zephyr module.
    """
    paths = {
        name: f"{FOLDER}/{name}" if name.endswith(".md") else f"{FOLDER}/src/{name}"
        for name in sources
        if name not in _PROGRAMS
    }
    library = files("ecgfed.exports.mcu").joinpath("library")
    return {
        **{path: sources[name] for name, path in paths.items()},
        **{f"{FOLDER}/{path}": library.joinpath(name).read_text("utf-8") for path, name in _PLACES.items()},
        f"{FOLDER}/library.properties": _properties(),
        f"{FOLDER}/library.json": _json(),
    }


def _properties() -> str:
    """Return the Arduino library specification 1.5's ``library.properties``."""
    entries = {
        "name": FOLDER,
        "version": __version__,
        "author": "ecgfed",
        "maintainer": "ecgfed",
        "sentence": _SENTENCE,
        "paragraph": _PARAGRAPH,
        "category": "Signal Input/Output",
        "url": _URL,
        "architectures": "*",
        "includes": "ecgfed.h",
    }
    return "".join(f"{name}={value}\n" for name, value in entries.items())


def _json() -> str:
    """Return PlatformIO's ``library.json``."""
    entries = {
        "name": FOLDER,
        "version": __version__,
        "description": f"{_SENTENCE} {_PARAGRAPH}",
        "keywords": ["ecg", "arrhythmia", "qrs"],
        "license": "MIT",
        "headers": "ecgfed.h",
        "frameworks": "*",
        "platforms": "*",
        "build": {"flags": ["-ffp-contract=off"]},
    }
    return json.dumps(entries, indent=2) + "\n"
