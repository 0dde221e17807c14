"""A federated method as hooks: pure functions over dictionaries of tensors. ``Method`` itself is federated averaging.

Another method overrides the hooks in which it differs from FedAvg (equations in ``fedavg.py``). A hook never sees a
loop over clients, a device or a file: the engine calls it for one client after the other, for many at once
(``torch.func.vmap``), or inside a client at a hospital.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from torch import Tensor

from ecgfed.base.deprecation import RenamedMembers, renamed_imports
from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.interface import (
    Batch,
    ClientInfo,
    LocalBeats,
    Losses,
    Requirements,
    Returned,
    Tree,
    cross_entropy,
    row_mean,
    weighted_mean,
)
from ecgfed.core.methods.local_sgd import train_full_model, zeros_like
from ecgfed.core.methods.losses import batch_loss
from ecgfed.core.methods.models import Model, Pipeline, Stage, combine_models
from ecgfed.core.methods.server_sgd import FederatedSgdSettings, server_start, server_step
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.net import Net

__all__ = [
    "Batch",
    "ClientInfo",
    "LocalBeats",
    "Losses",
    "Method",
    "Requirements",
    "Returned",
    "Tree",
    "cross_entropy",
    "row_mean",
    "weighted_mean",
]

__getattr__ = renamed_imports(__name__, "0.3", "0.5", Needs="ecgfed.core.methods.interface:Requirements")

_RENAMED = {
    "card": "communication",
    "needs": "requirements",
    "shared": "server_message",
    "survey": "pre_round_metrics",
    "begin": "init_round",
    "finish": "finish_round",
    "global_answer": "global_model",
    "personal_answer": "personal_model",
    "personal_variants": "alternative_models",
    "local_answer": "local_model",
    "newcomer": "init_new_client",
    "from_class_mix": "model_from_class_distribution",
    "in_training": "current_model",
}


class Method(RenamedMembers, since="0.3", removed="0.5", renamed=_RENAMED):
    """One federated algorithm; as it stands, federated averaging.

    A subclass sets ``name`` and ``communication``, and where it differs ``settings_type``, ``requirements``,
    ``averages``, ``has_global_model`` and hooks. Every file in ``ecgfed/core/methods`` is searched for subclasses.

    Attributes:
        name: by which it is found; empty for classes that are only a base of others.
        communication: what is sent and stored (``ecgfed methods NAME``).
        requirements: what the engine has to provide.
        has_global_model: False if the clients' models together are the only global model.
        averages: whether ``aggregate`` starts with a weighted mean of the weights sent by the clients, as robust
            aggregation and differential privacy require (``ecgfed.core.federation.updates``). A class that overrides
            ``aggregate`` has to answer for it, so it is False unless stated.
        personal: name of the personal model that ``--personal`` defaults to (``ecgfed.core.personal``); ``method`` is
            the method's own.
        settings_type: a frozen dataclass derived from ``Settings``.
    """

    name: ClassVar[str] = ""
    communication: ClassVar[CommunicationSpec]
    requirements: Requirements = Requirements()
    has_global_model: ClassVar[bool] = True
    averages: bool = False
    personal: ClassVar[str] = "method"
    settings_type: ClassVar[type] = FederatedSgdSettings

    def __init__(self, net: Net, settings: Any) -> None:
        self.net = net
        self.settings = settings

    def server_start(self, initial: Params) -> Tree:
        """Return the server's state before the first round."""
        return server_start(initial, self.settings)

    def client_start(self, initial: Params) -> Tree:
        """Return a client's state before its first round; ``{}`` if clients store nothing."""
        return {}

    def server_message(self, server: Tree, client: int) -> Tree:
        """Return what the server sends to a participant.

        Leaves that are equal for all clients must be the same tensors for all of them: they are not copied on the way.

        Args:
            server: the server's state.
            client: the participant's number; a number outside the federation stands for a new client.
        """
        return {"model": server["model"]}

    def pre_round_metrics(self, message: Tree, batch: Batch) -> Losses:
        """Return metrics of the received model, means over the batch, 0-d; the engine averages over training beats."""
        return {"loss": batch_loss(self.net.logits(message["model"], batch.inputs), batch, self.settings)}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        """Return a client's working state at the start of its round, optimizer state included.

        With ``Requirements(training=True)`` it may read the client's training beats from ``info.training``.
        """
        return {"model": message["model"], "velocity": zeros_like(message["model"])}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        """Take local step ``t`` (from 0 on); return the new state and named losses (0-d tensors), first ``loss``.

        With many clients at once ``t`` is a 0-d int64 tensor that differs between clients: use ``torch.where``, never
        ``if``. Values that are equal for all clients of a round may decide the state's keys in ``init_round``.
        """
        trained, losses = train_full_model(
            self.net, state, batches[0], self.settings, lambda gradient, w: self.adjust_gradient(gradient, w, state)
        )
        return {**state, **trained}, losses

    def adjust_gradient(self, gradient: Params, w: Params, state: Tree) -> Params:
        """Return the direction of a local step; override to add a proximal term or a control variate.

        Args:
            gradient: the loss's gradient at ``w``.
            w: the trainable entries of ``state["model"]``.
            state: the working state.
        """
        return gradient

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        """Return the message to the server and the client's new state.

        With ``Requirements(training=True)`` it may read the client's training beats from ``info.training``. The state
        is on the CPU, whatever the device of the steps.
        """
        return {"model": state["model"]}, {}

    def weights(self, returned: Returned) -> Tensor:
        """Return the aggregation weights (m,) float64: data shares p_i."""
        return returned.data_share

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        """Return the server's state after a round."""
        mean = weighted_mean(returned.tree["model"], self.weights(returned))
        return server_step(server, mean, self.settings, returned.progress)

    def global_model(self, server: Tree, client_states: Iterable[Tree], protocol: str) -> Model:
        """Return the model for patients without a personal one.

        Args:
            server: the server's state.
            client_states: each client's state, in client order.
            protocol: for methods without a global model: ``ensemble`` or ``average`` of the clients' models.
        """
        if not self.has_global_model:
            return combine_models([self.personal_model(server, state) for state in client_states], protocol)
        return Pipeline((Stage("model", server["model"], shared=True),))

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        """Return the model of the patient with this state; by default the global one."""
        return Pipeline((Stage("model", server["model"], shared=True),))

    def alternative_models(self, server: Tree, client_state: Tree) -> dict[str, Pipeline]:
        """Return further models of a patient to score beside ``personal_model``, by name; none by default."""
        return {}

    def local_model(self, returned: Tree) -> Pipeline | None:
        """Return a client's model after local training, from its message to the server; None by default.

        For methods whose personal model is the global one: these local models are then scored as personal models, too
        (Fed-RoD, section 3.2).
        """
        return None

    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        """Return the state of a patient who was not trained on, before the first local step, late in a run.

        Args:
            server: the server's state.
            initial: the run's first parameters, for entries that the server does not have.
        """
        return self.client_start({**initial, **server.get("model", {})})

    def model_from_class_distribution(self, server: Tree, distribution: Tensor) -> Pipeline | None:
        """Return a model for a patient of whom only class shares (classes,) are known; None if not supported."""
        return None

    def current_model(self, state: Tree) -> Params:
        """Return the model that ``step`` trains on the client's loss, from the working state."""
        model: Params = state["model"]
        return model

    def round_report(self, server: Tree) -> dict[str, float]:
        """Return numbers of the server's state for the training history; none by default."""
        return {}
