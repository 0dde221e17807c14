"""Running a graph of our own for every value it names, not its answer alone: what int8 forms are calibrated on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def activations(data: bytes, names: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """Return some outputs of a graph for a batch, on one thread; for graphs that export has just made, not checked.

    Args:
        data: the bytes of an ONNX file.
        names: outputs of it.
        feeds: its inputs by name, each (beats, ...); others are left out.
    """
    if not names:  # onnxruntime takes an empty list for all of them
        return {}
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    given = {entry.name: feeds[entry.name] for entry in session.get_inputs()}
    return dict(zip(names, session.run(list(names), given), strict=True))
