"""Masks by hand, and what secure aggregation refuses before a run begins."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from needs import flower

flower()

import torch
from test_secure_aggregation import SECURE, SUMS

from ecgfed.base.errors import OptionError
from ecgfed.core.methods.registry import methods
from ecgfed.network import masks
from ecgfed.network.config import FederationConfig
from ecgfed.network.policy import Policy


def config(**asked: Any) -> FederationConfig:
    return FederationConfig(**{"sites": 3, "method": "fedavg", "rounds": 2, **SECURE, **asked})


def words(*values: int) -> masks.Words:
    return np.array(values, dtype=np.int64).view(np.uint64)


@pytest.mark.parametrize("dropped", [(), (1,), (4,), (0, 3)])
def test_masks_cancel_whoever_drops_out(dropped: tuple[int, ...]) -> None:
    """Five sites share secrets, some vanish before they send: the sum of the others is exact, signs included."""
    pairs = {site: masks.KeyPair.generate() for site in range(5)}
    public = {site: pair.public for site, pair in pairs.items()}
    seeds = {site: bytes([site + 1]) * 32 for site in range(5)}
    vectors = {site: words(site, -7 * site, 2**61 - site) for site in range(5)}
    sent = {}
    for site in sorted(set(range(5)) - set(dropped)):
        secrets = {other: masks.agreed(pairs[site].private, public[other]) for other in range(5) if other != site}
        sent[site] = masks.masked(vectors[site], site, seeds[site], secrets)
        assert not (sent[site] == vectors[site]).any()
    shares = {site: masks.shares_of(pairs[site].private, 5) for site in dropped}
    keys = {site: masks.secret_of(parts[1:4]) for site, parts in shares.items()}  # any three of five
    total = masks.unmasked(sent, {site: seeds[site] for site in sent}, keys, public).view(np.int64)
    assert total[0] == sum(sent)
    assert total[1] == -7 * sum(sent)
    assert total.view(np.uint64)[2] == sum(2**61 - site for site in sent) % 2**64


def test_fewer_sites_than_the_threshold_do_not_reveal_a_secret() -> None:
    secret = bytes(range(32))
    for sites, least in ((3, 2), (4, 3), (5, 3), (8, 5)):
        assert masks.threshold(sites) == least
        shares = masks.shares_of(secret, sites)
        assert masks.secret_of(shares[-least:]) == secret
        with suppress(ValueError):  # what comes out is no padded secret
            assert masks.secret_of(shares[: least - 1]) != secret


def test_rounding_is_half_a_step_and_cuts_what_would_overflow() -> None:
    values = {"b": torch.tensor([0.3, -1e-13, 1e-12, -5.5], dtype=torch.float64), "a": torch.tensor([[2.0**30]])}
    integers = masks.to_integers(values, 3)
    assert integers.view(np.int64)[:4].tolist() == [round(0.3 * 2**40), 0, 1, -11 * 2**39]
    assert abs(int(integers.view(np.int64)[4]) - 2**62 // 3) < 2**10
    back = masks.from_integers(integers, {"b": (4,), "a": (1, 1)})
    assert float((back["b"] - values["b"]).abs().max()) <= 2.0**-41
    with pytest.raises(ValueError, match="finite"):
        masks.to_integers({"a": torch.tensor([float("nan")])}, 3)


def test_flower_s_generator_has_32_bits_and_ours_has_all() -> None:
    """Why it is not used: two secrets whose words have the same XOR give the same mask."""
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    one, other = bytes(range(32)), bytes([*range(4, 8), *range(4), *range(8, 32)])
    theirs = [pseudo_rand_gen(secret, 2**32, [(64,)])[0] for secret in (one, other)]
    assert (theirs[0] == theirs[1]).all()
    assert not (masks.words(one, 64) == masks.words(other, 64)).any()


def test_words_are_aes_in_counter_mode() -> None:
    """The first blocks for the key of FIPS-197, appendix C.3, by encrypting counters one by one."""
    from Crypto.Cipher import AES

    key = bytes(range(32))
    blocks = AES.new(key, AES.MODE_ECB).encrypt(b"".join(number.to_bytes(16, "big") for number in range(3)))
    assert masks.words(key, 6).tolist() == np.frombuffer(blocks, "<u8").tolist()


@pytest.mark.parametrize("method", sorted(name for name, kind in methods().items() if not kind.requirements.pooled))
def test_methods_that_need_more_than_a_sum_are_refused(method: str) -> None:
    """One line says what the server needs; what is accepted is the list above."""
    settings = {"relation": "mean"} if method == "mtl" else {}
    if method in SUMS:
        assert config(method=method, settings=settings).options() == {"secure_aggregation": "on"}
    else:
        with pytest.raises(OptionError, match=f"{method}, whose server needs of each client|{method}, which sends no"):
            config(method=method, settings=settings)


def test_a_setting_that_needs_more_than_a_sum_is_refused() -> None:
    with pytest.raises(OptionError, match="its own model"):
        config(method="mtl", settings={"relation": "learned"})


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"aggregation": "median"}, "aggregation"),
        ({"dp_clip": 1.0, "dp_noise": 1.0}, "dp_at"),
        ({"clients_per_round": 2}, "clients_per_round"),
        ({"sites": 2}, "sites"),
        ({"transport": "int8"}, "transport"),
    ],
)
def test_options_that_need_more_than_a_sum_are_refused(asked: dict[str, Any], names: str) -> None:
    with pytest.raises(OptionError) as caught:
        config(**asked)
    assert names in caught.value.line


def test_policies() -> None:
    needs = methods()["fedavg"].requirements
    with pytest.raises(OptionError, match="min_sites"):
        Policy(2).check(5, needs, secure=True)
    Policy(3).check(5, needs, secure=True)
    with pytest.raises(OptionError, match="without"):
        Policy(without=("1",)).check(3, needs, secure=True)
