"""The versions of the RR features: what each is called in a cohort, a run and a bundle, and what computes it.

Version 1 has the four numbers of ``ecgfed.domain.beats.windows.rr_features``, one beat late; version 2 those of
``ecgfed.domain.beats.context``, which know gaps and the patient and come up to 104 beats late (docs/decisions/0034);
version 3 has those of ``ecgfed.domain.beats.strip`` beside them, as late (docs/decisions/0089). Version 4 has version
2's from past beats alone (``ecgfed.domain.beats.past``), one beat late (docs/decisions/0125). A cohort says its
version, a net is made for it, and a device computes what its bundle says.
"""

from typing import Any

from ecgfed.base.errors import OptionError
from ecgfed.domain.beats import context, past, strip
from ecgfed.domain.beats.windows import RR_FEATURES

#: version -> names of the features in order
RR_NAMES: dict[int, tuple[str, ...]] = {1: RR_FEATURES, 2: context.FEATURES, 3: strip.FEATURES, 4: past.FEATURES}
#: What cohorts get where nothing else is asked for.
RR_DEFAULT = 2


def check_rr_version(version: object) -> int:
    """Return a version of the RR features; raises OptionError for any other value."""
    if isinstance(version, bool) or not isinstance(version, int) or version not in RR_NAMES:
        raise OptionError("rr_version", f"{version!r:.40}", " or ".join(map(str, RR_NAMES)), code="unknown-choice")
    return version


def rr_description(version: int) -> dict[str, Any]:
    """Return how a manifest says a version: its number and the names in order."""
    return {"version": version, "names": list(RR_NAMES[version])}
