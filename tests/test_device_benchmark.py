"""What the benchmarks of device and width count themselves: multiplications, sums over patients, ratios of turns."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from loaded_scripts import load_script
from sklearn.metrics import f1_score

from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d
from ecgfed.exports.bundles.graphs import GraphTemplate
from ecgfed.exports.device.graph_shapes import check_operations
from ecgfed.exports.device.onnx_file import read_model, read_parts

ROOT = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize("spec", [NetSpec(12, rr=True, rr_version=2), NetSpec(5, width=0.35)])
def test_multiplications_are_those_of_the_exported_graph(spec: NetSpec) -> None:
    net = ResNet1d(spec)
    params = net.initial(0)
    parts = read_parts(read_model(GraphTemplate(net, "model", params).fill(params).SerializeToString()).graph)
    known = check_operations(parts, 1)
    total = 0
    for node in parts.nodes:
        if node.op in ("Conv", "Gemm"):
            weight = known[node.inputs[1]].shape
            total += known[node.outputs[0]].size * int(np.prod(weight[1:]))
    assert load_script(ROOT / "width" / "run.py").multiplications(spec) == total


def test_forms_by_hand() -> None:
    forms = load_script(ROOT / "forms.py")
    random = np.random.default_rng(0)
    label, before = random.integers(0, 4, 60), random.normal(0, 1, (60, 4)).astype(np.float32)
    after = before.copy()
    after[:6] = -before[:6]
    row = forms.agreed(label, before, after)
    expected = f1_score(label, after.argmax(1), average="macro", zero_division=0)
    assert row["macro_f1"] == pytest.approx(expected)
    assert row["agreement"] == pytest.approx((before.argmax(1) == after.argmax(1)).mean())
    assert row["max_logit_difference"] == pytest.approx(2 * np.abs(before[:6]).max())
    one = {"client": "a", "accepted": True, **row}
    two = {"client": "b", "accepted": False, **forms.agreed(label, before, before)}
    everyone = {"client": None, "accepted": False, **forms.agreed(label, before, before)}
    found = forms.summary([one, two, everyone])
    assert (found["patients"], found["accepted"], found["T_g_int8"]) == (2, 1, None)
    assert found["T_p_int8"] == pytest.approx((row["macro_f1"] + two["macro_f1"]) / 2)
    assert found["agreement"] == pytest.approx(row["agreement"])  # of those alone that have a form


def test_turns_and_their_ratio() -> None:
    device = load_script(ROOT / "device" / "run.py")
    asked: list[str] = []

    def ask(worker: SimpleNamespace) -> list[float]:
        asked.append(worker.form)
        return [2.0, 2.0, 9.0] if worker.form == "slow" else [1.0, 1.0, 50.0]

    workers = [SimpleNamespace(form="slow"), SimpleNamespace(form="quick")]
    found = device.in_turns(workers, 5, ask, 0)
    assert {name: len(turns) for name, turns in found.items()} == {"slow": 5, "quick": 5}
    assert len(asked) == 12  # a turn to warm up
    assert {tuple(asked[i : i + 2]) for i in range(0, 12, 2)} == {("slow", "quick"), ("quick", "slow")}
    assert device.ratio(found["quick"], found["slow"]) == 2.0
    assert device.ratio(found["slow"], found["quick"]) == 0.5


def test_a_batch_is_whole_and_its_filling_is_cut_off() -> None:
    worker = load_script(ROOT / "device" / "worker.py")
    sizes: list[int] = []

    def logits(window: np.ndarray, rr: np.ndarray | None) -> np.ndarray:
        sizes.append(len(window))
        assert rr is None
        return window[:, 0, :2]

    window = np.arange(300 * 4, dtype=np.float32).reshape(300, 1, 4)
    found = worker.in_batches(logits, window, None)
    assert sizes == [256, 256]
    np.testing.assert_array_equal(found, window[:, 0, :2])


def test_parity_by_hand() -> None:
    parity = load_script(ROOT / "device" / "parity.py")
    python = np.array([[1, 0], [0, 1], [2, 3]], np.float32)
    other = np.array([[1, 0], [1, 0.5], [2, 3.25]], np.float32)
    found = parity.compared(python, other)
    assert found == {"max_logit_difference": 1.0, "same_labels": 2}
    near = {"max_logit_difference": 0.25, "same_labels": 5}
    rows = [
        {"client": "a", "form": "float", "beats": 3, "node": found, "chromium": near},
        {"client": "b", "form": "float", "beats": 6, "node": near, "chromium": near},
        {"client": None, "form": "float", "beats": 9, "node": near, "chromium": found},
        {"client": "a", "form": "int8", "beats": 3, "node": near, "chromium": near},
    ]
    own, int8, everyone = parity.summed(rows)
    assert (own["whose"], own["form"], own["models"], own["beats"]) == ("patients", "float", 2, 9)
    assert own["node"] == {"max_logit_difference": 1.0, "same_labels": 7}
    assert own["chromium"] == {"max_logit_difference": 0.25, "same_labels": 10}
    assert (int8["form"], int8["models"], everyone["whose"], everyone["beats"]) == ("int8", 1, "global", 9)
