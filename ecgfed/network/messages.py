"""Encode and decode the server's requests and the sites' replies as Flower records.

Every field is declared in ``ecgfed.network.leaves`` or in the method's communication spec.
"""

import json
from collections.abc import Mapping, Set
from typing import Any

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from ecgfed import __version__
from ecgfed.core.config import MOST_COUNT
from ecgfed.core.nets.net import MAX_CLASSES, RR_COUNT
from ecgfed.network.config import MAX_PATIENTS, PROTOCOL
from ecgfed.network.errors import OLDER, REASONS, REQUEST, NetworkError, SiteError
from ecgfed.network.leaves import END_UP, REGISTRATION_UP, ROUND_UP
from ecgfed.network.protocol import check_protocol
from ecgfed.network.provenance import PROVENANCE_UP, provenance_problem
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_results import EndScores
from ecgfed.network.site_run import RoundReply, RoundRequest
from ecgfed.network.tensor_schema import TensorSchema
from ecgfed.network.transport import PLAIN, pack, packed, unpack
from ecgfed.network.trees import down_records, down_trees, leaves_of, record_of, up_leaves
from ecgfed.tasks.train_options import RECIPES

#: Flower's message types.
REGISTRATION, ROUND, END = "query.hello", "train", "evaluate"
#: Records of the messages.
FIELDS, _SHARED, _PER_CLIENT, UP, REPORTS, _SCALES = "say", "shared", "own", "up", "reports", "scales"


def registration_request(*, rr: bool, leave_out: str, weak: bool, most: int | None = None) -> RecordDict:
    """Return a registration request; the site's counts depend on these options."""
    fields = {"protocol": PROTOCOL, "rr": rr, "leave_out": leave_out, "weak": weak, "version": __version__}
    return RecordDict({FIELDS: ConfigRecord(fields if most is None else {**fields, "most_per_class": most})})


def read_registration_request(content: RecordDict) -> tuple[bool, str, bool, int | None]:
    """Return ``rr``, ``leave_out``, ``weak`` and ``most_per_class``, the last two False and None if not sent.

    Raises:
        SiteError: another protocol, or no number of examples.
    """
    fields = fields_of(content)
    check_protocol(fields.get("protocol"), server_version(content))
    most = fields.get("most_per_class")
    if most is not None and not _is_integer(most, 1, MOST_COUNT):
        raise SiteError("request", "the server", f"sends most_per_class {most!r:.40}", f"1 to {MOST_COUNT:,}")
    return bool(fields.get("rr")), str(fields.get("leave_out")), bool(fields.get("weak")), most


def server_version(content: RecordDict) -> str:
    """Return the server's version of ecgfed from its registration request."""
    return str(fields_of(content).get("version", ""))


def registration_reply(registration: Mapping[str, Any]) -> RecordDict:
    """Return a site's registration."""
    return RecordDict({FIELDS: ConfigRecord({"protocol": PROTOCOL, **registration})})


def read_registration_reply(content: RecordDict) -> dict[str, Any]:
    """Return a site's registration after checking its fields.

    Raises:
        NetworkError: a field is missing, unknown or of another type.
    """
    fields = dict(fields_of(content))
    if set(fields) != set(REGISTRATION_UP) or fields.pop("protocol") != PROTOCOL:
        reason = f"has the fields {sorted(fields)!s:.200}"
        raise NetworkError("a site's registration", reason, ", ".join(REGISTRATION_UP))
    clients, beats, patients = fields["clients"], fields["train_examples"], fields["patients"]
    lists = isinstance(clients, list) and isinstance(beats, list) and len(clients) == len(beats)
    if not lists or not _is_integer(patients, 0, 1 << 20) or not all(_is_integer(n, 1, 1 << 40) for n in beats):
        raise NetworkError("a site's registration", "has invalid counts", "patients and their training beats")
    if clients != sorted(set(clients)) or not all(_is_integer(index, 0, patients - 1) for index in clients):
        raise NetworkError("a site's registration", "has repeated or out-of-range patient numbers", "0, 1, ...")
    classes, modality, version = fields["classes"], fields["modality"], fields["rr_version"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise NetworkError("a site's registration", "has no class names", "a list of names")
    if not 1 <= len(classes) <= MAX_CLASSES or len(set(classes)) < len(classes):
        raise NetworkError("a site's registration", f"names {len(classes)} classes", f"1 to {MAX_CLASSES:,}, each once")
    # these values are stored for the whole run
    if not isinstance(modality, str) or modality not in RECIPES:
        raise NetworkError("a site's registration", f"has modality {modality!r:.40}", " or ".join(RECIPES))
    if not _is_integer(version, min(RR_COUNT), max(RR_COUNT)):
        raise NetworkError("a site's registration", f"has rr_version {version!r:.40}", " or ".join(map(str, RR_COUNT)))
    if problem := provenance_problem({name: fields[name] for name in PROVENANCE_UP}):
        raise NetworkError("a site's registration", problem)
    return fields


def round_request(request: RoundRequest, more: Mapping[str, ConfigRecord] | None = None) -> RecordDict:
    """Return the server's request to a site for a round.

    Args:
        more: further records, such as the shares of secure aggregation.
    """
    shared, per_client, holders = down_records(request.shared)
    fields = {"order": request.run_spec.as_text(), "round": request.round, "clients": list(request.clients)}
    fields |= {"last": request.last, "holders": json.dumps(holders)}
    return RecordDict({FIELDS: ConfigRecord(fields), _SHARED: shared, _PER_CLIENT: per_client, **(more or {})})


def read_round_request(content: RecordDict, most: int = MAX_PATIENTS) -> RoundRequest:
    """Return the server's request for a round; raises SiteError.

    Args:
        most: patients of the site, each of whom gets a tree of its own.
    """
    fields = fields_of(content)
    run_spec = RunSpec.from_text(str(fields.get("order")))
    clients, round_number, last = fields.get("clients"), fields.get("round"), fields.get("last")
    if not isinstance(clients, list) or not all(_is_integer(client, 0, 1 << 31) for client in clients):
        raise SiteError("request", "the server's round", "names no patients")
    if len(clients) > most:
        raise SiteError("request", "the server's round", f"names {len(clients):,} patients", f"at most {most:,}")
    counts = _is_integer(round_number, 1, 1 << 40) and _is_integer(last, 0, 1 << 40)
    if not counts or clients != sorted(set(clients)):
        raise SiteError("request", "the server's round", f"is {round_number!r:.40} after {last!r:.40}")
    try:
        holders = json.loads(str(fields.get("holders")))
        shared = down_trees(content.array_records[_SHARED], content.array_records[_PER_CLIENT], holders, len(clients))
    except (KeyError, ValueError, AttributeError, TypeError, NetworkError) as problem:
        raise SiteError("request", "the server's round", f"cannot be read ({problem!s:.200})") from problem
    return RoundRequest(run_spec, int(str(round_number)), tuple(clients), int(str(last)), shared)


def round_reply(reply: RoundReply, request: RoundRequest) -> RecordDict:
    """Return a site's reply for a round."""
    reports = {name: [losses[name] for losses in reply.losses] for name in reply.losses[0]}
    leaves, scales = pack(reply.returned, request.shared, request.run_spec.transport)
    fields = {"run": request.run_spec.run, "round": request.round, "clients": list(request.clients)}
    sent = ConfigRecord({**fields, "examples": list(reply.examples)})
    optional = {_SCALES: record_of(scales)} if request.run_spec.transport != PLAIN else {}
    return RecordDict({UP: record_of(leaves), REPORTS: MetricRecord(reports), FIELDS: sent, **optional})


def read_round_reply(content: RecordDict, request: RoundRequest, schema: TensorSchema) -> RoundReply:
    """Return a site's reply for a round, checked against the request.

    Args:
        request: the server's request.
        schema: the expected structure of each client's reply.

    Raises:
        NetworkError: the reply does not match; unexpected or oversized leaves are rejected before they are decoded.
    """
    clients, transport = request.clients, request.run_spec.transport
    rows, examples = losses_of_reply(
        content, request, {UP, REPORTS, FIELDS} | ({_SCALES} if transport != PLAIN else set())
    )
    expected = {path: (packed(*leaf, transport), (len(clients), *leaf[1])) for path, leaf in schema.leaves.items()}
    smaller = [path for path, (dtype, _) in expected.items() if dtype != schema.leaves[path][0]]
    leaves = up_leaves(content.array_records[UP], expected)
    scales = dict.fromkeys(smaller, (torch.float32, (len(clients),)))
    sizes = up_leaves(content.array_records[_SCALES], scales) if transport != PLAIN else {}
    returned = unpack(leaves, sizes, request.shared, transport)
    for tree, losses in zip(returned, rows, strict=True):
        schema.check(tree, losses)
    return RoundReply(returned, rows, examples)


def losses_of_reply(
    content: RecordDict, request: RoundRequest, parts: Set[str]
) -> tuple[list[dict[str, float]], list[int]]:
    """Return each client's losses and beats from a reply for a round, checked against the request.

    Args:
        content: the reply.
        request: the server's request.
        parts: the records that the reply has to have.

    Raises:
        NetworkError: the reply does not match.
    """
    clients, fields = request.clients, fields_of(content)
    if set(content) != parts or set(fields) != set(ROUND_UP):
        raise NetworkError("a site's reply", f"has the parts {sorted(content)!s:.100}", ", ".join(sorted(parts)))
    if (fields["run"], fields["round"]) != (request.run_spec.run, request.round):
        raise NetworkError("a site's reply", "is of another run or round", f"round {request.round} of this run")
    examples = fields["examples"]
    if fields["clients"] != list(clients) or not isinstance(examples, list) or len(examples) != len(clients):
        raise NetworkError("a site's reply", "is for other patients", "the requested patients")
    if not all(_is_integer(count, 1, 1 << 40) for count in examples):
        raise NetworkError("a site's reply", "used no beats", "1 or more per patient")
    return _reports(content, len(clients)), [int(str(value)) for value in examples]


def _reports(content: RecordDict, clients: int) -> list[dict[str, float]]:
    reports = content.metric_records[REPORTS]
    rows: list[dict[str, float]] = [{} for _ in range(clients)]
    for name, values in reports.items():
        if not isinstance(values, list) or len(values) != clients:
            raise NetworkError("a site's reply", f"has {name[:40]!r} for other patients", "one number per patient")
        for row, value in zip(rows, values, strict=True):
            row[name] = float(value)
    if "loss" not in reports:
        raise NetworkError("a site's reply", "has no loss", "one per patient")
    return rows


def end_request(run_spec: RunSpec, last: int, leaves: Mapping[str, Any], split: str = "test") -> RecordDict:
    """Return the server's final request, or a request for intermediate scores.

    Args:
        last: the site's last committed round.
        leaves: the trained leaves, by path.
        split: ``test`` at the end; ``valid`` for intermediate scores.
    """
    fields = ConfigRecord({"order": run_spec.as_text(), "last": last, "split": split})
    return RecordDict({FIELDS: fields, _SHARED: record_of(leaves)})


def read_end_request(content: RecordDict) -> tuple[RunSpec, int, str, dict[str, Any]]:
    """Return the run specification, the site's last committed round, the split, and the leaves by path.

    Raises:
        SiteError: the request cannot be read.
    """
    fields = fields_of(content)
    run_spec, last, split = RunSpec.from_text(str(fields.get("order"))), fields.get("last"), str(fields.get("split"))
    if not _is_integer(last, 0, 1 << 40) or split not in ("test", "valid"):
        raise SiteError("request", "the server's end", f"is after {last!r:.40}, for the split {split:.40}")
    try:
        return run_spec, int(str(last)), split, dict(leaves_of(content.array_records[_SHARED]))
    except (KeyError, NetworkError) as problem:
        raise SiteError("request", "the server's end", f"cannot be read ({problem!s:.200})") from problem


def end_reply(scores: EndScores) -> RecordDict:
    """Return a site's scores."""
    return RecordDict({REPORTS: MetricRecord(scores.as_json())})


def read_end_reply(content: RecordDict) -> EndScores:
    """Return a site's scores; raises NetworkError."""
    scores = content.metric_records.get(REPORTS)
    accepted = (set(END_UP), {"patients"})  # the second if the site does not report scores
    if scores is None or set(scores) not in accepted or any(isinstance(value, list) for value in scores.values()):
        raise NetworkError("a site's scores", "have other fields", ", ".join(END_UP))
    values = {name: float(str(value)) for name, value in scores.items()}
    upper = {"patients": 1 << 20, "T_g": 1, "T_p": 1}
    if not all(0 <= value <= upper[name] for name, value in values.items()):  # also rejects NaN
        raise NetworkError("a site's scores", f"are {values!s:.100}", "a count, and scores from 0 to 1")
    return EndScores(int(values["patients"]), values.get("T_g"), values.get("T_p"))


def refusal_reply(problem: SiteError) -> RecordDict:
    """Return a site's refusal, which holds only the error code."""
    return RecordDict({FIELDS: ConfigRecord({"refused": problem.code})})


def refusal_code(content: RecordDict) -> str | None:
    """Return the error code of a site's refusal; None if the reply is not a refusal."""
    code = fields_of(content).get("refused")
    return None if code is None else str(code)


def refusal_reason(content: RecordDict, kind: str = "") -> str | None:
    """Return the text of a site's refusal; None if the reply is not a refusal.

    Args:
        kind: Flower's type of the message that the site refuses, if known.
    """
    code = refusal_code(content)
    if code == REQUEST and kind == REGISTRATION:  # what a site of protocol 2 or before answers to a newer server
        code = OLDER
    return None if code is None else REASONS.get(code, "unknown reason")


def fields_of(content: RecordDict) -> Mapping[str, Any]:
    """Return the fields of a message, besides its leaves; empty if there are none."""
    return dict(content.config_records.get(FIELDS, ConfigRecord()))


def _is_integer(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
