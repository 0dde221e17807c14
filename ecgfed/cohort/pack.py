"""A cohort as one small file, to travel to a machine that takes no gigabytes.

Beats are rounded to whole microvolts and stored as int16, so they differ from the cohort's by at most 0.5 microvolt
(the recorder's own step on MIT-BIH is 5 microvolt); everything else is exact. What comes out is a cohort of its own,
with its own fingerprint, that names the one it came from.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ecgfed.cohort.cohort import ARRAYS, SCHEMA_VERSION, open_cohort
from ecgfed.cohort.writer import CohortWriter
from ecgfed.errors import CohortError
from ecgfed.files import replacing_file, replacing_folder

_META = "cohort"
_LIMIT_UV = 32767


def pack_cohort(cohort_path: Path, file: Path) -> int:
    """Write a cohort into one compressed ``.npz`` file and return its size in bytes.

    Raises:
        CohortError: no cohort, or a beat beyond +-32.767 mV, which int16 microvolts cannot hold.
        StorageError: the disk refuses; what was at ``file`` is still there.
    """
    cohort = open_cohort(cohort_path)
    microvolt = np.rint(cohort.beats * np.float32(1000))
    if np.abs(microvolt).max() > _LIMIT_UV:
        raise CohortError(cohort_path, "a beat exceeds 32.767 mV", "an ECG's range", "check the record's gain")
    arrays: dict[str, Any] = {name: np.asarray(getattr(cohort, name)) for name in ARRAYS}
    arrays["beats"] = microvolt.astype(np.int16)
    arrays[_META] = np.frombuffer(json.dumps(cohort.meta).encode(), dtype=np.uint8)
    with replacing_file(file) as partial, partial.open("wb") as stream:
        np.savez_compressed(stream, **arrays)
    return file.stat().st_size


def unpack_cohort(file: Path, out: Path, *, overwrite: bool = False) -> None:
    """Make a cohort folder from a packed file.

    Raises:
        CohortError: no packed cohort, or one of another schema version.
        OptionError, StorageError: see ``replacing_folder``.
    """
    try:
        with np.load(file, allow_pickle=False) as packed:
            arrays = {name: packed[name] for name in (*ARRAYS, _META)}
        meta = json.loads(arrays.pop(_META).tobytes())
        version = meta["schema_version"]
    except FileNotFoundError:
        raise CohortError(file, "does not exist", action="check the path") from None
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, json.JSONDecodeError) as problem:
        raise CohortError(file, f"is no packed cohort ({problem})", action="pack it again with --pack") from problem
    if version != SCHEMA_VERSION:
        raise CohortError(file, f"schema version {version}", f"{SCHEMA_VERSION}", "pack it again with this ecgfed")
    arrays["beats"] = arrays["beats"].astype(np.float32) / np.float32(1000)
    about = {name: value for name, value in meta.items() if name not in ("beats", "sha256", "fingerprint")}
    with replacing_folder(out, overwrite=overwrite) as folder, CohortWriter(folder) as writer:
        writer.append(**arrays)
        writer.finish({**about, "unpacked_from": meta["fingerprint"]})
