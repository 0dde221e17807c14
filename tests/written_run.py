"""A run folder written by hand: JSON as the formats say, without the code that writes runs."""

import json
from pathlib import Path
from typing import Any

SETTINGS = {"lr": 0.005, "momentum": 0.9}
PLAN = {"rounds": 4, "local_epochs": None, "local_steps": 2, "clients_per_round": None, "batch_size": 64, "seed": 0}
NET = {"classes": 3, "architecture": "default", "norm": "group", "rr": True, "width": 1.0}


def write_run(
    path: Path,
    *,
    method: str = "fedavg",
    settings: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    fingerprint: str = "f" * 64,
    done: int = 4,
) -> Path:
    """A run of four rounds, ``done`` of them finished, a quarter of a pass each."""
    (path / "checkpoint").mkdir(parents=True)
    meta = {
        "schema_version": 1,
        "tool_version": "0.1.0",
        "versions": {"python": "3.11"},
        "cohort": {"path": "/nowhere", "fingerprint": fingerprint},
        "classes": ["N", "V", "A"],
        "clients": ["p1", "p2"],
        "net": NET,
        "method": method,
        "settings": {**SETTINGS, **(settings or {})},
        "plan": {**PLAN, **(plan or {})},
    }
    (path / "run.json").write_text(json.dumps(meta))
    (path / "checkpoint" / "progress.json").write_text(json.dumps({"round": done, "seen": {}, "files": {}}))
    history = [
        {"round": n, "passes": n / 4, "loss_mean": 1 / n, "loss_max": 2 / n, "valid_T_g": n / 10}
        for n in range(1, done + 1)
    ]
    timing = [{"round": n, "seconds": 0.5, "examples": 100} for n in range(1, done + 1)]
    for name, lines in (("history", history), ("timing", timing)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_scores(
    run: Path,
    scores: dict[str, float],
    patients: dict[str, tuple[float, float]],
    *,
    classes: dict[str, tuple[int, int, float | None]] | None = None,
    split: str = "test",
    at_round: int = 4,
    protocol: str = "ensemble",
) -> Path:
    """Scores of a run: patients as (own model, everybody's), classes as (beats, predicted, F1)."""
    folder = run / f"evaluation-{split}"
    folder.mkdir()
    result = {
        "round": at_round,
        "protocol": protocol,
        "scores": scores,
        "per_class": [
            {"class": name, "beats": beats, "predicted": predicted, "f1": f1}
            for name, (beats, predicted, f1) in (classes or {}).items()
        ],
        "per_patient": [
            {"client": name, "personal_f1": own, "global_f1": everybody} for name, (own, everybody) in patients.items()
        ],
    }
    (folder / "scores.json").write_text(json.dumps(result))
    return folder / "scores.json"
