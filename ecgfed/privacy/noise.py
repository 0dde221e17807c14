"""Clipping and noise of a client's update, and the secret from which the noise is drawn.

Flower has both (``flwr.supercore.differential_privacy``). Ours clip the same, and differ where Flower's do not fit: the
noise is drawn from a secret of the run, so that a run that was killed ends as one that was not, and not from NumPy's
global generator; a change of length 0 is no division by 0. Flower has no accountant (1.41): ``accountant`` here.

The noise must not follow from the seed: the seed is written down, and whoever knows it could take the noise off again.
"""

import hashlib
import hmac
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ecgfed.errors import OptionError
from ecgfed.privacy.robust import lengths, scaled

#: Where the noise is added: to the sum, by the server; to each patient's update, or to the sum of a site's patients,
#: before it leaves.
SERVER, PATIENT, SITE = PLACES = ("server", "patient", "site")


@dataclass(frozen=True)
class Privacy:
    """What ``--dp-clip``, ``--dp-noise`` and ``--dp-at`` ask for.

    Attributes:
        clip: C, the longest change of the weights that one patient (``site``: one site) sends, L2; 0 is off.
        noise: z; the noise's standard deviation is z C on every weight of the sum (``server``) or of what is sent.
        at: ``server``, ``patient`` or ``site``.
    """

    clip: float = 0.0
    noise: float = 0.0
    at: str = SERVER

    def __post_init__(self) -> None:
        for option, value in (("--dp-clip", self.clip), ("--dp-noise", self.noise)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
                raise OptionError(option, f"{value!r:.100}", "a number, 0 or more and below 1,000,000")
        if self.at not in PLACES:
            raise OptionError("--dp-at", f"{self.at!r:.100}", f"one of {', '.join(PLACES)}")
        if not self.clip and (self.noise or self.at != SERVER):
            option = "--dp-noise" if self.noise else "--dp-at"
            raise OptionError(option, "given without --dp-clip", "the longest update, such as --dp-clip 0.5")

    @property
    def on(self) -> bool:
        """Whether updates are clipped at all."""
        return self.clip > 0


def clipped(changes: dict[str, Tensor], clip: float) -> dict[str, Tensor]:
    """Return clients' changes, entries (m, ...), scaled down to length ``clip`` where they are longer (float64)."""
    norms = lengths(changes)
    return scaled({path: value.double() for path, value in changes.items()}, (clip / norms.clamp_min(clip)))


def gaussian(like: dict[str, Tensor], deviation: float, secret: bytes, *words: object) -> dict[str, Tensor]:
    """Return noise for one change: entries as in ``like``, float64.

    Args:
        like: entries of the change.
        deviation: standard deviation.
        secret: nobody who sees what is noised may know it.
        words: which noise: the round, whose.

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
