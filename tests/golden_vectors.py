"""Golden vectors of a bundle: read, changed where a stage differs, spoiled, and put back."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import change_manifest, manifest_of

Golden = dict[str, Any]


def golden(bundle: Path) -> Golden:
    said: Golden = json.loads((bundle / "golden.json").read_text())
    return said


def put(bundle: Path, said: object) -> Path:
    """Put golden vectors into a bundle whose manifest is right about them."""
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    (bundle / "golden.json").write_bytes(data)
    files = manifest_of(bundle)["files"]
    files["golden.json"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    change_manifest(bundle, files=files)
    return bundle


#: Name -> the change, and the beginning of the stage that differs.
CHANGES: dict[str, tuple[Callable[[Golden], object], str]] = {
    "raw": (lambda g: g["recordings"][0]["adu"].__setitem__(100, 1500), "filtered signal of 360 Hz"),
    "filtered": (lambda g: g["recordings"][0]["filtered_nv"].__setitem__(7, 10), "filtered signal of 360 Hz"),
    "resampled": (lambda g: g["recordings"][1]["resampled_nv"].__setitem__(9, 0), "signal at 360 Hz of 250 Hz"),
    "lost": (lambda g: g["recordings"][1]["lost"][0].__setitem__(0, 1089), "lost stretches of 250 Hz"),
    "peak": (lambda g: g["recordings"][0]["r_samples"].__setitem__(2, 682), "R peaks of 360 Hz"),
    "window": (lambda g: g["recordings"][0]["window_nv"][3].__setitem__(100, 0), "windows of 360 Hz"),
    "padded": (lambda g: g["recordings"][0]["padded"].__setitem__(5, 1), "padded windows of 360 Hz"),
    "rr": (lambda g: g["recordings"][0]["rr"][4].__setitem__(0, 4.5), "RR features of 360 Hz"),
    "minutes": (lambda g: g["context"]["rr"][30].__setitem__(3, 0.0), "RR features over minutes"),
    "far": (lambda g: g["far"]["distance"].__setitem__(0, 1.0), "distance"),
    "logit": (lambda g: g["global"]["float"]["logits"][0].__setitem__(0, 9.0), "logits of the global model"),
    "label": (lambda g: g["patients"]["p2"]["float"]["label"].__setitem__(0, 11), "labels of p2"),
    "probability": (lambda g: g["patients"]["p3"]["float"]["probability"].__setitem__(1, 0.0), "probability of p3"),
}


SPOILT: dict[str, Callable[[Golden], object]] = {
    "no recordings": lambda g: g.pop("recordings"),
    "no frequency": lambda g: g["recordings"][0].update(fs_hz=0),
    "a word": lambda g: g["recordings"][0].update(fs_hz="fast"),
    "a frequency that takes all memory": lambda g: g["recordings"][0].update(fs_hz=1e15),
    "peaks that take all memory": lambda g: g["recordings"][0].update(r_samples=[5] * 100_001),
    "shapes that take all memory": lambda g: g["context"].update(
        shapes_nv=[[0] * 300_000], parts_per_mille=[[0]] * 100_000
    ),
    "minutes that take all memory": lambda g: g["context"].update(parts_per_mille=[[0, 0, 0]] * 100_001),
    "no gain": lambda g: g["recordings"][0].update(gain_adu_per_mv=0),
    "no samples": lambda g: g["recordings"][0].update(adu=[]),
    "text": lambda g: g["recordings"][0].update(adu="x"),
    "short windows": lambda g: g["recordings"][0].update(window_nv=[[1]]),
    "far peaks": lambda g: g["recordings"][0].update(r_samples=[10**12]),
    "no patient": lambda g: g["patients"].pop("p1"),
    "beats that are not there": lambda g: g["answered"].update({"global": [10**9]}),
    "a number": lambda g: g["global"].update({"float": 3}),
}
