"""The tables that the JavaScript runtime shares with Python, written as modules: ``python tests/web/tables.py``.

Weights of the QRS detector, names of leads and what manifests say of preprocessing stand in Python once; what the
runtime has of them is made here and nowhere else, and ``test_package_js.py`` holds both together.
"""

import base64
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.device import graph_metadata, preprocessing
from ecgfed.domain.beats.labels import BUILT_IN
from ecgfed.domain.record import lead_names

RUNTIME = Path(__file__).resolve().parents[2] / "ecgfed" / "exports" / "js"
_HEAD = "/** {0} Made by tests/web/tables.py: do not edit. */\n\n"


def _module(about: str, name: str, value: Any) -> str:
    return f"{_HEAD.format(about)}export const {name} = {json.dumps(value, indent=2, sort_keys=True)};\n"


def qrs_weights() -> str:
    """Return the module of the detector's weights: little-endian whole numbers in base64, with their shape."""
    with files("ecgfed.domain.signal").joinpath("qrs_weights.npz").open("rb") as file, np.load(file) as stored:
        layers = {
            name: {
                "shape": list(stored[name].shape),
                "bits": stored[name].dtype.itemsize * 8,
                "base64": base64.b64encode(
                    stored[name].astype(stored[name].dtype.newbyteorder("<")).tobytes()
                ).decode(),
            }
            for name in stored.files
        }
    return _module(
        "Weights of the QRS detector, in whole 1/256 (ecgfed/domain/signal/qrs_weights.npz).", "LAYERS", layers
    )


def lead_table() -> str:
    """Return the module of the names of leads and the patterns of other signals' names."""
    value = {
        "leads": {name: [known.lead, known.electrodes] for name, known in lead_names._LEADS.items()},
        "kind": lead_names._KIND.pattern,
        "modified": lead_names._MODIFIED.pattern,
        "other": lead_names._OTHER.pattern,
        "ecgWord": lead_names._SAYS_ECG.pattern,
        "notEcgWords": lead_names._ABOUT_ECG.pattern,
        "eeg": lead_names._EEG.pattern,
    }
    return _module(
        "Names of leads, and patterns of other signals' names (ecgfed/domain/record/lead_names.py).", "NAMES", value
    )


def manifest_table() -> str:
    """Return the module of what manifests say of preprocessing and classes, but for the taps, which it computes."""
    about = {
        name: part
        for name, part in preprocessing.preprocessing_metadata(0).items()
        if name not in preprocessing.INFORMATIVE
    }
    taps = {name: part for name, part in about["filter"]["taps"].items() if name != "first_half_and_middle"}
    value = {
        "preprocessing": {**about, "filter": {**about["filter"], "taps": taps}},
        "rr": {version: preprocessing.preprocessing_metadata(version)["rr"] for version in (1, 2)},
        "aami": BUILT_IN["aami5"].symbols,
        "escapes": sorted(graph_metadata._ESCAPES),
    }
    return _module(
        "What a manifest says of preprocessing and classes (ecgfed/exports/device/preprocessing.py, "
        "graph_metadata.py).",
        "EXPECTED",
        value,
    )


#: File of the runtime -> its text.
TABLES = {"qrs-weights.js": qrs_weights, "lead-table.js": lead_table, "manifest-table.js": manifest_table}

if __name__ == "__main__":
    for name, made in TABLES.items():
        (RUNTIME / name).write_text(made(), encoding="utf-8")
