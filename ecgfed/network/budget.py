r"""What a site lets the runs it takes part in learn of one patient: an epsilon that all of them together stay under.

The server chooses a run's noise, so a site that wants some has to say so itself (``federate site --most-epsilon``).
Each answer that leaves is charged before it is computed, whatever run it is for and whether or not it is used: T_i
answers with noise z_i tell together as much as one with :math:`\mu = \sqrt{\sum_i T_i / z_i^2}`
(``ecgfed.privacy.accountant``). With ``--dp-at site`` the run's own epsilon is about a whole site; of one patient in it
an answer tells up to as much as one with half the noise.

Only noise that is added before an update leaves counts. Losses, numbers of beats and scores bear none.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from ecgfed.errors import StorageError
from ecgfed.federation.plan import TrainPlan
from ecgfed.files import read_json, write_json
from ecgfed.network.errors import SiteError
from ecgfed.privacy.accountant import DELTA, epsilon_of_mu
from ecgfed.privacy.noise import PATIENT, SERVER, SITE

#: What has been charged so far, in the site's folder: run -> the sum of 1 / z^2 over its answers (``site``: 4 / z^2).
SPENT = "spent.json"
#: How far an answer moves when one patient is taken out of it, over the clip: that patient's update goes; or a sum that
#: is clipped as a whole, whose other patients' updates may point the other way, goes from one end of the ball to the
#: other.
_MOST_MOVED = {PATIENT: 1.0, SITE: 2.0}


def charge(folder: Path, most: float | None, run: str, plan: TrainPlan, number: int) -> None:
    """Charge one answer, or refuse it; raises SiteError, StorageError.

    Args:
        folder: the site's.
        most: the largest epsilon at ``accountant.DELTA``; None charges nothing.
        run: names the run.
        plan: the run's.
        number: the round; it and all that are left of the plan must be within ``most``, so that no run stops half way.
    """
    check_noise(most, plan)
    if most is None:
        return
    spent, one = spent_by(folder), (_MOST_MOVED[plan.dp_at] / plan.dp_noise) ** 2
    whole = sum(spent.values()) + one * max(1, plan.rounds - number + 1)
    if (epsilon := epsilon_of_mu(math.sqrt(whole))) > most:
        raise _refusal(f"would bring epsilon to {epsilon:.3g} for one patient", most)
    write_json(folder / SPENT, {**spent, run: spent.get(run, 0.0) + one})


def check_noise(most: float | None, plan: TrainPlan) -> None:
    """Refuse a run whose noise is added at the server or not at all; raises SiteError.

    Args:
        most: as in ``charge``; None takes any run.
        plan: the run's.
    """
    if most is not None and (plan.dp_at == SERVER or not plan.privacy.on or not plan.dp_noise):
        raise _refusal("adds no noise before an update leaves", most)


def _refusal(found: str, most: float) -> SiteError:
    expected = f"at most {most:g} at delta {DELTA:g}, this site's --most-epsilon"
    return SiteError("privacy", "the server's run", found, expected, "more --dp-noise, --dp-at patient, fewer rounds")


def spent_by(folder: Path) -> dict[str, float]:
    """Return what each run has been charged, as ``SPENT`` says; raises StorageError."""
    file = folder / SPENT
    if not file.is_file():
        return {}
    found = read_json(file, StorageError)
    fits = isinstance(found, Mapping) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        for value in found.values()
    )
    if not fits:
        raise StorageError(file, "holds what is no sum", "a number above 0 for each run", "restore it from a backup")
    return {str(name): float(value) for name, value in found.items()}


def epsilon_spent(folder: Path) -> float:
    """Return epsilon of all that has been charged, at ``accountant.DELTA``; raises StorageError."""
    return epsilon_of_mu(math.sqrt(sum(spent_by(folder).values())))
