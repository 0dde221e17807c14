"""A loss of one's own: the focal loss of Lin et al. (ICCV 2017, arXiv 1708.02002), equation 4 with gamma 2.

ecgfed train cohort --method fedavg --set risk=examples/focal_loss.py:focal --out run
"""

import torch.nn.functional as F
from torch import Tensor

GAMMA = 2.0


def focal(logits: Tensor, label: Tensor, counts: Tensor) -> Tensor:
    """Return the focal loss of each beat.

    Args:
        logits: (B, classes) float32.
        label: (B,) int64.
        counts: (classes,) int64, the client's training beats of each class; not used here.

    Returns:
        (B,) float32; ecgfed averages over the beats of a batch.
    """
    cross_entropy = F.cross_entropy(logits, label, reduction="none")
    return (1 - (-cross_entropy).exp()) ** GAMMA * cross_entropy
