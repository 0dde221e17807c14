"""Flower's messages: what the server asks and what a site answers, as records, and back.

Every field is named in ``ecgfed.network.leaves`` or on the method's card.
"""

import json
from collections.abc import Mapping
from typing import Any

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from ecgfed.nets.net import MAX_CLASSES, RR_COUNT
from ecgfed.network.errors import REASONS, NetworkError, SiteError
from ecgfed.network.expected import Form
from ecgfed.network.leaves import END_UP, HELLO_UP, ROUND_UP
from ecgfed.network.orders import PROTOCOL, Order
from ecgfed.network.site_end import EndScores
from ecgfed.network.site_round import RoundReply, RoundRequest
from ecgfed.network.transport import PLAIN, pack, packed, unpack
from ecgfed.network.trees import down_records, down_trees, leaves_of, record_of, up_leaves
from ecgfed.tasks.train_options import RECIPES

#: Kinds of Flower's messages.
HELLO, ROUND, END = "query.hello", "train", "evaluate"
_SAY, _SHARED, _OWN, _UP, _REPORTS, _SCALES = "say", "shared", "own", "up", "reports", "scales"


def hello_request(*, rr: bool, leave_out: str) -> RecordDict:
    """Return the question who a site is; its counts depend on what is asked."""
    return RecordDict({_SAY: ConfigRecord({"protocol": PROTOCOL, "rr": rr, "leave_out": leave_out})})


def read_hello_request(content: RecordDict) -> tuple[bool, str]:
    """Return ``rr`` and ``leave_out``; raises SiteError."""
    say = _say(content)
    if say.get("protocol") != PROTOCOL:
        raise SiteError("request", "the server", f"speaks protocol {say.get('protocol')!r:.20}", str(PROTOCOL))
    return bool(say.get("rr")), str(say.get("leave_out"))


def hello_reply(told: Mapping[str, Any]) -> RecordDict:
    """Return what a site says of itself."""
    return RecordDict({_SAY: ConfigRecord({"protocol": PROTOCOL, **told})})


def read_hello_reply(content: RecordDict) -> dict[str, Any]:
    """Return what a site says of itself, checked for its types.

    Raises:
        NetworkError: a field too many, too few, or of another type.
    """
    say = dict(_say(content))
    if set(say) != set(HELLO_UP) or say.pop("protocol") != PROTOCOL:
        raise NetworkError("a site's hello", f"has the fields {sorted(say)!s:.200}", ", ".join(HELLO_UP))
    clients, beats, patients = say["clients"], say["train_examples"], say["patients"]
    lists = isinstance(clients, list) and isinstance(beats, list) and len(clients) == len(beats)
    if not lists or not _is_whole(patients, 0, 1 << 20) or not all(_is_whole(n, 1, 1 << 40) for n in beats):
        raise NetworkError("a site's hello", "counts what cannot be", "patients, and their training beats")
    if clients != sorted(set(clients)) or not all(_is_whole(place, 0, patients - 1) for place in clients):
        raise NetworkError("a site's hello", "numbers its patients twice or beyond their count", "0 and on")
    classes, modality, version = say["classes"], say["modality"], say["rr_version"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise NetworkError("a site's hello", "names no classes", "a list of names")
    if not 1 <= len(classes) <= MAX_CLASSES or len(set(classes)) < len(classes):
        raise NetworkError("a site's hello", f"names {len(classes)} classes", f"1 to {MAX_CLASSES:,}, each once")
    # what comes of them is written down for the whole run
    if not isinstance(modality, str) or modality not in RECIPES:
        raise NetworkError("a site's hello", f"has modality {modality!r:.40}", " or ".join(RECIPES))
    if not _is_whole(version, min(RR_COUNT), max(RR_COUNT)):
        raise NetworkError("a site's hello", f"has rr_version {version!r:.40}", " or ".join(map(str, RR_COUNT)))
    return say


def round_request(request: RoundRequest) -> RecordDict:
    """Return what the server asks of a site in a round."""
    shared, own, holders = down_records(request.shared)
    say = ConfigRecord(
        {
            "order": request.order.as_text(),
            "round": request.round,
            "clients": list(request.clients),
            "last": request.last,
            "holders": json.dumps(holders),
        }
    )
    return RecordDict({_SAY: say, _SHARED: shared, _OWN: own})


def read_round_request(content: RecordDict) -> RoundRequest:
    """Return what a server asks for; raises SiteError."""
    say = _say(content)
    order = Order.from_text(str(say.get("order")))
    clients, number, last = say.get("clients"), say.get("round"), say.get("last")
    if not isinstance(clients, list) or not all(_is_whole(client, 0, 1 << 31) for client in clients):
        raise SiteError("request", "the server's round", "names no patients")
    if not _is_whole(number, 1, 1 << 40) or not _is_whole(last, 0, 1 << 40) or clients != sorted(set(clients)):
        raise SiteError("request", "the server's round", f"is {number!r:.40} after {last!r:.40}")
    try:
        holders = json.loads(str(say.get("holders")))
        shared = down_trees(content.array_records[_SHARED], content.array_records[_OWN], holders, len(clients))
    except (KeyError, ValueError, AttributeError, TypeError, NetworkError) as problem:
        raise SiteError("request", "the server's round", f"holds what cannot be read ({problem!s:.200})") from problem
    return RoundRequest(order, int(str(number)), tuple(clients), int(str(last)), shared)


def round_reply(reply: RoundReply, request: RoundRequest) -> RecordDict:
    """Return what a site sends back."""
    reports = {name: [one[name] for one in reply.losses] for name in reply.losses[0]}
    leaves, scales = pack(reply.returned, request.shared, request.order.transport)
    say = {
        "run": request.order.run,
        "round": request.round,
        "clients": list(request.clients),
        "examples": list(reply.examples),
    }
    more = {_SCALES: record_of(scales)} if request.order.transport != PLAIN else {}
    return RecordDict({_UP: record_of(leaves), _REPORTS: MetricRecord(reports), _SAY: ConfigRecord(say), **more})


def read_round_reply(content: RecordDict, request: RoundRequest, form: Form) -> RoundReply:
    """Return what a site sent back.

    Args:
        content: of the reply.
        request: what it was asked.
        form: what each participant's answer has to be.

    Raises:
        NetworkError: it is something else; of leaves that are too many or too large nothing is read.
    """
    clients, transport, say = request.clients, request.order.transport, _say(content)
    parts = {_UP, _REPORTS, _SAY} | ({_SCALES} if transport != PLAIN else set())
    if set(content) != parts or set(say) != set(ROUND_UP):
        raise NetworkError("a site's reply", f"has the parts {sorted(content)!s:.100}", ", ".join(sorted(parts)))
    if (say["run"], say["round"]) != (request.order.run, request.round):
        raise NetworkError("a site's reply", "is of another run or round", f"round {request.round} of this run")
    examples = say["examples"]
    if say["clients"] != list(clients) or not isinstance(examples, list) or len(examples) != len(clients):
        raise NetworkError("a site's reply", "is about other patients", "those it was asked for")
    if not all(_is_whole(count, 1, 1 << 40) for count in examples):
        raise NetworkError("a site's reply", "used no beats", "1 or more each")
    rows = _reports(content, len(clients))
    wanted = {path: (packed(*leaf, transport), (len(clients), *leaf[1])) for path, leaf in form.leaves.items()}
    smaller = [path for path, (dtype, _) in wanted.items() if dtype != form.leaves[path][0]]
    leaves = up_leaves(content.array_records[_UP], wanted)
    scales = dict.fromkeys(smaller, (torch.float32, (len(clients),)))
    sizes = up_leaves(content.array_records[_SCALES], scales) if transport != PLAIN else {}
    returned = unpack(leaves, sizes, request.shared, transport)
    for tree, losses in zip(returned, rows, strict=True):
        form.check(tree, losses)
    return RoundReply(returned, rows, [int(str(one)) for one in examples])


def _reports(content: RecordDict, clients: int) -> list[dict[str, float]]:
    reports = content.metric_records[_REPORTS]
    rows: list[dict[str, float]] = [{} for _ in range(clients)]
    for name, values in reports.items():
        if not isinstance(values, list) or len(values) != clients:
            raise NetworkError("a site's reply", f"has {name[:40]!r} for other patients", "a number each")
        for row, value in zip(rows, values, strict=True):
            row[name] = float(value)
    if "loss" not in reports:
        raise NetworkError("a site's reply", "has no loss", "one a patient")
    return rows


def end_request(order: Order, last: int, leaves: Mapping[str, Any], split: str = "test") -> RecordDict:
    """Return what the server delivers at the end, or for scores on the way.

    Args:
        order: the run.
        last: the site's last round that counts.
        leaves: of the answer, by path.
        split: ``test`` at the end; ``valid`` for scores alone.
    """
    say = ConfigRecord({"order": order.as_text(), "last": last, "split": split})
    return RecordDict({_SAY: say, _SHARED: record_of(leaves)})


def read_end_request(content: RecordDict) -> tuple[Order, int, str, dict[str, Any]]:
    """Return the order, the site's last round that counts, the split, and the leaves by path; raises SiteError."""
    say = _say(content)
    order, last, split = Order.from_text(str(say.get("order"))), say.get("last"), str(say.get("split"))
    if not _is_whole(last, 0, 1 << 40) or split not in ("test", "valid"):
        raise SiteError("request", "the server's end", f"is after {last!r:.40}, for the split {split:.40}")
    try:
        return order, int(str(last)), split, dict(leaves_of(content.array_records[_SHARED]))
    except (KeyError, NetworkError) as problem:
        raise SiteError("request", "the server's end", f"cannot be read ({problem!s:.200})") from problem


def end_reply(scores: EndScores) -> RecordDict:
    """Return a site's scores."""
    return RecordDict({_REPORTS: MetricRecord(scores.as_json())})


def read_end_reply(content: RecordDict) -> EndScores:
    """Return a site's scores; raises NetworkError."""
    found = content.metric_records.get(_REPORTS)
    forms = (set(END_UP), {"patients"})  # the other one keeps its scores to itself
    if found is None or set(found) not in forms or any(isinstance(value, list) for value in found.values()):
        raise NetworkError("a site's end", "is no scores", ", ".join(END_UP))
    values = {name: float(str(value)) for name, value in found.items()}
    most = {"patients": 1 << 20, "T_g": 1, "T_p": 1}
    if not all(0 <= value <= most[name] for name, value in values.items()):  # NaN is neither
        raise NetworkError("a site's end", f"has the scores {values!s:.100}", "a count, and scores of 0 to 1")
    return EndScores(int(values["patients"]), values.get("T_g"), values.get("T_p"))


def refusal(problem: SiteError) -> RecordDict:
    """Return what a site says when it cannot: the code alone."""
    return RecordDict({_SAY: ConfigRecord({"refused": problem.code})})


def refused(content: RecordDict) -> str | None:
    """Return why a site refused, in words; None where it did not."""
    say = content.config_records.get(_SAY)
    if say is None or "refused" not in say:
        return None
    return REASONS.get(str(say["refused"]), "for no reason that is known")


def _say(content: RecordDict) -> Mapping[str, Any]:
    return dict(content.config_records.get(_SAY, ConfigRecord()))


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
