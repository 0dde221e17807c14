"""Robust aggregation, clipping and noise, applied to client updates before the method aggregates them.

A method's ``aggregate`` is unchanged. For a robust or noised mean, every client's weights are replaced by that mean
before ``aggregate`` is called, so its weighted mean equals it whatever the method's weights are. Norm bounds, and noise
added before an update is sent, do not affect the method's weights.

The method's card declares which leaves are weights (``Sent.form``). A change is the returned leaf minus the one that
was sent; a leaf that was not sent (SCAFFOLD's change of a variate, MTL's) is a change itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.config import PATIENT, SERVER, SITE
from ecgfed.core.federation.client_round import ClientEngine, ClientResult, ClientWork
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.federation.trees import flatten, stack, unflatten
from ecgfed.core.methods.base import Method, Tree
from ecgfed.core.privacy.accountant import DELTA, epsilon_of
from ecgfed.core.privacy.noise import clipped, gaussian
from ecgfed.core.privacy.robust import BOUND, MEAN, Aggregation, same_for_all

#: Forms of card entries that are weights (``number`` and ``numbers`` are not).
WEIGHTS = ("model", "trainable", "extractor", "head", "without norm", "net")


@dataclass(frozen=True)
class Updates:
    """Changes of the clients' weights in a round.

    Attributes:
        before: path -> (m, ...) weights sent to each client, 0 if none were sent.
        change: path -> (m, ...) returned weights minus those.
        entry: path -> name of the card's entry.
    """

    before: dict[str, Tensor]
    change: dict[str, Tensor]
    entry: dict[str, str]

    def apply_to(self, tree: Tree, change: dict[str, Tensor]) -> Tree:
        """Return the stacked tree with its weights replaced by ``before`` plus a change."""
        leaves = flatten(tree)
        moved = {path: (self.before[path] + value).to(leaves[path].dtype) for path, value in change.items()}
        return unflatten({**leaves, **moved})


def updates_of(method: Method, sent: Sequence[Tree], tree: Tree) -> Updates:
    """Return the weights of ``tree`` as changes.

    Args:
        method: its card declares which leaves are weights.
        sent: the tree sent to each client.
        tree: the returned trees, stacked in that order.
    """
    forms = {entry.name: entry.form for entry in method.communication.up}
    down = [flatten(leaves) for leaves in sent]
    before, change, entry = dict[str, Tensor](), dict[str, Tensor](), dict[str, str]()
    for path, leaf in flatten(tree).items():
        name = max((n for n in forms if path == n or path.startswith(f"{n}/")), key=len, default="")
        if not name or forms[name] not in WEIGHTS or not leaf.is_floating_point():
            continue
        was = torch.stack([_sent(path, name, forms[name], leaves, leaf[0]) for leaves in down])
        before[path], change[path], entry[path] = was, leaf - was, name
    return Updates(before, change, entry)


def _sent(path: str, name: str, form: str, down: dict[str, Tensor], like: Tensor) -> Tensor:
    """Return the sent value of a leaf: under the same path, or as part of the full model for a head or extractor."""
    if path in down:
        return down[path]
    within = f"model/{path[len(name) + 1 :]}"
    return down[within] if form in ("head", "extractor") and within in down else torch.zeros_like(like)


def check_combining(method: Method, plan: TrainPlan) -> None:
    """Refuse robust aggregation or differential privacy that the method or the net does not support.

    Raises:
        OptionError: naming the conflict.
    """
    robust, private = plan.aggregation != MEAN, plan.clips
    if not robust and not private:
        return
    option, requested = ("aggregation", plan.aggregation) if robust else ("dp_clip", f"{plan.dp_clip:g}")
    if not method.averages:
        conflict = f"{requested} with {method.name}, whose aggregate is no weighted mean of weights"
        expected = "a method that has one"
        raise OptionError(option, conflict, expected, "'ecgfed methods NAME' says which", code="conflict")
    if robust and private and plan.dp_at == SERVER:
        conflict = f"{requested} with {param('dp_clip')}, whose noise at the server is measured for the mean"
        raise OptionError(option, conflict, "mean", f"or {param('dp_at')} patient", code="conflict")
    if private and method.net.spec.norm == "batch":
        actual = "with batch norm, whose statistics bear no noise"
        raise OptionError("dp_clip", actual, f"{param('norm')} group or none", code="conflict")


def combined(method: Method, plan: TrainPlan, sent: Sequence[Tree], tree: Tree, number: int, secret: bytes) -> Tree:
    """Return the tree passed to ``aggregate`` in place of the returned one.

    Args:
        plan: its aggregation and privacy settings.
        sent: the tree sent to each participant.
        tree: the returned trees, stacked.
        number: the round.
        secret: seed of the noise.
    """
    robust = Aggregation.parse(plan.aggregation)
    noised = plan.clips and plan.dp_at == SERVER
    if robust.kind == MEAN and not noised:
        return tree
    updates = updates_of(method, sent, tree)
    if noised:
        return updates.apply_to(tree, noised_mean(updates.change, plan, number, secret))
    change: dict[str, Tensor] = {}
    for name in dict.fromkeys(updates.entry.values()):  # a model and a variate differ in size
        change |= robust({path: value for path, value in updates.change.items() if updates.entry[path] == name})
    return updates.apply_to(tree, change)


def noised_mean(change: dict[str, Tensor], plan: TrainPlan, number: int, secret: bytes) -> dict[str, Tensor]:
    """Return the unweighted mean of clipped changes plus noise of z C / m, repeated for each of the m clients.

    McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, with equal weights.
    """
    mean = {path: value.mean(0) for path, value in clipped(change, plan.dp_clip).items()}
    m = len(next(iter(change.values())))
    if plan.dp_noise:
        drawn = gaussian(mean, plan.dp_noise * plan.dp_clip / m, secret, number, SERVER)
        mean = {path: value + drawn[path] for path, value in mean.items()}
    return {path: same_for_all(value, m) for path, value in mean.items()}


def noised_results(
    method: Method, plan: TrainPlan, work: Sequence[ClientWork], results: Sequence[ClientResult], secret: bytes
) -> list[ClientResult]:
    """Return the results a site sends: each patient's update clipped and noised, or the site's sum.

    With ``site``, every patient of the site sends an equal share of the clipped and noised sum.

    Args:
        plan: determines where noise is added; if not at the site, results are returned unchanged.
        work: inputs of the patients.
        results: their results before noise.
        secret: seed of the noise, never shared; a new one per request if requests come from outside.
    """
    if not plan.clips or plan.dp_at == SERVER or not results:
        return list(results)
    tree = stack([result.returned for result in results])
    updates = updates_of(method, [task.shared for task in work], tree)
    deviation, number, change = plan.dp_noise * plan.dp_clip, work[0].info.round, updates.change
    if plan.dp_at == SITE:
        total = clipped({path: value.double().sum(0, keepdim=True) for path, value in change.items()}, plan.dp_clip)
        who: list[object] = [SITE]
    else:
        total, who = clipped(change, plan.dp_clip), [task.info.index for task in work]
    if plan.dp_noise:
        leaves = {path: value[0] for path, value in total.items()}
        each = [gaussian(leaves, deviation, secret, number, PATIENT, name) for name in who]
        drawn = {path: torch.stack([noise[path] for noise in each]) for path in leaves}
        total = {path: value + drawn[path] for path, value in total.items()}
    if plan.dp_at == SITE:
        total = {path: same_for_all(value[0] / len(results), len(results)) for path, value in total.items()}
    moved = flatten(updates.apply_to(tree, total))
    return [
        replace(result, returned=unflatten({path: leaf[index].clone() for path, leaf in moved.items()}))
        for index, result in enumerate(results)
    ]


class NoisedEngine:
    """An engine whose clients clip and noise their updates if the plan requires it.

    Args:
        engine: runs the clients.
        plan: of the run.
        secret: seed of the noise.
    """

    def __init__(self, engine: ClientEngine, plan: TrainPlan, secret: bytes) -> None:
        self.engine, self.plan, self.secret = engine, plan, secret

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult | None]:
        """Run all clients of a round; None for unreachable ones. Raises as the engine does."""
        results = self.engine.run(method, work)
        replies = [(task, result) for task, result in zip(work, results, strict=True) if result is not None]
        participants, received = [task for task, _ in replies], [result for _, result in replies]
        noised = iter(noised_results(method, self.plan, participants, received, self.secret))
        return [None if result is None else next(noised) for result in results]


def describe_aggregation(plan: TrainPlan) -> list[str]:
    """Return sentences about a plan's robust aggregation and privacy; none for the plain mean."""
    lines = []
    robust = Aggregation.parse(plan.aggregation)
    weights = "the method's weights stay" if robust.kind == BOUND else "every client counts the same"
    if robust.kind != MEAN:
        lines.append(f"Aggregation by {plan.aggregation} in place of the weighted mean: {weights}.")
    if plan.clips:
        noised_value = {SERVER: "the sum", PATIENT: "each patient's update", SITE: "each site's sum"}[plan.dp_at]
        same = "; every client counts the same" if plan.dp_at == SERVER else ""
        lines.append(
            f"Differential privacy: updates at most {plan.dp_clip:g} long, noise of {plan.dp_noise:g} times that on "
            f"{noised_value}{same}. It covers the weights that travel; not the losses, the counts of beats, who takes "
            "part in which round, nor what stays with a patient."
        )
    return lines


def describe_privacy_spent(plan: TrainPlan, epsilon: object) -> list[str]:
    """Return sentences about the privacy spent, from epsilon in the history's last line."""
    if not plan.clips:
        return []
    if not isinstance(epsilon, float):
        return ["Differential privacy: none, for updates were clipped and no noise was added."]
    unit = "site" if plan.dp_at == SITE else "patient"
    against = "whoever sees the models, and not the server" if plan.dp_at == SERVER else "the server too"
    weak = " An epsilon above 10 or so promises little." if epsilon > 10 else ""
    return [f"Differential privacy: epsilon {epsilon:.3g} at delta {DELTA:g} for one {unit}, against {against}.{weak}"]


def spent(plan: TrainPlan, rounds: int) -> float | None:
    """Return epsilon at ``accountant.DELTA``; None without differential privacy.

    Args:
        rounds: maximum number of rounds that one patient, or one site, took part in.
    """
    return None if not plan.clips else epsilon_of(plan.dp_noise, rounds, DELTA)
