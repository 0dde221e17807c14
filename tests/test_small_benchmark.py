"""What ``benchmarks/small`` counts, by hand, and who is new in a fold."""

from types import SimpleNamespace

import numpy as np
from loaded_scripts import BENCHMARKS, load_script

run = load_script(BENCHMARKS / "small" / "run.py")
CLASSES = ("N", "S", "V", "F", "Q")


def test_scores_by_hand() -> None:
    """F and Q called V, and Q called S, count for nothing."""
    counts = np.array([[90, 6, 4, 0, 0], [3, 12, 5, 0, 0], [2, 1, 17, 0, 0], [5, 3, 9, 1, 0], [0, 7, 8, 0, 2]])
    found = run.scores(counts, CLASSES)
    # V: 17 right of 20, called 17 + 4 + 5; S: 12 right of 20, called 12 + 6 + 1 + 3
    assert found["VEB"] == {"f1": round(100 * 34 / 46, 1), "se": 85.0, "ppv": round(100 * 17 / 26, 1)}
    assert found["SVEB"] == {"f1": round(100 * 24 / 42, 1), "se": 60.0, "ppv": round(100 * 12 / 22, 1)}


def test_every_patient_is_new_in_one_fold() -> None:
    """Of every site each fold has as many patients, but for one."""
    clients = [SimpleNamespace(index=i, id=f"{i:02d}") for i in range(12)]
    label = np.repeat(np.tile([0, 1, 2], 12), 5)
    cohort = SimpleNamespace(
        label=label,
        classes=CLASSES,
        client=np.repeat(np.arange(12), 15),
        clients=clients,
        sites={"ds1": clients[:5], "svdb": clients[5:]},
    )
    fold = run.fold_of(cohort, 3)
    assert sorted(fold) == list(range(12))
    for part in (range(5), range(5, 12)):
        sizes = np.bincount([fold[i] for i in part], minlength=3)
        assert sizes.max() - sizes.min() <= 1
