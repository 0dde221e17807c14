r"""What a site lets the runs it takes part in learn of one patient: an epsilon that all of them together stay under.

The server chooses a run's noise, and what a loss is taken of, so a site that wants to be asked within bounds has to say
so itself (``federate site --most-epsilon``). It then answers only where noise is added before an update leaves, gives
the losses noise of the same z (``noised_scalars``), and keeps its scores to itself. Each answer is charged before it is
computed, whatever run it is for and whether or not it is used: for its weights, and once more for its losses. Replies i
with noise z_i tell together as much as one mechanism with :math:`\mu^2 = \sum_i (m^2 + 1) / z_i^2`
(``ecgfed.privacy.accountant``), where m is how far one patient moves the weights that are sent, over the clip: 1, or 2
with ``--dp-at site``, whose own epsilon is about a whole site and not about one patient in it.

How many patients there are, and how many beats each of them has, is said without noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ecgfed.errors import StorageError
from ecgfed.federation.client_round import ClientResult
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.trees import flatten, stack, unflatten
from ecgfed.federation.updates import updates_of
from ecgfed.files import read_json, write_json
from ecgfed.methods.base import Method
from ecgfed.network.errors import SiteError
from ecgfed.privacy.accountant import DELTA, epsilon_of_mu
from ecgfed.privacy.noise import PATIENT, SERVER, SITE, gaussian

#: What has been charged so far, in the site's folder: run -> the sum of (m^2 + 1) / z^2 over its answers.
SPENT = "spent.json"
#: How far an answer moves when one patient is taken out of it, over the clip: that patient's update goes; or a sum that
#: is clipped as a whole, whose other patients' updates may point the other way, goes from one end of the ball to the
#: other.
_SENSITIVITY = {PATIENT: 1.0, SITE: 2.0}


def charge(folder: Path, max_epsilon: float | None, run: str, plan: TrainPlan, round_number: int) -> None:
    """Charge one answer, or refuse it; raises SiteError, StorageError.

    Args:
        folder: the site's.
        max_epsilon: the largest epsilon at ``accountant.DELTA``; None charges nothing.
        run: names the run.
        plan: the run's.
        round_number: as in ``check_budget``.
    """
    cost = check_budget(folder, max_epsilon, plan, round_number)
    if max_epsilon is not None:
        charged = spent_by(folder)
        write_json(folder / SPENT, {**charged, run: charged.get(run, 0.0) + cost})


def check_budget(folder: Path, max_epsilon: float | None, plan: TrainPlan, round_number: int) -> float:
    """Return what an answer is charged, 0 where nothing is, or refuse it; raises SiteError, StorageError.

    Args:
        folder: the site's.
        max_epsilon: as in ``charge``.
        plan: the run's.
        round_number: the round; it and all that are left of the plan must be within ``max_epsilon``, so that no run stops half way.
    """
    check_noise(max_epsilon, plan)
    if max_epsilon is None:
        return 0.0
    charged, cost = spent_by(folder), (_SENSITIVITY[plan.dp_at] ** 2 + 1) / plan.dp_noise**2
    total = sum(charged.values()) + cost * max(1, plan.rounds - round_number + 1)
    if (epsilon := epsilon_of_mu(math.sqrt(total))) > max_epsilon:
        raise _refusal(f"would bring epsilon to {epsilon:.3g} for one patient", max_epsilon)
    return cost


def check_noise(max_epsilon: float | None, plan: TrainPlan) -> None:
    """Refuse a run whose noise is added at the server or not at all; raises SiteError.

    Args:
        max_epsilon: as in ``charge``; None takes any run.
        plan: the run's.
    """
    if max_epsilon is not None and (plan.dp_at == SERVER or not plan.privacy.on or not plan.dp_noise):
        raise _refusal("adds no noise before an update leaves", max_epsilon)


def _refusal(reason: str, max_epsilon: float) -> SiteError:
    expected = f"at most {max_epsilon:g} at delta {DELTA:g}, this site's --most-epsilon"
    return SiteError("privacy", "the server's run", reason, expected, "more --dp-noise, --dp-at patient, fewer rounds")


def spent_by(folder: Path) -> dict[str, float]:
    """Return what each run has been charged, as ``SPENT`` says; raises StorageError."""
    file = folder / SPENT
    if not file.is_file():
        return {}
    document = read_json(file, StorageError)
    valid = isinstance(document, Mapping) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        for value in document.values()
    )
    if not valid:
        raise StorageError(file, "holds what is no sum", "a number above 0 for each run", "restore it from a backup")
    return {str(name): float(value) for name, value in document.items()}


def epsilon_spent(folder: Path) -> float:
    """Return epsilon of all that has been charged, at ``accountant.DELTA``; raises StorageError."""
    return epsilon_of_mu(math.sqrt(sum(spent_by(folder).values())))


def noised_scalars(
    method: Method, plan: TrainPlan, results: Sequence[ClientResult], round_number: int, secret: bytes
) -> list[ClientResult]:
    r"""Return results whose single numbers (losses, in reports and trees) bear noise, as their weights do.

    Each is cut to what an answer worse than a guess may reach, 0 to :math:`B = 2 \ln K` of K classes, gets noise of
    standard deviation :math:`z B \sqrt n`, of n numbers that the patient sends, and is cut again. So all of them are
    one Gaussian mechanism with noise z, whatever model the server has the losses taken of.

    Args:
        method: whose card says which leaves are weights; every other one is a number.
        plan: says z.
        results: what the patients are about to send.
        round_number: the round.
        secret: of the noise, as in ``noised_results``.
    """
    bound, noised = max_loss(method.net.spec.classes), []
    weights = {path for result in results[:1] for path in updates_of(method, [{}], stack([result.returned])).change}
    for position, result in enumerate(results):
        leaves = flatten(result.returned)
        scalars = {f"tree/{path}": leaf.double() for path, leaf in leaves.items() if path not in weights}
        scalars |= {f"report/{name}": torch.tensor(loss, dtype=torch.float64) for name, loss in result.losses.items()}
        total = sum(value.numel() for value in scalars.values())
        noise = gaussian(scalars, plan.dp_noise * bound * math.sqrt(total), secret, round_number, "numbers", position)
        clipped = {path: _clipped(_clipped(value, bound) + noise[path], bound) for path, value in scalars.items()}
        clipped_leaves = {
            path: clipped[f"tree/{path}"].to(leaf.dtype) for path, leaf in leaves.items() if path not in weights
        }
        losses = {name: float(clipped[f"report/{name}"]) for name in result.losses}
        noised.append(replace(result, returned=unflatten({**leaves, **clipped_leaves}), losses=losses))
    return noised


def max_loss(classes: int) -> float:
    """Return B of ``noised_scalars``: twice the cross-entropy of a guess among so many classes."""
    return 2 * math.log(max(2, classes))


def _clipped(value: Tensor, bound: float) -> Tensor:
    return value.nan_to_num(nan=bound, posinf=bound, neginf=0.0).clamp(0.0, bound)
