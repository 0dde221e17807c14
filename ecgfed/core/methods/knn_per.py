r"""kNN-Per (Marfoq et al., ICML 2022, arXiv 2111.09360): FedAvg, and nearest neighbours among a patient's own beats.

The federation trains the global model h alone. A client then stores the global model's features of its own examples,
and its model is the mixture (section 3)

.. math::
    h_m(x) = \lambda_m\, h_m^\text{kNN}(x) + (1 - \lambda_m)\, h(x)

of the classes of the k nearest examples in that datastore and the global model (``ecgfed.core.personal.knn``,
``--personal knn``, which is this method's default). The datastore is made after training and never sent; it is written
into the patient's part of an exported bundle.

Departures from the paper: the server steps with Adam (``server_optimizer``); momentum in local SGD;
``ecgfed.core.personal.knn`` has those of the datastore.

The number of the section is from memory of the paper.
"""

from dataclasses import replace
from typing import ClassVar

from ecgfed.core.methods.communication import CommunicationSpec
from ecgfed.core.methods.fedavg import FedAvg


class KnnPer(FedAvg):
    """FedAvg whose patients' models look at their nearest own beats."""

    name: ClassVar[str] = "knn-per"
    communication: ClassVar[CommunicationSpec] = replace(
        FedAvg.communication, title="kNN-Per", reference="Marfoq et al., ICML 2022"
    )
    personal: ClassVar[str] = "knn"
