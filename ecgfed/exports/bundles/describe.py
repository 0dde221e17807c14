"""Complete a folder of graphs to a bundle of version 2: manifest, golden vectors, and card.

Shared by export, ``personalize`` and the conversion of older bundles.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecgfed.base.errors import BundleError
from ecgfed.base.files import sha256, write_bytes, write_json, write_text
from ecgfed.core.nets.images import PIXEL_MEAN, PIXEL_STD
from ecgfed.core.nets.layers import WINDOW_VARIANCE_FLOOR
from ecgfed.domain.beats.labels import LabelMap
from ecgfed.exports.bundles.card import card_of, markdown
from ecgfed.exports.bundles.golden import golden_of
from ecgfed.exports.device.bundle import GRAPH, Bundle
from ecgfed.exports.device.canonical import digest_of
from ecgfed.exports.device.container import Folder
from ecgfed.exports.device.graph_metadata import class_table, read_graph_metadata
from ecgfed.exports.device.manifest import (
    CARD,
    CARD_FACTS,
    DIGEST,
    GOLDEN,
    MANIFEST,
    SCHEMA_VERSION,
    modality_of,
    rr_version_in,
)
from ecgfed.exports.device.preprocessing import image_preprocessing, preprocessing_metadata
from ecgfed.exports.device.rules import IMAGE_STANDARDISATION, STANDARDISATION
from ecgfed.exports.device.signatures import Signer

#: field of the manifest -> file name
FILES = {GOLDEN: "golden.json", CARD: "CARD.md", CARD_FACTS: "card.json"}


def described(manifest: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a manifest with the metadata of version 2 about classes, preprocessing and graphs.

    Args:
        manifest: of version 1, or of version 2, whose metadata is regenerated.
        folder: folder of the bundle's files.
    """
    of_beats, files = modality_of(manifest) == "ecg", dict(manifest["files"])
    for name, entry in files.items():
        if name.endswith(GRAPH):
            files[name] = {**entry, **read_graph_metadata(folder / name, (folder / name).read_bytes())}
    layer = {"where": "in every graph", "mean": list(PIXEL_MEAN), "deviation": list(PIXEL_STD)}
    image = {**image_preprocessing(), "standardisation": {**layer, "rule": IMAGE_STANDARDISATION}}
    return {
        **manifest,
        "schema_version": SCHEMA_VERSION,
        "class_table": class_table(LabelMap.from_json(manifest["label_map"]), of_beats=of_beats),
        "preprocessing": preprocessing_of(rr_version_in(manifest)) if of_beats else image,
        "files": files,
    }


def preprocessing_of(rr_version: int) -> dict[str, Any]:
    """Return ``preprocessing`` for a bundle of beats with RR features of a version (0: none)."""
    layer = {"where": "in every graph", "variance_floor_mv2": WINDOW_VARIANCE_FLOOR, "rule": STANDARDISATION}
    return {**preprocessing_metadata(rr_version), "standardisation": layer}


def finish_bundle(
    folder: Path, manifest: Mapping[str, Any], signer: Signer | None = None, card: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Write the missing files of a bundle of version 2; return its manifest.

    Args:
        folder: folder of the graphs.
        manifest: fields of version 1, including ``files``.
        signer: signs the manifest.
        card: card and card data as texts, by manifest field; default generated from the manifest.

    Raises:
        BundleError: a graph does not match the manifest or fails, or a number cannot be represented in JSON.
    """
    described_manifest = described(manifest, folder)
    unsealed = {**described_manifest, DIGEST: ""}  # graphs require a digest; the manifest is not complete yet
    golden = golden_of(Bundle(folder, unsealed, None, Folder(folder)))
    texts = {GOLDEN: json.dumps(golden, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n"}
    if card is None:
        card_data = card_of(described_manifest)
        card = {CARD: markdown(card_data), CARD_FACTS: json.dumps(card_data, indent=1, ensure_ascii=False) + "\n"}
    for field, text in {**texts, **card}.items():
        name = FILES[field]
        write_text(folder / name, text)
        described_manifest[field] = name
        described_manifest["files"][name] = {
            "role": field,
            "sha256": sha256(folder / name),
            "bytes": len(text.encode()),
        }
    return seal(folder, described_manifest, signer)


def seal(folder: Path, manifest: Mapping[str, Any], signer: Signer | None) -> dict[str, Any]:
    """Add the digest to a manifest, write it, and sign it; raises BundleError for non-finite numbers."""
    sealed = dict(manifest)
    try:
        sealed[DIGEST] = digest_of(sealed, DIGEST)
        if sealed.get("rr_features", {}).get("version") == 3:  # as small as it gets: a package holds one
            text = json.dumps(sealed, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
            write_text(folder / MANIFEST, text + "\n")
        else:
            write_json(folder / MANIFEST, sealed)
    except ValueError as problem:
        raise BundleError(MANIFEST, f"cannot be written ({problem})") from None
    if signer is not None:
        for name, data in signer.files((folder / MANIFEST).read_bytes()).items():
            write_bytes(folder / name, data)
    return sealed
