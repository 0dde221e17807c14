"""What ``ecgfed prepare`` says of the cohort it made."""

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.exclusions import REASONS
from ecgfed.domain.cohort.clients import of_first_lead

from . import tables
from .output import console, note, print_json, stderr, table, warn
from .reporter import Output
from .tables import without_zero_rows

if TYPE_CHECKING:
    from ecgfed.domain.cohort.cohort import Cohort
    from ecgfed.domain.cohort.summary import ArraySummary, BeatSummary, ImageSummary

#: How many names a line gives; what is beyond is counted.
NAMED = 6
SYNTHETIC = "These patients are synthetic: it proves that the software runs, never that a method is good"


@contextmanager
def print_problems(output: Output) -> Iterator[None]:
    """Print a table of every recording that cannot be used before the line that says so; several of them, that is.

    A script reads them as JSON; with ``--quiet`` the line is all.
    """
    from ecgfed.domain.cohort.problems import UnusableError

    try:
        yield
    except UnusableError as error:
        if output.json_output and not output.quiet:
            print_json({"problems": [{"recording": name, "problem": problem} for name, problem in error.problems]})
        elif not output.quiet:
            stderr.print(tables.table(["recording", "what is wrong"], error.problems, width=stderr.width))
        raise


def report_cohort(cohort: "Cohort", out: Path, output: Output) -> None:
    """Print a cohort as tables for a person or as JSON for a script."""
    from ecgfed.domain.cohort.summary import provenance, summarise

    summary = summarise(cohort)

    def print_text() -> None:
        _print_classes(cohort)
        if "beats" in summary:
            _print_beats(cohort, summary)
        else:
            _print_images(cohort, summary)
        following = f"train {shlex.quote(str(out))} --out RUN"
        if not sum(summary["classes"].values()):
            following = f"cohort join COHORT {shlex.quote(str(out))} --out BOTH"
        note(f"Wrote {out} in {output.seconds}. Next: ecgfed {following}")

    output.show({"cohort": str(out), **summary, **provenance(cohort)}, print_text)


def _print_classes(cohort: "Cohort") -> None:
    from ecgfed.domain.cohort.summary import class_rows

    present, empty = without_zero_rows(class_rows(cohort))
    what = f"{cohort.example_word}s"
    if present:
        console.print(table(["class", what, "train", "valid", "test", "clients"], present))
    if present and empty:
        note(f"No {what[:-1]} of {', '.join(empty)}.")


def _print_requested_names(cohort: "Cohort") -> None:
    """Say where a recording's lead has another name than the one that was asked for."""
    from ecgfed.domain.record.leads import requested_alias

    pairs = [
        (record["lead"], requested_alias(cohort.leads, record["lead"]))
        for record in of_first_lead(cohort.meta["records"])
    ]
    counts = Counter(f"{lead} for {requested}" for lead, requested in pairs if requested)
    if counts:
        pairs_listed = listed([f"{name} ({number})" for name, number in counts.most_common()], NAMED)
        note(f"Leads under another name, with the number of records: {pairs_listed}.")


def _print_sites(summary: "BeatSummary") -> None:
    """Print what each site holds, a row each."""
    if not summary["sites"]:
        return
    classes = [name for name, count in summary["classes"].items() if count]
    rows: list[list[str | int]] = [
        [name, site["clients"], site["examples"], *(site["classes"][cls] for cls in classes)]
        for name, site in summary["sites"].items()
    ]
    console.print(table(["site", "clients", "beats", *classes], rows))


def _print_beats(cohort: "Cohort", summary: "BeatSummary") -> None:
    from ecgfed.domain.cohort.summary import NOT_USED, leads_line, other_leads_line

    _print_sites(summary)
    holdout = f" ({len(summary['holdout'])} held out)" if summary["holdout"] else ""  # train will not see these
    note(
        f"{count_of(summary['clients'], 'client')}{holdout}, {len(cohort.classes)} classes, "
        f"{count_of(summary['beats'], 'beat')} "
        f"({', '.join(f'{n:,} {name}' for name, n in summary['splits'].items())}); "
        f"{summary['classes_per_client']} classes a client; {count_of(summary['padded'], 'beat')} padded at an edge, "
        f"{summary['poor_quality']:,} in stretches of poor quality."
    )
    if others := other_leads_line(summary["other_leads"]):
        note(f"And {others}.")
    meta = cohort.meta
    if meta.get("without_lead"):
        leads = "of their site" if cohort.sites else " or ".join(cohort.leads)
        note(f"Left out, since they have no lead {leads}: {listed(meta['without_lead'], NAMED)}.")
    _print_requested_names(cohort)
    if leads := leads_line(cohort, cohort.clients):
        note(f"Leads of different names: {leads}.")
    if meta.get("counts_checked"):
        note("The counts are the published database's.")
    if copies := meta.get("copies"):
        note(f"Left out, since they are excerpts of another database: {listed(copies, NAMED)}.")
    if summary["unlabelled"]:
        kinds = ", ".join(f"{count:,} {label}" for label, count in summary["record_labels"].items())
        clients = count_of(sum(summary["record_labels"].values()), "client")
        beats = count_of(summary["unlabelled"], "beat")
        note(f"{beats} without a label; the recordings of their {clients} have: {kinds}.")
    for source in (meta, *meta.get("sites", ())):
        if not (source := source.get("database")):
            continue
        note(f"{source['title']}, licence {source['licence']}. Cite {source['citation']}; doi {source['doi']}.")
    if meta.get("synthetic"):
        note(f"{SYNTHETIC} ({meta['synthetic']}).")
    missing = summary["cells_without_test"]
    if missing:
        pairs = listed([f"{client}:{name}" for client, name in missing], NAMED)
        rest = " (--json has them all)" if len(missing) > NAMED else ""
        warn(f"{len(missing)} of {summary['cells']} (client, class) pairs have no test beat: {pairs}{rest}")
    if late := summary["cells_without_train"]:
        pairs = listed([f"{client}:{name}" for client, name in late], NAMED)
        rest = " (--json has them all)" if len(late) > NAMED else ""
        warn(f"{len(late)} (client, class) pairs have test beats and none to train on: {pairs}{rest}")
    if summary["one_class"]:
        warn(f"clients with one class only: {listed(summary['one_class'], NAMED)}")
    if summary["no_test"]:
        warn(f"clients without any test beat, not scored on their own: {listed(summary['no_test'], NAMED)}")
    if removed := meta.get("anonymised"):
        fields = ", ".join(f"{name} ({count})" for name, count in removed["removed"].items())
        note(f"Not in the cohort, with the number of records that have it: {fields}.")
    first = of_first_lead(meta["records"])
    strips = {record["name"]: str(record["not_used"]) for record in first if "not_used" in record}
    for reason in NOT_USED:
        if names := [name for name, why in strips.items() if why == reason]:
            warn(f"recordings left out, {REASONS[reason][0]}: {listed(names, NAMED)}")
    if without := [name for name in meta["without_beats"] if name not in strips]:
        warn(f"left out, no beat of any class: {listed(without, NAMED)}")


def _print_images(cohort: "Cohort", summary: "ImageSummary | ArraySummary") -> None:
    what = f"{cohort.example_word}s"
    sizes = sorted(client[what] for client in cohort.meta["clients"])
    note(
        f"{count_of(summary['clients'], 'client')} of {sizes[0]:,} to {sizes[-1]:,} {what}, "
        f"{summary['classes_per_client']} classes a client; {summary['splits']['train']:,} to train on, "
        f"{summary['splits']['valid']:,} valid, {summary['splits']['test']:,} to test in common; "
        f"{cohort.meta['left_over']:,} {what} not used."
    )
    missing = summary["cells_without_test"]
    if missing:
        pairs = f"{len(missing)} of {summary['cells']} (client, class) pairs"
        warn(f"{pairs} are too rare for a test {cohort.example_word} of their own")
