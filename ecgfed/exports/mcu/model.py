"""A model's int8 net as C: the nets that the C runtime supports, their layers, and ``model.h``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError, param
from ecgfed.core.nets.layers import NORM_EPS
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ARCHITECTURES
from ecgfed.domain.beats.context_stream import LOOK_AHEAD
from ecgfed.domain.beats.windows import WINDOW_SAMPLES
from ecgfed.exports.bundles.quantise import Int8Layer
from ecgfed.exports.device.calibration import Calibration
from ecgfed.exports.mcu.c_text import c_array, c_comment, c_float, c_string

#: Number of residual blocks, and the convolutions of each in execution order.
BLOCKS = 2
_CONVS = ("conv0", "conv1", "skip")
#: Versions of the RR features that the C runtime computes.
RR_VERSIONS = (1, 4)
#: Limit of the C runtime: indices are int32, and buffers must fit a microcontroller.
MAX_CLASSES = 64

#: Values per prototype, and the largest integer to which one is rounded.
SHAPE_STEPS, _MAX_STEP = 64, 32767

Params = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Prototypes of training beats for out-of-distribution detection, quantized for C.

    Attributes:
        steps: (prototypes, 64) int16.
        scale: (prototypes,) float32, the scale of each prototype.
        threshold: mean squared distance above which a beat is out of distribution.
    """

    steps: NDArray[np.int16]
    scale: NDArray[np.float32]
    threshold: float


def quantized_prototypes(prototypes: tuple[NDArray[np.float32], float] | None) -> Prototypes | None:
    """Quantize prototypes (prototypes, 64) to int16, each with its own scale; None if there are none.

    Args:
        prototypes: prototypes and threshold, from ``prototype_shapes``.

    Raises:
        BundleError: another shape, or values that are not finite.
    """
    if prototypes is None:
        return None
    shapes, threshold = prototypes
    if shapes.ndim != 2 or shapes.shape[1] != SHAPE_STEPS or not np.isfinite(shapes).all():
        raise BundleError("prototypes", f"of shape {shapes.shape}", f"(prototypes, {SHAPE_STEPS}), finite")
    if not len(shapes):
        return None
    largest = np.abs(shapes).max(axis=1)
    scale = np.where(largest > 0, largest / _MAX_STEP, 1.0).astype(np.float32)
    return Prototypes(np.rint(shapes / scale[:, None]).astype(np.int16), scale, threshold)


@dataclass(frozen=True, eq=False)
class McuModel:
    """All parameters of one model.

    Attributes:
        spec: the net's spec: an ECG net with GroupNorm, BatchNorm or none; without RR features, or of version 1 or 4.
        layers: int8 layers by the net's parameter names.
        norms: weight and bias (channels,) float32 by name; BatchNorm is folded into a factor and a shift.
        classes: class names in order.
        certainty: calibration of the int8 model.
        prototypes: prototypes for out-of-distribution detection, or None without it.
        metadata: descriptive entries for the header.
    """

    spec: NetSpec
    layers: Mapping[str, Int8Layer]
    norms: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
    classes: tuple[str, ...]
    certainty: Calibration
    prototypes: Prototypes | None
    metadata: Mapping[str, str]

    @property
    def multiplications(self) -> int:
        """Multiplications of all layers per beat."""
        steps = _steps(self.spec)
        return sum(layer.multiplications * steps.get(name, 1) for name, layer in self.layers.items())


def check_spec(spec: NetSpec) -> None:
    """Raise BundleError for a net that the C runtime does not support."""
    if spec.module is not None:
        problem = f"a net of your own ({spec.architecture.rpartition(':')[2]})"
        raise BundleError(f"{param('target')} mcu", problem, "a net of this package, whose layers C sources have")
    if spec.modality != "ecg":
        raise BundleError(f"{param('target')} mcu", f"a net for images ({spec.architecture})", "a net for ECG")
    if spec.rr and spec.rr_version not in RR_VERSIONS:
        actual = f"RR features of version {spec.rr_version}, which look {LOOK_AHEAD[spec.rr_version]} beats ahead"
        action = f"prepare the cohort with {param('rr_version')} 4 or 1, or train with {param('rr=False')}"
        raise BundleError(
            f"{param('target')} mcu", actual, "RR features of version 4 or 1, or the window alone", action
        )
    if spec.classes > MAX_CLASSES:
        raise BundleError(f"{param('target')} mcu", f"{spec.classes} classes", f"{MAX_CLASSES} at most")


def make_model(
    spec: NetSpec,
    params: Params,
    layers: Sequence[Int8Layer],
    classes: tuple[str, ...],
    certainty: Calibration,
    prototypes: Prototypes | None,
    metadata: Mapping[str, str],
) -> McuModel:
    """Build a model from its int8 layers and the float parameters they were quantized from.

    Args:
        params: the model's float parameters by the net's names.
        layers: from ``int8_layers`` of the int8 variant's graphs.
        classes: class names in order.
        certainty: calibration of the int8 variant.
        prototypes: prototypes for out-of-distribution detection, or None.
        metadata: descriptive entries for the header.

    Raises:
        BundleError: a net or a model (ensemble, kernel machine, gate) that the C runtime does not support.
    """
    check_spec(spec)
    by_name = {layer.name: layer for layer in layers}
    names = layer_names(spec, params)
    if set(by_name) != set(names) or not all(np.isfinite(params[f"{name}.weight"]).all() for name in names):
        differences = ", ".join(sorted(set(by_name) ^ set(names))) or "weights that are not finite"
        actual = f"a model of other layers than an extractor and a head ({differences:.200})"
        action = f"choose another {param('personal')}, or leave {param('patient')} out for the global model"
        raise BundleError(f"{param('target')} mcu", actual, "one extractor and one head", action)
    for name in names:
        _check_layer(by_name[name], params[f"{name}.weight"])
    norms = {name: values for name in norm_names() if (values := _norm(spec, params, name)) is not None}
    return McuModel(spec, {name: by_name[name] for name in names}, norms, classes, certainty, prototypes, metadata)


def layer_names(spec: NetSpec, params: Params) -> tuple[str, ...]:
    """Return the names of the layers of a model with these parameters, in execution order."""
    names = ["extractor.stem", *(f"extractor.block{i}.{conv}" for i in range(BLOCKS) for conv in _CONVS)]
    names += ["extractor.rr"] if spec.rr else []
    heads = ("own",) if "own.weight" in params else ("head.hidden", "head.out", "personal")
    return (*names, *(name for name in heads if f"{name}.weight" in params))


def norm_names() -> tuple[str, ...]:
    """Return the names of the normalisations."""
    return ("extractor.stem_norm", *(f"extractor.block{i}.norm{j}" for i in range(BLOCKS) for j in range(2)))


def _check_layer(layer: Int8Layer, weight: NDArray[np.float32]) -> None:
    """Check that a layer quantizes these weights: every error is at most half a quantization step."""
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
    """Return the number of output time steps of each convolution."""
    architecture = ARCHITECTURES[spec.architecture]
    steps = -(-WINDOW_SAMPLES // architecture.stem[2])
    steps_by_layer = {"extractor.stem": steps}
    for i, (_, _, stride) in enumerate(architecture.blocks):
        steps = -(-steps // stride)
        steps_by_layer |= {f"extractor.block{i}.{conv}": steps for conv in _CONVS}
    return steps_by_layer


def buffers(model: McuModel) -> dict[str, int]:
    """Return the sizes of the net's buffers: floats of the two activation buffers, and bytes of a layer's input."""
    steps = _steps(model.spec)
    first, second, input_bytes = [0], [WINDOW_SAMPLES], [0]
    before = WINDOW_SAMPLES
    for name, layer in model.layers.items():
        out, size = steps.get(name, 1), layer.weight.shape
        if layer.kind == "conv":
            conv1 = name.endswith("conv1")
            input_bytes.append(((out if conv1 else before) + 2 * (size[2] // 2)) * size[1])
            before = out if conv1 or name == "extractor.stem" else before
            (second if name.endswith("skip") else first).append(out * size[0])
        else:
            input_bytes.append(size[1])
            first.append(size[0])
            second.append(size[1])
    return {"ECGFED_FLOATS_FIRST": max(first), "ECGFED_FLOATS_SECOND": max(second), "ECGFED_BYTES": max(input_bytes)}


def layer_arrays_bytes(model: McuModel) -> int:
    """Return the size of the net's constants in bytes: weights, scales, offsets, biases, normalisations."""
    layers = sum(
        layer.weight.size + 8 * len(layer.weight) + (0 if layer.bias is None else 4 * len(layer.bias))
        for layer in model.layers.values()
    )
    prototypes_bytes = 0 if model.prototypes is None else model.prototypes.steps.nbytes + model.prototypes.scale.nbytes
    return layers + prototypes_bytes + sum(4 * len(values) for pair in model.norms.values() for values in pair)


def model_header(model: McuModel) -> str:
    """Return ``model.h``: sizes for every source, constants for the one that defines ``ECGFED_MODEL_DATA``."""
    metadata = "".join(f" *   {c_comment(name)}: {c_comment(value)}\n" for name, value in model.metadata.items())
    version = model.spec.rr_version if model.spec.rr else RR_VERSIONS[0]
    sizes = {"ECGFED_RR_VERSION": version, "ECGFED_MAX_CLASSES": len(model.classes), **buffers(model)}
    defines = "".join(f"#define {name} {value}\n" for name, value in sizes.items())
    return (
        "/* Written by ecgfed export --target mcu: the numbers of one model.\n"
        f"{metadata} */\n#ifndef ECGFED_MODEL_H\n#define ECGFED_MODEL_H\n\n#include <stdint.h>\n\n{defines}\n#endif\n\n"
        f"#ifdef ECGFED_MODEL_DATA\n\n{_data(model)}\n#endif\n"
    )


def _data(model: McuModel) -> str:
    parts = [_layer_text(layer) for layer in model.layers.values()]
    for name, values in model.norms.items():
        parts += [
            c_array(f"{_c_name(name)}_{what}", array) for what, array in zip(("weight", "bias"), values, strict=True)
        ]
    if model.prototypes is not None:
        parts.append(c_array("ecgfed_prototype", model.prototypes.steps))
        parts.append(c_array("ecgfed_prototype_scale", model.prototypes.scale))
    names = ", ".join(c_string(name) for name in (*model.classes, "unclassified"))  # ECGFED_UNCLASSIFIED
    metadata_text = "; ".join(f"{name}: {value}" for name, value in model.metadata.items())
    parts += [
        f"const char *const ecgfed_class_names[] = {{{names}}};\n",
        f"const char ecgfed_model_metadata[] = {c_string(metadata_text)};\n",
        *(f"static const ecgfed_layer {name} = {_layer(model, key)};\n" for key, name in _separate(model).items()),
        _struct(model),
    ]
    return "\n".join(parts)


def _c_name(name: str) -> str:
    return "ecgfed_" + name.replace(".", "_")


def layer_arrays(layer: Int8Layer) -> dict[str, NDArray[np.generic]]:
    """Return a layer's constants in the order of ``ecgfed_layer``, with weights as [out][kernel][in]."""
    weight = layer.weight if layer.kind == "linear" else layer.weight.transpose(0, 2, 1)
    offset = -layer.input_zero_point * layer.weight.astype(np.int64).reshape(len(layer.weight), -1).sum(1)
    scale = layer.weight_scale * np.float32(layer.input_scale)
    arrays = {"weight": np.ascontiguousarray(weight), "scale": scale, "offset": offset.astype(np.int32)}
    return arrays if layer.bias is None else {**arrays, "bias": layer.bias}


def _layer_text(layer: Int8Layer) -> str:
    name = _c_name(layer.name)
    return "\n".join(c_array(f"{name}_{what}", values) for what, values in layer_arrays(layer).items())


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
    """Return the optional layers, to which the struct holds pointers -> their C names."""
    return {key: f"{_c_name(key)}_layer" for key in ("extractor.rr", "head.hidden", "personal") if key in model.layers}


def _prototypes(prototypes: Prototypes | None) -> str:
    if prototypes is None:
        return "0, 0, 0, 0.0f"
    return f"ecgfed_prototype, ecgfed_prototype_scale, {len(prototypes.steps)}, {c_float(prototypes.threshold)}"


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
        f"const ecgfed_model ecgfed_net_built_in = {{\n  {_layer(model, 'extractor.stem')},\n"
        f"  {_norm_struct(model, 'extractor.stem_norm')},\n  {{\n" + ",\n".join(blocks) + "\n  },\n"
        f"  {pointer('extractor.rr')}, {pointer('head.hidden')},\n  {_layer(model, out)},\n  {pointer('personal')},\n"
        f"  {c_float(share)}, {classes}, {c_float(temperature)}, {c_float(threshold)},\n"
        f"  {_prototypes(model.prototypes)}\n}};\n"
        "const ecgfed_model *ecgfed_net_in_use = &ecgfed_net_built_in;\n"
    )
