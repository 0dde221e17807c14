"""Messages of secure aggregation beside those of a round: public keys, shares of secrets, and what unmasks a sum.

Sites are numbered by their places in the run's sites, from 0.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from ecgfed.core.federation.trees import flatten, unflatten
from ecgfed.core.methods.base import Tree
from ecgfed.core.runs.tree_files import serialised
from ecgfed.network.errors import NetworkError, SiteError
from ecgfed.network.leaves import KEYS_UP, SHARES_UP, UNMASK_UP
from ecgfed.network.masks import Words
from ecgfed.network.messages import FIELDS, REPORTS, UP, fields_of, losses_of_reply
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_run import RoundReply, RoundRequest
from ecgfed.network.tensor_schema import TensorSchema
from ecgfed.network.trees import record_of, up_leaves

#: Flower's message types, in the order of a round; the masked sums are the replies to the request for the round.
KEYS, SHARES, UNMASK = "query.keys", "query.shares", "query.unmask"
#: Records of these messages.
_KEYS, BOXES, _SHARES = "keys", "boxes", "shares"
#: Longest key, signature, box or share, bytes; they have a few hundred.
_MAX_BYTES = 4096
_MAX_SITES = 10_000
#: Digests of the weights of a round: one, or several where what a client is sent depends on earlier rounds.
_DIGESTS = re.compile(r"[0-9a-f]{64}(,[0-9a-f]{64}){0,15}")


@dataclass(frozen=True)
class PublicKeys:
    """A site's public keys for one round.

    Attributes:
        mask: for the masks, PEM.
        seal: for the shares, PEM.
        signature: over ``signed_text``, by the site's key.
    """

    mask: bytes
    seal: bytes
    signature: bytes


@dataclass(frozen=True)
class SumReply:
    """A site's reply in a round of secure aggregation.

    Attributes:
        vector: its masked sum, modulo 2^64.
        losses: each client's losses.
        examples: number of beats each client used.
    """

    vector: Words
    losses: list[dict[str, float]]
    examples: list[int]


def stage_request(run_spec: RunSpec, round_number: int, **fields: Any) -> RecordDict:
    """Return the request of a stage.

    Args:
        fields: ``weights`` for public keys, ``arrived`` for what unmasks a sum.
    """
    return RecordDict({FIELDS: ConfigRecord({"order": run_spec.as_text(), "round": round_number, **fields})})


def read_stage_request(content: RecordDict) -> tuple[RunSpec, int]:
    """Return the run specification and the round of a stage's request; raises SiteError."""
    fields = fields_of(content)
    number = fields.get("round")
    if type(number) is not int or not 1 <= number <= 1 << 40:
        raise SiteError("request", "the server's request", f"is of round {number!r:.40}")
    return RunSpec.from_text(str(fields.get("order"))), number


def digest_of(tree: Tree) -> str:
    """Return the SHA-256 of the weights that a client is sent."""
    return hashlib.sha256(serialised(unflatten(dict(sorted(flatten(tree).items()))))).hexdigest()


def read_digests(content: RecordDict) -> str:
    """Return the digests of the weights, separated by commas, from the request for keys; raises SiteError."""
    digests = str(fields_of(content).get("weights"))
    if not _DIGESTS.fullmatch(digests):
        raise SiteError("request", "the server's request", "has no digest of weights")
    return digests


def keys_reply(keys: PublicKeys) -> RecordDict:
    """Return a site's public keys."""
    return RecordDict({FIELDS: ConfigRecord({name: getattr(keys, name) for name in KEYS_UP})})


def read_keys_reply(content: RecordDict) -> PublicKeys:
    """Return a site's public keys; raises NetworkError."""
    fields = fields_of(content)
    if set(fields) != set(KEYS_UP) or not all(_is_short(value) for value in fields.values()):
        raise NetworkError("a site's keys", "have other fields", ", ".join(KEYS_UP))
    return PublicKeys(fields["mask"], fields["seal"], fields["signature"])


def shares_request(run_spec: RunSpec, round_number: int, public: Mapping[int, PublicKeys]) -> RecordDict:
    """Return the request for shares: the public keys of all sites."""
    content = stage_request(run_spec, round_number)
    each = {name: [getattr(keys, name) for keys in public.values()] for name in KEYS_UP}
    content[_KEYS] = ConfigRecord({"sites": list(public), **each})
    return content


def read_public_keys(content: RecordDict) -> dict[int, PublicKeys]:
    """Return the public keys of all sites from the request for shares; raises SiteError."""
    record = content.config_records.get(_KEYS, ConfigRecord())
    lists = [_texts(record, name) for name in KEYS_UP]
    sites = _numbers(record, "sites")
    if sites is None or any(texts is None or len(texts) != len(sites) for texts in lists):
        raise SiteError("request", "the server's request", "has no public keys")
    columns = [texts for texts in lists if texts is not None]
    return {site: PublicKeys(*parts) for site, *parts in zip(sites, *columns, strict=True)}


def boxes_record(boxes: Mapping[int, bytes]) -> ConfigRecord:
    """Return encrypted shares by the site that they are for, or come from."""
    return ConfigRecord(dict(zip(SHARES_UP, (list(boxes), list(boxes.values())), strict=True)))


def boxes_of(content: RecordDict) -> dict[int, bytes] | None:
    """Return encrypted shares by site; None if there are none or they are malformed."""
    record = content.config_records.get(BOXES, ConfigRecord())
    sites, boxes = _numbers(record, "sites"), _texts(record, "boxes")
    if sites is None or boxes is None or len(sites) != len(boxes):
        return None
    return dict(zip(sites, boxes, strict=True))


def read_shares_reply(content: RecordDict, site: int, sites: Sequence[int]) -> dict[int, bytes]:
    """Return a site's encrypted shares for the other sites; raises NetworkError.

    Args:
        site: the site.
        sites: all sites whose keys were sent.
    """
    boxes = boxes_of(content)
    if boxes is None or set(content) != {BOXES} or sorted(boxes) != sorted(set(sites) - {site}):
        raise NetworkError("a site's shares", "are of other sites", "one for each other site")
    return boxes


def sum_reply(leaves: Mapping[str, Tensor], reply: RoundReply, request: RoundRequest) -> RecordDict:
    """Return a site's reply for a round: its masked sum in place of its patients' trees.

    Args:
        leaves: path -> int64.
    """
    reports = {name: [losses[name] for losses in reply.losses] for name in reply.losses[0]}
    fields = {"run": request.run_spec.run, "round": request.round, "clients": list(request.clients)}
    sent = ConfigRecord({**fields, "examples": list(reply.examples)})
    return RecordDict({UP: record_of(leaves), REPORTS: MetricRecord(reports), FIELDS: sent})


def read_sum_reply(content: RecordDict, request: RoundRequest, schema: TensorSchema) -> SumReply:
    """Return a site's masked sum after checking structure and losses; raises NetworkError."""
    losses, examples = losses_of_reply(content, request, {UP, REPORTS, FIELDS})
    for of_client in losses:
        schema.check_losses(of_client)
    leaves = up_leaves(
        content.array_records[UP], {path: (torch.int64, shape) for path, shape in shapes(schema).items()}
    )
    flat = torch.cat([leaf.flatten() for leaf in leaves.values()])
    return SumReply(flat.numpy().view("uint64"), losses, examples)


def shapes(schema: TensorSchema) -> dict[str, tuple[int, ...]]:
    """Return the shape of every leaf of a sum, by path, in the order of a vector."""
    return {path: shape for path, (_, shape) in sorted(schema.leaves.items())}


def read_arrived(content: RecordDict) -> list[int]:
    """Return the sites whose sums arrived, from the request for what unmasks their sum; raises SiteError."""
    arrived = _numbers(fields_of(content), "arrived")
    if arrived is None:
        raise SiteError("request", "the server's request", "does not say whose sums arrived")
    return arrived


def unmask_reply(shares: Mapping[int, bytes]) -> RecordDict:
    """Return a site's shares of the others' secrets."""
    fields = dict(zip(UNMASK_UP, (list(shares), list(shares.values())), strict=True))
    return RecordDict({_SHARES: ConfigRecord(fields)})


def read_unmask_reply(content: RecordDict, sites: Sequence[int]) -> dict[int, bytes]:
    """Return a site's shares of secrets, by the secret's site; raises NetworkError.

    Args:
        sites: all sites whose shares were passed on.
    """
    record = content.config_records.get(_SHARES, ConfigRecord())
    named, shares = _numbers(record, "sites"), _texts(record, "shares")
    if set(content) != {_SHARES} or named is None or shares is None or sorted(named) != sorted(sites):
        raise NetworkError("a site's shares", "are of other sites", "one for each site")
    return dict(zip(named, shares, strict=True))


def _numbers(fields: Mapping[str, Any], name: str) -> list[int] | None:
    """Return sites, each once and increasing; None if there are none."""
    values = fields.get(name)
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_SITES:
        return None
    whole = all(type(value) is int and 0 <= value < _MAX_SITES for value in values)
    return list(values) if whole and values == sorted(set(values)) else None


def _texts(fields: Mapping[str, Any], name: str) -> list[bytes] | None:
    values = fields.get(name)
    return list(values) if isinstance(values, list) and all(map(_is_short, values)) else None


def _is_short(value: object) -> bool:
    return isinstance(value, bytes) and 0 < len(value) <= _MAX_BYTES
