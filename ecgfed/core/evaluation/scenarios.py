"""The GRP-FED paper's scenarios (section 4.1): global test, personalisation, generalisation, local test."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecgfed.base.errors import CohortError
from ecgfed.core.evaluation.accuracies import accuracy, even_accuracy, expected_accuracy, reweighted_accuracy, spread
from ecgfed.core.evaluation.local_models import local_models
from ecgfed.core.evaluation.metrics import Metric, MetricValue, measure
from ecgfed.core.evaluation.patient_scores import PatientScores
from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.score_draws import score_draws
from ecgfed.core.evaluation.scores import class_table, confusion, harmonic_mean, macro_f1
from ecgfed.core.evaluation.tables import PredictionCollector
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.state import State
from ecgfed.core.methods.models import Pipeline
from ecgfed.core.personal.apply import PersonalModels
from ecgfed.core.personal.base import Personal
from ecgfed.core.runs.intervals import Resampled, interval
from ecgfed.core.runs.run import Run
from ecgfed.domain.cohort.cohort import Client, Cohort
from ecgfed.domain.cohort.split import SPLIT_NAMES, TRAIN


@dataclass(frozen=True)
class _Pool:
    """The split's beats of all clients, with a predictor and the global model's probabilities (beats, classes)."""

    cohort: Cohort
    split: int
    leave_out: str
    data: TrainingData
    rows: NDArray[np.int64]
    truth: NDArray[np.int64]
    predictor: Predictor
    everyone: NDArray[np.float32]
    metrics: Mapping[str, Metric]
    resampled: Resampled
    owned: tuple[NDArray[np.int64], NDArray[np.int64]]  # (owned beats,) their indices and the numbers of their patients

    def on_drawn(self, labels: NDArray[np.int64]) -> Mapping[str, NDArray[np.float64]]:
        """Return scores on the beats of drawn patients of a model that gives these labels (beats,), each (draws,)."""
        rows, owner = self.owned
        truth, predicted, classes = self.truth[rows], labels[rows], len(self.cohort.classes)
        shape = (self.resampled.counts.shape[1], classes)
        parts = ((truth == predicted, truth), (None, truth), (None, predicted))
        counts = [
            np.bincount(owner * classes + of, weights=which, minlength=shape[0] * classes).reshape(shape)
            for which, of in parts
        ]
        scores = self.resampled.by_class_of(np.stack(counts))
        return {name: values for name, values in scores.items() if values.ndim == 1}  # each patient's are held

    @cached_property
    def everyone_on_drawn(self) -> Mapping[str, NDArray[np.float64]]:
        """``on_drawn`` of the global model, which with many methods is every patient's."""
        return self.on_drawn(self.everyone.argmax(1))

    def indices_of(self, client: Client) -> NDArray[np.int64]:
        """Return the indices of the client's beats in the pool; clients of an image cohort share test images."""
        mine = self.cohort.usable(self.cohort.rows(client, self.split), self.leave_out)
        return np.asarray(np.searchsorted(self.rows, mine), dtype=np.int64)

    def scores(self, client: Client, model: Pipeline, collector: PredictionCollector | None = None) -> PatientScores:
        """Score a client's personal model."""
        probabilities, indices = self.predictor.probabilities(model), self.indices_of(client)
        labels, truth, classes = probabilities.argmax(1), self.truth[indices], len(self.cohort.classes)
        counts = self.cohort.class_counts(client, TRAIN)
        drawn: Mapping[str, NDArray[np.float64]] = {}
        if len(indices):
            drawn = self.everyone_on_drawn if probabilities is self.everyone else self.on_drawn(labels)
        on_own = {"personal": probabilities[indices], "global": self.everyone[indices]}
        if collector is not None:
            rows = self.rows[indices]
            times, sample = self.data.times, np.asarray(self.cohort.sample[rows])
            collector.add(client.id, rows, truth, on_own["global"], on_own["personal"], times, sample)
        return PatientScores(
            client.id,
            confusion(truth, labels[indices], classes),
            confusion(self.truth, labels, classes),
            confusion(truth, on_own["global"].argmax(1), classes),
            counts / max(1, counts.sum()),
            drawn,
            {kind: measure(self.metrics, truth, of) for kind, of in on_own.items()},
        )


def evaluate(
    run: Run,
    cohort: Cohort,
    state: State,
    split: int,
    *,
    protocol: str = "ensemble",
    workers: int = 1,
    local: bool = True,
    leave_out: str = "nothing",
    personal: Personal | None = None,
    metrics: Mapping[str, Metric] | None = None,
    collector: PredictionCollector | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Score a run on one split of its cohort.

    T_g: macro-F1 of the global model on the pool of all patients' beats. T_p: mean over patients of the personal
    model's macro-F1 on that patient's beats. T_r: mean over patients of the personal model's macro-F1 on the pool.
    T_l: harmonic mean of T_p and T_r (eq. 6), and the mean of the patients' harmonic means.

    Args:
        run: the run.
        cohort: its cohort.
        state: its checkpoint.
        split: 1 valid, 2 test.
        protocol: global model of a method without one, ``ensemble`` or ``average``.
        workers: threads.
        local: also score each client's model after local training, for methods with a single global model; takes the
            time of one round.
        on_progress: called with the numbers of finished and all patients.
        leave_out: beats excluded from scoring, ``nothing`` or ``poor-quality``.
        personal: how personal models are derived from the global model; None: those of the method.
        metrics: computed besides, by name.
        collector: receives the predictions of the global and the personal models, and the scores of drawn patients.

    Returns:
        JSON-ready: ``scores`` and ``scores_truth`` (T_g, T_p, T_r, T_l, T_l_clients, and T_p_global: mean macro-F1 of
        the global model on each patient's beats), ``T_p_variants`` (alternative personal models), ``accuracies`` (of
        Fed-RoD and FedABC, see ``_accuracies``), ``fairness`` (distribution of macro-F1 and accuracy over patients),
        ``local_models`` (the same scores with local models as personal ones, or None), ``per_class``, ``per_patient``,
        ``confusion`` (the global model on the pool) and ``confusion_personal`` (personal models on each patient's
        beats), rows truth; ``beats``, ``left_out`` (beats), ``accuracy``; of a joined cohort ``per_site``; with
        metrics ``metrics`` (see ``metric_summary``); ``intervals``, 95% confidence intervals of scores over patients:
        ``score``, the keys that lead to it, or a table, its column and row, ``low`` and ``high``. Patients without
        beats are not counted.

    Raises:
        CohortError: the split has no beats.
        RunError: ``personal`` needs a global model and the method has none.
    """
    pool = _open_pool(run, cohort, state, split, protocol, workers, leave_out, metrics or {})
    patients: list[PatientScores] = []
    variants: dict[str, list[float]] = {}
    generic: list[Client] = []
    models = PersonalModels(run, state, personal, lambda: pool.data)
    for i, client in enumerate(cohort.federation):
        client_state = None if personal else run.client_state(state, client.index)
        model = models.of(client.index, client_state)
        scores = pool.scores(client, model, collector)
        if on_progress:
            on_progress(i + 1, len(cohort.federation))
        if not scores.personal.sum():
            continue
        patients.append(scores)
        if all(part.shared for part in model.stages):
            generic.append(client)
        variants_of = {} if client_state is None else run.method.alternative_models(state.server, client_state)
        for name, chain in variants_of.items():
            indices = pool.indices_of(client)
            labels = Predictor(run.net, pool.data, pool.rows[indices], 1).labels(chain)
            matrix = confusion(pool.truth[indices], labels, len(cohort.classes))
            variants.setdefault(name, []).append(macro_f1(matrix))
    matrix = confusion(pool.truth, pool.everyone.argmax(1), len(cohort.classes))
    locals_ = _local_scores(run, state, pool, generic, workers) if local and len(generic) == len(patients) else []
    on_pool = measure(pool.metrics, pool.truth, pool.everyone)
    draws = score_draws(patients, locals_, variants, cohort)
    if collector is not None:
        collector.draws |= draws
    found = {path: interval(values) for path, values in draws.items()}
    return {
        "scores": _scenario_means(macro_f1(matrix, "any"), patients, "any"),
        "scores_truth": _scenario_means(macro_f1(matrix, "truth"), patients, "truth"),
        "T_p_variants": {name: float(np.mean(f1)) for name, f1 in variants.items()},
        "accuracy": accuracy(matrix),
        "accuracies": {"G_FL": accuracy(matrix), **_accuracies(patients)},
        "fairness": _fairness(patients),
        "local_models": _local_summary(locals_) if locals_ else None,
        "beats": len(pool.rows),
        "patients": len(patients),
        "left_out": len(cohort.pool(split)) - len(pool.rows),
        "excluded": {"beats": cohort.exclusions(cohort.pool(split), leave_out, "beat").as_json()},
        "per_class": [
            {**row, **{name: by_class_of(value, i) for name, value in on_pool.items()}}
            for i, row in enumerate(class_table(matrix, cohort.classes))
        ],
        "per_patient": _patient_rows(
            patients, locals_, {c.id: c.site for c in cohort.clients if c.site}, cohort.classes
        ),
        **({"metrics": metric_summary(on_pool, patients, cohort.classes)} if on_pool else {}),
        **({"per_site": site_rows(patients, cohort)} if cohort.sites else {}),
        "intervals": [
            {"score": list(path), "low": ends[0], "high": ends[1]} for path, ends in found.items() if ends is not None
        ],
        "confusion": matrix.tolist(),
        "confusion_personal": np.sum([patient.personal for patient in patients], axis=0).tolist(),
    }


def _open_pool(
    run: Run,
    cohort: Cohort,
    state: State,
    split: int,
    protocol: str,
    workers: int,
    leave_out: str,
    metrics: Mapping[str, Metric],
) -> _Pool:
    """Collect the split's beats and predict them with the global model."""
    rows = cohort.usable(cohort.pool(split), leave_out)
    if not len(rows):
        actual = f"has no {cohort.example_word}s in the split {SPLIT_NAMES[split]}"
        source = "recordings" if cohort.modality == "ecg" else "examples"
        raise CohortError(cohort.path, actual, action=f"prepare it from more {source}", code="no-beats")
    data = training_data(cohort, rr=run.net.spec.rr, leave_out=run.plan.leave_out)
    predictor = Predictor(run.net, data, rows, workers)
    # a generator: states are read one by one, and not at all for methods with a global model
    client_states = (run.client_state(state, client.index) for client in cohort.federation)
    everyone = predictor.probabilities(run.method.global_model(state.server, client_states, protocol))
    truth = cohort.label[rows].astype(np.int64)
    mine = [cohort.usable(cohort.rows(client, split), leave_out) for client in cohort.federation]
    mine = [np.searchsorted(rows, of) for of in mine if len(of)]
    if not mine:
        problem = f"has no client with {cohort.example_word}s of its own classes in the split {SPLIT_NAMES[split]}"
        raise CohortError(cohort.path, problem, action="test examples of the classes that are trained on")
    owned = np.concatenate(mine), np.repeat(np.arange(len(mine)), [len(of) for of in mine])
    of_draws = Resampled(len(mine))
    return _Pool(cohort, split, leave_out, data, rows, truth, predictor, everyone, metrics, of_draws, owned)


def _local_scores(run: Run, state: State, pool: _Pool, clients: list[Client], workers: int) -> list[PatientScores]:
    by_number = {client.index: client for client in clients}
    models = local_models(run, pool.data, state, list(by_number), workers)
    return [pool.scores(by_number[number], chain) for number, chain in models]


def site_rows(patients: list[PatientScores], cohort: Cohort) -> list[dict[str, Any]]:
    """Return the scores at each site of a joined cohort.

    Returns:
        For each site, in order: ``site``, ``patients`` and ``beats`` scored; ``global_f1``, macro-F1 of the global
        model on the site's beats, pooled; ``personal_f1``, mean over its patients of their models' macro-F1 on their
        own beats; ``worst_patient`` and ``worst_f1``, the least of these; ``global_f1_S``, ``personal_f1_S``: F1 of
        each class on the site's beats. None where nothing was scored, or a class is neither there nor predicted.
    """
    rows = []
    for site, clients in cohort.sites.items():
        ids = {client.id for client in clients}
        mine = [patient for patient in patients if patient.client in ids]
        empty = np.zeros((len(cohort.classes),) * 2, np.int64)
        together = {
            "global": sum((patient.global_ for patient in mine), start=empty),
            "personal": sum((patient.personal for patient in mine), start=empty),
        }
        f1 = {patient.client: macro_f1(patient.personal) for patient in mine}
        worst = min(f1, key=lambda client: f1[client]) if f1 else None
        row: dict[str, Any] = {"site": site, "patients": len(mine), "beats": int(together["global"].sum())}
        row["global_f1"] = macro_f1(together["global"]) if mine else None
        row["personal_f1"] = float(np.mean(list(f1.values()))) if mine else None
        row["worst_patient"], row["worst_f1"] = worst, None if worst is None else f1[worst]
        for model, matrix in together.items():
            row |= {f"{model}_f1_{of['class']}": of["f1"] for of in class_table(matrix, cohort.classes)}
        rows.append(row)
    return rows


def _patient_rows(
    patients: list[PatientScores], locals_: list[PatientScores], site_of: Mapping[str, str], classes: tuple[str, ...]
) -> list[dict[str, Any]]:
    local = {patient.client: patient for patient in locals_}
    rows = []
    for patient in patients:
        row: dict[str, Any] = {
            "client": patient.client,
            **({"site": site_of[patient.client]} if site_of else {}),
            "beats": int(patient.personal.sum()),
            "classes": int((patient.personal.sum(1) > 0).sum()),
        }
        for suffix, convention in (("", "any"), ("_truth", "truth")):
            row[f"personal_f1{suffix}"] = macro_f1(patient.personal, convention)
            row[f"global_f1{suffix}"] = macro_f1(patient.global_, convention)
            row[f"generalisation_f1{suffix}"] = macro_f1(patient.pool, convention)
        row["personal_accuracy"], row["global_accuracy"] = accuracy(patient.personal), accuracy(patient.global_)
        if local:
            mine = local.get(patient.client)
            row["local_f1"] = None if mine is None else macro_f1(mine.personal)
            row["local_accuracy"] = None if mine is None else accuracy(mine.personal)
        for kind, measured in patient.metrics.items():
            row |= {f"{kind}_{name}": value.value for name, value in measured.items()}
        for name, value in patient.metrics.get("personal", {}).items():
            row[f"{name}_absent"] = " ".join(value.absent(classes))
        rows.append(row)
    return rows


def by_class_of(value: MetricValue, number: int) -> float | None:
    """Return the value of one class; None for a metric that is one number, or where it is not defined."""
    of_class = np.nan if value.by_class is None else float(value.by_class[number])
    return None if np.isnan(of_class) else of_class


def metric_summary(
    on_pool: Mapping[str, MetricValue], patients: list[PatientScores], classes: tuple[str, ...]
) -> dict[str, Any]:
    """Return each metric, JSON-ready.

    Returns:
        metric -> ``global``, the global model on the pool; ``absent``, the classes that this does not count;
        ``personal``, mean over patients of their models on their own beats; ``global_on_patients``, mean over patients
        of the global model on them; ``patients``, the number of patients in both means; ``undefined``, the patients in
        neither, since one of the two is not defined there. None for what is not defined.
    """
    summary = {}
    for name, value in on_pool.items():
        pairs = {p.client: (p.metrics["personal"][name].value, p.metrics["global"][name].value) for p in patients}
        defined = [(own, shared) for own, shared in pairs.values() if own is not None and shared is not None]
        means = np.mean(defined, axis=0).tolist() if defined else (None, None)
        summary[name] = {
            "global": value.value,
            "absent": value.absent(classes),
            "personal": means[0],
            "global_on_patients": means[1],
            "patients": len(defined),
            "undefined": [client for client, pair in pairs.items() if None in pair],
        }
    return summary


def _accuracies(patients: list[PatientScores]) -> dict[str, float | None]:
    """Return accuracies of the personal models, and of the global one in their place.

    Returns:
        ``P_FL_split``: accuracy over all beats, each by its patient's model (FedABC, equation 7);
        ``P_FL_split_global``: the same with the global model; ``P_FL_reweighted``: personal models on the pool weighted
        by class distribution, as in Fed-RoD, mean over patients; ``P_FL_expected``: the same on a class-balanced pool;
        ``drift``: personal models on a class-balanced pool (FedABC, equation 8), mean over patients; low means strong
        drift.
    """
    return {
        "P_FL_split": accuracy(np.sum([patient.personal for patient in patients], axis=0)),
        "P_FL_split_global": accuracy(np.sum([patient.global_ for patient in patients], axis=0)),
        "P_FL_reweighted": _defined_mean([reweighted_accuracy(p.pool, p.mix) for p in patients]),
        "P_FL_expected": _defined_mean([expected_accuracy(p.pool, p.mix) for p in patients]),
        "drift": float(np.mean([even_accuracy(patient.pool) for patient in patients])),
    }


def _defined_mean(values: list[float]) -> float | None:
    """Return the mean of the values that are not NaN; None without any."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else None


def _fairness(patients: list[PatientScores]) -> dict[str, Any]:
    """Return the distribution of scores over patients, for personal models and the global one."""
    names = [patient.client for patient in patients]
    return {
        "personal_f1": spread(names, [macro_f1(patient.personal) for patient in patients]),
        "global_f1": spread(names, [macro_f1(patient.global_) for patient in patients]),
        "personal_accuracy": spread(names, [accuracy(patient.personal) for patient in patients]),
        "global_accuracy": spread(names, [accuracy(patient.global_) for patient in patients]),
    }


def _local_summary(patients: list[PatientScores]) -> dict[str, Any]:
    """Return the scores with local models as personal ones."""
    means = _scenario_means(float("nan"), patients, "any")
    fairness = _fairness(patients)
    return {
        "patients": len(patients),
        **{name: means[name] for name in ("T_p", "T_r", "T_l", "T_l_clients")},
        **{name: value for name, value in _accuracies(patients).items() if not name.endswith("global")},
        "fairness": {name: fairness[name] for name in ("personal_f1", "personal_accuracy")},
    }


def _scenario_means(t_g: float, patients: list[PatientScores], convention: str) -> dict[str, float]:
    personal = [macro_f1(p.personal, convention) for p in patients]
    across = [macro_f1(p.pool, convention) for p in patients]
    of_global = [macro_f1(p.global_, convention) for p in patients]
    t_p, t_r = float(np.mean(personal)), float(np.mean(across))
    return {
        "T_g": t_g,
        "T_p": t_p,
        "T_r": t_r,
        "T_l": harmonic_mean(t_p, t_r),
        "T_p_global": float(np.mean(of_global)),
        "T_l_clients": float(np.mean([harmonic_mean(a, b) for a, b in zip(personal, across, strict=True)])),
    }
