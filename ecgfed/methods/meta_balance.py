r"""Meta-BSM: a balanced softmax whose strength and beat weights each client learns (Fed-RoD, appendix B.5).

Before each local step on a batch B, with a small class-balanced meta set :math:`D_{meta}` from the server:

.. math::
    \mathcal{L}_B(w) &= \sum_{i \in B} q_i\, \ell^{BSM}_{\gamma}(x_i, y_i; w), \quad
      q_i = \text{MWNet}(\ell^{BSM}_{\gamma}(x_i, y_i; w); \zeta) \\
    \tilde w &= w - \eta \nabla_w \mathcal{L}_B(w) \\
    \gamma, \zeta &\leftarrow \gamma, \zeta - \eta_{meta} \nabla_{\gamma, \zeta}\, \mathcal{L}_{D_{meta}}(\tilde w)

and then the method's own step on :math:`\mathcal{L}_B` with the new :math:`\gamma, \zeta`. Any method whose risk is
``ecgfed.methods.risks.risk`` can be used with it: the hooks here go around the method's.

Two departures. Step 4 prints the meta loss with q and the client's BSM too; that is infinite for a meta beat of a class
the client does not have, and is smallest where q is 0, so it is plain cross-entropy here, as Shu et al. have it (their
equation 3). And q is scaled to a mean of 1 over the batch, as Ren et al. (ICML 2018) scale theirs: else learning q
would be learning the learning rate. The losses that MWNet looks at are data: no gradient goes through them.

The meta set leaves its patients: it lies at the server and travels to every client. That is the paper's setting and
breaks the rule that recordings stay; nothing else here does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ecgfed.methods.answers import Answer, Chain
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree, cross_entropy
from ecgfed.methods.risks import learned_risk
from ecgfed.nets.layers import Initialiser, Params, trainable
from ecgfed.nets.net import Inputs

#: Hidden features of the weighing net (Shu et al. 2019, section 3.2).
WEIGHER_HIDDEN = 100
#: The weighing net's own seed; every client starts from the same one.
WEIGHER_SEED = 20191208
#: Entries of kept and shared trees that are not the method's.
BALANCE, META = "balance", "meta"


def first_balance(gamma: float, like: Tensor) -> Params:
    """What a client has learned before its first round: ``gamma`` and the weighing net, as ``like``'s dtype."""
    draw = Initialiser(WEIGHER_SEED)
    draw.linear("weigher.hidden", 1, WEIGHER_HIDDEN)
    draw.linear("weigher.out", WEIGHER_HIDDEN, 1, gain=1.0)
    net = {name: value.to(like) for name, value in draw.params.items()}
    return {"gamma": torch.full((), gamma, dtype=like.dtype, device=like.device), **net}


class MetaBalanced(Method):
    """A method whose clients learn their risk on the way; the engine runs it in the method's place.

    Answers are the method's own, so whoever evaluates or exports needs only that.

    Args:
        method: the method.
        meta_set: beats of every class, the same for all clients.
    """

    def __init__(self, method: Method, meta_set: Batch) -> None:
        super().__init__(method.net, method.settings)
        self.method, self.meta_set, self.needs = method, meta_set, method.needs

    def server_start(self, initial: Params) -> Tree:
        return self.method.server_start(initial)

    def client_start(self, initial: Params) -> Tree:
        start = first_balance(self.settings.gamma, next(iter(initial.values())))
        return {**self.method.client_start(initial), BALANCE: start}

    def newcomer(self, server: Tree, initial: Params) -> Tree:
        start = first_balance(self.settings.gamma, next(iter(initial.values())))
        return {**self.method.newcomer(server, initial), BALANCE: start}

    def shared(self, server: Tree, client: int) -> Tree:
        inputs = self.meta_set.inputs
        meta = {"examples": inputs.examples, "label": self.meta_set.label}
        return {**self.method.shared(server, client), META: meta if inputs.rr is None else {**meta, "rr": inputs.rr}}

    def survey(self, shared: Tree, batch: Batch) -> Losses:
        # what this client has learned is not at hand here, so every client's survey is with the first gamma and weights
        start = first_balance(self.settings.gamma, batch.inputs.examples.float())
        return self.method.survey(shared, replace(batch, balance=start))

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        own = {name: value for name, value in kept.items() if name != BALANCE}
        if info.validation is not None:
            info = replace(info, validation=replace(info.validation, balance=kept[BALANCE]))
        return {"method": self.method.begin(shared, own, info), BALANCE: kept[BALANCE], META: shared[META]}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        balance, meta_loss = self._learned(state, batches[0])
        balanced = [replace(batch, balance=balance) for batch in batches]
        inner, losses = self.method.step(state["method"], balanced, t)
        gamma = balance["gamma"].double()
        return {**state, "method": inner, BALANCE: balance}, {**losses, "meta_loss": meta_loss, "gamma": gamma}

    def _learned(self, state: Tree, batch: Batch) -> tuple[Params, Tensor]:
        """Steps 1 to 4: the new gamma and weighing net, and the meta loss that they were changed for."""
        model, meta = self.method.in_training(state["method"]), state[META]
        buffers = {name: value.detach() for name, value in model.items() if name not in trainable(model)}
        start = {name: value.detach() for name, value in trainable(model).items()}
        meta_set = Batch(Inputs(meta["examples"], meta.get("rr")), meta["label"])

        def batch_risk(w: Params, balance: Params) -> Tensor:
            logits = self.net.logits({**buffers, **w}, batch.inputs, {})
            assert batch.counts is not None
            return learned_risk(logits, batch.label, batch.counts, balance, batch.weight)

        def meta_risk(balance: Params) -> tuple[Tensor, Tensor]:
            grads = torch.func.grad(batch_risk)(start, balance)
            ahead = {name: value - self.settings.lr * grads[name] for name, value in start.items()}
            loss = cross_entropy(self.net.logits({**buffers, **ahead}, meta_set.inputs, {}), meta_set)
            return loss, loss.detach()

        old: Params = state[BALANCE]
        grads, loss = torch.func.grad(meta_risk, has_aux=True)(old)
        return {name: value - self.settings.meta_lr * grads[name] for name, value in old.items()}, loss

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, kept = self.method.finish(state["method"], info)
        return returned, {**kept, BALANCE: state[BALANCE]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return self.method.aggregate(server, returned)

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        return self.method.global_answer(server, kept, protocol)

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        return self.method.personal_answer(server, kept)

    def local_answer(self, returned: Tree) -> Chain | None:
        return self.method.local_answer(returned)

    def round_report(self, server: Tree) -> dict[str, Any]:
        return self.method.round_report(server)
