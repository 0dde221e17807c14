r"""Meta-BSM: a balanced softmax whose strength and beat weights each client learns (Fed-RoD, appendix B.5).

Before each local step on a batch B, with a small class-balanced meta set :math:`D_{meta}` from the server:

.. math::
    \mathcal{L}_B(w) &= \sum_{i \in B} q_i\, \ell^{BSM}_{\gamma}(x_i, y_i; w), \quad
      q_i = \text{MWNet}(\ell^{BSM}_{\gamma}(x_i, y_i; w); \zeta) \\
    \tilde w &= w - \eta \nabla_w \mathcal{L}_B(w) \\
    \gamma, \zeta &\leftarrow \gamma, \zeta - \eta_{meta} \nabla_{\gamma, \zeta}\, \mathcal{L}_{D_{meta}}(\tilde w)

and then the method's own step on :math:`\mathcal{L}_B` with the new :math:`\gamma, \zeta`. Any method whose loss is
``ecgfed.core.methods.losses.batch_loss`` can be used with it: the hooks here wrap the method's.

Departures from the paper: step 4 has q and the client's BSM in the meta loss, too, which is infinite for a meta beat of
a class the client does not have, and minimal at q = 0; here the meta loss is plain cross-entropy, as in Shu et al.
(equation 3). And q is scaled to a mean of 1 over the batch, as in Ren et al. (ICML 2018), since otherwise learning q
would change the learning rate. The losses that MWNet takes as input are data: no gradient passes through them.

The meta set is stored by the server and sent to every client. That is the paper's setting, and the only exception to
the rule that recordings do not leave their site.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.interface import Batch, ClientInfo, Losses, Returned, Tree, cross_entropy
from ecgfed.core.methods.losses import meta_balanced_loss
from ecgfed.core.methods.models import Model, Pipeline
from ecgfed.core.nets.layers import Initialiser, Params, trainable
from ecgfed.core.nets.net import Inputs

#: Hidden features of the weighting net (Shu et al. 2019, section 3.2).
WEIGHER_HIDDEN = 100
#: Seed of the weighting net; every client starts from the same one.
WEIGHER_SEED = 20191208
#: Entries of client states and messages that this wrapper adds.
BALANCE, META = "balance", "meta"


def first_balance(gamma: float, like: Tensor) -> Params:
    """Return the loss parameters before the first round: ``gamma`` and the weighting net, in the dtype of ``like``."""
    draw = Initialiser(WEIGHER_SEED)
    draw.linear("weigher.hidden", 1, WEIGHER_HIDDEN)
    draw.linear("weigher.out", WEIGHER_HIDDEN, 1, gain=1.0)
    net = {name: value.to(like) for name, value in draw.params.items()}
    return {"gamma": torch.full((), gamma, dtype=like.dtype, device=like.device), **net}


def _with_balance(info: ClientInfo, balance: Params) -> ClientInfo:
    """Return the information whose validation and training beats carry the client's loss parameters."""
    validation, training = info.validation, info.training
    if validation is not None:
        validation = replace(validation, balance=balance)
    if training is not None:
        read = training.read
        training = replace(training, read=lambda positions: replace(read(positions), balance=balance))
    return replace(info, validation=validation, training=training)


class MetaBalanced(Method):
    """A method whose clients learn their loss during training; the engine runs it in place of the method.

    Its models are the method's, so evaluation and export use the method itself.

    Args:
        method: the method.
        meta_set: beats of every class, the same for all clients.
    """

    def __init__(self, method: Method, meta_set: Batch) -> None:
        super().__init__(method.net, method.settings)
        self.method, self.meta_set, self.requirements = method, meta_set, method.requirements

    def server_start(self, initial: Params) -> Tree:
        return self.method.server_start(initial)

    def client_start(self, initial: Params) -> Tree:
        start = first_balance(self.settings.gamma, next(iter(initial.values())))
        return {**self.method.client_start(initial), BALANCE: start}

    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        start = first_balance(self.settings.gamma, next(iter(initial.values())))
        return {**self.method.init_new_client(server, initial), BALANCE: start}

    def server_message(self, server: Tree, client: int) -> Tree:
        inputs = self.meta_set.inputs
        meta = {"examples": inputs.examples, "label": self.meta_set.label}
        return {
            **self.method.server_message(server, client),
            META: meta if inputs.rr is None else {**meta, "rr": inputs.rr},
        }

    def pre_round_metrics(self, message: Tree, batch: Batch) -> Losses:
        # the client's state is not available here, so all clients use the initial gamma and weights
        start = first_balance(self.settings.gamma, batch.inputs.examples.float())
        return self.method.pre_round_metrics(message, replace(batch, balance=start))

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        inner_state = {name: value for name, value in client_state.items() if name != BALANCE}
        balanced = _with_balance(info, client_state[BALANCE])
        return {
            "method": self.method.init_round(message, inner_state, balanced),
            BALANCE: client_state[BALANCE],
            META: message[META],
        }

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        balance, meta_loss = self._learned(state, batches[0])
        balanced = [replace(batch, balance=balance) for batch in batches]
        inner, losses = self.method.step(state["method"], balanced, t)
        gamma = balance["gamma"].double()
        return {**state, "method": inner, BALANCE: balance}, {**losses, "meta_loss": meta_loss, "gamma": gamma}

    def _learned(self, state: Tree, batch: Batch) -> tuple[Params, Tensor]:
        """Steps 1 to 4: return the new gamma and weighting net, and the meta loss before the step."""
        model, meta = self.method.current_model(state["method"]), state[META]
        buffers = {name: value.detach() for name, value in model.items() if name not in trainable(model)}
        start = {name: value.detach() for name, value in trainable(model).items()}
        meta_set = Batch(Inputs(meta["examples"], meta.get("rr")), meta["label"])

        def batch_objective(w: Params, balance: Params) -> Tensor:
            logits = self.net.logits({**buffers, **w}, batch.inputs, {})
            assert batch.counts is not None
            return meta_balanced_loss(logits, batch.label, batch.counts, balance, batch.weight)

        def meta_objective(balance: Params) -> tuple[Tensor, Tensor]:
            grads = torch.func.grad(batch_objective)(start, balance)
            ahead = {name: value - self.settings.lr * grads[name] for name, value in start.items()}
            loss = cross_entropy(self.net.logits({**buffers, **ahead}, meta_set.inputs, {}), meta_set)
            return loss, loss.detach()

        old: Params = state[BALANCE]
        grads, loss = torch.func.grad(meta_objective, has_aux=True)(old)
        return {name: value - self.settings.meta_lr * grads[name] for name, value in old.items()}, loss

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        returned, client_state = self.method.finish_round(state["method"], _with_balance(info, state[BALANCE]))
        return returned, {**client_state, BALANCE: state[BALANCE]}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return self.method.aggregate(server, returned)

    def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Model:
        return self.method.global_model(server, client_states, protocol)

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        return self.method.personal_model(server, client_state)

    def local_model(self, returned: Tree) -> Pipeline | None:
        return self.method.local_model(returned)

    def round_report(self, server: Tree) -> dict[str, Any]:
        return self.method.round_report(server)
