"""Reading every recording once before a cohort is built, so that all that is wrong is said at the beginning.

Beside what cannot be read at all that is a lead in which there is no heart to see, and one person under two names.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ecgfed.base.errors import CohortError, EcgfedError, OptionError, RecordError, param
from ecgfed.domain.beats.extract import window_spans
from ecgfed.domain.beats.path import BeatOptions, RecordingBeats, read_beats
from ecgfed.domain.cohort.problems import Problems
from ecgfed.domain.cohort.sources import Source
from ecgfed.domain.record.recording import Recording, spans

#: A recording of which such a share of the beats lies in stretches of poor quality is not to be trained on. Of MIT-BIH
#: no recording comes near: at most a fifth on MLII, three tenths on V1.
TOO_POOR = 0.5
#: Samples that are compared at once.
_AT_ONCE = 1 << 20


def usable(
    sources: Sequence[Source],
    options: BeatOptions,
    problems: Problems,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Source]:
    """Return clients with the recordings that can be used, without those who have none.

    Args:
        sources: clients and their recordings.
        options: how the beats are to be found.
        problems: is given the recordings that cannot be used.
        on_progress: called after each recording with its name, the number done and the number of all.
    """
    total, count, sources_used = sum(len(source.records) for source in sources), 0, []
    first_by_digest: dict[bytes, tuple[str, Path]] = {}
    for source in sources:
        good = []
        for path in source.records:
            try:
                cut = read_beats(path, options, annotated=True)
                wrong = _poor(cut) or _twice(cut.recording, path, source.id, first_by_digest, problems)
            except (RecordError, OptionError) as error:  # not a package that is missing: that is not the file's fault
                wrong = error
            if wrong is None:
                good.append(path)
            else:
                problems.add(path, wrong)
            count += 1
            if on_progress:
                on_progress(path.name, count, total)
        if good:
            sources_used.append(replace(source, records=tuple(good)))
    return sources_used


def _poor(cut: RecordingBeats) -> EcgfedError | None:
    """Return what is wrong with a lead that shows nothing, or most of whose beats cannot be seen."""
    recording, quality, count = cut.recording, cut.quality, len(cut.r_samples)
    bad = quality.spans()
    poor = int(bad.overlap(*window_spans(recording.fs_hz, cut.r_samples)).sum())
    if bad.total >= recording.samples:
        problem = f"lead {recording.lead} has no usable signal"
    elif count and poor >= TOO_POOR * count:
        problem = f"{poor:,} of {count:,} beats lie in stretches of poor quality of lead {recording.lead}"
    else:
        return None
    why = ", ".join(f"{reason} {seconds:.1f} s" for reason, seconds in quality.seconds().items())
    expected = f"less than {TOO_POOR:.0%} of the beats there"
    action = f"look at it with 'ecgfed inspect', choose another lead with {param('leads')}, or leave it out with "
    action += param("skip_unusable=True")
    return RecordError(recording.path, f"{problem} ({why} of {recording.duration_s:.1f} s)", expected, action)


def _twice(
    recording: Recording, path: Path, client: str, first_by_digest: dict[bytes, tuple[str, Path]], problems: Problems
) -> EcgfedError | None:
    """Return what is wrong with a recording that another patient has too; else note that it was seen."""
    first, duplicate = first_by_digest.setdefault(_digest(recording), (client, path))
    if first == client:
        return None
    problem = f"holds the same samples as {problems.name_of(duplicate)}: one person twice would leak between patients"
    action = f"leave one of them out, or give both to one patient with {param('patients')}"
    return CohortError(path, problem, "a recording of its own for each patient", action)


def _digest(recording: Recording) -> bytes:
    """Return a digest of the lead in use, in whole microvolts: the same for a copy in a file of another format."""
    digest, row = hashlib.sha256(), [recording.leads.index(recording.lead)]
    for start, stop in spans(recording.samples, _AT_ONCE):
        microvolt = np.nan_to_num(1e3 * recording.read(start, stop, row)[0], nan=np.inf)
        digest.update(np.rint(microvolt) + 0.0)  # no negative zero
    return digest.digest()
