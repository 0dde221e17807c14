r"""Privacy accountant: epsilon for T noised updates at a given delta.

Each release is a Gaussian mechanism: a sum with sensitivity C (L2), and noise of standard deviation z C on every
coordinate. T adaptive releases are equivalent to one with noise z / sqrt(T) (Dong, Roth and Su, "Gaussian Differential
Privacy", JRSS B 84(1), 2022, corollary 3.3), whose epsilon and delta are known exactly (Balle and Wang, ICML
2018, theorem 8), with :math:`\mu = \sqrt T / z`:

.. math:: \delta(\epsilon) = \Phi(\mu/2 - \epsilon/\mu) - e^{\epsilon}\, \Phi(-\mu/2 - \epsilon/\mu)

Amplification by subsampling (Abadi et al. 2016, Mironov et al. 2019) does not apply: participation is recorded in the
run and follows from its seed, so it is not secret. A patient is charged only for the rounds it took part in.

Neighbouring data sets are the federation with and without the updates of one patient (or site).
"""

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

#: Default delta, below 1/patients for all federations benchmarked here.
DELTA = 1e-5


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which the mechanism with ``mu`` is (epsilon, delta)-differentially private."""
    if mu == 0:
        return 0.0
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return 0.0 if second >= first else math.exp(first) * -math.expm1(second - first)


def epsilon_of(noise: float, releases: int, delta: float = DELTA) -> float:
    """Return the smallest epsilon of ``releases`` noised updates.

    Args:
        noise: z, the noise's standard deviation over the clipping norm; 0 protects nobody.
        releases: T, how often one patient's update was in what was released.
        delta: above 0 and below 1.

    Returns:
        Epsilon; 0 where nothing was released, infinite without noise.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}, not above 0 and below 1")
    if releases == 0:
        return 0.0
    return math.inf if noise == 0 else epsilon_of_mu(math.sqrt(releases) / noise, delta)


def epsilon_of_mu(mu: float, delta: float = DELTA) -> float:
    r"""Return the smallest epsilon of a mechanism with this :math:`\mu`, 0 or more; delta as in ``epsilon_of``."""
    if mu == 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1.0  # the bound by Renyi divergence lies below
    return float(brentq(lambda epsilon: math.log(max(delta_of(epsilon, mu), 1e-300)) - math.log(delta), 0.0, high))
