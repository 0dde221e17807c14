"""``ecgfed report``: a recording in, a page that a clinician reads out, or of a folder one each and an index; or a run
in, a page for researchers out.

No torch on the way of a recording.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecgfed.base.text import count_of
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.reports.options import OF_A_RECORDING, ReportOptions

from .expand import takes_options
from .output import JsonOption, OverwriteOption, QuietOption, console, key_values, note, table, warn
from .reading import (
    RECORD_HELP,
    DetectorOption,
    ForceOption,
    LeadsTogetherOption,
    MainsOption,
    MarksOption,
    PeaksOption,
    TrustedOption,
    check_reading,
    lead_option,
    named_detector,
    requested_leads,
)
from .reporter import Output
from .tables import Cell
from .two_forms import refuse_options_of

if TYPE_CHECKING:
    from ecgfed.reports.recording_report import RecordingReport
    from ecgfed.reports.run_report import RunReport
    from ecgfed.tasks.report_folder import FolderReport

NOT_ASSESSED = "not assessed"
#: Options that a recording and a run have both.
_OF_BOTH = ("source", "out", "pdf", "overwrite", "json_output", "quiet")
#: Options that only a run has.
_OF_A_RUN = ("cohort",)
#: Options that only a single recording has, and that only a folder has.
_OF_A_RECORDING = ("patient", "labels", *OF_A_RECORDING)
_OF_A_FOLDER = ("resume",)


def _refuse_options_of_other(*, context: typer.Context, source: Path, **_values: object) -> None:
    """Refuse options of recordings for a run, and of runs for a recording, whatever their values."""
    from ecgfed.tasks.report_input import find_run, is_folder_of_recordings

    if find_run(source) is None:
        refuse_options_of(context, source, _OF_A_RUN, "runs", "a recording")
        if is_folder_of_recordings(source):
            refuse_options_of(context, source, _OF_A_RECORDING, "single recordings", "a folder")
        else:
            refuse_options_of(context, source, _OF_A_FOLDER, "folders", "a recording")
    else:
        every = {str(parameter.name) for parameter in context.command.params}
        refuse_options_of(context, source, every - {*_OF_BOTH, *_OF_A_RUN}, "recordings", "a run")


@takes_options("stated", ReportOptions, parse={"formats": str, "start": str, "edits": str, "diary": str, "show": str})
@takes_options("how", ReadOptions, before=_refuse_options_of_other, check=check_reading)
def report_command(
    *,
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RECORD", help=f"{RECORD_HELP} Or a folder of them, or a run: the folder that 'ecgfed train' made."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="PAGE", help="The page to write, such as report.html; of a folder, a folder for its pages."
        ),
    ],
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="Whose model labels the beats; default the model in the package.")
    ] = None,
    patient: Annotated[
        str | None, typer.Option(help="Use this patient's own model, and show where the global one disagrees.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="Labels in place of a model's: a WFDB annotation, or a table."),
    ] = None,
    lead: Annotated[str | None, lead_option("the bundle's")] = None,
    leads: LeadsTogetherOption = None,
    peaks: PeaksOption = "detected",
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    annotator: MarksOption = "atr",
    how: ReadOptions,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME=VALUE", help="Count by another rule, such as pause_s=2 (docs/report.md)."),
    ] = None,
    cohort: Annotated[Path | None, typer.Option("--cohort", help="Of a run: its cohort, where it has moved.")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also print it as PDF beside the page, through Chromium.")] = False,
    stated: ReportOptions,
    trusted: TrustedOption = None,
    force: ForceOption = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Of a folder: go on in --out where a call was stopped; it ends the same.")
    ] = False,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a page of a recording that a clinician reads, or of a run for researchers. Not for diagnosis."""
    from ecgfed.tasks.report_input import find_run, is_folder_of_recordings

    output = Output(json_output=json_output, quiet=quiet)
    if (run := find_run(source)) is not None:
        from ecgfed.tasks.report_run import report_run

        with output.reporter() as progress:
            run_report = report_run(run, out, cohort=cohort, pdf=pdf, overwrite=overwrite, progress=progress)
        output.show(run_report.to_dict(), lambda: _print_run(run_report, output.seconds))
        return
    from ecgfed.domain.events.rules import EventRules
    from ecgfed.tasks.report import report

    options: dict[str, Any] = {
        "leads": requested_leads(lead, leads),
        "peaks": peaks,
        "detector": named_detector(detector),
        "mains_hz": mains,
        "annotator": annotator,
        "how": how,
        "trusted": trusted or None,
        "force": force,
        "rules": EventRules().changed(tuple(rule or ())),
        "pdf": pdf,
        **stated.given_values(),
        "overwrite": overwrite,
    }
    if is_folder_of_recordings(source):
        from ecgfed.tasks.report_folder import report_folder

        with output.reporter() as progress:
            folder = report_folder(source, out, bundle, **options, resume=resume, progress=progress)
        output.show(folder.to_dict(), lambda: _print_folder(folder, output.seconds))
        for failure in folder.failed:
            warn(f"failed: {failure['problem']}")
        if folder.failed:
            raise typer.Exit(1)
        return
    with output.reporter() as progress:
        report_of_recording = report(
            source, bundle, out=out, patient=patient, labels=labels, **options, progress=progress
        )
    output.show(report_of_recording.to_dict(), lambda: _print(report_of_recording, output.seconds))


def _print_folder(folder: "FolderReport", elapsed: str) -> None:
    from ecgfed.reports.folder_index import HEAD, cells_of

    if folder.rows:
        rows: list[list[Cell]] = [
            [row.file, *(text for text, _ in cells_of(row)[:-1]), len(row.warnings)] for row in folder.rows
        ]
        console.print(table([name.casefold() for name in HEAD], rows))
        note(folder.rows[0].intended_use)
    finished, failed = count_of(len(folder.rows), "report"), len(folder.failed)
    note(f"{finished}, {failed} failed, in {elapsed}: {', '.join(map(str, folder.files))}")


def _print_run(run_report: "RunReport", elapsed: str) -> None:
    parts = run_report.parts
    method = "" if parts.method == parts.run else f", {parts.method}"
    note(f"Run {parts.run}{method}:")
    if parts.scored:
        names = ("T_g", "T_p", "T_r", "T_l")
        rows = [[scored.title, *(_score(scored.scores.get(name)) for name in names)] for scored in parts.scored]
        console.print(table(["macro-F1", *names], rows))
    for _, text in parts.notes:
        note(f"- {text}")
    note(parts.intended_use)
    note(f"Wrote {', '.join(map(str, run_report.files))} in {elapsed}.")


def _score(value: float | None) -> str:
    return NOT_ASSESSED if value is None else f"{value:.3f}"


def _print(recording_report: "RecordingReport", elapsed: str) -> None:
    from ecgfed.domain.events.kinds import Kind
    from ecgfed.domain.record.leads import described
    from ecgfed.reports.headline import ectopy_headline, longest_text, pauses_text, rates_text
    from ecgfed.reports.markup import per_cent

    parts, events = recording_report.parts, recording_report.parts.events
    note(f"Record {parts.record}, lead {described(parts.lead)}, labels by {parts.labelled_by}:")
    longest = events.pauses.longest
    rows: list[tuple[str, Cell]] = [
        ("beats", events.counted),
        ("heart rate", rates_text(events.rates) or NOT_ASSESSED),
        (
            "pauses",
            NOT_ASSESSED
            if longest is None
            else f"{pauses_text(events.pauses)}; {longest_text(events.pauses)}"
            + "".join(f"; {interval.value:.2f} s not confirmed" for interval in events.pauses.not_confirmed)
            + "".join(f"; no beat for {interval.value:.1f} s at an end" for interval in events.pauses.ends),
        ),
        *[("rhythm", f"{one.rhythm} {per_cent(100 * one.seconds / parts.duration_s)}") for one in parts.named_rhythms],
        ("ventricular", ectopy_headline(events, Kind.VENTRICULAR) or NOT_ASSESSED),
        ("supraventricular", ectopy_headline(events, Kind.SUPRA) or NOT_ASSESSED),
    ]
    console.print(key_values(rows))
    for _, text in parts.warnings:
        note(f"- {text}")
    if parts.notes:
        note(f"{count_of(len(parts.notes), 'note')} on the page.")
    note(parts.intended_use)
    note(f"Wrote {', '.join(map(str, recording_report.files))} in {elapsed}.")
