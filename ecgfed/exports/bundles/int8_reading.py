"""Read the layers and prototypes of a bundle's int8 variant, for runtimes in other languages."""

import numpy as np
import onnx
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError
from ecgfed.exports.bundles.prototypes import NOWHERE, SQUARE, TYPICAL, stored_prototypes
from ecgfed.exports.bundles.quantise import Int8Layer, int8_layers
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.calibration import ood_rule_in
from ecgfed.exports.device.int8 import int8_variant


def layers_of(bundle: Bundle, patient: str | None) -> list[Int8Layer]:
    """Return the layers of a model's int8 variant in execution order.

    Args:
        bundle: written by ``export --int8``.
        patient: id, or None for the global model.

    Raises:
        BundleError: no int8 variant, or a changed file.
    """
    chain = int8_variant(bundle.path, bundle.manifest, patient)["chain"]
    return [layer for name in chain for layer in int8_layers(onnx.load_model_from_string(bundle.read(name)))]


def prototype_shapes(bundle: Bundle) -> tuple[NDArray[np.float32], float] | None:
    """Return the prototypes (prototypes, 64), and the mean squared distance above which a beat is out of distribution.

    Padding is removed. None if the bundle has no prototypes.

    Raises:
        BundleError: the graph has no prototypes, or was changed.
    """
    rule = ood_rule_in(bundle.manifest)
    if rule is None:
        return None
    graph = onnx.load_model_from_string(bundle.read(rule.graph)).graph
    stored = stored_prototypes(graph)
    if len(stored) < 2:
        raise BundleError(rule.graph, "holds no typical shapes", f"{TYPICAL} and {SQUARE}", "report this")
    return stored[TYPICAL][stored[SQUARE] < NOWHERE / 2], rule.threshold
