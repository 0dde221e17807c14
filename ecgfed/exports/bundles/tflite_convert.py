"""Stand-alone program: convert a net's steps to a TensorFlow Lite int8 file, and run its interpreters.

It runs in an environment with TensorFlow (``make tflite``) without the rest of ecgfed: ``python -I tflite_convert.py
FOLDER``. The folder contains ``job.json`` (``inputs`` and ``steps``, see ``ecgfed.exports.bundles.tflite``) and
``job.npz`` (weights by name, ``calibrate/INPUT`` and ``check/INPUT``); the program writes ``model.tflite``,
``answers.npz`` (``float``, ``int8``, ``micro``) and ``said.json``.

The net is built channels-last, so that no operation transposes.
"""

import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

#: Initial and maximum arena of a TensorFlow Lite for Microcontrollers interpreter.
ARENA_BYTES, MAX_ARENA_BYTES = 32 << 10, 8 << 20


def _conv(values: list[Any], step: dict[str, Any], weight: np.ndarray) -> Any:
    """A convolution over time; values (1, 1, T, Cin), weight (Cout, Cin, 1, kernel) as ONNX has it."""
    import tensorflow as tf

    before, after, stride = step["pads"][1], step["pads"][3], step["strides"][1]
    kernel = np.ascontiguousarray(weight.transpose(2, 3, 1, 0))
    length, size = values[0].shape[2], kernel.shape[1]
    same = max((-(-length // stride) - 1) * stride + size - length, 0)
    if (before, after) == (same // 2, same - same // 2):
        return tf.nn.conv2d(values[0], kernel, strides=[1, 1, stride, 1], padding="SAME")
    padded = tf.pad(values[0], [[0, 0], [0, 0], [before, after], [0, 0]]) if before or after else values[0]
    return tf.nn.conv2d(padded, kernel, strides=[1, 1, stride, 1], padding="VALID")


def _group(values: list[Any], step: dict[str, Any]) -> Any:
    """Zero mean and unit deviation of each group of channels; values (1, 1, T, C), channels of a group side by side."""
    import tensorflow as tf

    (value,) = values
    _, _, length, channels = value.shape
    grouped = tf.reshape(value, [1, length, step["groups"], channels // step["groups"]])
    mean = tf.reduce_mean(grouped, [1, 3], keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(grouped, mean), [1, 3], keepdims=True)
    return tf.reshape((grouped - mean) * tf.math.rsqrt(variance + step["epsilon"]), [1, 1, length, channels])


def _run_steps(steps: list[dict[str, Any]], weights: dict[str, np.ndarray], values: dict[str, Any]) -> Any:
    """Run the steps on the inputs; return the last value."""
    import tensorflow as tf

    result = None
    for step in steps:
        inputs = [values[name] for name in step["inputs"]]
        if step["op"] == "conv":
            result = _conv(inputs, step, weights[step["weight"]])
        elif step["op"] == "group":
            result = _group(inputs, step)
        elif step["op"] == "dense":
            result = tf.matmul(inputs[0], np.ascontiguousarray(weights[step["weight"]].T)) + weights[step["bias"]]
        elif step["op"] in ("scale", "shift"):
            number = weights[step["weight"]].reshape(-1)
            result = inputs[0] * number if step["op"] == "scale" else inputs[0] + number
        elif step["op"] == "mean":
            result = tf.reduce_mean(inputs[0], [1, 2])
        elif step["op"] == "add":
            result = inputs[0] + inputs[1]
        elif step["op"] == "relu":
            result = tf.nn.relu(inputs[0])
        else:
            raise ValueError(f"no step {step['op']!r}")
        values[step["output"]] = result
    return result


def _converted(job: dict[str, Any], arrays: dict[str, np.ndarray], *, int8: bool) -> bytes:
    """Return the net as a TensorFlow Lite file; in int8, inputs and output are int8 too."""
    import tensorflow as tf

    names = list(job["inputs"])
    shapes = [tf.TensorSpec(job["inputs"][name], tf.float32, name=name) for name in names]
    net = tf.function(
        lambda *tensors: {"logits": _run_steps(job["steps"], arrays, dict(zip(names, tensors, strict=True)))},
        input_signature=shapes,
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([net.get_concrete_function()])
    if int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: _beats(job, arrays, "calibrate")
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def _beats(job: dict[str, Any], arrays: dict[str, np.ndarray], what: str) -> Iterator[list[np.ndarray]]:
    """Yield one beat after the other, as inputs of the net."""
    columns = [arrays[f"{what}/{name}"].reshape(-1, *shape) for name, shape in job["inputs"].items()]
    for row in range(len(columns[0])):
        yield [array[row].astype(np.float32) for array in columns]


def _quantisation(entry: dict[str, Any]) -> tuple[float, int]:
    """Return scale and zero point of an input or output; 0 if it is float."""
    scale, zero = entry.get("quantization", (0.0, 0))
    return float(scale), int(zero)


def _quantised(value: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return np.clip(np.rint(value / scale) + zero, -128, 127).astype(np.int8) if scale else value


def _interpreter_logits(
    data: bytes, job: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return logits of the reference kernels, which TFLM uses too, and the quantisation of inputs and output."""
    import tensorflow as tf

    kind = tf.lite.experimental.OpResolverType.BUILTIN_REF
    interpreter = tf.lite.Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    entries = {name: _entry(interpreter.get_input_details(), name) for name in job["inputs"]}
    (output,) = interpreter.get_output_details()
    scale, zero = _quantisation(output)
    all_logits = []
    for beat in _beats(job, arrays, "check"):
        for (_, entry), value in zip(entries.items(), beat, strict=True):
            interpreter.set_tensor(entry["index"], _quantised(value, *_quantisation(entry)))
        interpreter.invoke()
        logits = interpreter.get_tensor(output["index"])[0].astype(np.float32)
        all_logits.append((logits - zero) * np.float32(scale) if scale else logits)
    described = {name: _quantisation(entry) for name, entry in entries.items()} | {"logits": (scale, zero)}
    order = [str(entry["name"]) for entry in interpreter.get_input_details()]
    input_order = [next(n for n in job["inputs"] if f"_{n}:" in name or name == n) for name in order]
    ops = sorted({str(op["op_name"]) for op in interpreter._get_ops_details()})
    return np.array(all_logits, np.float32), {"quantised": described, "order": input_order, "ops": ops}


def _entry(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if f"_{name}:" in entry["name"] or entry["name"] == name)


def _micro(data: bytes, job: dict[str, Any], arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> np.ndarray:
    """Return the logits of TensorFlow Lite for Microcontrollers, and store the minimum arena in ``metadata``."""
    from tflite_micro.python.tflite_micro import runtime

    def interpreter(size: int) -> Any:
        return runtime.Interpreter.from_bytes(data, arena_size=size)

    high = ARENA_BYTES
    while not _fits(interpreter, high):
        high *= 2
        if high > MAX_ARENA_BYTES:
            raise ValueError(f"the net asks for an arena of more than {MAX_ARENA_BYTES} bytes")
    low = 0
    while high - low > 64:
        middle = (low + high) // 128 * 64
        low, high = (low, middle) if _fits(interpreter, middle) else (middle, high)
    metadata["arena_bytes"] = high
    micro_interpreter = interpreter(metadata["arena_bytes"])
    scale, zero = metadata["quantised"]["logits"]
    names = list(job["inputs"])
    all_logits = []
    for beat in _beats(job, arrays, "check"):
        for index, name in enumerate(metadata["order"]):
            micro_interpreter.set_input(_quantised(beat[names.index(name)], *metadata["quantised"][name]), index)
        micro_interpreter.invoke()
        all_logits.append((micro_interpreter.get_output(0)[0].astype(np.float32) - zero) * np.float32(scale))
    return np.array(all_logits, np.float32)


def _fits(interpreter: Callable[[int], Any], size: int) -> bool:
    try:
        interpreter(size)
    except Exception:  # tflite_micro raises RuntimeError or SystemError, by version
        return False
    return True


def main(folder: Path) -> None:
    """Run the job in a folder."""
    import tensorflow as tf

    job = json.loads((folder / "job.json").read_text())
    with np.load(folder / "job.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    logits = {"float": _interpreter_logits(_converted(job, arrays, int8=False), job, arrays)[0]}
    data = _converted(job, arrays, int8=True)
    logits["int8"], metadata = _interpreter_logits(data, job, arrays)
    metadata["tensorflow"] = str(tf.__version__)
    try:
        logits["micro"] = _micro(data, job, arrays, metadata)
        metadata["tflite_micro"] = version("tflite-micro")
    except ImportError:
        metadata["tflite_micro"] = None
    (folder / "model.tflite").write_bytes(data)
    np.savez(folder / "answers.npz", **logits)  # type: ignore[arg-type]  # numpy's stub: allow_pickle
    (folder / "said.json").write_text(json.dumps(metadata))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(Path(name))
