"""One form of a model in a process of its own: it says how long it took to load, then times what it is told to.

    PYTHON worker.py FORM MODEL BEATS

FORM is ``onnx`` or ``int8`` (MODEL: a bundle, then the patient), ``eager`` or ``compile`` (MODEL: a run, then the
client) or ``tflite`` (MODEL: a file). BEATS is an ``.npz`` with ``window``, for a net with RR features ``rr``, and what
a TFLite file leaves to whoever runs it: ``variance_floor``, ``rr_centre``, ``rr_scale`` and ``rr_limit``. It reads a
JSON line from standard input and answers with one:

- ``{"calls": 50, "beats": 1}``: the seconds of each call;
- ``{"record": PATH, "leads": ["MLII"], "rr_version": 2}``: the seconds from a recording to labels;
- ``{"logits": true}``: what it says of all beats;
- ``{"peak": true}``: the process's peak memory in MB.

It imports ecgfed only where the form is ours, so that a TFLite interpreter needs no more than numpy beside it.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

#: Beats at once where all are asked.
BATCH = 256
Logits = Callable[[Any, Any], Any]


def onnx_form(bundle: str, patient: str, *, int8: bool) -> Logits:
    from ecgfed.device import open_bundle

    return open_bundle(Path(bundle)).classifier(patient, int8=int8).logits


class Never:
    """A mark that is never set."""

    def get(self) -> bool:
        return False


def torch_form(folder: str, client: str, *, compiled: bool) -> Logits:
    import torch

    import ecgfed
    from ecgfed.core.evaluation.predict import chain_logits
    from ecgfed.core.federation.data import training_data
    from ecgfed.core.nets import layers
    from ecgfed.core.nets.net import Inputs
    from ecgfed.core.personal.apply import PersonalModels, personal_of

    torch.set_num_threads(1)
    run = ecgfed.open_run(folder)
    cohort, (_, own) = run.cohort(), personal_of(run, None)
    answers = PersonalModels(run, run.state(), own, lambda: training_data(cohort, rr=run.net.spec.rr))
    chain = answers.of(cohort.client_by_id(client).index)

    def forward(window: torch.Tensor, rr: torch.Tensor | None) -> torch.Tensor:
        return chain_logits(run.net, chain, Inputs(window, rr))

    call = forward
    if compiled:  # in one graph: a mark of a thread that is asked for would break it into pieces
        layers._MAPPED = layers._EXPORTED = Never()
        call = torch.compile(forward, dynamic=False, fullgraph=True)

    def logits(window: Any, rr: Any) -> Any:
        with torch.inference_mode():
            return call(torch.from_numpy(window), None if rr is None else torch.from_numpy(rr)).numpy()

    return logits


def tflite_form(file: str, front: dict[str, Any]) -> Logits:
    """Return what runs a TFLite file of ``export --tflite``, the normalisation in front of it with it (numpy)."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=file, num_threads=1)
    interpreter.allocate_tensors()
    prepared = [int(interpreter.get_input_details()[0]["shape"][0])]
    is_fixed = all(entry["shape_signature"][0] != -1 for entry in interpreter.get_input_details())

    def prepare(beats: int) -> None:
        for entry in interpreter.get_input_details():
            interpreter.resize_tensor_input(entry["index"], [beats, *entry["shape"][1:]])
        interpreter.allocate_tensors()
        prepared[:] = [beats]

    def logits(window: Any, rr: Any) -> Any:
        if is_fixed and prepared != [len(window)]:  # a file for single beats
            each = [[None if one is None else one[i : i + 1] for one in (window, rr)] for i in range(len(window))]
            return np.concatenate([logits(*one) for one in each])
        if prepared != [len(window)]:
            prepare(len(window))
        centred = window - window.mean(2, keepdims=True)
        window = centred / np.sqrt((centred * centred).mean(2, keepdims=True) + front["variance_floor"])
        if rr is not None:
            rr = np.clip((rr - front["rr_centre"]) / front["rr_scale"], -front["rr_limit"], front["rr_limit"])
        for entry in interpreter.get_input_details():
            given = window if int(np.prod(entry["shape"][1:])) == window[0].size else rr
            given = given.reshape(entry["shape"])
            scale, zero = entry["quantization"]
            if entry["dtype"] == np.int8:
                given = np.clip(np.rint(given / scale) + zero, -128, 127)
            interpreter.set_tensor(entry["index"], given.astype(entry["dtype"]))
        interpreter.invoke()
        (entry,) = interpreter.get_output_details()
        found = interpreter.get_tensor(entry["index"])
        scale, zero = entry["quantization"]
        return (found.astype(np.float32) - zero) * scale if entry["dtype"] == np.int8 else found.copy()

    return logits


def in_batches(logits: Logits, window: Any, rr: Any) -> Any:
    """Return logits of many beats, every batch whole: a compiled net and an interpreter have one shape."""
    found = []
    for start in range(0, len(window), BATCH):
        some = [None if one is None else one[start : start + BATCH] for one in (window, rr)]
        count = len(some[0])
        whole = [None if one is None else np.concatenate([one, one[:1].repeat(BATCH - count, 0)]) for one in some]
        found.append(logits(*whole)[:count])
    return np.concatenate(found)


def of_record(logits: Logits, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds from a recording to labels by the one path from a recording to windows, and the beats."""
    from ecgfed.domain.beats.path import BeatOptions, read_beats

    started = time.perf_counter()
    beats = 0
    options = BeatOptions(tuple(asked["leads"]), rr_version=asked["rr_version"])
    for block in read_beats(Path(asked["record"]), options).blocks():
        in_batches(logits, block.window_mv, block.rr_s).argmax(1)
        beats += len(block.flags)
    return {"seconds": time.perf_counter() - started, "beats": beats}


def peak_mb() -> float:
    status = Path("/proc/self/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) / 1024


def answer(logits: Logits, asked: dict[str, Any], window: Any, rr: Any) -> dict[str, Any]:
    if "calls" in asked:
        count, seconds = int(asked["beats"]), []
        for call in range(int(asked["calls"])):
            which = (call * count + np.arange(count)) % len(window)
            some = [None if one is None else one[which] for one in (window, rr)]
            began = time.perf_counter()
            logits(*some)
            seconds.append(time.perf_counter() - began)
        return {"seconds": seconds}
    if "record" in asked:
        return of_record(logits, asked)
    if "logits" in asked:
        return {"logits": in_batches(logits, window, rr).tolist()}
    return {"peak_mb": peak_mb()}


def main() -> None:
    form, *model, beats = sys.argv[1:]
    with np.load(beats) as file:
        window, rr = file["window"], file.get("rr")
        front = {name: file[name] for name in file.files if name not in ("window", "rr")}
    makers: dict[str, Callable[[], Logits]] = {
        "onnx": lambda: onnx_form(*model, int8=False),
        "int8": lambda: onnx_form(*model, int8=True),
        "eager": lambda: torch_form(*model, compiled=False),
        "compile": lambda: torch_form(*model, compiled=True),
        "tflite": lambda: tflite_form(*model, front),
    }
    before, began = peak_mb(), time.perf_counter()
    logits = makers[form]()
    first = [None if one is None else one[:1] for one in (window, rr)]
    logits(*first)
    said: dict[str, Any] = {"ready_s": time.perf_counter() - began, "numpy_mb": before}
    print(json.dumps(said), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(logits, json.loads(line), window, rr)), flush=True)


if __name__ == "__main__":
    main()
