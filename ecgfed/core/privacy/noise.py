"""Clipping and noise for client updates, with a secret seed.

Flower has both (``flwr.supercore.differential_privacy``). Clipping here is equivalent; the differences are: noise is
drawn from a secret of the run, so that a resumed run gives identical results, instead of NumPy's global generator; and
an update of norm 0 does not divide by 0. Flower 1.41 has no accountant; see ``accountant``.

Noise must not be derived from the run's seed, which is public: it could be reproduced and subtracted.
"""

import hashlib
import hmac
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.core.privacy.robust import lengths, scaled

#: Where noise is added: to the sum at the server; to each patient's update; or to the sum of a site's patients before
#: it is sent.
SERVER, PATIENT, SITE = PLACES = ("server", "patient", "site")


@dataclass(frozen=True)
class Privacy:
    """Privacy settings of ``--dp-clip``, ``--dp-noise`` and ``--dp-at``.

    Attributes:
        clip: C, maximum L2 norm of the update of one patient (``site``: of one site); 0: off.
        noise: z; the noise's standard deviation is z C on every weight of the sum (``server``) or of the update.
        at: ``server``, ``patient`` or ``site``.
    """

    clip: float = 0.0
    noise: float = 0.0
    at: str = SERVER

    def __post_init__(self) -> None:
        for option, value in (("dp_clip", self.clip), ("dp_noise", self.noise)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
                raise OptionError(option, f"{value!r:.100}", "a number, 0 or more and below 1,000,000")
        if self.at not in PLACES:
            raise OptionError("dp_at", f"{self.at!r:.100}", f"one of {', '.join(PLACES)}", code="unknown-choice")
        if not self.clip and (self.noise or self.at != SERVER):
            option = "dp_noise" if self.noise else "dp_at"
            raise OptionError(
                option,
                f"given without {param('dp_clip')}",
                f"the longest update, such as {param('dp_clip')} 0.5",
                code="missing",
            )

    @property
    def on(self) -> bool:
        """Whether updates are clipped."""
        return self.clip > 0


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
