"""Clipping and noise for client updates, with a secret seed.

Flower has both (``flwr.supercore.differential_privacy``). Clipping here is equivalent; the differences are: noise is
drawn from a secret of the run, so that a resumed run gives identical results, instead of NumPy's global generator; and
an update of norm 0 does not divide by 0. Flower 1.41 has no accountant; see ``accountant``.

Noise must not be derived from the run's seed, which is public: it could be reproduced and subtracted.
"""

import hashlib
import hmac
import math

import numpy as np
import torch
from torch import Tensor

from ecgfed.core.privacy.robust import lengths, scaled


def clipped(changes: dict[str, Tensor], clip: float) -> dict[str, Tensor]:
    """Return clients' changes, entries (m, ...), scaled down to L2 norm ``clip`` if larger (float64)."""
    norms = lengths(changes)
    return scaled({path: value.double() for path, value in changes.items()}, (clip / norms.clamp_min(clip)))


def gaussian(like: dict[str, Tensor], deviation: float, secret: bytes, *words: object) -> dict[str, Tensor]:
    """Return noise for one change: entries as in ``like``, float64.

    Args:
        like: entries of the change.
        deviation: standard deviation.
        secret: must be kept from everybody who sees the noised values.
        *words: identify the noise: round, mode, client.

    Raises:
        ValueError: there is noise to draw and no secret.
    """
    if not secret:
        raise ValueError("noise needs a secret: from nothing, or from a seed, anybody can draw it again")
    digest = hmac.new(secret, "/".join(map(str, words)).encode(), hashlib.sha256).digest()
    draw = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "big")))
    return {
        path: torch.from_numpy(draw.normal(0.0, deviation, tuple(like[path].shape)))
        if math.prod(like[path].shape)
        else torch.zeros_like(like[path], dtype=torch.float64)
        for path in sorted(like)
    }
