"""What makes a bundle of version 2 of a folder of graphs: every word of its manifest, golden vectors, and its card.

Export, ``personalize`` and the making anew of an older bundle end here, so that they say the same.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecgfed.beats.labels import LabelMap
from ecgfed.bundles.card import card_of, markdown
from ecgfed.bundles.golden import golden_of
from ecgfed.device.bundle import GRAPH, Bundle
from ecgfed.device.canonical import digest_of
from ecgfed.device.container import Folder
from ecgfed.device.facts import class_table, graph_facts
from ecgfed.device.manifest import (
    CARD,
    CARD_FACTS,
    DIGEST,
    GOLDEN,
    MANIFEST,
    SCHEMA_VERSION,
    modality_of,
    rr_version_in,
)
from ecgfed.device.preprocessing import image_preprocessing, preprocessing_about
from ecgfed.device.rules import IMAGE_STANDARDISATION, STANDARDISATION
from ecgfed.device.signatures import Signer
from ecgfed.errors import BundleError
from ecgfed.files import sha256, write_bytes, write_json, write_text
from ecgfed.nets.images import PIXEL_MEAN, PIXEL_STD
from ecgfed.nets.layers import WINDOW_VARIANCE_FLOOR

#: field of the manifest that names it -> file
FILES = {GOLDEN: "golden.json", CARD: "CARD.md", CARD_FACTS: "card.json"}


def described(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a manifest with all that version 2 says of classes, preprocessing and graphs.

    Args:
        manifest: of version 1, or of version 2: it is said anew.
        folder: where the bundle's files lie.
    """
    of_beats, files = modality_of(manifest) == "ecg", dict(manifest["files"])
    for name, about in files.items():
        if name.endswith(GRAPH):
            files[name] = {**about, **graph_facts(folder / name, (folder / name).read_bytes())}
    return {
        **manifest,
        "schema_version": SCHEMA_VERSION,
        "class_table": class_table(LabelMap.from_json(manifest["label_map"]), of_beats=of_beats),
        "preprocessing": preprocessing_of(rr_version_in(manifest)) if of_beats else _image_preprocessing(),
        "files": files,
    }


def preprocessing_of(rr_version: int) -> dict[str, Any]:
    """Return ``preprocessing`` of a bundle of beats whose graphs take RR features of a version (0: none)."""
    layer = {"where": "in every graph", "variance_floor_mv2": WINDOW_VARIANCE_FLOOR, "rule": STANDARDISATION}
    return {**preprocessing_about(rr_version), "standardisation": layer}


def _image_preprocessing() -> dict[str, Any]:
    layer = {"where": "in every graph", "mean": list(PIXEL_MEAN), "deviation": list(PIXEL_STD)}
    return {**image_preprocessing(), "standardisation": {**layer, "rule": IMAGE_STANDARDISATION}}


def finish_bundle(
    folder: Path, manifest: Mapping[str, Any], signer: Signer | None = None, card: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Write what a folder of graphs lacks to be a bundle of version 2; return its manifest.

    Args:
        folder: where the graphs lie.
        manifest: what is known of them (version 1's fields), ``files`` among it.
        signer: signs the manifest, where there is one.
        card: the card and its facts as texts, by the manifest's fields; default what the manifest says.

    Raises:
        BundleError: a graph that is not the manifest's, fails, or a number that no JSON holds.
    """
    said = described(manifest, folder)
    unsealed = {**said, DIGEST: ""}  # graphs ask for one; what is said here is not done yet
    golden = golden_of(Bundle(folder, unsealed, None, Folder(folder)))
    texts = {GOLDEN: json.dumps(golden, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n"}
    if card is None:
        facts = card_of(said)
        card = {CARD: markdown(facts), CARD_FACTS: json.dumps(facts, indent=1, ensure_ascii=False) + "\n"}
    for field, text in {**texts, **card}.items():
        name = FILES[field]
        write_text(folder / name, text)
        said[field] = name
        said["files"][name] = {"role": field, "sha256": sha256(folder / name), "bytes": len(text.encode())}
    return seal(folder, said, signer)


def seal(folder: Path, manifest: Mapping[str, Any], signer: Signer | None) -> dict[str, Any]:
    """Give a manifest its digest, write it, and sign it; raises BundleError for a number that no JSON holds."""
    said = dict(manifest)
    try:
        said[DIGEST] = digest_of(said, DIGEST)
        write_json(folder / MANIFEST, said)
    except ValueError as problem:
        raise BundleError(MANIFEST, f"cannot be written ({problem})") from None
    if signer is not None:
        for name, data in signer.files((folder / MANIFEST).read_bytes()).items():
            write_bytes(folder / name, data)
    return said
