"""A patient's net in int8 as C: which nets the C runtime can run, their layers, and ``model.h``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.beats.windows import WINDOW_SAMPLES
from ecgfed.bundles.quantise import Int8Layer
from ecgfed.device.calibration import Calibration
from ecgfed.errors import BundleError
from ecgfed.mcu.c_text import c_array, c_comment, c_float, c_string
from ecgfed.nets.layers import NORM_EPS
from ecgfed.nets.net import NetSpec
from ecgfed.nets.resnet1d import ARCHITECTURES

#: Layers of the extractor in the order in which they run; the blocks' follow the stem.
BLOCKS = 2
_CONVS = ("conv0", "conv1", "skip")
#: The runtime's own limit: indices in C are int32, and buffers have to fit a microcontroller.
MOST_CLASSES = 64

#: Numbers of a window's shape, and the largest whole number that one is rounded to.
SHAPE_STEPS, _MOST_STEP = 64, 32767

Params = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Typical:
    """Typical shapes of training beats, for C.

    Attributes:
        steps: (shapes, 64) int16.
        scale: (shapes,) float32, of each shape's steps.
        threshold: the mean square above which a beat is far.
    """

    steps: NDArray[np.int16]
    scale: NDArray[np.float32]
    threshold: float


def typical_of(found: tuple[NDArray[np.float32], float] | None) -> Typical | None:
    """Round shapes (shapes, 64) to steps of their own highest value over 32767; None for none.

    Args:
        found: shapes and threshold, from ``prototype_shapes``.

    Raises:
        BundleError: another form, or values that are not finite.
    """
    if found is None:
        return None
    shapes, threshold = found
    if shapes.ndim != 2 or shapes.shape[1] != SHAPE_STEPS or not np.isfinite(shapes).all():
        raise BundleError("typical shapes", f"of form {shapes.shape}", f"(shapes, {SHAPE_STEPS}), finite")
    if not len(shapes):
        return None
    largest = np.abs(shapes).max(axis=1)
    scale = np.where(largest > 0, largest / _MOST_STEP, 1.0).astype(np.float32)
    return Typical(np.rint(shapes / scale[:, None]).astype(np.int16), scale, threshold)


@dataclass(frozen=True, eq=False)
class McuModel:
    """All numbers of one model.

    Attributes:
        spec: of the net; an ECG net with GroupNorm, BatchNorm or none, without RR or with RR features of version 1.
        layers: int8 layers by the net's own names.
        norms: by name, weight and bias (channels,) float32, what BatchNorm does as a factor and a shift.
        classes: names in order.
        certainty: of this model in int8.
        typical: shapes that a beat is compared with, or None where nobody says which beats are far.
        about: what it is, by name, for whoever reads the header.
    """

    spec: NetSpec
    layers: Mapping[str, Int8Layer]
    norms: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
    classes: tuple[str, ...]
    certainty: Calibration
    typical: "Typical | None"
    about: Mapping[str, str]

    @property
    def multiplications(self) -> int:
        """Multiplications in the layers for one beat."""
        steps = _steps(self.spec)
        return sum(one.multiplications * steps.get(name, 1) for name, one in self.layers.items())


def check_spec(spec: NetSpec) -> None:
    """Raise BundleError for a net that the C runtime cannot run; the line says what to do."""
    if spec.modality != "ecg":
        raise BundleError("--target mcu", f"a net for images ({spec.architecture})", "a net for ECG")
    if spec.rr and spec.rr_version != 1:
        raise BundleError(
            "--target mcu",
            f"RR features of version {spec.rr_version}, which look 104 beats ahead and need about 115 kB of RAM",
            "RR features of version 1, or the window alone",
            "prepare the cohort with --rr-version 1, or train with --no-rr",
        )
    if spec.classes > MOST_CLASSES:
        raise BundleError("--target mcu", f"{spec.classes} classes", f"{MOST_CLASSES} at most")


def make_model(
    spec: NetSpec,
    params: Params,
    layers: Sequence[Int8Layer],
    classes: tuple[str, ...],
    certainty: Calibration,
    typical: Typical | None,
    about: Mapping[str, str],
) -> McuModel:
    """Put a model together from its int8 layers and the float parameters that they were made from.

    Args:
        spec: of the net.
        params: the model's float parameters by the net's own names.
        layers: from ``int8_layers`` of the graphs of its int8 form.
        classes: names in order.
        certainty: of the int8 form.
        typical: what says which beats are far, or None.
        about: what it is.

    Raises:
        BundleError: a net, or a model (ensemble, kernel machine, gate), that the C runtime cannot run.
    """
    check_spec(spec)
    by_name = {one.name: one for one in layers}
    wanted = layer_names(spec, params)
    if set(by_name) != set(wanted) or not all(np.isfinite(params[f"{name}.weight"]).all() for name in wanted):
        odd = ", ".join(sorted(set(by_name) ^ set(wanted))) or "weights that are not finite"
        raise BundleError(
            "--target mcu",
            f"a model of other layers than an extractor and a head ({odd:.200})",
            "one extractor and one head",
            "choose another --personal, or leave --patient out for the global model",
        )
    for name in wanted:
        _check_layer(by_name[name], params[f"{name}.weight"])
    norms = {name: found for name in norm_names() if (found := _norm(spec, params, name)) is not None}
    return McuModel(spec, {name: by_name[name] for name in wanted}, norms, classes, certainty, typical, about)


def layer_names(spec: NetSpec, params: Params) -> tuple[str, ...]:
    """Return the layers that a model with these parameters has, in the order in which they run."""
    names = ["extractor.stem", *(f"extractor.block{i}.{conv}" for i in range(BLOCKS) for conv in _CONVS)]
    names += ["extractor.rr"] if spec.rr else []
    heads = ("own",) if "own.weight" in params else ("head.hidden", "head.out", "personal")
    return (*names, *(name for name in heads if f"{name}.weight" in params))


def norm_names() -> tuple[str, ...]:
    """Return the names of the normalisations."""
    return ("extractor.stem_norm", *(f"extractor.block{i}.norm{j}" for i in range(BLOCKS) for j in range(2)))


def _check_layer(layer: Int8Layer, weight: NDArray[np.float32]) -> None:
    """See that a layer is the int8 form of these weights: no weight is further off than half a step."""
    if layer.weight.shape != weight.shape:
        raise BundleError(layer.name, f"int8 weights of shape {layer.weight.shape}", f"{weight.shape}")
    scale = layer.weight_scale.reshape(-1, *[1] * (weight.ndim - 1))
    if not (np.abs(layer.weight * scale - weight) <= 0.501 * scale).all():
        raise BundleError(layer.name, "int8 weights that are not the model's", "their nearest", "report this")


def _norm(spec: NetSpec, params: Params, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if spec.norm == "none":
        return None
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    if spec.norm == "group":
        return weight, bias
    factor = weight.astype(np.float64) / np.sqrt(params[f"{name}.running_var"].astype(np.float64) + NORM_EPS)
    shift = bias - params[f"{name}.running_mean"] * factor
    return factor.astype(np.float32), shift.astype(np.float32)


def _steps(spec: NetSpec) -> dict[str, int]:
    """Return how many steps of time each convolution makes."""
    architecture = ARCHITECTURES[spec.architecture]
    steps = -(-WINDOW_SAMPLES // architecture.stem[2])
    found = {"extractor.stem": steps}
    for i, (_, _, stride) in enumerate(architecture.blocks):
        steps = -(-steps // stride)
        found |= {f"extractor.block{i}.{conv}": steps for conv in _CONVS}
    return found


def buffers(model: McuModel) -> dict[str, int]:
    """Return the room that the net's values need: floats of the two buffers, and bytes of what a layer reads."""
    steps = _steps(model.spec)
    one, other, read = [0], [WINDOW_SAMPLES], [0]
    before = WINDOW_SAMPLES
    for name, layer in model.layers.items():
        out, size = steps.get(name, 1), layer.weight.shape
        if layer.kind == "conv":
            conv1 = name.endswith("conv1")
            reads = out if conv1 else before
            read.append((reads + 2 * (size[2] // 2)) * size[1])
            before = out if conv1 or name == "extractor.stem" else before
            (other if name.endswith("skip") else one).append(out * size[0])
        else:
            read.append(size[1])
            one.append(size[0])
            other.append(size[1])
    return {"ECGFED_FLOATS_ONE": max(one), "ECGFED_FLOATS_OTHER": max(other), "ECGFED_BYTES": max(read)}


def layer_arrays_bytes(model: McuModel) -> int:
    """Return the bytes of all numbers of the net: weights, scales, offsets, biases, normalisations."""
    layers = sum(
        one.weight.size + 8 * len(one.weight) + (0 if one.bias is None else 4 * len(one.bias))
        for one in model.layers.values()
    )
    typical = 0 if model.typical is None else model.typical.steps.nbytes + model.typical.scale.nbytes
    return layers + typical + sum(4 * len(values) for pair in model.norms.values() for values in pair)


def model_header(model: McuModel) -> str:
    """Return ``model.h``: sizes for every source, numbers for the one that defines ``ECGFED_MODEL_DATA``."""
    about = "".join(f" *   {c_comment(name)}: {c_comment(value)}\n" for name, value in model.about.items())
    sizes = {"ECGFED_MAX_CLASSES": len(model.classes), **buffers(model)}
    defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    return (
        "/* Written by ecgfed export --target mcu: the numbers of one model.\n"
        f"{about} */\n#ifndef ECGFED_MODEL_H\n#define ECGFED_MODEL_H\n\n#include <stdint.h>\n\n{defines}\n#endif\n\n"
        f"#ifdef ECGFED_MODEL_DATA\n\n{_data(model)}\n#endif\n"
    )


def _data(model: McuModel) -> str:
    parts = [_layer_arrays(layer) for layer in model.layers.values()]
    for name, values in model.norms.items():
        parts += [c_array(f"{_c_name(name)}_{what}", one) for what, one in zip(("weight", "bias"), values, strict=True)]
    if model.typical is not None:
        parts.append(c_array("ecgfed_typical", model.typical.steps))
        parts.append(c_array("ecgfed_typical_scale", model.typical.scale))
    names = ", ".join(c_string(name) for name in (*model.classes, "unclassified"))  # ECGFED_UNCLASSIFIED
    said = "; ".join(f"{name}: {value}" for name, value in model.about.items())
    parts += [
        f"const char *const ecgfed_class_names[] = {{{names}}};\n",
        f"const char ecgfed_model_about[] = {c_string(said)};\n",
        *(f"static const ecgfed_layer {name} = {_layer(model, key)};\n" for key, name in _separate(model).items()),
        _struct(model),
    ]
    return "\n".join(parts)


def _c_name(name: str) -> str:
    return "ecgfed_" + name.replace(".", "_")


def _layer_arrays(layer: Int8Layer) -> str:
    """Return a layer's numbers, the weights as [out][kernel][in]."""
    weight = layer.weight if layer.kind == "linear" else layer.weight.transpose(0, 2, 1)
    offset = -layer.input_zero_point * layer.weight.astype(np.int64).reshape(len(layer.weight), -1).sum(1)
    name = _c_name(layer.name)
    parts = [
        c_array(f"{name}_weight", np.ascontiguousarray(weight)),
        c_array(f"{name}_scale", layer.weight_scale * np.float32(layer.input_scale)),
        c_array(f"{name}_offset", offset.astype(np.int32)),
    ]
    if layer.bias is not None:
        parts.append(c_array(f"{name}_bias", layer.bias))
    return "\n".join(parts)


def _layer(model: McuModel, key: str) -> str:
    layer, name = model.layers[key], _c_name(key)
    out, into = layer.weight.shape[:2]
    kernel = layer.weight.shape[2] if layer.kind == "conv" else 1
    bias = "0" if layer.bias is None else f"{name}_bias"
    numbers = f"{layer.input_zero_point}, {into}, {out}, {kernel}, {layer.stride}"
    return f"{{{name}_weight, {name}_scale, {name}_offset, {bias}, {c_float(float(layer.input_scale))}, {numbers}}}"


def _norm_struct(model: McuModel, name: str) -> str:
    grouped = int(model.spec.norm == "group")
    return f"{{{_c_name(name)}_weight, {_c_name(name)}_bias, {grouped}}}" if name in model.norms else "{0, 0, 0}"


def _separate(model: McuModel) -> dict[str, str]:
    """Return the layers that a model may lack, which the struct points at, and what they are called."""
    return {key: f"{_c_name(key)}_layer" for key in ("extractor.rr", "head.hidden", "personal") if key in model.layers}


def _far(typical: Typical | None) -> str:
    if typical is None:
        return "0, 0, 0, 0.0f"
    return f"ecgfed_typical, ecgfed_typical_scale, {len(typical.steps)}, {c_float(typical.threshold)}"


def _struct(model: McuModel) -> str:
    optional = _separate(model)

    def pointer(key: str) -> str:
        return f"&{optional[key]}" if key in optional else "0"

    blocks = []
    for i in range(BLOCKS):
        name = f"extractor.block{i}"
        convs = ",\n      ".join(_layer(model, f"{name}.{conv}") for conv in _CONVS)
        norms = ", ".join(_norm_struct(model, f"{name}.norm{j}") for j in range(2))
        blocks.append(f"    {{{convs},\n      {norms}}}")
    out = "own" if "own" in model.layers else "head.out"
    numbers = (model.spec.window_share, len(model.classes), model.certainty.temperature, model.certainty.threshold)
    share, classes, temperature, threshold = numbers
    return (
        f"const ecgfed_model ecgfed_net = {{\n  {_layer(model, 'extractor.stem')},\n"
        f"  {_norm_struct(model, 'extractor.stem_norm')},\n  {{\n" + ",\n".join(blocks) + "\n  },\n"
        f"  {pointer('extractor.rr')}, {pointer('head.hidden')},\n  {_layer(model, out)},\n  {pointer('personal')},\n"
        f"  {c_float(share)}, {classes}, {c_float(temperature)}, {c_float(threshold)},\n  {_far(model.typical)}\n}};\n"
    )
