"""A run that ends before its patients have parts of their own: the ensemble and the server's model are two graphs."""

from pathlib import Path

import numpy as np
import onnxruntime

import ecgfed


def test_lg_fedavg_is_exported_in_its_warm_start(cohort_path: Path, tmp_path: Path) -> None:
    run = ecgfed.train(cohort_path, tmp_path / "run", method="lg-fedavg", rounds=1, local_steps=1, width=0.3)
    bundle = ecgfed.export(run, tmp_path / "bundle")
    ensemble, model = (onnxruntime.InferenceSession(str(bundle.path / name)) for name in ("global.onnx", "model.onnx"))
    inputs = {
        one.name: np.zeros([size if isinstance(size, int) else 1 for size in one.shape], np.float32)
        for one in model.get_inputs()
    }
    logits = [session.run(None, inputs)[0] for session in (ensemble, model)]
    # every member is the server's model: their mean probability is its own
    likely = [np.exp(one) / np.exp(one).sum(axis=-1, keepdims=True) for one in logits]
    np.testing.assert_allclose(likely[0], likely[1], atol=1e-5)
