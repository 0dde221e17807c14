"""``cohort resplit``: another random split of the same beats, patients left out, sites left out."""

from collections.abc import Sequence
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.resplit import resplit


def resplit_cohort(
    cohort: Cohort | Path | str,
    out: Path | str,
    *,
    seed: int | None = None,
    holdout: Sequence[str] | None = None,
    holdout_site: Sequence[str] = (),
    overwrite: bool = False,
) -> Cohort:
    """Write a cohort of the same beats with another random split, other patients held out, or both.

    Args:
        cohort: a cohort of recordings.
        out: the cohort folder to create.
        seed: of the random split: the split is what ``prepare`` with this seed makes. None keeps it.
        holdout: ids of clients to keep out of training; None keeps those that are.
        holdout_site: sites of a joined cohort, all of whose clients are kept out of training too.
        overwrite: replace an existing ``out``.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.

    Examples:
        >>> import ecgfed
        >>> cohort = ecgfed.prepare_demo("to-split", patients=3, minutes=1)
        >>> ecgfed.resplit_cohort(cohort, "split-again", seed=1, holdout=["demo01"]).held_out
        ('demo01',)
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63):
        raise OptionError("seed", f"{seed!r:.60}", "a whole number, 0 or more")
    names, sites = ((of,) if isinstance(of, str) else of for of in (holdout, holdout_site))
    opened = cohort if isinstance(cohort, Cohort) else open_cohort(Path(cohort))
    resplit(opened, Path(out), seed=seed, holdout=names, sites=sites or (), overwrite=overwrite)
    return open_cohort(Path(out))
