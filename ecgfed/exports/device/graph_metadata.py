"""Metadata in a manifest of version 2: the class table, and inputs, output and operations of each graph."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ecgfed.domain.beats.labels import BUILT_IN, LabelMap
from ecgfed.domain.events.kinds import meaning_of
from ecgfed.exports.device.graph import Graph, graph_fault, outside_of
from ecgfed.exports.device.onnx_file import ModelFile, ValueType, read_parts
from ecgfed.exports.device.protobuf import WireError

#: Escape beats are normal in one AAMI table and supraventricular in another: they follow the rest of their class.
_ESCAPES = frozenset("ejn")


def class_table(labels: LabelMap, *, of_beats: bool = True) -> list[dict[str, Any]]:
    """Return each class with its ``code`` (its index in the logits), name, words, AAMI group and WFDB symbols.

    Args:
        labels: the classes.
        of_beats: whether the classes are of beats; images have no symbols, words or group.
    """
    by_class: dict[str, list[str]] = {name: [] for name in labels.classes}
    for symbol, name in labels.symbols.items() if of_beats else ():
        by_class[name].append(symbol)
    return [
        {
            "code": code,
            "name": name,
            "words": words_of(by_class[name]) or name,
            "aami": aami_of(by_class[name]),
            "symbols": by_class[name],
        }
        for code, name in enumerate(labels.classes)
    ]


def words_of(symbols: list[str]) -> str:
    """Return the plain English names for WFDB symbols."""
    return "; ".join(dict.fromkeys(word for symbol in symbols if (word := meaning_of(symbol))))


def aami_of(symbols: list[str]) -> str | None:
    """Return the AAMI group (N, S, V, F, Q) of WFDB symbols, or None if they belong to several."""
    table = BUILT_IN["aami5"].symbols
    groups = {table.get(symbol) for symbol in set(symbols) - _ESCAPES or symbols}
    return groups.pop() if len(groups) == 1 else None


def read_graph_metadata(path: Path, data: bytes) -> dict[str, Any]:
    """Return a graph's metadata for a manifest: ``ops``, and under ``graph`` versions, inputs and output.

    An axis of variable length is None.

    Raises:
        BundleError: not a graph written by ecgfed.
    """
    model = outside_of(path, data)
    try:
        parts = read_parts(model.graph)
    except WireError as problem:
        raise graph_fault(path, problem) from None
    ops = dict(sorted(Counter(node.op for node in parts.nodes).items()))
    return {"ops": ops, "graph": _outside(model, parts.inputs, parts.outputs)}


def metadata_of(graph: Graph) -> dict[str, Any]:
    """Return versions, inputs and output of a checked graph, as ``read_graph_metadata`` does."""
    return _outside(outside_of(graph.path, graph.data), graph.inputs, (graph.output,))


def _outside(model: ModelFile, inputs: Sequence[ValueType], outputs: Sequence[ValueType]) -> dict[str, Any]:
    return {
        "ir_version": model.ir_version,
        "opset": model.opset,
        "inputs": [_value(entry) for entry in inputs],
        "outputs": [_value(entry) for entry in outputs],
    }


def _value(entry: ValueType) -> dict[str, Any]:
    return {"name": entry.name, "dtype": entry.dtype.name, "shape": list(entry.shape)}


def check_class_table(manifest: Mapping[str, Any], labels: LabelMap, *, of_beats: bool) -> None:
    """Compare a manifest's class table with its label map; raises KeyError, TypeError or ValueError."""
    fields = ("code", "name", "aami", "symbols")
    table = class_table(labels, of_beats=of_beats)
    stored = [{name: entry[name] for name in fields} for entry in manifest["class_table"]]
    if stored != [{name: entry[name] for name in fields} for entry in table]:
        raise ValueError("a class_table that says what label_map says")
