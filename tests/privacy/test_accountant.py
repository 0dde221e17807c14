"""Epsilon against other people's accountants, the definition as an integral, and a bound from another theory."""

import math

import numpy as np
import pytest

from ecgfed.core.privacy.accountant import delta_of, epsilon_of

#: noise, releases, delta -> epsilon of Google's dp-accounting 0.6 (PLDAccountant of a SelfComposedDpEvent of
#: GaussianDpEvent) and of its RdpAccountant, run once in an environment of its own
PUBLISHED = {
    (1.0, 1, 1e-5): (4.37717810002493, 4.728507067217623),
    (1.0, 100, 1e-5): (91.81728962407377, 96.11630842505602),
    (2.0, 50, 1e-5): (20.675508047742515, 22.019852327713252),
    (0.5, 20, 1e-3): (66.78277970885553, 71.17544463740694),
    (10.0, 1000, 1e-6): (19.4236564771063, 20.551991629803823),
}


@pytest.mark.parametrize(("how", "expected"), PUBLISHED.items())
def test_epsilon_is_dp_accounting_s(how: tuple[float, int, float], expected: tuple[float, float]) -> None:
    exact, by_renyi = expected
    assert epsilon_of(*how) == pytest.approx(exact, rel=1e-7)
    assert epsilon_of(*how) < by_renyi


@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_delta_is_the_integral_of_its_definition(mu: float, epsilon: float) -> None:
    """Of N(mu, 1) against N(0, 1): the mass by which one exceeds e^epsilon times the other."""
    x = np.linspace(-12, 16, 2_000_001)
    p, q = (np.exp(-((x - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (mu, 0.0))
    integral = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), x)
    assert delta_of(epsilon, mu) == pytest.approx(float(integral), abs=1e-8)


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("releases", [1, 30, 2000])
def test_it_lies_below_the_bound_by_renyi_divergence(noise: float, releases: int) -> None:
    """Mironov 2017, propositions 1 and 3 and corollary 3, at the best order."""
    delta, rho = 1e-5, releases / (2 * noise**2)
    orders = 1 + np.geomspace(1e-3, 1e4, 4000)
    bound = (rho * orders + math.log(1 / delta) / (orders - 1)).min()
    found = epsilon_of(noise, releases, delta)
    assert 0 < found < bound
    assert delta_of(found, math.sqrt(releases) / noise) == pytest.approx(delta, rel=1e-6)


def test_at_the_edges() -> None:
    assert epsilon_of(1.0, 0) == 0.0
    assert epsilon_of(0.0, 5) == math.inf
    assert epsilon_of(1e9, 1) == 0.0  # less than delta is told whatever epsilon is
    assert epsilon_of(1.0, 10) < epsilon_of(1.0, 11) < epsilon_of(0.9, 11)
    for delta in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="delta"):
            epsilon_of(1.0, 1, delta)
