"""``ecgfed convert``: a recording of any format in, a WFDB record out, read back before it is kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.domain.record.read_options import ReadOptions

from .output import JsonOption, OverwriteOption, QuietOption, console, note, seconds, table
from .reading import AnonymizeOption, KeyOption, RecordArgument, lead_names, names, takes_reading
from .reporter import Output

if TYPE_CHECKING:
    from ecgfed.tasks.convert import Conversion


@takes_reading
def convert_command(
    *,
    record: RecordArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for RECORD.hea, RECORD.dat and RECORD.atr.")],
    lead: Annotated[
        str, typer.Option(help="The lead whose sampling frequency the record gets; default: the first.")
    ] = "",
    annotator: Annotated[
        str | None,
        typer.Option(help="Suffix of the annotation file; edf: inside an EDF+ file; default: atr where there is one."),
    ] = None,
    how: ReadOptions,
    anonymize: AnonymizeOption = False,
    keep: Annotated[
        str, typer.Option(help="With --anonymize: age, sex or both, separated by a comma, where the header says them.")
    ] = "",
    key: KeyOption = None,
    overwrite: OverwriteOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a recording as a WFDB record of 16 bits: from WFDB, EDF, CSV, NumPy, DICOM, HL7 aECG, SCP-ECG or ISHNE."""
    from ecgfed.tasks.convert import convert

    output = Output(json_output=json_output, quiet=quiet)
    with output.reporter() as progress:
        conversion = convert(
            record,
            out,
            leads=lead_names(lead) if lead else (),
            annotator=annotator,
            how=how,
            anonymize=anonymize,
            keep=names(keep),
            key=key,
            overwrite=overwrite,
            progress=progress,
        )
    output.show(conversion.to_dict(), lambda: _print(conversion))


def _print(conversion: "Conversion") -> None:
    note(f"Record {conversion.record}, {conversion.fs_hz:g} Hz, {seconds(conversion.duration_s)}:")
    rows = [
        (lead.name, f"{lead.gain:g}", f"{lead.step_uv:g} uV", f"{1000 * lead.max_error_mv:.3g} uV", lead.gaps)
        for lead in conversion.leads
    ]
    console.print(table(("lead", "steps a mV", "a step", "largest error", "gaps"), rows))
    marks = "no annotation" if conversion.annotations is None else f"{conversion.annotations:,} annotations"
    note(f"{marks}; read back and compared: {', '.join(map(str, conversion.files))}")
    if conversion.removed is not None:
        note(f"Left out: {', '.join(conversion.removed)}.")
