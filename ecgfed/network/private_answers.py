r"""Answers of a site with a privacy budget: only noised numbers in them depend on its recordings.

A server chooses the weights that a site trains and scores, so it can choose some that overflow on beats of one class
only. A refusal, a longer wait or an exact score would then tell noiselessly whether a patient has such beats. With
``--most-epsilon`` a site therefore

- answers a training that failed like one that did not: the patient's update is zero and its losses are at their bound,
  before both are noised (``UniformRunner``);
- answers at the end of a time class, a power of two of seconds (``time_class``);
- reports validation scores with noise, charged to the budget (``noised_scores``), and of the end of a run only that it
  was received.

What is refused depends on the request alone.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic, sleep

import torch
from torch import Tensor

from ecgfed.core.federation.client_round import ClientResult, ClientWork, run_client
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten, stack, unflatten
from ecgfed.core.federation.updates import updates_of
from ecgfed.core.methods.base import Method
from ecgfed.core.privacy.noise import gaussian
from ecgfed.core.runs.tree_files import serialised
from ecgfed.network.budget import max_loss
from ecgfed.network.errors import SiteError
from ecgfed.network.tensor_schema import TensorSchema, expected_beats

#: Shortest time class of an answer, s.
SHORTEST_S = 1.0
#: Shortest time class of scores and of the end of a run, s: a minimum, and a share for each beat and patient. It is
#: longer than scoring takes, so that scoring that fails early is answered no sooner.
SCORED_S, SCORED_S_PER_BEAT = 16.0, 1e-3
#: L2 sensitivity of T_g and T_p together: one patient's beats may move each from 0 to 1.
_SCORES_SENSITIVITY = math.sqrt(2)


class UniformRunner:
    """Runs a client's round; one that fails changes nothing, and takes as many steps.

    Args:
        schema: structure of the method's replies in this round.

    Attributes:
        failures: client -> why its training failed; stays at the site.
    """

    def __init__(self, schema: TensorSchema) -> None:
        self.schema = schema
        self.failures: dict[int, str] = {}

    def __call__(self, method: Method, data: TrainingData, plan: TrainPlan, work: ClientWork) -> ClientResult:
        """Run one client's round; arguments as of ``run_client``."""
        # arithmetic on denormal numbers is many times slower, so weights that lead to some would tell by the time
        torch.set_flush_denormal(True)
        unchanged = self._unchanged(method, plan, work)
        try:
            result = run_client(method, data, plan, work, explain=False)
            self.schema.check(result.returned, result.losses)
        except SiteError:  # a limit of the site, which does not depend on beats
            raise
        except Exception as problem:
            self.failures[work.info.index] = f"{type(problem).__name__}: {problem!s:.300}"
            return unchanged
        return result

    def _unchanged(self, method: Method, plan: TrainPlan, work: ClientWork) -> ClientResult:
        """Return the result of a client whose weights do not change and whose losses are at their bound."""
        bound = max_loss(method.net.spec.classes)
        leaves = {path: torch.zeros(shape, dtype=dtype) for path, (dtype, shape) in self.schema.leaves.items()}
        tree = stack([unflatten(leaves)])
        updates = updates_of(method, [work.shared], tree)
        sent = flatten(updates.apply_to(tree, {path: torch.zeros_like(leaf) for path, leaf in updates.change.items()}))
        returned = {
            path: leaf[0].clone() if path in updates.change else leaf[0] + torch.tensor(bound).to(leaf.dtype)
            for path, leaf in sent.items()
        }
        beats = expected_beats(plan, work.info.train_examples, work.beats_used, method.requirements.batches_per_step)
        return ClientResult(unflatten(returned), work.client_state, dict.fromkeys(self.schema.losses, bound), beats)


@contextmanager
def time_class(is_private: bool, shortest_s: float | None = None) -> Iterator[None]:
    """Let a block take until the end of its time class, also if it raises: a power of two times the shortest class.

    Args:
        is_private: whether the site has a privacy budget; otherwise the block takes as long as it does.
        shortest_s: the shortest class, s; default ``SHORTEST_S``.
    """
    started = monotonic()
    try:
        yield
    finally:
        if is_private:
            elapsed, shortest = monotonic() - started, SHORTEST_S if shortest_s is None else shortest_s
            sleep(max(0.0, end_of_class(elapsed, shortest) - elapsed))


def end_of_class(elapsed_s: float, shortest_s: float) -> float:
    """Return the end of the time class in which an answer is ready, s."""
    return shortest_s * 2.0 ** max(0, math.ceil(math.log2(max(elapsed_s, 1e-9) / shortest_s)))


def scoring_time_s(patients: int, beats: int) -> float:
    """Return the shortest time class of scores, s; each patient's model reads the beats of all.

    Args:
        patients: patients of the site.
        beats: training examples of all of them, which the server knows.
    """
    return SCORED_S + SCORED_S_PER_BEAT * patients * beats


def noised_scores(t_g: float, t_p: float, noise: float, secret: bytes) -> tuple[float, float]:
    r"""Return T_g and T_p as one Gaussian mechanism with noise multiplier z, cut to 0 to 1 before and after.

    Removing a patient may move each score over its whole range, so the noise of each has standard deviation
    :math:`\sqrt 2 z`. A score that is not a number counts as 0.

    Args:
        t_g: T_g of the beats of all patients.
        t_p: T_p, the mean over patients.
        noise: z.
        secret: seed of the noise, a new one for each request.
    """
    scores = {"T_g": torch.tensor(t_g, dtype=torch.float64), "T_p": torch.tensor(t_p, dtype=torch.float64)}
    drawn = gaussian(scores, noise * _SCORES_SENSITIVITY, secret, "scores")
    noised = {
        name: (value.nan_to_num(nan=0.0, posinf=1.0, neginf=0.0).clamp(0, 1) + drawn[name]).clamp(0, 1)
        for name, value in scores.items()
    }
    return float(noised["T_g"]), float(noised["T_p"])


def digest_of(text: str, leaves: Mapping[str, Tensor]) -> bytes:
    """Return the SHA-256 of a request: its text and its leaves."""
    sha256 = hashlib.sha256(text.encode())
    sha256.update(serialised(unflatten(dict(leaves))))
    return sha256.digest()
