"""What every command that reads recordings shares: the options for what a file leaves open."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

from ecgfed.base.errors import OptionError
from ecgfed.domain.record.read_options import ReadOptions

from .complete import choices, detector_names
from .expand import takes_options

if TYPE_CHECKING:
    from ecgfed.domain.signal.detectors import Detector

RECORD_HELP = (
    "A recording: a WFDB record with or without .hea, .edf, .bdf, .csv, .tsv, .txt, .npy, .npz, .dcm, .xml, .scp, .ecg."
)
RecordArgument = Annotated[Path, typer.Argument(metavar="RECORD", help=RECORD_HELP)]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Let a model of synthetic patients answer for other recordings.")
]
PeaksOption = Annotated[
    str, typer.Option(help="detected or annotated R peaks.", autocompletion=choices("detected", "annotated"))
]
MarksOption = Annotated[str, typer.Option("--annotator", help="Suffix of the annotation file, for annotated peaks.")]
TrustedOption = Annotated[
    list[Path] | None,
    typer.Option("--trusted", metavar="KEY", help="Refuse a bundle that this public key (PEM) did not sign."),
]
DetectorOption = Annotated[
    str,
    typer.Option(
        help="Who finds the R peaks: ecgfed, xqrs, ... (docs/qrs.md), or your own as FILE.py:NAME.",
        autocompletion=detector_names,
    ),
]
MainsOption = Annotated[
    int | None,
    typer.Option(
        "--mains", help="50 or 60: the mains in Hz where it was recorded, for detectors that ask; default 60."
    ),
]
AnnotatorOption = Annotated[
    str, typer.Option(help="Suffix of the annotation files; edf: the annotations inside an EDF+ file.")
]

AnonymizeOption = Annotated[
    bool,
    typer.Option(
        "--anonymize", help="Leave out names, dates and free text; patients and records get new ids, p0001, ..."
    ),
]
KeyOption = Annotated[
    Path | None, typer.Option("--key", help="Write who is who into this file, readable by its owner only.")
]


def names(text: str) -> tuple[str, ...]:
    """Return the names that an option lists, separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def lead_option(default: str) -> OptionInfo:
    """Return ``--lead`` of a command, which says what it looks for by default."""
    text = f"Lead names in order of preference, separated by commas, or '#2' for the second; default {default}."
    option: OptionInfo = typer.Option("--lead", help=text)
    return option


def lead_names(text: str, option: str = "--lead") -> tuple[str, ...]:
    """Return the names that ``--lead`` lists, in order of preference; raises OptionError for none."""
    if not (leads := names(text)):
        raise OptionError(option, "is empty", "one or more lead names, separated by commas")
    return leads


LeadsTogetherOption = Annotated[
    str | None,
    typer.Option(
        "--leads",
        help="Leads in which beats are looked for together, separated by commas; the first is in use. With --lead, the "
        "lead in use alone; with neither, every ECG lead.",
    ),
]


def requested_leads(lead: str | None, leads: str | None) -> "tuple[str, ...] | None":
    """Return what ``--lead`` or ``--leads`` name, None for neither; raises OptionError for both."""
    from ecgfed.domain.record.leads import LeadGroup

    if lead is not None and leads is not None:
        raise OptionError("--leads", "and --lead are both there", "one of them")
    if leads is not None:
        return LeadGroup(lead_names(leads, "--leads"))
    return None if lead is None else lead_names(lead)


def named_detector(text: str) -> "Detector":
    """Return the detector that ``--detector`` names, loading a person's own; raises OptionError."""
    from ecgfed.domain.signal.detectors import detector_option

    return detector_option(text)


def check_reading(how: ReadOptions) -> None:
    """Raise OptionError for a frequency or units that no file has, although the file may say its own."""
    from ecgfed.domain.record.checks import check_fs, parse_units

    if how.fs_hz is not None:
        check_fs(how.fs_hz, "--fs", f"{how.fs_hz:g}", "say how many samples a second the file has")
    if how.units is not None:
        parse_units(how.units, "--units")


#: Decorator of a command with a parameter ``how`` for ``ReadOptions``.
takes_reading = takes_options("how", ReadOptions, check=check_reading)


def typed_reading(how: ReadOptions) -> dict[str, str | float | None]:
    """Return the options of ``how`` that a next command needs too, for ``as_typed``."""
    return {"fs": how.fs_hz, "units": how.units, "columns": ",".join(how.columns)}


def as_typed(**options: str | float | None) -> str:
    """Return options as they are typed, those that were given, for the next command that needs them too."""
    texts = {name: f"{value:g}" if isinstance(value, float) else value for name, value in options.items() if value}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in texts.items())
