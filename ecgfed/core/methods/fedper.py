r"""FedPer (Arivazhagan et al. 2019, arXiv 1912.00818): shared extractor, personal heads.

Both are trained together on the patient's beats; the extractors are averaged by data share. There is no global head:
the global model is the ensemble of the personal models, or their average.
"""

from typing import ClassVar

from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import BEATS, CommunicationSpec, Sent, Stored
from ecgfed.core.methods.interface import ClientInfo, Returned, Tree, weighted_mean
from ecgfed.core.methods.local_sgd import SgdSettings, zeros_like
from ecgfed.core.methods.models import Pipeline, Stage
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import extractor_of, head_of


class FedPer(Method):
    """Shared extractor, personal heads."""

    name: ClassVar[str] = "fedper"
    communication: ClassVar[CommunicationSpec] = CommunicationSpec(
        "FedPer",
        "Arivazhagan et al., 2019",
        down=(Sent("extractor", "extractor", "extractor"),),
        up=(Sent("extractor", "extractor", "extractor", mean=BEATS),),
        stores=(Stored("head", "classifier head"),),
    )
    settings_type: ClassVar[type] = SgdSettings
    averages = True
    has_global_model: ClassVar[bool] = False

    def server_start(self, initial: Params) -> Tree:
        return {"extractor": extractor_of(initial)}

    def client_start(self, initial: Params) -> Tree:
        return {"head": head_of(initial)}

    def init_new_client(self, server: Tree, initial: Params) -> Tree:
        return self.client_start(initial)  # the server has no head

    def server_message(self, server: Tree, client: int) -> Tree:
        return {"extractor": server["extractor"]}

    def init_round(self, message: Tree, client_state: Tree, info: ClientInfo) -> Tree:
        model = {**message["extractor"], **client_state["head"]}
        return {"model": model, "velocity": zeros_like(model)}

    def finish_round(self, state: Tree, info: ClientInfo) -> tuple[Tree, Tree]:
        return {"extractor": extractor_of(state["model"])}, {"head": head_of(state["model"])}

    def aggregate(self, server: Tree, returned: Returned) -> Tree:
        return {"extractor": weighted_mean(returned.tree["extractor"], returned.data_share)}

    def personal_model(self, server: Tree, client_state: Tree) -> Pipeline:
        extractor = Stage("extractor", server["extractor"], shared=True)
        return Pipeline((extractor, Stage("head", client_state["head"], shared=False)))
