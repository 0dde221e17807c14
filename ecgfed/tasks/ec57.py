"""``score_ec57``: score annotations against reference annotations, beat by beat, like WFDB's bxb."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError, RecordError, param
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
from ecgfed.core.evaluation.ec57_flutter import FlutterScores, excludes_nothing
from ecgfed.domain.beats.exclusions import Counted, Exclusions
from ecgfed.domain.record.reader import format_of
from ecgfed.domain.record.recording import Annotation
from ecgfed.domain.record.wfdb_files import read_annotation
from ecgfed.domain.record.wfdb_header import read_header, record_base
from ecgfed.tasks.excluded import annotations_excluded, excluded_as_json
from ecgfed.tasks.progress import SILENT, ProgressReporter, report_exclusions
from ecgfed.tasks.records import record_paths, seconds_of

#: Columns of the table, named as in bxb, and their scores.
COLUMNS = {
    "Q Se": "qrs_se",
    "Q +P": "qrs_ppv",
    "V Se": "veb_se",
    "V +P": "veb_ppv",
    "S Se": "sveb_se",
    "S +P": "sveb_ppv",
}
#: Columns of the tables of ventricular flutter and fibrillation and of atrial fibrillation, named as in epicmp, and
#: their scores.
FLUTTER_COLUMNS = {
    "E Se": "vf_episode_se",
    "E +P": "vf_episode_ppv",
    "D Se": "vf_duration_se",
    "D +P": "vf_duration_ppv",
}
FIBRILLATION_COLUMNS = {column: f"af{key[2:]}" for column, key in FLUTTER_COLUMNS.items()}
#: Parts of EC57 that are not scored.
NOT_SCORED = ("ST",)

Row = tuple[str, float | None, tuple[float | None, ...]]


@dataclass(frozen=True, repr=False)
class Ec57Scores:
    """Beat-by-beat scores of records by ANSI/AAMI EC57.

    Attributes:
        records: comparison of each record.
        total: gross and average scores of all records.
        test: suffix of the annotations under test.
        reference: suffix of the reference annotations.
        mapping: mapping of symbols to classes, ``aami5`` or ``aami5-bxb``.
        start_s: end of the learning period in seconds.
        not_scored: records of a folder without annotations under test.
        excluded: JSON-ready: numbers of records and annotations read, used, and excluded by reason.
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
        percents = ", ".join(f"{name} {_percent(gross[key].percent)}" for name, key in COLUMNS.items())
        what = f"{shortened(self.test, 20)} against {shortened(self.reference, 20)}"
        return f"Ec57Scores({count_of(len(self.records), 'record')}, {what}, mapping {self.mapping}: {percents})"

    @property
    def mapping_words(self) -> str:
        """Caption of tables: name of the mapping and its treatment of escape beats."""
        return f"mapping {self.mapping} ({MAPPING_WORDS[self.mapping]})"

    def rows(self) -> list[Row]:
        """Return the rows of the table: name, beats, and the scores of ``COLUMNS`` in percent, None if undefined.

        The last two rows are gross (of the summed counts) and average (over records with a defined score).
        """
        rows: list[Row] = []
        for comparison in (*self.records, self.total.gross):
            percents = tuple(comparison.scores[key].percent for key in COLUMNS.values())
            rows.append((comparison.record, comparison.scores["qrs_se"].total, percents))
        return [*rows, ("average", None, tuple(self.total.average[key] for key in COLUMNS.values()))]

    def flutter_rows(self) -> list[Row]:
        """Return the table of flutter and fibrillation: name, episodes of the reference, scores of ``FLUTTER_COLUMNS``.

        Only for records with an episode in either file, followed by gross and average; empty without any.
        """
        scores = [(comparison.record, comparison.flutter) for comparison in self.records]
        return self._episode_rows(scores, self.total.gross.flutter, FLUTTER_COLUMNS)

    def fibrillation_rows(self) -> list[Row]:
        """Return the table of atrial fibrillation, likewise, with the scores of ``FIBRILLATION_COLUMNS``."""
        scores = [(comparison.record, comparison.fibrillation) for comparison in self.records]
        return self._episode_rows(scores, self.total.gross.fibrillation, FIBRILLATION_COLUMNS)

    def _episode_rows(
        self, scores: Sequence[tuple[str, FlutterScores]], gross: FlutterScores, columns: Mapping[str, str]
    ) -> list[Row]:
        marked = [(record, of) for record, of in scores if of.episodes or of.called]
        if not marked:
            return []
        rows: list[Row] = [
            (record, of.episodes, tuple(of.scores[key].percent for key in columns.values()))
            for record, of in (*marked, (self.total.gross.record, gross))
        ]
        return [*rows, ("average", None, tuple(self.total.average[key] for key in columns.values()))]

    def shutdown_words(self) -> str:
        """Return a sentence with the shutdown time and the beats missed in it; empty without shutdown."""
        gross = self.total.gross
        missed = gross.missed_in_shutdown["all"]
        if not gross.shutdown_s and not missed.part:
            return ""
        return (
            f"Shut down for {gross.shutdown_s:.1f} s: missed in it {missed.part:,} of {missed.total:,} beats"
            f" ({_percent(missed.percent)}%)."
        )

    def to_dict(self) -> dict[str, object]:
        """Return the output of ``ecgfed ec57 --json``."""
        return {
            "reference": self.reference,
            "test": self.test,
            "mapping": self.mapping,
            "not_measured": list(NOT_SCORED),
            "start_s": self.start_s,
            "match_s": MATCH_S,
            "classes": list(CLASSES),
            "records": [comparison.as_json() for comparison in self.records],
            **self.total.as_json(),
            "not_scored": list(self.not_scored),
            "excluded": self.excluded,
        }

    def _repr_html_(self) -> str:
        """Return a notebook's table: sensitivity and positive predictivity in percent."""
        head = "".join(f"<th>{name}</th>" for name in ("record", "beats", *COLUMNS))
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{'' if beats is None else f'{beats:,}'}</td>"
            f"{''.join(f'<td>{_percent(value)}</td>' for value in percents)}</tr>"
            for name, beats, percents in self.rows()
        )
        caption = html.escape(f"{self.test} against {self.reference}, percent; {self.mapping_words}")
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{rows}</table>"


@renamed_parameters("0.3", "0.5", watch="progress")
def score_ec57(
    records: Path | str | Sequence[Path | str],
    test: str,
    *,
    reference: str = "atr",
    test_folder: Path | str | None = None,
    start: float | str = START_S,
    mapping: str = "aami5",
    progress: ProgressReporter = SILENT,
) -> Ec57Scores:
    """Score beat annotations by ANSI/AAMI EC57: QRS, VEB and SVEB sensitivity and +P, gross and average.

    Ventricular flutter and fibrillation (``[`` to ``]``) and atrial fibrillation (``+`` with ``(AFIB``) are scored by
    episodes and by duration, shutdown (``~`` with bits 4 and 5 of its subtype set) by the beats missed in it. ST is not
    scored.

    Args:
        records: one or several WFDB records, or folders of them.
        test: suffix of the annotations under test: ``qrs``, ``ecgfed``, ...
        reference: suffix of the reference annotations.
        test_folder: folder of the annotations under test; default: that of the record.
        start: end of the learning period, in seconds or as ``5:00``, the value of EC57.
        mapping: ``aami5`` (de Chazal) or ``aami5-bxb`` (escape beats e, j in S).
        progress: receives progress, notes and warnings.

    Raises:
        OptionError: an invalid option.
        RecordError: an unreadable record or annotation, or no record to score.

    Examples:
        >>> import ecgfed
        >>> scores = ecgfed.score_ec57("cohort-records", "atr", start="0:30")  # a perfect annotator
        >>> scores.total.average["qrs_se"], scores.total.gross.qrs_f1
        (100.0, 100.0)
    """
    if mapping not in MAPPINGS:
        raise OptionError("mapping", f"{mapping!r}", f"one of {', '.join(MAPPINGS)}", code="unknown-choice")
    start_s = seconds_of(start, "start", "a time such as 5:00, or seconds")
    paths = [Path(path) for path in ([records] if isinstance(records, Path | str) else records)]
    if not paths:
        raise OptionError("RECORDS", "none given", "one or more records")
    folder = None if test_folder is None else Path(test_folder)
    named = {record_base(path) for path in paths if not path.is_dir()}
    compared, without, read = [], [], list[Annotation]()
    for path in record_paths(paths):
        file = (folder or path.parent) / f"{path.name}.{test}"
        if not file.is_file() and path not in named:  # a folder is searched for annotated records
            without.append(path.name)
            continue
        compared.append(_compare(path, file, reference, start_s, mapping, progress, read))
    if not compared:
        where = folder or paths[0]
        action = f"check {param('test')}, {param('test_folder')}"
        raise RecordError(where, f"no record has annotations .{test}", "RECORD.SUFFIX", action)
    if without:
        progress.warn(f"not scored, without .{test}: {', '.join(without)}")
    scored = Exclusions("record", len(compared) + len(without), {"not_annotated": len(without)})
    excluded = [scored, annotations_excluded(read)]
    report_exclusions(excluded[1:], progress)  # records are reported above
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
    path: Path,
    file: Path,
    reference: str,
    start_s: float,
    mapping: str,
    progress: ProgressReporter,
    read: list[Annotation],
) -> BeatComparison:
    if format_of(path) != "wfdb":
        raise RecordError(path, "is not a WFDB record", "one with its annotations", "make it with 'ecgfed convert'")
    header = read_header(path)
    samples = header.sig_len or None
    if samples is not None and start_s * header.fs >= samples:
        expected = f"more than the {start_s:g} s of the learning period"
        raise RecordError(path, f"lasts {samples / header.fs:.0f} s", expected, f"pass {param('start')}")
    fs_hz = float(header.fs)
    reference_annotation = read_annotation(path, reference, fs_hz=fs_hz, samples=samples, named_by=param("reference"))
    if excludes_nothing(reference_annotation):
        text = f"{path.name}.{reference}: the last [ has no ]; as with bxb, beats called in that flutter are extra"
        progress.warn(text)
    named_by = f"{param('test')}, their folder with {param('test_folder')}"
    test_annotation = read_annotation(
        file.with_suffix(""), file.suffix[1:], fs_hz=fs_hz, samples=samples, named_by=named_by
    )
    read += [reference_annotation, test_annotation]
    return compare(
        reference_annotation,
        test_annotation,
        fs_hz,
        samples=samples,
        mapping=mapping,
        start_s=start_s,
        record=path.name,
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
