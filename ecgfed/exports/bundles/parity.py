"""Parity check: graphs must reproduce the trained model's logits, on real beats and edge cases."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ecgfed.base.errors import BundleError, param
from ecgfed.core.evaluation.predict import chain_logits
from ecgfed.core.methods.models import Model, Pipeline
from ecgfed.core.nets.net import Inputs, Net
from ecgfed.domain.beats.context import LIMIT
from ecgfed.domain.beats.windows import R_INDEX, WINDOW_SAMPLES
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import TRAIN, VALID
from ecgfed.exports.bundles.graphs import TINY_PROBABILITY, not_exported
from ecgfed.exports.device.classifier import Classifier

#: Largest accepted difference between logits of torch and ONNX Runtime.
LOGIT_TOLERANCE = 1e-4
#: Above this logit, float32 is less precise and the difference is scaled down (docs/decisions/0010).
LARGE_LOGIT = 100.0
PARITY_BEATS = 64


def model_logits(net: Net, model: Model, inputs: Inputs) -> NDArray[np.float32]:
    """Return logits (beats, classes) of a chain; for an ensemble, the logarithm of the members' mean probability."""
    with torch.inference_mode():
        if isinstance(model, Pipeline):
            return np.asarray(chain_logits(net, model, inputs).numpy())
        mean = torch.stack([chain_logits(net, chain, inputs).softmax(1) for chain in model.members]).mean(0)
        return np.asarray(mean.clamp_min(TINY_PROBABILITY).log().numpy())


def some_rows(cohort: Cohort, client: Client) -> NDArray[np.int64]:
    """Return a patient's validation beats, or its training beats if there are none."""
    rows = cohort.rows(client, VALID)
    return rows if len(rows) else cohort.rows(client, TRAIN)


def some_inputs(cohort: Cohort, rows: NDArray[np.int64], net: Net) -> Inputs:
    """Return up to 64 beats or images of a cohort, evenly spaced."""
    rows = rows[np.linspace(0, len(rows) - 1, min(PARITY_BEATS, len(rows))).astype(np.int64)] if len(rows) else rows
    rr = torch.from_numpy(cohort.rr[rows]) if net.spec.rr else None
    return Inputs(torch.from_numpy(np.take(cohort.examples, rows, axis=0)), rr)


def parity_inputs(real: Inputs, net: Net) -> Inputs:
    """Return real beats or images, followed by edge cases."""
    if net.spec.modality == "image":
        flat = np.zeros((2, *net.input_shape), np.uint8)
        flat[1] = 255
        noise = np.random.default_rng(0).integers(0, 256, (2, *net.input_shape), dtype=np.uint8)
        return Inputs(torch.cat([real.examples, torch.from_numpy(flat), torch.from_numpy(noise)]))
    edge = np.zeros((4, 1, WINDOW_SAMPLES), np.float32)
    edge[1, 0, R_INDEX] = 10.0
    edge[2] = np.linspace(-5, 5, WINDOW_SAMPLES)
    edge[3] = np.random.default_rng(0).normal(0, 0.003, edge[3].shape)
    features = None if real.rr is None else torch.cat([real.rr, torch.from_numpy(_rr_edge(net.spec.rr_count))])
    return Inputs(torch.cat([real.examples, torch.from_numpy(edge)]), features)


def _rr_edge(count: int) -> NDArray[np.float32]:
    """Return RR features for edge cases, (4, count)."""
    if count == 4:
        return np.array([[0, 0, 0, 1], [5, 5, 5, 3], [0.3, 1.2, 0.8, 0.4], [0.8, 0.8, 0.8, 1]], np.float32)
    edge = np.repeat(np.array([[0], [LIMIT], [-LIMIT], [1]], np.float32), count, axis=1)
    edge[3, ::2] = -1
    return edge


def difference(expected: NDArray[np.float32], actual: NDArray[np.float32]) -> tuple[float, bool]:
    """Compare logits (beats, classes) with expected ones.

    Returns:
        The largest difference, relative for logits above ``LARGE_LOGIT`` (NaN if any is not finite); and whether labels
        agree wherever the two best classes differ by more than the tolerance.
    """
    scale = np.maximum(1.0, np.abs(expected).max(axis=1) / LARGE_LOGIT)
    largest = float((np.abs(actual - expected).max(axis=1) / scale).max())
    top = np.sort(expected, axis=1)
    clear = (top[:, -1] - top[:, -2]) / scale > LOGIT_TOLERANCE
    return largest, bool((actual.argmax(1) == expected.argmax(1))[clear].all())


class Parity:
    """Compares the graphs of a device with the trained model."""

    def __init__(self, net: Net, folder: Path, classes: tuple[str, ...]) -> None:
        self.net, self.folder, self.classes = net, folder, classes
        self.worst, self.beats, self.chains = 0.0, 0, 0

    def check(self, name: str, chain: list[str], model: Model, inputs: Inputs) -> None:
        """Compare one chain on some beats; raises BundleError above the tolerance."""
        expected = model_logits(self.net, model, inputs)
        if not np.isfinite(expected).all():
            action = f"train again with a lower learning rate, {param('settings')} lr=..."
            raise BundleError(
                f"model of {name}", "gives logits that are not finite", "a training that converged", action
            )
        rr_version = 0 if inputs.rr is None else self.net.spec.rr_version
        try:
            device = Classifier([self.folder / file for file in chain], self.classes, rr_version)
        except BundleError as problem:
            if self.net.spec.module is None:
                raise
            raise not_exported(self.net, problem.reason) from problem
        if self.net.spec.modality == "image":
            actual = device.image_logits(inputs.examples.numpy())
        else:
            actual = device.logits(inputs.examples.numpy(), None if inputs.rr is None else inputs.rr.numpy())
        largest, agree = difference(expected, actual)
        if not (largest <= LOGIT_TOLERANCE and agree):
            raise BundleError(
                f"graph of {name}",
                f"logits differ by {largest:.2g} from the trained model",
                f"at most {LOGIT_TOLERANCE:g} and equal labels",
                "nothing was exported; report this",
            )
        self.worst, self.beats, self.chains = max(self.worst, largest), self.beats + len(actual), self.chains + 1

    def report(self) -> dict[str, Any]:
        """Return the figures for the manifest."""
        return {
            "max_logit_difference": self.worst,
            "allowed": LOGIT_TOLERANCE,
            "beats": self.beats,
            "chains": self.chains,
        }
