"""Write an entry of the leaderboard; ecgfed computes the scores from runs, or from folders of annotation files.

    python benchmarks/leaderboard/entry.py RUN [RUN ...] --track personalization-random --name NAME --author AUTHOR
        --link URL --version VERSION --licence MIT --trained-on TEXT --command COMMAND --out FILE
    python benchmarks/leaderboard/entry.py FOLDER --track qrs --source MITDB --name NAME ... --out FILE

A run is one of ``ecgfed train``; name one for each seed. A folder contains ``RECORD.qrs`` for each record of the track,
or ``RECORD.ecgfed`` for unseen patients. ``--out`` without a value writes the file where the leaderboard has it.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, benchmark, environment, option
from entries import as_text, check, file_of, tracks
from scoring import Scored, score_annotations, score_runs

from ecgfed.base.errors import OptionError
from ecgfed.base.files import write_text

#: Options of one kind of track alone.
OF_RUNS, OF_ANNOTATIONS = ("cohort", "personal", "method", "net"), ("source", "suffix", "seeds")


def machine(found: dict[str, Any]) -> str:
    """Return processor, cores and versions as one line; what is not known is left out."""
    cores = found.get("cores")
    parts = [found.get("machine"), found.get("processor"), f"{cores} cores" if cores else ""]
    parts += [f"{name} {found[name]}" for name in ("python", "ecgfed", "numpy", "torch", "scipy") if found.get(name)]
    return ", ".join(part for part in parts if part) or "not recorded"


def scored(given: argparse.Namespace) -> Scored:
    """Score what is named, as its track asks.

    Raises:
        OptionError: an option of the other kind of track, or no ``--source``.
        EcgfedError: as ``score_runs`` and ``score_annotations``.
    """
    track = tracks()[given.track]
    of_runs = "cohort" in track
    if wrong := [name for name in (OF_ANNOTATIONS if of_runs else OF_RUNS) if getattr(given, name)]:
        raise OptionError(f"--{wrong[0]}", f"with --track {given.track}", "nothing, for this track does not use it")
    if of_runs:
        how = {name: getattr(given, name) for name in OF_RUNS}
        return score_runs(given.paths, track, **how)
    if given.source is None:
        raise OptionError("--source", "is missing", "the folder of the MIT-BIH records")
    return score_annotations(given.paths, track, source=given.source, suffix=given.suffix, seeds=given.seeds)


def main(given: argparse.Namespace) -> None:
    track, found = tracks()[given.track], scored(given)
    entry: dict[str, Any] = {
        "schema_version": 1,
        "track": given.track,
        "kind": track["kind"],
        "name": given.name,
        "authors": given.author,
        "link": given.link,
        "version": given.version,
        "licence": given.licence,
        "trained_on": given.trained_on,
        "data_sha256": found.data_sha256,
        "split_sha256": found.split_sha256,
        "seeds": found.seeds,
        "scores": found.scores,
        "command": given.command,
        "machine": machine(environment()),
        "scored_from": {
            "kind": "runs" if "cohort" in track else "annotations",
            "sha256": found.sha256,
            **({"link": given.files} if given.files else {}),
        },
    }
    file = given.out or file_of(entry)
    check(entry, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, as_text(entry))
    main_score = found.scores[track["sort"]]
    ends = f" ({main_score['low']:.4g} to {main_score['high']:.4g})" if main_score["low"] is not None else ""
    shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    print(f"{track['scores'][track['sort']]} {main_score['value']:.4g}{ends}; wrote {shown}")


if __name__ == "__main__":
    benchmark(
        main,
        option("paths", nargs="+", type=Path, metavar="RUN", help="runs, or folders of annotation files"),
        option("--track", required=True, choices=list(tracks())),
        option("--name", required=True, help="of the method or detector"),
        option("--author", required=True, action="append", help="once for each author"),
        option("--link", required=True, help="of the paper or the code"),
        option("--version", required=True, help="of your code"),
        option("--licence", required=True, help="SPDX identifier of your code, such as MIT"),
        option("--trained-on", required=True, help="recordings used for training and development, in a few words"),
        option("--command", required=True, help="which made the runs or annotations"),
        option("--files", metavar="URL", help="where reviewers fetch the runs or annotations"),
        option("--out", type=Path, help="default: its place below benchmarks/leaderboard/entries"),
        option("--cohort", type=Path, help="of the runs, if it was moved"),
        option("--personal", help="personalization method, as of 'ecgfed evaluate'"),
        option("--method", metavar="FILE.py:CLASS", help="of the runs, if it is your own"),
        option("--net", metavar="FILE.py:CLASS", help="of the runs, if it is your own"),
        option("--source", type=Path, help="the MIT-BIH records, for annotations"),
        option("--suffix", help="of the annotation files"),
        option("--seeds", nargs="+", type=int, default=(), help="of the folders of annotations"),
        standard=False,
    )
