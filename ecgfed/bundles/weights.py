"""The net and the float weights of a bundle's global model, to begin a new patient's model from.

They are those of ``weights/global.safetensors`` where the bundle has it, else the numbers that its graphs hold: export
leaves the net's own names on them. A bundle may come from a stranger: its files are checked as whenever it is opened,
numbers are read with numpy, and nothing but the net of this ecgfed is run.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ecgfed.bundles.parity import LOGIT_TOLERANCE, answer_logits, difference
from ecgfed.device.bundle import Bundle
from ecgfed.device.graph import outside_of
from ecgfed.device.onnx_file import read_parts
from ecgfed.errors import BundleError, OptionError
from ecgfed.federation.single_thread import single_torch_thread
from ecgfed.methods.answers import Chain, Part
from ecgfed.nets.build import make_net
from ecgfed.nets.layers import Params
from ecgfed.nets.net import Inputs, Net, NetSpec
from ecgfed.runs.tree_files import load_tree

#: What a person can do about a bundle that a new patient cannot begin from.
_OTHER = "name another with --bundle, or leave it out for the model in the package"
#: Roles of the graphs of one global model.
_ONE_MODEL = (["model"], ["extractor", "head"])


@dataclass(frozen=True, eq=False)
class GlobalModel:
    """A bundle's global model as torch has it.

    Attributes:
        net: its net's functions.
        params: float32 parameters, in the order of the net's own.
    """

    net: Net
    params: Params

    @property
    def chain(self) -> Chain:
        """The model as an answer."""
        return Chain((Part("model", self.params, shared=False),))


def global_model(bundle: Bundle) -> GlobalModel:
    """Return the net and the weights of a bundle's global model.

    Raises:
        BundleError: it has no one global model (an ensemble), its net is none of ours or another than its graphs take,
            a weight is missing, of another shape or type, or not finite.
    """
    chain = bundle.manifest["global"]["chain"]
    roles = [bundle.manifest["files"][name].get("role") for name in chain]
    if roles not in _ONE_MODEL:
        found = f"answers everybody by {' and '.join(map(str, roles))} ({bundle.manifest['method']!s:.60})"
        raise BundleError(bundle.path, found, "one global model that a patient's own can begin from", _OTHER)
    net = _net_of(bundle)
    weights = bundle.manifest.get("weights")
    where = bundle.path / (chain[0] if weights is None else weights)
    held = _in_graphs(bundle, chain) if weights is None else _in_file(bundle, weights)
    return GlobalModel(net, _checked(where, held, net.initial(0), exactly=weights is not None))


def _net_of(bundle: Bundle) -> Net:
    """Return the net that a manifest describes, where it takes and gives what the bundle's graphs do."""
    try:
        spec = NetSpec.from_json(bundle.manifest["net"])
    except (KeyError, TypeError, AttributeError, OptionError) as problem:
        raise BundleError(bundle.path, f"says no net that this ecgfed knows ({problem})", action=_OTHER) from None
    is_said = (spec.modality, spec.classes, spec.rr_version if spec.rr else 0)
    expected = (bundle.modality, len(bundle.classes), bundle.rr_version)
    if is_said != expected:
        raise BundleError(
            bundle.path,
            f"says a net for {is_said[0]} with {is_said[1]} classes and RR features {is_said[2]}",
            f"{expected[0]}, {expected[1]} and {expected[2]}, as its graphs have",
            _OTHER,
        )
    return make_net(spec)


def _in_graphs(bundle: Bundle, chain: list[str]) -> dict[str, torch.Tensor]:
    """Return the float tensors of some graphs; they were checked when the classifier was made."""
    bundle.classifier(None)
    found = {}
    for name in chain:
        for tensor in read_parts(outside_of(bundle.path / name, bundle.read(name)).graph).tensors:
            if tensor.values.dtype == np.float32:
                found[tensor.name] = torch.from_numpy(np.array(tensor.values, dtype=np.float32))
    return found


def _in_file(bundle: Bundle, name: str) -> dict[str, torch.Tensor]:
    path = bundle.path / name
    try:
        tree = load_tree(bundle.read(name), path, BundleError)
    except (TypeError, AttributeError):  # one name is another's folder
        raise BundleError(path, "holds a name twice", "the weights of one net", _OTHER) from None
    return {key: value for key, value in tree.items() if isinstance(value, torch.Tensor)}


def _checked(where: Path, found: dict[str, torch.Tensor], net: Params, *, exactly: bool) -> Params:
    """Return the net's parameters among what was found; a file of weights holds them and nothing else."""
    if exactly and (strange := sorted(set(found) - set(net))):
        raise BundleError(
            where, f"holds {strange[0]!r:.80}, which its net does not have", "its net's weights alone", _OTHER
        )
    params = {}
    for name, value in net.items():
        if name not in found:
            raise BundleError(where, f"lacks {name}", "every weight of its net", "export it again, or " + _OTHER)
        here = found[name] if exactly else _as_stored(found[name], value)
        if here.dtype != value.dtype or here.shape != value.shape:
            said, wanted = (f"{str(one.dtype).removeprefix('torch.')} {tuple(one.shape)}" for one in (here, value))
            raise BundleError(where, f"holds {name} as {said}", f"{wanted}, as its net has it", _OTHER)
        if not torch.isfinite(here).all():
            raise BundleError(where, f"holds {name} with numbers that are not finite", "finite ones", _OTHER)
        params[name] = here
    return params


def _as_stored(found: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return a graph's tensor in a parameter's own shape, where axes of length 1 are all that tells them apart."""
    plain, wanted = ([dim for dim in one.shape if dim != 1] for one in (found, value))
    return found.reshape(value.shape) if plain == wanted else found


@single_torch_thread()
def check_answers(bundle: Bundle, model: GlobalModel, inputs: Inputs) -> float:
    """Compare what the weights answer with what the bundle's graphs do; return the largest difference of a logit.

    Args:
        bundle: the bundle.
        model: its weights, of ``global_model``.
        inputs: some beats.

    Raises:
        BundleError: they differ by more than export lets through: the weights are another model's.
    """
    expected = answer_logits(model.net, model.chain, inputs)
    rr = None if inputs.rr is None else inputs.rr.numpy()
    found = bundle.classifier(None).logits(inputs.examples.numpy(), rr)
    apart, agree = difference(expected, found)
    if not (apart <= LOGIT_TOLERANCE and agree):
        raise BundleError(
            bundle.path,
            f"its weights answer otherwise than its graphs (logits differ by {apart:.2g})",
            f"at most {LOGIT_TOLERANCE:g} and equal labels",
            "ask for the bundle again",
        )
    return apart
