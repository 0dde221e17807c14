"""A site's part of secure aggregation: its keys and secrets in a round, and what it reveals of the others'.

A site masks one vector with one set of keys. It reveals of every other site either the share of its seed, if that
site's vector arrived, or that of its key, and in each round of a run always for the same sites: the difference of two
sums of the same round would be the update of a site. For the same reason it masks in a round of a run only one
request's vector, whatever the keys: the difference of two would be the update of a patient.
"""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.core.federation.sums import client_weights, summed
from ecgfed.network import masks
from ecgfed.network.audit import site_key
from ecgfed.network.certificates import is_signed, signed
from ecgfed.network.config import FEWEST_SUMMED
from ecgfed.network.errors import SiteError
from ecgfed.network.private import write_private
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.site_folder import Site
from ecgfed.network.site_run import RoundReply, RoundRequest, SiteRun, run_folder
from ecgfed.network.sum_messages import PublicKeys, digest_of

#: File in the site's folder: keys and secrets of the current round; only its owner may read it.
SECRETS = "secrets.json"
#: File in a run's folder: round -> the sites whose sum was revealed.
REVEALED = "revealed.json"
#: File in a run's folder: round -> the digest of the request whose vector was masked.
MASKED = "masked.json"
_WHERE = "the server's request"


@dataclass(frozen=True)
class Secrets:
    """A site's secrets in one round.

    Attributes:
        run: the run's SHA-256.
        round: the round.
        weights: digests of the weights that the round trains, separated by commas.
        mask: keys for the masks.
        seal: keys for the shares.
        public: site -> its public keys (mask, seal), of all sites, this one included.
        seed: seed of its own mask.
        shares: site -> shares of its seed and key; at first its own, then of all whose shares arrived.
        vector: SHA-256 of the vector that was masked; "" before.
    """

    run: str
    round: int
    weights: str
    mask: masks.KeyPair
    seal: masks.KeyPair
    public: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    seed: bytes = b""
    shares: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    vector: str = ""

    def write(self, folder: Path) -> None:
        """Write the secrets; raises StorageError."""
        document = {
            "run": self.run,
            "round": self.round,
            "weights": self.weights,
            "keys": _text([self.mask.private, self.mask.public, self.seal.private, self.seal.public, self.seed]),
            "public": {site: _text(keys) for site, keys in self.public.items()},
            "shares": {site: _text(shares) for site, shares in self.shares.items()},
            "vector": self.vector,
        }
        write_private(folder / SECRETS, json.dumps(document).encode())

    @classmethod
    def read(cls, folder: Path, run_spec: RunSpec, round_number: int) -> "Secrets":
        """Read the secrets of a round; raises SiteError if they are of another one, StorageError."""
        file = folder / SECRETS
        document: Any = read_json(file, StorageError) if file.is_file() else {}
        if (document.get("run"), document.get("round")) != (run_spec.run, round_number):
            raise SiteError("sums", _WHERE, "follows no exchange of keys in this round", "the stages in their order")
        try:
            *pairs, seed = _bytes(document["keys"])
            public = {int(site): _pair(_bytes(keys)) for site, keys in document["public"].items()}
            shares = {int(site): _pair(_bytes(parts)) for site, parts in document["shares"].items()}
            mask, seal = masks.KeyPair(*pairs[:2]), masks.KeyPair(*pairs[2:])
            weights, vector = str(document["weights"]), str(document["vector"])
            return cls(run_spec.run, round_number, weights, mask, seal, public, seed, shares, vector)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise StorageError(file, f"lacks {problem!s:.100}", "secrets of a round", "remove it") from problem


def new_keys(site: Site, run_spec: RunSpec, round_number: int, weights: str) -> PublicKeys:
    """Make and sign keys for a round, whose secrets replace those of the round before.

    Args:
        weights: digests of the weights that the round will train (``sum_messages.digest_of``), separated by commas.

    Raises:
        SiteError: the run has no secure aggregation, fewer than three sites, or, at a site with partners, weights that
            differ between patients: those of the others may have been chosen so that they add nothing to the sum.
        StorageError: the secrets cannot be written.
    """
    if not run_spec.is_secure or len(run_spec.sites) < FEWEST_SUMMED:
        expected = f"secure aggregation of {FEWEST_SUMMED} sites or more"
        raise SiteError("sums", "the server's run", f"is of {len(run_spec.sites)} sites", expected)
    if site.partners is not None and "," in weights:
        raise SiteError("sums", _WHERE, "announces different weights for some patients", "the same for all sites")
    mask, seal = masks.KeyPair.generate(), masks.KeyPair.generate()
    secrets = Secrets(run_spec.run, round_number, weights, mask, seal)
    secrets.write(site.path)
    text = _signed_text(run_spec, secrets, run_spec.place, mask.public, seal.public)
    return PublicKeys(mask.public, seal.public, signed(site_key(site.path), text)[0])


def _signed_text(run_spec: RunSpec, secrets: Secrets, place: int, mask: bytes, seal: bytes) -> bytes:
    """Return what a site signs: its keys, and what it was told of run and weights.

    A server that tells sites different things, so that some of them send zeros, finds no partner that accepts its keys.
    """
    common = hashlib.sha256(run_spec.common.encode()).hexdigest()
    head = ["ecgfed secure aggregation", common, secrets.round, secrets.weights, place]
    return json.dumps(head).encode() + b"\n" + mask + seal


def new_shares(site: Site, run_spec: RunSpec, round_number: int, public: Mapping[int, PublicKeys]) -> dict[int, bytes]:
    """Return this site's secrets as encrypted shares for the other sites.

    Args:
        public: every site's public keys.

    Raises:
        SiteError: fewer than three sites, another key of this site, or one that none of its partners has signed.
        StorageError: the secrets cannot be read or written.
    """
    secrets, own = Secrets.read(site.path, run_spec, round_number), run_spec.place
    if len(public) < FEWEST_SUMMED or not set(public) <= set(range(len(run_spec.sites))):
        raise SiteError("sums", _WHERE, f"is for {len(public)} sites", f"{FEWEST_SUMMED} or more of the run's")
    every = [key for keys in public.values() for key in (keys.mask, keys.seal)]
    if secrets.vector:  # a new seed for the same secrets with other sites: without it, two vectors would share these
        raise SiteError("sums", _WHERE, "shares keys again after they have masked a vector", "new keys")
    if own not in public or (public[own].mask, public[own].seal) != (secrets.mask.public, secrets.seal.public):
        raise SiteError("sums", _WHERE, "has other keys of this site", "those that it sent")
    if len(set(every)) != len(every):
        raise SiteError("sums", _WHERE, "has a key twice", "two keys of each site")
    if site.partners is not None:
        _check_partners(site.partners, run_spec, secrets, public)
    seed, sites = os.urandom(32), sorted(public)
    shared = zip(masks.shares_of(seed, len(sites)), masks.shares_of(secrets.mask.private, len(sites)), strict=True)
    shares = dict(zip(sites, shared, strict=True))
    boxes = {}
    for other in sites:
        if other != own:
            secret = _agreed(secrets.seal.private, public[other].seal)
            boxes[other] = masks.sealed(secret, own, other, *shares[other])
    keys = {other: (one.mask, one.seal) for other, one in public.items()}
    replace(secrets, public=keys, seed=seed, shares={own: shares[own]}, vector="").write(site.path)
    return boxes


def _check_partners(folder: Path, run_spec: RunSpec, secrets: Secrets, public: Mapping[int, PublicKeys]) -> None:
    """Refuse keys that no partner has signed, for the same run and weights, or one partner twice; raises SiteError."""
    keys = sorted(folder.glob("*.pub")) if folder.is_dir() else []
    for place, one in public.items():
        if place == run_spec.place:
            continue
        text = _signed_text(run_spec, secrets, place, one.mask, one.seal)
        try:
            signer = next((key for key in keys if is_signed(key, one.signature, text)), None)
        except (OptionError, StorageError) as problem:
            raise SiteError("sums", *problem.parts) from problem
        if signer is None:
            reason = f"has keys of {run_spec.sites[place]['name']} that no partner has signed for this run and weights"
            raise SiteError("sums", _WHERE, reason, f"sites whose keys are in {folder}, each once")
        keys.remove(signer)


def check_exchange(site: Site, request: RoundRequest, boxes: Mapping[int, bytes] | None) -> Secrets:
    """Return the round's secrets with the shares of the other sites, before anything is trained.

    Args:
        boxes: the other sites' encrypted shares for this one.

    Raises:
        SiteError: too few shares, damaged ones, or other weights than those that were signed.
        StorageError: the secrets cannot be read.
    """
    own = request.run_spec.place
    secrets = Secrets.read(site.path, request.run_spec, request.round)
    if not {digest_of(tree) for tree in request.shared} <= set(secrets.weights.split(",")):
        raise SiteError("sums", _WHERE, "has other weights than it announced with the keys")
    if _masked(site, request).get(str(request.round), digest := _digest(request)) != digest:
        raise SiteError("sums", _WHERE, f"is another one than before in round {request.round}", "the same one again")
    known = set(secrets.public)
    if boxes is None or not secrets.seed or not set(boxes) <= known - {own}:
        raise SiteError("sums", _WHERE, "has no shares of this round's sites", "one of each")
    if len(boxes) + 1 < masks.threshold(len(known)):
        reason, expected = f"has the shares of {len(boxes)} other sites", f"{masks.threshold(len(known)) - 1} or more"
        raise SiteError("sums", _WHERE, reason, expected)
    shares = {own: secrets.shares[own]}
    for other, box in boxes.items():
        try:
            secret = _agreed(secrets.seal.private, secrets.public[other][1])
            shares[other] = masks.opened(secret, other, own, box)
        except ValueError as problem:
            raise SiteError("sums", _WHERE, f"has shares that cannot be read ({problem!s:.100})") from problem
    if secrets.vector and set(shares) != set(secrets.shares):
        raise SiteError("sums", _WHERE, "has the shares of other sites than before", "new keys for another sum")
    return replace(secrets, shares=shares)


def masked_sum(
    site: Site, site_run: SiteRun, request: RoundRequest, reply: RoundReply, secrets: Secrets
) -> dict[str, Tensor]:
    """Return the masked sum of the patients' updates, path -> int64.

    Args:
        reply: what the patients would have sent.
        secrets: as returned by ``check_exchange``.

    Raises:
        SiteError: an update is not finite, or another one was masked with these keys before.
        StorageError: the secrets cannot be written.
    """
    examples = [site_run.data.epoch_length(client) for client in request.clients]
    weights = client_weights(examples, site_run.run_spec.examples, site_run.run_spec.federation)
    try:
        sums = summed(site_run.method, request.shared, reply.returned, weights)
        sums = {path: sums[path] for path in sorted(sums)}
        vector = masks.to_integers(sums, len(secrets.public))
    except (OptionError, ValueError) as problem:
        raise SiteError("training", "the sum of the updates", f"cannot be sent ({problem!s:.200})") from problem
    digest = hashlib.sha256(vector.tobytes()).hexdigest()
    if secrets.vector not in ("", digest):  # the difference of two vectors under one mask would be theirs
        raise SiteError("sums", _WHERE, "is for another update under the same keys", "new keys for each update")
    write_json(site_run.folder / MASKED, {**_masked(site, request), str(request.round): _digest(request)})
    replace(secrets, vector=digest).write(site.path)
    own = site_run.run_spec.place
    agreed = {
        other: _agreed(secrets.mask.private, secrets.public[other][0]) for other in secrets.shares if other != own
    }
    hidden = torch.from_numpy(masks.masked(vector, own, secrets.seed, agreed).view("int64"))
    return masks.parts(hidden, {path: tuple(value.shape) for path, value in sums.items()})


def _masked(site: Site, request: RoundRequest) -> dict[str, str]:
    file = run_folder(site, request.run_spec.run) / MASKED
    return dict(read_json(file, StorageError)) if file.is_file() else {}


def _digest(request: RoundRequest) -> str:
    """Return the SHA-256 of what a request changes from round to round; a run's specification stays the same."""
    sha256 = hashlib.sha256(json.dumps([request.round, list(request.clients), request.last]).encode())
    for tree in request.shared:
        sha256.update(digest_of(tree).encode())
    return sha256.hexdigest()


def reveal(site: Site, run_spec: RunSpec, round_number: int, arrived: Sequence[int]) -> dict[int, bytes]:
    """Return a share of each site's secret: of its seed if its vector arrived, otherwise of its key.

    Args:
        arrived: the sites whose vectors arrived.

    Raises:
        SiteError: this site has sent no vector, too few have, or the round's sum was revealed for other sites.
        StorageError: the record cannot be written, so nothing may be revealed.
    """
    secrets = Secrets.read(site.path, run_spec, round_number)
    if not secrets.vector or run_spec.place not in arrived or not set(arrived) <= set(secrets.shares):
        raise SiteError("sums", _WHERE, "names sites whose sums cannot have arrived", "sites of this round")
    if len(arrived) < (least := masks.threshold(len(secrets.public))):
        raise SiteError("sums", _WHERE, f"is for the sum of {len(arrived)} sites", f"{least} or more")
    file = run_folder(site, run_spec.run) / REVEALED
    revealed = read_json(file, StorageError) if file.is_file() else {}
    before = revealed.setdefault(str(round_number), sorted(arrived))
    if before != sorted(arrived):
        reason = f"is for other sites than before in round {round_number}"
        raise SiteError("sums", _WHERE, reason, f"the sites {', '.join(str(one + 1) for one in before)}")
    write_json(file, revealed)
    return {other: seed if other in arrived else key for other, (seed, key) in sorted(secrets.shares.items())}


def _agreed(private: bytes, public: bytes) -> bytes:
    try:
        return masks.agreed(private, public)
    except ValueError as problem:
        raise SiteError("sums", _WHERE, f"has a key that cannot be used ({problem!s:.100})") from problem


def _text(values: Sequence[bytes]) -> list[str]:
    return [base64.b64encode(value).decode() for value in values]


def _bytes(values: Sequence[str]) -> list[bytes]:
    return [base64.b64decode(value) for value in values]


def _pair(values: Sequence[bytes]) -> tuple[bytes, bytes]:
    first, second = values
    return first, second
