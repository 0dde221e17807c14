"""Names of the folders of runs with several seeds."""

import re
from pathlib import PurePath

SEED, SPLIT = re.compile(r"seed-(\d+)"), re.compile(r"split-(\d+)")


def name_of_seed(path: PurePath) -> str:
    """Return the name of a run among those of a folder: ``seed-0``, or ``split-1/seed-0``."""
    of_split = SPLIT.fullmatch(path.parent.name) and SEED.fullmatch(path.name)
    return f"{path.parent.name}/{path.name}" if of_split else path.name
