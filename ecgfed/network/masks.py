r"""Masks of secure aggregation (SecAgg: Bonawitz et al., CCS 2017), with Flower's key agreement and secret sharing.

Site i of those in U sends, for its vector :math:`x_i` of integers modulo :math:`2^{64}`,

.. math:: y_i = x_i + g(b_i) + \sum_{j \in U, j < i} g(s_{ij}) - \sum_{j \in U, j > i} g(s_{ij})

with a seed :math:`b_i` of its own, the secret :math:`s_{ij}` that it has agreed on with site j, and a generator g. The
secrets cancel in the sum over all of U. Each site has shared :math:`b_i` and the private key of its :math:`s_{ij}`
among all sites (Shamir), so that those that are there can reveal the seeds of sites whose vector arrived, and the keys
of sites whose vector did not.

Flower 1.41 provides ECDH on P-384 with HKDF, Fernet and Shamir's shares. Its generator (``pseudo_rand_gen``) is not
used: it reduces every secret to 32 bits for a Mersenne Twister, so that whoever sees a masked vector can try all of
them (Flower's issue 7522). Here g is AES-256 in counter mode, as in the paper.
"""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.fernet import InvalidToken
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from flwr.common.secure_aggregation.crypto.shamir import combine_shares, create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat, share_keys_plaintext_separate
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)
from numpy.typing import NDArray
from torch import Tensor

#: Values are rounded to multiples of 2 to the power of minus this.
FRACTION_BITS = 40
#: Sum of all sites' integers is at most 2 to the power of this.
_SUM_BITS = 62
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class KeyPair:
    """A private and a public key, PEM."""

    private: bytes
    public: bytes

    @classmethod
    def generate(cls) -> "KeyPair":
        """Return a new pair."""
        private, public = generate_key_pairs()
        return cls(private_key_to_bytes(private), public_key_to_bytes(public))


def threshold(sites: int) -> int:
    """Return how many sites together reveal a secret: more than half, so that no site's two secrets are revealed.

    Each site reveals one of the two secrets of another, so that both together need shares of twice as many sites.
    """
    return sites // 2 + 1


def agreed(private: bytes, public: bytes) -> bytes:
    """Return the secret of a private key and another site's public key (base64 of 32 bytes); raises ValueError."""
    try:
        secret: bytes = generate_shared_key(bytes_to_private_key(private), bytes_to_public_key(public))
    except (TypeError, AttributeError, UnsupportedAlgorithm) as problem:  # a key of another kind
        raise ValueError(f"not a key of ECDH on P-384 ({problem!s:.60})") from problem
    return secret


def sealed(secret: bytes, source: int, target: int, seed_share: bytes, key_share: bytes) -> bytes:
    """Return the shares of one site for another, encrypted with their secret."""
    box: bytes = encrypt(secret, share_keys_plaintext_concat(source, target, seed_share, key_share))
    return box


def opened(secret: bytes, source: int, target: int, box: bytes) -> tuple[bytes, bytes]:
    """Return the shares in a box; raises ValueError if it is damaged or of other sites."""
    try:
        found, addressee, seed_share, key_share = share_keys_plaintext_separate(decrypt(secret, box))
    except InvalidToken:
        raise ValueError(f"shares of site {source + 1} are damaged") from None
    if (found, addressee) != (source, target):
        raise ValueError(f"shares of site {source + 1} are of other sites")
    return seed_share, key_share


def shares_of(secret: bytes, sites: int) -> list[bytes]:
    """Return a share of a secret for each site."""
    shares: list[bytes] = create_shares(secret, threshold(sites), sites)
    return shares


def secret_of(shares: list[bytes]) -> bytes:
    """Return the secret of ``threshold`` shares; raises ValueError."""
    secret: bytes = combine_shares(shares)
    return secret


def words(key: bytes, count: int) -> Words:
    """Return pseudorandom words of a secret: AES-256 in counter mode from 0. A secret serves one vector only.

    Args:
        key: 32 bytes, or base64 of these as ``agreed`` returns.
        count: number of words.
    """
    raw = key if len(key) == 32 else base64.urlsafe_b64decode(key)
    stream = Cipher(algorithms.AES256(raw), modes.CTR(bytes(16))).encryptor().update(bytes(8 * count))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def masked(vector: Words, site: int, seed: bytes, secrets: Mapping[int, bytes]) -> Words:
    """Return y of a site's vector.

    Args:
        vector: x, modulo 2^64.
        site: i.
        seed: b.
        secrets: j -> s for every other site of U.
    """
    return vector + words(seed, len(vector)) + pairwise(len(vector), site, secrets)


def pairwise(count: int, site: int, secrets: Mapping[int, bytes]) -> Words:
    """Return the sum of a site's masks with other sites; arguments as of ``masked``."""
    total = np.zeros(count, dtype=np.uint64)
    for other, secret in secrets.items():
        mask = words(secret, count)
        total = total + mask if site > other else total - mask
    return total


def unmasked(
    vectors: Mapping[int, Words], seeds: Mapping[int, bytes], dropped: Mapping[int, bytes], public: Mapping[int, bytes]
) -> Words:
    """Return the sum of the sites' vectors.

    Args:
        vectors: site -> y, for the sites whose vector arrived.
        seeds: site -> b of each of these.
        dropped: site -> private key of each other site of U.
        public: site -> public key of the secrets.
    """
    total = np.zeros(len(next(iter(vectors.values()))), dtype=np.uint64)
    for site, vector in vectors.items():
        total = total + vector - words(seeds[site], len(vector))
    for site, private in dropped.items():  # what it would have added cancels the others' masks with it
        total = total + pairwise(len(total), site, {other: agreed(private, public[other]) for other in vectors})
    return total


def to_integers(values: Mapping[str, Tensor], sites: int) -> Words:
    """Return values as integers modulo 2^64: multiples of 2^-40, cut to a range whose sum over sites cannot overflow.

    Args:
        values: path -> float64.
        sites: number of sites of the sum.

    Raises:
        ValueError: a value is not finite.
    """
    flat = torch.cat([value.double().flatten() for value in values.values()]).numpy()
    if not np.isfinite(flat).all():
        raise ValueError("a sum of updates is not finite")
    bound = float(2**_SUM_BITS // sites)
    integers: NDArray[np.int64] = np.rint(np.clip(flat * 2.0**FRACTION_BITS, -bound, bound)).astype(np.int64)
    return integers.view(np.uint64)


def from_integers(total: Words, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Return the values of a sum by path, float64; the inverse of ``to_integers``."""
    return parts(torch.from_numpy(total.view(np.int64).astype(np.float64) * 2.0**-FRACTION_BITS), shapes)


def parts(flat: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Return a vector as leaves, by path in the order of their shapes."""
    sizes = [math.prod(shape) for shape in shapes.values()]
    return {
        path: leaf.reshape(shape) for (path, shape), leaf in zip(shapes.items(), torch.split(flat, sizes), strict=True)
    }
