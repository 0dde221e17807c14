r"""FedPer (Arivazhagan et al. 2019, arXiv 1912.00818): the extractor is shared, each patient keeps a head.

Both are trained together on the patient's beats; the extractors are averaged by data share. There is no global head:
the global answer is the ensemble of the personal models, or their average.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from torch import Tensor

from ecgfed.methods.answers import Answer, Chain, Part, together
from ecgfed.methods.base import Batch, ClientInfo, Losses, Method, Returned, Tree, weighted_mean
from ecgfed.methods.card import Card, Keeps, Travels
from ecgfed.methods.local_sgd import SgdSettings, train_whole_model, zeros_like
from ecgfed.nets.layers import Params
from ecgfed.nets.parts import extractor_of, head_of


class FedPer(Method):
    """Shared extractor, personal heads."""

    name: ClassVar[str] = "fedper"
    card: ClassVar[Card] = Card(
        "FedPer",
        "Arivazhagan et al., 2019",
        down=(Travels("extractor", "extractor", "extractor"),),
        up=(Travels("extractor", "extractor", "extractor"),),
        keeps=(Keeps("head", "classifier head"),),
    )
    settings_type: ClassVar[type] = SgdSettings
    averages = True
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        return {"extractor": extractor_of(initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"head": head_of(initial)}

    def newcomer(self, server: Tree, initial: Params) -> Tree:
        return self.client_start(initial)  # nobody has a head to give

    def shared(self, server: Tree, client: int) -> Tree:
        return {"extractor": server["extractor"]}

    def begin(self, shared: Tree, kept: Tree, info: ClientInfo) -> Tree:
        model = {**shared["extractor"], **kept["head"]}
        return {"model": model, "velocity": zeros_like(model)}

    def step(self, state: Tree, batches: Sequence[Batch], t: int | Tensor) -> tuple[Tree, Losses]:
        return train_whole_model(self.net, state, batches[0], self.settings)

    def finish(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"extractor": extractor_of(state["model"])}, {"head": head_of(state["model"])}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return {"extractor": weighted_mean(returned.tree["extractor"], returned.data_share)}

    def global_answer(self, server: Tree, kept: Iterable[Tree], protocol: str) -> Answer:
        return together([self.personal_answer(server, client) for client in kept], protocol)

    def personal_answer(self, server: Tree, kept: Tree) -> Chain:
        extractor = Part("extractor", server["extractor"], shared=True)
        return Chain((extractor, Part("head", kept["head"], shared=False)))
