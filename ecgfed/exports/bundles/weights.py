"""Net and float weights of a bundle's global model, to start a new patient's model from.

They are read from ``weights/global.safetensors`` if the bundle has it, otherwise from the initializers of its graphs,
which have the net's names. A bundle may come from a stranger: its files are verified, weights are read with numpy, and
only the net of this version is run.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ecgfed.base.errors import BundleError, OptionError, param
from ecgfed.core.federation.single_thread import single_torch_thread
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Inputs, Net, NetSpec
from ecgfed.core.runs.tree_files import load_tree
from ecgfed.exports.bundles.parity import LOGIT_TOLERANCE, difference, model_logits
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.graph import outside_of
from ecgfed.exports.device.onnx_file import read_parts

#: Action for bundles without usable weights.
_OTHER = f"name another with {param('bundle')}, or leave it out for the model in the package"
#: Roles of the graphs of a single global model.
_ONE_MODEL = (["model"], ["extractor", "head"])


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """A bundle's global model in torch.

    Attributes:
        net: the functions of its net.
        params: float32 parameters, in the order of the net.
    """

    net: Net
    params: Params

    @property
    def chain(self) -> Pipeline:
        """The model as an answer."""
        return Pipeline((Stage("model", self.params, shared=False),))


def global_model(bundle: Bundle) -> GlobalModel:
    """Return the net and the weights of a bundle's global model.

    Raises:
        BundleError: the global model is an ensemble, the net is unknown or does not match the graphs, or a weight is
            missing, of unexpected shape or dtype, or not finite.
    """
    chain = bundle.manifest["global"]["chain"]
    roles = [bundle.manifest["files"][name].get("role") for name in chain]
    if roles not in _ONE_MODEL:
        problem = f"answers everybody by {' and '.join(map(str, roles))} ({bundle.manifest['method']!s:.60})"
        raise BundleError(bundle.path, problem, "one global model that a patient's own can begin from", _OTHER)
    net = _net_of(bundle)
    weights = bundle.manifest.get("weights")
    where = bundle.path / (chain[0] if weights is None else weights)
    arrays = _in_graphs(bundle, chain) if weights is None else _in_file(bundle, weights)
    return GlobalModel(net, _checked(where, arrays, net.initial(0), exactly=weights is not None))


def _net_of(bundle: Bundle) -> Net:
    """Return the net of a manifest; raises BundleError unless it matches the bundle's graphs."""
    try:
        spec = NetSpec.from_json(bundle.manifest["net"])
    except (KeyError, TypeError, AttributeError, OptionError) as problem:
        raise BundleError(bundle.path, f"says no net that this ecgfed knows ({problem})", action=_OTHER) from None
    stored = (spec.modality, spec.classes, spec.rr_version if spec.rr else 0)
    expected = (bundle.modality, len(bundle.classes), bundle.rr_version)
    if stored != expected:
        actual = f"says a net for {stored[0]} with {stored[1]} classes and RR features {stored[2]}"
        raise BundleError(
            bundle.path, actual, f"{expected[0]}, {expected[1]} and {expected[2]}, as its graphs have", _OTHER
        )
    return make_net(spec)


def _in_graphs(bundle: Bundle, chain: list[str]) -> dict[str, torch.Tensor]:
    """Return the float tensors of graphs, which are checked when the classifier is created."""
    bundle.classifier(None)
    tensors = {}
    for name in chain:
        for tensor in read_parts(outside_of(bundle.path / name, bundle.read(name)).graph).tensors:
            if tensor.values.dtype == np.float32:
                tensors[tensor.name] = torch.from_numpy(np.array(tensor.values, dtype=np.float32))
    return tensors


def _in_file(bundle: Bundle, name: str) -> dict[str, torch.Tensor]:
    path = bundle.path / name
    try:
        tree = load_tree(bundle.read(name), path, BundleError)
    except (TypeError, AttributeError):  # one name is a prefix of another
        raise BundleError(path, "holds a name twice", "the weights of one net", _OTHER) from None
    return {key: value for key, value in tree.items() if isinstance(value, torch.Tensor)}


def _checked(where: Path, tensors: dict[str, torch.Tensor], net: Params, *, exactly: bool) -> Params:
    """Return the net's parameters among tensors; with ``exactly``, there must be no others."""
    if exactly and (strange := sorted(set(tensors) - set(net))):
        problem = f"holds {strange[0]!r:.80}, which its net does not have"
        raise BundleError(where, problem, "its net's weights alone", _OTHER)
    params = {}
    for name, value in net.items():
        if name not in tensors:
            raise BundleError(where, f"lacks {name}", "every weight of its net", "export it again, or " + _OTHER)
        tensor = tensors[name] if exactly else _as_stored(tensors[name], value)
        if tensor.dtype != value.dtype or tensor.shape != value.shape:
            actual, expected = (
                f"{str(item.dtype).removeprefix('torch.')} {tuple(item.shape)}" for item in (tensor, value)
            )
            raise BundleError(where, f"holds {name} as {actual}", f"{expected}, as its net has it", _OTHER)
        if not torch.isfinite(tensor).all():
            raise BundleError(where, f"holds {name} with numbers that are not finite", "finite ones", _OTHER)
        params[name] = tensor
    return params


def _as_stored(tensor: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return a graph's tensor in the shape of a parameter, if they differ only in axes of length 1."""
    plain, target = ([dim for dim in item.shape if dim != 1] for item in (tensor, value))
    return tensor.reshape(value.shape) if plain == target else tensor


@single_torch_thread()
def check_weights(bundle: Bundle, model: GlobalModel, inputs: Inputs) -> float:
    """Compare the logits of weights and graphs; return the largest difference.

    Args:
        model: its weights, from ``global_model``.
        inputs: some beats.

    Raises:
        BundleError: they differ by more than the tolerance of export: the weights are of another model.
    """
    expected = model_logits(model.net, model.chain, inputs)
    rr = None if inputs.rr is None else inputs.rr.numpy()
    largest, agree = difference(expected, bundle.classifier(None).logits(inputs.examples.numpy(), rr))
    if not (largest <= LOGIT_TOLERANCE and agree):
        actual = f"its weights answer otherwise than its graphs (logits differ by {largest:.2g})"
        action = "ask for the bundle again"
        raise BundleError(bundle.path, actual, f"at most {LOGIT_TOLERANCE:g} and equal labels", action)
    return largest
