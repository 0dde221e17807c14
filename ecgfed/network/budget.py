r"""A site's privacy budget: an upper bound on the epsilon of all its runs together, for one patient.

The server chooses a run's noise, and the model whose loss is reported, so a site that wants a guarantee sets the bound
itself (``federate site --most-epsilon``). It then takes part only in runs that add noise before an update leaves the
site, adds noise of the same z to the losses (``noised_scalars``) and to validation scores, and does not report those of
test beats (``ecgfed.network.private_answers``). Each reply is charged before it is computed, for any run and whether or
not the server uses it: once for its weights and once for its losses, or once for its scores.
Replies i with noise z_i compose to one Gaussian mechanism with :math:`\mu^2 = \sum_i (m^2 + 1) / z_i^2`
(``ecgfed.core.privacy.accountant``), where m is the sensitivity of the uploaded weights to one patient, in units of the
clipping norm: 1, or 2 with ``--dp-at site``, whose own epsilon covers a whole site rather than one patient.

The number of patients and the number of beats of each are reported without noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ecgfed.base.errors import StorageError, param
from ecgfed.base.files import read_json, write_json
from ecgfed.core.config import PATIENT, SERVER, SITE
from ecgfed.core.federation.client_round import ClientResult
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten, stack, unflatten
from ecgfed.core.federation.updates import updates_of
from ecgfed.core.methods.base import Method
from ecgfed.core.privacy.accountant import DELTA, epsilon_of_mu
from ecgfed.core.privacy.noise import gaussian
from ecgfed.network.errors import SiteError

#: File in the site's folder with the charges so far: run -> sum over replies of (m^2 + 1) / z^2, of 1 / z^2 for scores.
SPENT = "spent.json"
#: Sensitivity of a reply to removing one patient, in units of the clipping norm. Per-patient clipping: that patient's
#: update disappears. Per-site clipping: the sum is clipped as a whole, and may move across the whole ball, because the
#: other patients' updates may point the other way.
_SENSITIVITY = {PATIENT: 1.0, SITE: 2.0}


def charge(folder: Path, max_epsilon: float | None, run: str, plan: TrainPlan, round_number: int) -> None:
    """Charge one reply to the budget, or refuse it; raises SiteError, StorageError.

    Args:
        max_epsilon: the largest epsilon at ``accountant.DELTA``; None charges nothing.
        run: the run's SHA-256.
        plan: the run's training plan.
        round_number: as in ``check_budget``.
    """
    cost = check_budget(folder, max_epsilon, plan, round_number)
    if max_epsilon is not None:
        charged = spent_by(folder)
        write_json(folder / SPENT, {**charged, run: charged.get(run, 0.0) + cost})


def check_budget(folder: Path, max_epsilon: float | None, plan: TrainPlan, round_number: int) -> float:
    """Return the charge of one reply (0 without a budget), or refuse it; raises SiteError, StorageError.

    Args:
        max_epsilon: as in ``charge``.
        plan: the run's training plan.
        round_number: the round; this round and all remaining rounds of the plan must fit into ``max_epsilon``, so that
            no run stops half way.
    """
    check_noise(max_epsilon, plan)
    if max_epsilon is None:
        return 0.0
    charged, cost = spent_by(folder), (_SENSITIVITY[plan.dp_at] ** 2 + 1) / plan.dp_noise**2
    total = sum(charged.values()) + cost * max(1, plan.rounds - round_number + 1)
    if (epsilon := epsilon_of_mu(math.sqrt(total))) > max_epsilon:
        raise _refusal(f"would bring epsilon to {epsilon:.3g} for one patient", max_epsilon)
    return cost


def charge_scores(folder: Path, max_epsilon: float, run: str, plan: TrainPlan, round_number: int) -> bool:
    """Charge noised scores to the budget if they and all remaining rounds fit into it; returns whether they do.

    Args:
        max_epsilon: as in ``charge``.
        run: as in ``charge``.
        plan: as in ``charge``.
        round_number: the round that is scored.

    Raises:
        StorageError: the charge cannot be written.
    """
    charged, cost = spent_by(folder), 1 / plan.dp_noise**2
    replies = (_SENSITIVITY[plan.dp_at] ** 2 + 1) / plan.dp_noise**2 * max(0, plan.rounds - round_number)
    if epsilon_of_mu(math.sqrt(sum(charged.values()) + cost + replies)) > max_epsilon:
        return False
    write_json(folder / SPENT, {**charged, run: charged.get(run, 0.0) + cost})
    return True


def check_noise(max_epsilon: float | None, plan: TrainPlan) -> None:
    """Refuse a run that adds no noise or adds it at the server, or whose counts tell of labels; raises SiteError.

    Args:
        max_epsilon: as in ``charge``; None accepts any run.
        plan: the run's training plan.
    """
    if max_epsilon is not None and (plan.dp_at == SERVER or not plan.clips or not plan.dp_noise):
        raise _refusal("adds no noise before an update leaves", max_epsilon)
    check_counts(max_epsilon, plan.most_per_class)


def check_counts(max_epsilon: float | None, most_per_class: int | None) -> None:
    """Refuse a limit on examples per class: the number of examples would tell how many beats a class has.

    Args:
        max_epsilon: as in ``charge``; None accepts any limit.
        most_per_class: as in ``TrainPlan``.

    Raises:
        SiteError: there is a limit, and a budget.
    """
    if max_epsilon is not None and most_per_class is not None:
        raise _refusal(f"counts at most {most_per_class} examples of each class of a patient", max_epsilon)


def _refusal(reason: str, max_epsilon: float) -> SiteError:
    expected = f"at most {max_epsilon:g} at delta {DELTA:g}, the limit of this site"
    action = f"more {param('dp_noise')}, {param('dp_at')} patient, fewer rounds"
    return SiteError("privacy", "the server's run", reason, expected, action)


def spent_by(folder: Path) -> dict[str, float]:
    """Return the total charge of each run from ``SPENT``; raises StorageError."""
    file = folder / SPENT
    if not file.is_file():
        return {}
    document = read_json(file, StorageError)
    numbers = list(document.values()) if isinstance(document, Mapping) else [math.nan]
    if not all(type(value) in (int, float) and 0 < value < math.inf for value in numbers):
        raise StorageError(file, "holds invalid charges", "a number above 0 for each run", "restore it from a backup")
    return {str(name): float(value) for name, value in document.items()}


def epsilon_spent(folder: Path) -> float:
    """Return the epsilon spent so far, at ``accountant.DELTA``; raises StorageError."""
    return epsilon_of_mu(math.sqrt(sum(spent_by(folder).values())))


def noised_scalars(
    method: Method, plan: TrainPlan, results: Sequence[ClientResult], round_number: int, secret: bytes
) -> list[ClientResult]:
    r"""Return results with noise on their scalars (losses, in reports and trees), as their weights already have.

    Each scalar is clipped to 0 to :math:`B = 2 \ln K` for K classes (twice the loss of a random guess), gets noise of
    standard deviation :math:`z B \sqrt n` for the n scalars the patient sends, and is clipped again. Together they are
    one Gaussian mechanism with noise z, whichever model the server requests the losses for.

    Args:
        method: its communication spec tells which leaves are weights; every other leaf counts as a scalar.
        plan: provides z.
        results: what the patients are about to send.
        secret: seed of the noise, as in ``noised_results``.
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
        leaves |= {p: clipped[f"tree/{p}"].to(leaf.dtype) for p, leaf in leaves.items() if p not in weights}
        losses = {name: float(clipped[f"report/{name}"]) for name in result.losses}
        noised.append(replace(result, returned=unflatten(leaves), losses=losses))
    return noised


def max_loss(classes: int) -> float:
    """Return B of ``noised_scalars``: twice the cross-entropy of a random guess among ``classes``."""
    return 2 * math.log(max(2, classes))


def _clipped(value: Tensor, bound: float) -> Tensor:
    return value.nan_to_num(nan=bound, posinf=bound, neginf=0.0).clamp(0.0, bound)
