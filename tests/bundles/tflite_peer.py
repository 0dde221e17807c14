"""What runs in the environment of ``make tflite``: onnx2tf on a graph, and a look into a TensorFlow Lite file.

``tflite_peer.py onnx2tf FOLDER...``: converts FOLDER/graph.onnx as it is, its inputs' sizes said, runs FOLDER/feeds.npz
beat after beat and writes FOLDER/found.npy. ``tflite_peer.py look FILE`` prints what the file's tensors are.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf


def converted(folder: Path) -> None:
    import onnx2tf

    with np.load(folder / "feeds.npz", allow_pickle=False) as file:
        feeds = {name: file[name] for name in file.files}
    sizes = [f"{name}:1,{','.join(map(str, value.shape[1:]))}" for name, value in feeds.items()]
    os.chdir(folder)
    if any(value.ndim == 4 for value in feeds.values()):  # without this file onnx2tf fetches it from the network
        pictures = np.random.default_rng(0).random((20, 128, 128, 3), np.float32)
        np.save(folder / "calibration_image_sample_data_20x128x128x3_float32.npy", pictures)
    onnx2tf.convert(
        input_onnx_file_path=str(folder / "graph.onnx"),
        output_folder_path=str(folder / "made"),
        overwrite_input_shape=sizes,
        non_verbose=True,
    )
    interpreter = tf.lite.Interpreter(str(folder / "made" / "graph_float32.tflite"))
    interpreter.allocate_tensors()
    found = []
    for row in range(len(next(iter(feeds.values())))):
        for entry in interpreter.get_input_details():
            name = next(one for one in feeds if entry["name"] == one or f"_{one}:" in entry["name"])
            value = feeds[name][row : row + 1]
            channels_last = np.moveaxis(value, 1, -1) if value.ndim > 2 else value
            interpreter.set_tensor(entry["index"], channels_last.reshape(entry["shape"]).astype(entry["dtype"]))
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0])
    np.save(folder / "found.npy", np.array(found, np.float32))


def look(path: str) -> None:
    interpreter = tf.lite.Interpreter(path)
    kinds = [
        str(np.dtype(one["dtype"])) for one in (*interpreter.get_input_details(), *interpreter.get_output_details())
    ]
    details = {one["index"]: one for one in interpreter.get_tensor_details()}
    ops = [one for one in interpreter._get_ops_details() if one["op_name"] == "CONV_2D"]
    kernels = [details[one["inputs"][1]] for one in ops]
    print(
        json.dumps(
            {
                "ends": kinds,
                "kernels": [str(np.dtype(one["dtype"])) for one in kernels],
                "channels": [int(one["shape"][0]) for one in kernels],
                "scales": [len(one["quantization_parameters"]["scales"]) for one in kernels],
                "ops": sorted({one["op_name"] for one in interpreter._get_ops_details()}),
            }
        )
    )


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    for one in rest:
        look(one) if what == "look" else converted(Path(one))
