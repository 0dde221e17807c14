"""From what clients send back to what the method's weighted mean is taken of: robust aggregation, clipping and noise.

A method's ``aggregate`` stays as it is. Where a robust mean, or a noised one, is asked for, every client's weights are
replaced by that mean before ``aggregate`` sees them, so whatever weights the method has, the weighted mean is that one.
Norm bounds, and noise that was added before an update left, leave the method's weights as they are.

Which leaves are weights the method's card says (``Sent.form``); a change is what came back minus what was sent. Of
what was not sent (SCAFFOLD's change of a variate, MTL's) the leaf is the change itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ecgfed.errors import OptionError
from ecgfed.federation.client_round import ClientEngine, ClientResult, ClientWork
from ecgfed.federation.plan import TrainPlan
from ecgfed.federation.trees import flatten, stack, unflatten
from ecgfed.methods.base import Method, Tree
from ecgfed.privacy.accountant import DELTA, epsilon_of
from ecgfed.privacy.noise import PATIENT, SERVER, SITE, clipped, gaussian
from ecgfed.privacy.robust import BOUND, MEAN, Aggregation, same_for_all

#: Forms of a card's entries that are weights; ``number`` and ``numbers`` are none.
WEIGHTS = ("model", "trainable", "extractor", "head", "net")


@dataclass(frozen=True)
class Updates:
    """What clients' weights have changed by in a round.

    Attributes:
        before: path -> (m, ...) what each client was sent, 0 where it was sent none.
        change: path -> (m, ...) what came back minus that.
        entry: path -> name of the card's entry.
    """

    before: dict[str, Tensor]
    change: dict[str, Tensor]
    entry: dict[str, str]

    def put(self, tree: Tree, change: dict[str, Tensor]) -> Tree:
        """Return a stacked tree with other changes of its weights."""
        leaves = flatten(tree)
        moved = {path: (self.before[path] + value).to(leaves[path].dtype) for path, value in change.items()}
        return unflatten({**leaves, **moved})


def updates_of(method: Method, sent: Sequence[Tree], tree: Tree) -> Updates:
    """Return the weights of ``tree`` as changes.

    Args:
        method: whose card says what weights are.
        sent: what each client was sent.
        tree: what they sent back, stacked, in that order.
    """
    forms = {entry.name: entry.form for entry in method.communication.up}
    down = [flatten(one) for one in sent]
    before, change, entry = dict[str, Tensor](), dict[str, Tensor](), dict[str, str]()
    for path, leaf in flatten(tree).items():
        name = max((n for n in forms if path == n or path.startswith(f"{n}/")), key=len, default="")
        if not name or forms[name] not in WEIGHTS or not leaf.is_floating_point():
            continue
        was = torch.stack([_sent(path, name, forms[name], one, leaf[0]) for one in down])
        before[path], change[path], entry[path] = was, leaf - was, name
    return Updates(before, change, entry)


def _sent(path: str, name: str, form: str, down: dict[str, Tensor], like: Tensor) -> Tensor:
    """What a client was sent of a leaf: under the same path, or a head or extractor within the whole model."""
    if path in down:
        return down[path]
    within = f"model/{path[len(name) + 1 :]}"
    return down[within] if form in ("head", "extractor") and within in down else torch.zeros_like(like)


def check_combining(method: Method, plan: TrainPlan) -> None:
    """Refuse a robust aggregation, or differential privacy, that the method or the net is not made for.

    Raises:
        OptionError: in one line, why.
    """
    robust, private = plan.aggregation != MEAN, plan.privacy.on
    if not robust and not private:
        return
    option, asked = ("--aggregation", plan.aggregation) if robust else ("--dp-clip", f"{plan.dp_clip:g}")
    if not method.averages:
        found = f"{asked} with {method.name}, whose aggregate is no weighted mean of weights"
        raise OptionError(option, found, "a method that has one", "'ecgfed methods NAME' says which")
    if robust and private and plan.dp_at == SERVER:
        found = f"{asked} with --dp-clip, whose noise at the server is measured for the mean"
        raise OptionError(option, found, "mean", "or --dp-at patient")
    if private and method.net.spec.norm == "batch":
        raise OptionError("--dp-clip", "with batch norm, whose statistics bear no noise", "--norm group or none")


def combined(method: Method, plan: TrainPlan, sent: Sequence[Tree], tree: Tree, number: int, secret: bytes) -> Tree:
    """Return what ``aggregate`` gets in place of what came back.

    Args:
        method: the method.
        plan: says which aggregation and which privacy.
        sent: what each participant was sent.
        tree: what they sent back, stacked.
        number: the round.
        secret: of the noise.
    """
    robust, private = Aggregation.parse(plan.aggregation), plan.privacy
    noised = private.on and private.at == SERVER
    if robust.kind == MEAN and not noised:
        return tree
    updates = updates_of(method, sent, tree)
    if noised:
        return updates.put(tree, noised_mean(updates.change, plan, number, secret))
    change: dict[str, Tensor] = {}
    for name in dict.fromkeys(updates.entry.values()):  # a model and a variate have lengths of their own
        change |= robust({path: value for path, value in updates.change.items() if updates.entry[path] == name})
    return updates.put(tree, change)


def noised_mean(change: dict[str, Tensor], plan: TrainPlan, number: int, secret: bytes) -> dict[str, Tensor]:
    """The mean of clipped changes with noise of z C / m, for each of m clients the same; every client counts the same.

    McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018, with one weight for all.
    """
    private = plan.privacy
    mean = {path: value.mean(0) for path, value in clipped(change, private.clip).items()}
    m = len(next(iter(change.values())))
    if private.noise:
        drawn = gaussian(mean, private.noise * private.clip / m, secret, number, SERVER)
        mean = {path: value + drawn[path] for path, value in mean.items()}
    return {path: same_for_all(value, m) for path, value in mean.items()}


def noised_results(
    method: Method, plan: TrainPlan, work: Sequence[ClientWork], results: Sequence[ClientResult], secret: bytes
) -> list[ClientResult]:
    """Return what leaves a site: each patient's update clipped and noised, or the site's sum of them.

    With ``site`` every patient of the site sends the same: its share of the clipped and noised sum.

    Args:
        method: the method.
        plan: says where the noise is added; the results come back as they are where that is elsewhere.
        work: what the patients were sent.
        results: what they are about to send.
        secret: of the noise, known here alone; another one for each question where somebody else asks.
    """
    private = plan.privacy
    if not private.on or private.at == SERVER or not results:
        return list(results)
    tree = stack([result.returned for result in results])
    updates = updates_of(method, [one.shared for one in work], tree)
    deviation, number, change = private.noise * private.clip, work[0].info.round, updates.change
    if private.at == SITE:
        total = clipped({path: value.double().sum(0, keepdim=True) for path, value in change.items()}, private.clip)
        who: list[object] = [SITE]
    else:
        total, who = clipped(change, private.clip), [one.info.index for one in work]
    if private.noise:
        one = {path: value[0] for path, value in total.items()}
        each = [gaussian(one, deviation, secret, number, PATIENT, name) for name in who]
        drawn = {path: torch.stack([noise[path] for noise in each]) for path in one}
        total = {path: value + drawn[path] for path, value in total.items()}
    if private.at == SITE:
        total = {path: same_for_all(value[0] / len(results), len(results)) for path, value in total.items()}
    moved = flatten(updates.put(tree, total))
    return [
        replace(result, returned=unflatten({path: leaf[place].clone() for path, leaf in moved.items()}))
        for place, result in enumerate(results)
    ]


class NoisedEngine:
    """An engine whose clients clip and noise what they send, where the plan says that they do.

    Args:
        engine: runs them.
        plan: the run's.
        secret: of the noise.
    """

    def __init__(self, engine: ClientEngine, plan: TrainPlan, secret: bytes) -> None:
        self.engine, self.plan, self.secret = engine, plan, secret

    def run(self, method: Method, work: Sequence[ClientWork]) -> list[ClientResult | None]:
        """Run all clients of a round, None for those that are away; raises as the engine does."""
        found = self.engine.run(method, work)
        came = [(one, result) for one, result in zip(work, found, strict=True) if result is not None]
        asked, results = [one for one, _ in came], [result for _, result in came]
        noised = iter(noised_results(method, self.plan, asked, results, self.secret))
        return [None if result is None else next(noised) for result in found]


def in_words(plan: TrainPlan) -> list[str]:
    """Return what is to be said of a plan's aggregation and privacy before it is trained; nothing of the plain mean."""
    said, private = [], plan.privacy
    robust = Aggregation.parse(plan.aggregation)
    weights = "the method's weights stay" if robust.kind == BOUND else "every client counts the same"
    if robust.kind != MEAN:
        said.append(f"Aggregation by {plan.aggregation} in place of the weighted mean: {weights}.")
    if private.on:
        whose = {SERVER: "the sum", PATIENT: "each patient's update", SITE: "each site's sum"}[private.at]
        same = "; every client counts the same" if private.at == SERVER else ""
        said.append(
            f"Differential privacy: updates at most {private.clip:g} long, noise of {private.noise:g} times that on "
            f"{whose}{same}. It covers the weights that travel; not the losses, the counts of beats, who takes part "
            "in which round, nor what stays with a patient."
        )
    return said


def spent_in_words(plan: TrainPlan, epsilon: object) -> list[str]:
    """Return what is to be said after a training: epsilon, as the history's last line has it."""
    if not plan.privacy.on:
        return []
    if not isinstance(epsilon, float):
        return ["Differential privacy: none, for updates were clipped and no noise was added (--dp-noise)."]
    one = "site" if plan.dp_at == SITE else "patient"
    against = "whoever sees the models, and not the server" if plan.dp_at == SERVER else "the server too"
    weak = " An epsilon above 10 or so promises little." if epsilon > 10 else ""
    return [f"Differential privacy: epsilon {epsilon:.3g} at delta {DELTA:g} for one {one}, against {against}.{weak}"]


def spent(plan: TrainPlan, rounds: int) -> float | None:
    """Return epsilon at ``accountant.DELTA`` after so many rounds with one patient; None without privacy.

    Args:
        plan: the run's.
        rounds: the most that one patient, or one site, took part in.
    """
    if not plan.privacy.on:
        return None
    return epsilon_of(plan.dp_noise, rounds, DELTA)
