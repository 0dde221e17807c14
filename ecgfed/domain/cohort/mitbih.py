"""The published counts of the MIT-BIH Arrhythmia Database, against which a cohort of it is checked."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from ecgfed.base.errors import CohortError
from ecgfed.domain.cohort.databases import MITBIH, package_sha256
from ecgfed.domain.cohort.sources import PrepareOptions

SAME_PATIENT = MITBIH.same_patient
#: Beats per symbol on the 46 records with MLII, of the published 109,494 on all 48.
_COUNTS_ON_MLII = (74790, 8075, 7259, 7124, 3620, 2546, 803, 260, 229, 150, 106, 83, 16, 15, 2)
BEATS_ON_MLII = dict(zip("NLRV/AFfjaEJeQS", _COUNTS_ON_MLII, strict=True))


@cache
def record_names() -> tuple[str, ...]:
    """Return the 48 record names in order."""
    return tuple(sorted({Path(name).stem for name in package_sha256(MITBIH)}))


def count_check(records: list[Path], options: PrepareOptions) -> Callable[[dict[str, int]], None] | None:
    """Return a check of the class counts against the database's published ones, where they apply.

    They apply to annotated peaks on the full set of 46 records with MLII; not to a chronological split, whose gaps
    leave beats out.

    Args:
        records: of all clients.
        options: how the cohort is made; its classes decide which symbols are counted together.

    Returns:
        A function of the beats found of each class, which raises CohortError where they are other numbers; None where
        there are no published numbers to compare with.
    """
    full = {path.name for path in records} == set(record_names()) - {"102", "104"}
    if (
        options.split == "chronological"
        or not full
        or options.beats.peaks != "annotated"
        or options.beats.annotator != "atr"
    ):
        return None
    expected = dict.fromkeys(options.labels.classes, 0)
    for symbol, count in BEATS_ON_MLII.items():
        if symbol in options.labels.symbols:
            expected[options.labels.symbols[symbol]] += count

    def check(counts: dict[str, int]) -> None:
        """Raise CohortError where the beats of a class are not as many as published."""
        if counts != expected:
            differing = [f"{c} {counts[c]} (not {expected[c]})" for c in expected if counts[c] != expected[c]]
            problem = f"beats differ from the published database: {', '.join(differing)}"
            raise CohortError(records[0].parent, problem, action="fetch the database again")

    return check
