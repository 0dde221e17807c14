"""``ecgfed label``: a recording in, a page out on which a person labels the few beats that say most."""

import shlex
import time
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError, param
from ecgfed.base.text import count_of
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.reports.options import PageOptions

from .expand import takes_options
from .output import JsonOption, OverwriteOption, QuietOption, note, print_json, seconds
from .reading import (
    DetectorOption,
    ForceOption,
    LeadsTogetherOption,
    MainsOption,
    MarksOption,
    PeaksOption,
    RecordArgument,
    TrustedOption,
    as_typed,
    lead_option,
    named_detector,
    requested_leads,
    takes_reading,
    typed_reading,
)
from .reporter import Output
from .stop import interrupted_once

if TYPE_CHECKING:
    from ecgfed.tasks.label import Labelling, Served
    from ecgfed.tasks.second_reader import SecondReading


#: Labels to ask for.
_COUNT = 20


@takes_options("page", PageOptions)
@takes_reading
def label_command(
    *,
    record: RecordArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the page and the labels.")],
    count: Annotated[int, typer.Option(help="Labels to ask for.")] = _COUNT,
    minutes: Annotated[float | None, typer.Option(help="Choose among the beats of the first minutes alone.")] = None,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="Whose model helps to choose; default the model in the package.")
    ] = None,
    second: Annotated[
        Path | None,
        typer.Option(
            "--second",
            metavar="FIRST",
            help="Ask a second reader the beats of a first reader's labels, in random order and blinded.",
        ),
    ] = None,
    reader: Annotated[
        str | None, typer.Option(help="With --second: the second reader's initials, for the names of the files.")
    ] = None,
    served: Annotated[
        bool,
        typer.Option(
            "--serve", help="Open the page from a small server on this machine, which writes each answer at once."
        ),
    ] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="With --serve: open it in a browser.")] = True,
    lead: Annotated[str | None, lead_option("the bundle's")] = None,
    leads: LeadsTogetherOption = None,
    peaks: PeaksOption = "detected",
    detector: DetectorOption = "ecgfed",
    mains: MainsOption = None,
    annotator: MarksOption = "atr",
    how: ReadOptions,
    page: PageOptions,
    seed: Annotated[
        int, typer.Option(min=0, help="For the choice among the beats of a long recording, and --second's order.")
    ] = 0,
    trusted: TrustedOption = None,
    force: ForceOption = False,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Choose the beats worth a label, and make a page to label them on. Research use only, not for diagnosis."""
    from ecgfed.tasks.label import label
    from ecgfed.tasks.second_reader import READER, SecondReading, second_reader_page

    started = time.perf_counter()
    _check_second(second, reader, count, minutes, force=force)
    with Output(json_output=json_output, quiet=quiet).reporter() as progress:
        make = (
            partial(label, record, out, count=count, minutes=minutes, force=force)
            if second is None
            else partial(second_reader_page, record, second, out, reader=reader or READER)
        )
        labelling = make(
            bundle=bundle,
            leads=requested_leads(lead, leads),
            peaks=peaks,
            detector=named_detector(detector),
            mains_hz=mains,
            annotator=annotator,
            how=how,
            trusted=trusted or None,
            seed=seed,
            **page.given_values(),
            page_file=not served,
            overwrite=overwrite,
            progress=progress,
        )
    elapsed = time.perf_counter() - started
    ended = _serve(labelling, overwrite=overwrite, browser=browser) if served else None
    if json_output:
        outcome = {} if ended is None else {"labels": ended.labels, "ended": ended.ended}
        print_json({**labelling.to_dict(), **outcome, "seconds": round(elapsed, 2)})
    elif isinstance(labelling, SecondReading):
        if not quiet:
            _print_second(labelling, ended, elapsed)
    elif not quiet:
        usual = {"peaks": (peaks, "detected"), "detector": (detector, "ecgfed"), "annotator": (annotator, "atr")}
        changed = {name: value for name, (value, default) in usual.items() if value != default}
        model_options = {"bundle": None if bundle is None else str(bundle), "seed": str(seed) if seed else None}
        typed = as_typed(**model_options, lead=lead, minutes=minutes, **changed, mains=mains, **typed_reading(how))
        _print(labelling, ended, elapsed, record, typed + " --force" * force)


def _check_second(second: Path | None, reader: str | None, count: int, minutes: float | None, *, force: bool) -> None:
    """Refuse options of the model's choice of beats where a first reader's labels name them; raises OptionError."""
    if second is None and reader is not None:
        raise OptionError("reader", "is given without a first reader", param("second"), code="conflict")
    for name, given in (("count", count != _COUNT), ("minutes", minutes is not None), ("force", force)):
        if second is not None and given:
            action = "leave it out"
            raise OptionError(
                name, f"is given with {param('second')}", "the beats of its file", action, code="conflict"
            )


def _serve(labelling: "Labelling | SecondReading", *, overwrite: bool, browser: bool) -> "Served":
    """Serve the page until it is done; its address goes where errors go, so that --json stays a script's."""

    def opened(address: str) -> None:
        typer.echo(f"Label at {address}", err=True)
        typer.echo("It ends by itself when you are done, or with Ctrl-C; every answer is written at once.", err=True)
        if browser:
            webbrowser.open(address)

    with interrupted_once():
        return labelling.serve(opened, overwrite=overwrite)


def _print(labelling: "Labelling", ended: "Served | None", elapsed: float, record: Path, reading: str) -> None:
    """Print what was made, and what comes next; ``reading`` is how the recording was told to be read."""
    summary = labelling.to_dict()
    part = "" if summary["minutes"] is None else f" of the first {count_of(summary['minutes'], 'minute')}"
    beats, groups = count_of(summary["beats"], "beat"), count_of(summary["groups"], "group")
    covered = f"{beats}{part} in {groups} on {', '.join(summary['leads'])}"
    worth = count_of(summary["count"], "is worth", "are worth")
    note(f"{summary['record']}: {covered}; {worth} a label first.")
    for notice in summary["notices"]:
        note(f"- {notice}")
    typed_record, labels, out = (
        shlex.quote(str(name)) for name in (record, labelling.labels_file, f"{summary['record']}-own")
    )
    then = f"ecgfed personalize {typed_record} --labels {labels}{reading} --out {out}"
    if ended is None:
        note(f"Wrote {labelling.files[0]} in {seconds(elapsed)}. Open it in a browser, answer, and save the labels.")
        note(f"The browser saves them among its downloads: move them to {labels}. Next: {then}")
    elif ended.labels:
        lie = count_of(ended.labels, "label is", "labels are")
        note(f"{lie} in {ended.file}. Next: {then}")
    else:
        note("Nothing was answered, and nothing written.")


def _print_second(reading: "SecondReading", ended: "Served | None", elapsed: float) -> None:
    """Print what was made for a second reader, and how to compare both."""
    summary = reading.to_dict()
    beats = count_of(summary["count"], "beat")
    note(
        f"{summary['record']}: {beats} of {reading.first} for {reading.reader}, in random order and without its labels."
    )
    then = f"ecgfed agreement {shlex.quote(str(reading.first))} {shlex.quote(str(reading.labels_file))}"
    if ended is None:
        note(f"Wrote {reading.files[0]} in {seconds(elapsed)}. Open it in a browser, answer, and save the labels.")
        note(f"The browser saves them among its downloads: move them to {reading.labels_file}. Next: {then}")
    elif ended.labels:
        note(f"{count_of(ended.labels, 'label is', 'labels are')} in {ended.file}. Next: {then}")
    else:
        note("Nothing was answered, and nothing written.")
