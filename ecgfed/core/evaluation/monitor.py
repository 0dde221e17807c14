"""Validation scores during training; the test split is not used."""

import numpy as np

from ecgfed.core.evaluation.predict import Predictor
from ecgfed.core.evaluation.scores import confusion, macro_f1
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.train import Callback, RoundOutcome
from ecgfed.core.methods.base import Method
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import VALID

#: Key of a round's record: classes of validation beats that the global model never predicts.
NEVER_PREDICTED = "never_predicted"


class ValidationScores(Callback):
    """Adds ``valid_T_p`` to every n-th round's record, and with a global model ``valid_T_g`` and ``never_predicted``.

    The ensemble of all personal models is scored by ``ecgfed evaluate`` only, because it costs clients times pool.

    Args:
        method: the method.
        cohort: the cohort.
        data: its windows and RR features.
        every: score every n-th round, and the last; 0: never.
        workers: threads.
    """

    def __init__(self, method: Method, cohort: Cohort, data: TrainingData, every: int, workers: int) -> None:
        self.method, self.cohort, self.data, self.every, self.workers = method, cohort, data, every, workers
        self.pool = cohort.pool(VALID)

    def on_round(self, outcome: RoundOutcome) -> None:
        """Score the state after this round, if due."""
        if not (self.every and (outcome.state.round % self.every == 0 or outcome.last)) or not len(self.pool):
            return
        state, method, classes = outcome.state, self.method, len(self.cohort.classes)
        truth, owner = self.cohort.label[self.pool].astype(np.int64), self.cohort.client[self.pool]
        pooled = Predictor(method.net, self.data, self.pool, self.workers)
        if method.has_global_model:
            labels = pooled.labels(method.global_model(state.server, (), "ensemble"))
            matrix = confusion(truth, labels, classes)
            outcome.record["valid_T_g"] = macro_f1(matrix)
            never = (matrix.sum(1) > 0) & (matrix.sum(0) == 0)
            outcome.record[NEVER_PREDICTED] = [self.cohort.classes[i] for i in np.flatnonzero(never)]
        scores = []
        for client in self.cohort.federation:
            mine = owner == client.index
            if not mine.any() or client.index not in state.client_states:
                continue
            personal = method.personal_model(state.server, state.client_states[client.index])
            if all(part.shared for part in personal.stages):
                labels = pooled.labels(personal)[mine]
            else:
                labels = Predictor(method.net, self.data, self.pool[mine], 1).labels(personal)
            scores.append(macro_f1(confusion(truth[mine], labels, classes)))
        if scores:
            outcome.record["valid_T_p"] = float(np.mean(scores))
