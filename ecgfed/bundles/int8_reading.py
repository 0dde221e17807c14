"""What an exported bundle's int8 form is made of: layers and typical shapes, for a runtime of another language."""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from ecgfed.bundles.quantise import Int8Layer, int8_layers
from ecgfed.bundles.typical import NOWHERE
from ecgfed.device.bundle import Bundle
from ecgfed.device.certainty import far_rule_in
from ecgfed.device.int8 import int8_form
from ecgfed.errors import BundleError


def layers_of(bundle: Bundle, patient: str | None) -> list[Int8Layer]:
    """Return the layers of a model's int8 form in the order in which they run.

    Args:
        bundle: one that ``export --int8`` wrote.
        patient: whose, or None for the global model.

    Raises:
        BundleError: it has no int8 form, or a file was changed.
    """
    chain = int8_form(bundle.path, bundle.manifest, patient)["chain"]
    return [layer for name in chain for layer in int8_layers(onnx.load_model_from_string(bundle.read(name)))]


def typical_shapes(bundle: Bundle) -> tuple[NDArray[np.float32], float] | None:
    """Return the shapes that beats are compared with (shapes, 64), and the mean square above which a beat is far.

    Rows that only fill the graph up are left out. None where the bundle does not say which beats are far.

    Raises:
        BundleError: the graph holds none, or was changed.
    """
    rule = far_rule_in(bundle.manifest)
    if rule is None:
        return None
    graph = onnx.load_model_from_string(bundle.read(rule.graph)).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    if not {"far.typical", "far.square"} <= set(stored):
        raise BundleError(rule.graph, "holds no typical shapes", "far.typical and far.square", "report this")
    return stored["far.typical"][stored["far.square"] < NOWHERE / 2], rule.threshold
