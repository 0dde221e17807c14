"""Robust aggregation against a few malicious or faulty clients, in place of the weighted mean.

Each rule maps the clients' changes, entry by entry, to changes whose weighted mean is the robust aggregate, so it works
with every method that ends in a weighted mean.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ecgfed.base.errors import OptionError

#: Values of ``--aggregation``: the weighted mean and its replacements.
MEAN, MEDIAN, TRIMMED, BOUND = "mean", "median", "trimmed-mean", "norm-bound"
#: Default fraction of clients that a trimmed mean excludes on each side.
TRIM = 0.2


@dataclass(frozen=True)
class Aggregation:
    """Parsed value of ``--aggregation``.

    Attributes:
        kind: ``mean``, ``median``, ``trimmed-mean`` or ``norm-bound``.
        number: fraction trimmed on each side, or maximum norm of a change; 0 for the median of the round's norms.
    """

    kind: str = MEAN
    number: float = 0.0

    @classmethod
    def parse(cls, text: object) -> "Aggregation":
        """Read ``WORD`` or ``WORD:NUMBER``; raises OptionError."""
        word, sign, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        expected = "mean, median, trimmed-mean[:SHARE] or norm-bound[:NORM]"
        if word not in (MEAN, MEDIAN, TRIMMED, BOUND) or (sign and word in (MEAN, MEDIAN)):
            raise OptionError("aggregation", f"{text!r:.100}", expected)
        if not sign:
            return cls(word, TRIM if word == TRIMMED else 0.0)
        try:
            number = float(rest)
        except ValueError:
            number = math.nan
        if word == TRIMMED and not 0 < number < 0.5:
            actual = f"{text!r:.100}"
            raise OptionError("aggregation", actual, "a share above 0 and below 0.5", "such as trimmed-mean:0.2")
        if word == BOUND and not 0 < number < 1e9:
            raise OptionError("aggregation", f"{text!r:.100}", "a norm above 0", "such as norm-bound:0.5")
        return cls(word, number)

    def __call__(self, changes: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the changes, every entry (m, ...), whose weighted mean is the robust aggregate."""
        if self.kind == MEDIAN:
            return {path: same_for_all(median(value), len(value)) for path, value in changes.items()}
        if self.kind == TRIMMED:
            return {path: same_for_all(trimmed_mean(value, self.number), len(value)) for path, value in changes.items()}
        return norm_bounded(changes, self.number) if self.kind == BOUND else changes


def same_for_all(value: Tensor, m: int) -> Tensor:
    """Return ``value`` (...) expanded to m clients, (m, ...), without copying."""
    return value.expand(m, *value.shape)


def median(stacked: Tensor) -> Tensor:
    """Return the coordinate-wise median, (m, ...) -> (...); for even m, the mean of the middle two.

    Yin et al., "Byzantine-Robust Distributed Learning", ICML 2018, definition 1. All clients have equal weight.
    """
    ordered, m = stacked.sort(dim=0).values, len(stacked)
    return (ordered[(m - 1) // 2] + ordered[m // 2]) / 2


def trimmed_mean(stacked: Tensor, share: float) -> Tensor:
    """Return the coordinate-wise mean without the largest and smallest ``share`` of clients, (m, ...) -> (...).

    Yin et al., ICML 2018, definition 2. At least one on each side is excluded if there are three clients or more.
    """
    m = len(stacked)
    k = max(int(share * m + 1e-9), 1 if m > 2 else 0)
    return stacked.sort(dim=0).values[k : m - k].mean(dim=0)


def norm_bounded(changes: dict[str, Tensor], bound: float) -> dict[str, Tensor]:
    """Scale each client's change down to norm ``bound`` if larger; the method's weights are unchanged.

    Sun et al., "Can You Really Backdoor Federated Learning?", arXiv 1911.07963, section 5.

    Args:
        changes: entries (m, ...), together one change of each client.
        bound: maximum L2 norm; 0: the median of the clients' norms.
    """
    norms = lengths(changes)
    limit = median(norms) if bound == 0 else torch.as_tensor(bound, dtype=norms.dtype)
    return scaled(changes, (limit / norms.clamp_min(1e-30)).clamp_max(1.0))


def lengths(changes: dict[str, Tensor]) -> Tensor:
    """Return the L2 norm of each client's change over all entries (m, ...), (m,) float64."""
    squares = [changes[path].double().flatten(1).square().sum(1) for path in sorted(changes)]
    return torch.stack(squares).sum(0).sqrt()


def scaled(changes: dict[str, Tensor], by: Tensor) -> dict[str, Tensor]:
    """Multiply every client's change by its factor, (m,); exact for a factor of 1."""
    return {path: value * by.to(value.dtype).reshape(-1, *[1] * (value.dim() - 1)) for path, value in changes.items()}
