"""``cohort join``: cohorts that were prepared one by one, as the sites of one federation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ecgfed.base.errors import OptionError
from ecgfed.base.safe_io import check_labels
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.join import join_cohorts as join
from ecgfed.domain.cohort.join import site_names
from ecgfed.tasks.progress import SILENT, ProgressReporter


def join_cohorts(
    cohorts: Sequence[Cohort | Path | str] | Mapping[str, Cohort | Path | str],
    out: Path | str,
    *,
    clients: str = "patient",
    overwrite: bool = False,
    progress: ProgressReporter = SILENT,
) -> Cohort:
    """Join separately prepared cohorts into one federation with a site for each.

    Classes that differ are mapped onto AAMI's. Clients keep their ids unless two sites have the same one; then the
    site's name comes before it. Splits and held-out clients stay as they are.

    Args:
        cohorts: two or more, or a dictionary by name of the site; default the name of the database or folder.
        out: the cohort folder to create.
        clients: ``patient``, or ``site``: the patients of a site are one client, so that a personal model is the
            site's; held-out patients stay apart, as new patients of the site. One cohort is enough then.
        overwrite: replace an existing ``out``.
        progress: receives notes.

    Raises:
        EcgfedError: cohorts that do not go together; the message is one line.

    Examples:
        >>> import ecgfed
        >>> first = ecgfed.prepare_demo("north-cohort", patients=2, minutes=1)
        >>> second = ecgfed.prepare_demo("south-cohort", patients=3, minutes=1, seed=1)
        >>> ecgfed.join_cohorts({"north": first, "south": second}, "both")
        Cohort('both': 5 clients, 12 classes, 380 beats)
    """
    named = isinstance(cohorts, Mapping)
    opened = [
        cohort if isinstance(cohort, Cohort) else open_cohort(cohort)
        for cohort in (cohorts.values() if isinstance(cohorts, Mapping) else cohorts)
    ]
    names = [str(name) for name in cohorts] if named else site_names(opened)
    check_labels(names, "site", "cohorts", OptionError)
    for note in join(list(zip(names, opened, strict=True)), Path(out), clients=clients, overwrite=overwrite):
        progress.note(note)
    return open_cohort(out)
