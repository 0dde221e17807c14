"""``score_ec57``: annotations against reference annotations, beat by beat, as WFDB's bxb scores them."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecgfed.base.errors import OptionError, RecordError
from ecgfed.base.text import count_of, shortened
from ecgfed.core.evaluation.ec57 import (
    CLASSES,
    MAPPING_WORDS,
    MAPPINGS,
    MATCH_S,
    START_S,
    Aggregate,
    BeatComparison,
    aggregate,
    compare,
)
from ecgfed.core.evaluation.ec57_flutter import excludes_nothing
from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.record.reader import format_of
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.domain.record.wfdb_header import read_header, record_base
from ecgfed.tasks.excluded import annotations_excluded, excluded_as_json
from ecgfed.tasks.records import record_paths, seconds_of
from ecgfed.tasks.watch import NOBODY, Watch, report_exclusions

#: Columns of the table, named as bxb names them, and the scores they show.
COLUMNS = {
    "Q Se": "qrs_se",
    "Q +P": "qrs_ppv",
    "V Se": "veb_se",
    "V +P": "veb_ppv",
    "S Se": "sveb_se",
    "S +P": "sveb_ppv",
}
#: Columns of the table of flutter and fibrillation, named after epicmp's, and the scores they show.
FLUTTER_COLUMNS = {
    "E Se": "vf_episode_se",
    "E +P": "vf_episode_ppv",
    "D Se": "vf_duration_se",
    "D +P": "vf_duration_ppv",
}
#: What EC57 also knows and ``ec57`` does not score.
NOT_SCORED = ("AF", "ST")

Row = tuple[str, float | None, tuple[float | None, ...]]


@dataclass(frozen=True, repr=False)
class Ec57Scores:
    """Beat-by-beat scores of some records, by ANSI/AAMI EC57.

    Attributes:
        records: each record's comparison.
        total: all of them together, gross and average.
        test: suffix of the annotations under test.
        reference: suffix of the reference annotations.
        mapping: which symbol is which class, ``aami5`` or ``aami5-bxb``.
        start_s: end of the learning period in seconds.
        not_scored: records of a folder without annotations under test.
        excluded: JSON-ready: records and annotations that were read, used and excluded, by reason.
    """

    records: tuple[BeatComparison, ...]
    total: Aggregate
    test: str
    reference: str
    mapping: str
    start_s: float
    not_scored: tuple[str, ...] = ()
    excluded: dict[str, Counted] = field(default_factory=dict)

    def __repr__(self) -> str:
        gross = self.total.gross.scores
        told = ", ".join(f"{name} {_percent(gross[key].percent)}" for name, key in COLUMNS.items())
        what = f"{shortened(self.test, 20)} against {shortened(self.reference, 20)}"
        return f"Ec57Scores({count_of(len(self.records), 'record')}, {what}, mapping {self.mapping}: {told})"

    @property
    def mapping_words(self) -> str:
        """The mapping's name and what it does with escape beats, to stand beside every table."""
        return f"mapping {self.mapping} ({MAPPING_WORDS[self.mapping]})"

    def rows(self) -> list[Row]:
        """Return the table row by row: name, beats, and the scores of ``COLUMNS`` in percent, None where undefined.

        The last two rows are gross (of the summed counts) and average (of the records that define a score).
        """
        rows: list[Row] = []
        for one in (*self.records, self.total.gross):
            percents = tuple(one.scores[key].percent for key in COLUMNS.values())
            rows.append((one.record, one.scores["qrs_se"].total, percents))
        return [*rows, ("average", None, tuple(self.total.average[key] for key in COLUMNS.values()))]

    def flutter_rows(self) -> list[Row]:
        """Return the table of flutter and fibrillation: name, episodes of the reference, scores of ``FLUTTER_COLUMNS``.

        Only of records where either file marks an episode; gross and average follow. Empty where there is none.
        """
        marked = [one for one in self.records if one.flutter.episodes or one.flutter.called]
        if not marked:
            return []
        rows: list[Row] = [
            (
                one.record,
                one.flutter.episodes,
                tuple(one.flutter.scores[key].percent for key in FLUTTER_COLUMNS.values()),
            )
            for one in (*marked, self.total.gross)
        ]
        return [*rows, ("average", None, tuple(self.total.average[key] for key in FLUTTER_COLUMNS.values()))]

    def shutdown_words(self) -> str:
        """Say how long the annotator under test was shut down and what it missed by that; empty where it was not."""
        gross = self.total.gross
        missed = gross.missed_in_shutdown["all"]
        if not gross.shutdown_s and not missed.part:
            return ""
        return (
            f"Shut down for {gross.shutdown_s:.1f} s: missed in it {missed.part:,} of {missed.total:,} beats"
            f" ({_percent(missed.percent)}%)."
        )

    def to_dict(self) -> dict[str, object]:
        """Return what ``ecgfed ec57 --json`` prints."""
        return {
            "reference": self.reference,
            "test": self.test,
            "mapping": self.mapping,
            "not_measured": list(NOT_SCORED),
            "start_s": self.start_s,
            "match_s": MATCH_S,
            "classes": list(CLASSES),
            "records": [one.as_json() for one in self.records],
            **self.total.as_json(),
            "not_scored": list(self.not_scored),
            "excluded": self.excluded,
        }

    def _repr_html_(self) -> str:
        """A notebook's table: sensitivity and positive predictivity in percent."""
        head = "".join(f"<th>{name}</th>" for name in ("record", "beats", *COLUMNS))
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{'' if beats is None else f'{beats:,}'}</td>"
            f"{''.join(f'<td>{_percent(value)}</td>' for value in percents)}</tr>"
            for name, beats, percents in self.rows()
        )
        caption = html.escape(f"{self.test} against {self.reference}, percent; {self.mapping_words}")
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{rows}</table>"


def score_ec57(
    records: Path | str | Sequence[Path | str],
    test: str,
    *,
    reference: str = "atr",
    test_folder: Path | str | None = None,
    start: float | str = START_S,
    mapping: str = "aami5",
    watch: Watch = NOBODY,
) -> Ec57Scores:
    """Score beat annotations by ANSI/AAMI EC57: QRS, VEB and SVEB sensitivity and +P, gross and average.

    Ventricular flutter and fibrillation (``[`` to ``]``) are scored by episodes and by duration, shutdown (``~`` with
    bits 4 and 5 of its subtype set) by what was missed in it. Atrial fibrillation and ST are not scored.

    Args:
        records: WFDB records, or folders of them; one or several.
        test: suffix of the annotations under test: ``qrs``, ``ecgfed``, ...
        reference: suffix of the reference annotations.
        test_folder: where those under test lie, if not beside the records.
        start: end of the learning period, in seconds or as ``5:00``, which EC57 says.
        mapping: ``aami5`` (de Chazal) or ``aami5-bxb`` (escape beats e, j in S).
        watch: told which records of a folder are not scored.

    Raises:
        OptionError: an option that cannot be.
        RecordError: a record or an annotation that cannot be read, or no record to score.

    Examples:
        >>> import ecgfed
        >>> scores = ecgfed.score_ec57("cohort-records", "atr", start="0:30")  # a perfect annotator
        >>> scores.total.average["qrs_se"], scores.total.gross.qrs_f1
        (100.0, 100.0)
    """
    if mapping not in MAPPINGS:
        raise OptionError("--mapping", f"{mapping!r}", f"one of {', '.join(MAPPINGS)}")
    start_s = seconds_of(start, "--start", "a time such as 5:00, or seconds")
    given = [Path(one) for one in ([records] if isinstance(records, Path | str) else records)]
    if not given:
        raise OptionError("RECORDS", "none given", "one or more records")
    folder = None if test_folder is None else Path(test_folder)
    named = {record_base(one) for one in given if not one.is_dir()}
    compared, without, read = [], [], list[Annotation]()
    for path in record_paths(given):
        marks = (folder or path.parent) / f"{path.name}.{test}"
        if not marks.is_file() and path not in named:  # of a folder those that were annotated
            without.append(path.name)
            continue
        compared.append(_compare(path, marks, reference, start_s, mapping, watch, read))
    if not compared:
        where = folder or given[0]
        raise RecordError(where, f"no record has annotations .{test}", "RECORD.SUFFIX", "check --test, --test-folder")
    if without:
        watch.warn(f"not scored, without .{test}: {', '.join(without)}")
    scored = Exclusions("record", len(compared) + len(without), {"not_annotated": len(without)})
    excluded = [scored, annotations_excluded(read)]
    report_exclusions(excluded[1:], watch)  # the records are named above
    return Ec57Scores(
        tuple(compared),
        aggregate(compared),
        test,
        reference,
        mapping,
        start_s,
        tuple(without),
        excluded_as_json(excluded),
    )


def _compare(
    path: Path, marks: Path, reference: str, start_s: float, mapping: str, watch: Watch, read: list[Annotation]
) -> BeatComparison:
    if format_of(path) != "wfdb":
        raise RecordError(path, "is no WFDB record", "one with its annotations", "make it with 'ecgfed convert'")
    header = read_header(path)
    samples = int(header.sig_len) or None
    if samples is not None and start_s * header.fs >= samples:
        raise RecordError(
            path, f"lasts {samples / header.fs:.0f} s", f"more than the {start_s:g} s that do not count", "pass --start"
        )
    fs_hz = float(header.fs)
    theirs = read_annotation(path, reference, fs_hz=fs_hz, samples=samples, named_by="--reference")
    if excludes_nothing(theirs):
        watch.warn(f"{path.name}.{reference}: the last [ has no ]; as with bxb, beats called in that flutter are extra")
    named_by = "--test, their folder with --test-folder"
    ours = read_annotation(marks.with_suffix(""), marks.suffix[1:], fs_hz=fs_hz, samples=samples, named_by=named_by)
    read += [theirs, ours]
    return compare(theirs, ours, fs_hz, samples=samples, mapping=mapping, start_s=start_s, record=path.name)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
