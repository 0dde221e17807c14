"""A server that has two vectors of one site masked in a round: their difference would be a patient's update."""

from collections.abc import Callable
from typing import Any

import pytest
from needs import flower

flower()

from flwr.app import ConfigRecord, RecordDict
from test_secure_aggregation import finished, question

from ecgfed.network import client_app, sum_messages
from ecgfed.network.client_app import handle

pytestmark = pytest.mark.usefixtures("at_once")
__all__ = ["finished"]
NODES = (11, 12, 13)


def one_patient_less(content: RecordDict) -> None:
    content["say"]["clients"] = list(content["say"]["clients"])[:-1]


def exchange_again(made: Any) -> dict[int, dict[int, bytes]]:
    """Repeat the exchange of keys and shares as after a kill; returns every site's boxes."""

    def last(kind: str, node: int) -> RecordDict:
        return [content for asked, to, content in made.grid.sent if (asked, to) == (kind, node)][-1]

    def ask(node: int, content: RecordDict, handler: Callable[..., RecordDict]) -> RecordDict:
        return handle(made.grid.sites[node], content, handler)

    keys = [sum_messages.read_keys_reply(ask(node, last("query.keys", node), client_app._keys)) for node in NODES]
    public, boxes = dict(enumerate(keys)), {}
    for place, node in enumerate(NODES):
        order = sum_messages.read_stage_request(last("query.shares", node))[0]
        content = sum_messages.shares_request(order, 1, public)
        boxes[place] = sum_messages.read_shares_reply(ask(node, content, client_app._shares), place, [0, 1, 2])
    return boxes


def test_keys_are_shared_once(finished: Any) -> None:
    """With a new seed for the same secrets, the masks of two vectors would differ by what can be revealed."""
    assert question(finished, 11, "query.shares", lambda content: None) == {"refused": "sums"}


def test_a_round_has_one_vector_whatever_the_keys(finished: Any) -> None:
    """The same request again is answered, as a killed server needs; one with a patient less is refused."""
    boxes = exchange_again(finished)

    def with_boxes(content: RecordDict) -> None:
        received = {source: box[0] for source, box in boxes.items() if source != 0}
        content["boxes"] = ConfigRecord(dict(sum_messages.boxes_record(received)))

    def less(content: RecordDict) -> None:
        with_boxes(content)
        one_patient_less(content)

    assert question(finished, 11, "train", less) == {"refused": "sums"}
    assert "is another one than before in round 1" in (finished.sites[0] / "log.txt").read_text()
    assert "refused" not in question(finished, 11, "train", with_boxes)
