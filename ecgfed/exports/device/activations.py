"""Compute intermediate values of a graph, for the calibration of int8 variants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def activations(data: bytes, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return outputs of a graph for a batch, on one thread; only for trusted graphs from export, which are not checked.

    Args:
        data: the bytes of an ONNX file.
        names: outputs of it.
        feeds: its inputs by name, each (beats, ...); others are ignored.
    """
    if not names:  # for onnxruntime, an empty list means all outputs
        return {}
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    inputs = {entry.name: feeds[entry.name] for entry in session.get_inputs()}
    return dict(zip(names, session.run(list(names), inputs), strict=True))
