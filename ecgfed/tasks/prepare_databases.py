"""``prepare mitbih``, ``svdb``, ``qtdb``, ``cinc2017``: cohorts from databases of PhysioNet."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import OptionError
from ecgfed.base.extras import require
from ecgfed.base.options import flat_options, option
from ecgfed.base.text import count_of, listed
from ecgfed.domain.cohort import databases as db
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.record.key_table import writing_key
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.tasks.anonymous import named
from ecgfed.tasks.prepare import PrepareConfig, packed
from ecgfed.tasks.progress import SILENT, ProgressReporter, count_reporter


@dataclass(frozen=True)
class DatabaseConfig(PrepareConfig):
    """How a database becomes a cohort."""

    by: str = option(
        "patient",
        "Of MIT-BIH: ``patient`` (201 and 202 are one: 45 clients) or ``record`` (46, as in the GRP-FED paper).",
    )


@flat_options(DatabaseConfig)
def prepare_database(
    database: str,
    source: Path | str,
    out: Path | str,
    *,
    download: bool = False,
    url: str | None = None,
    how: ReadOptions | None = None,
    pack: Path | str | None = None,
    key: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Cohort:
    """Create a cohort from a database of PhysioNet.

    Args:
        database: ``mitbih``, ``svdb``, ``qtdb`` or ``cinc2017`` (docs/data.md).
        source: folder with the records; with ``download``, the folder to download them to.
        out: the cohort folder to create.
        download: fetch the records from PhysioNet first, verified.
        url: a mirror to download from.
        how: a ``PrepareConfig``, or ``ReadOptions``; leads and classes have defaults of the database.
        pack: also pack the cohort into this file.
        key: file for the table of new and original ids, readable by its owner only.
        overwrite: replace an existing ``out``.
        workers: processes; default one per core. The result does not depend on it.
        executor: any ``concurrent.futures.Executor`` reads the records, in place of our own processes
            (docs/executors.md).
        progress: receives progress, notes and warnings.
        options: the fields of ``DatabaseConfig``.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.
    """
    from ecgfed.domain.cohort.download import download_database
    from ecgfed.domain.cohort.mitbih import count_check

    if database not in db.DATABASES:
        raise OptionError("database", f"{database!r:.60}", f"one of {', '.join(db.DATABASES)}", code="unknown-choice")
    base, source, out = db.DATABASES[database], Path(source), Path(out)
    if executor is not None:  # its workers may run in another folder
        source, out = source.absolute(), out.absolute()
    peaks = "detected" if base.record_labels else "annotated"
    defaults = {"leads": base.leads, "classes": base.classes, "peaks": peaks}
    config = DatabaseConfig.merged(how, options, "prepare_database", **defaults)
    if base.record_labels and config.peaks != peaks:
        raise OptionError("peaks", config.peaks, f"{peaks}: no beat of the {base.title} is annotated", code="conflict")
    prepare = replace(config.prepare_options(), unlabelled=bool(base.record_labels))
    anonymize = config.anonymize
    if download:
        require("wfdb", "reading the records")  # before they are fetched
        download_database(base, source, base_url=url, on_progress=count_reporter(progress, "download"))
    members = db.database_sources(base, source, prepare, config.by)
    records = [path for client in members.clients for path in client.records]
    _warn_of_split_patients(base, {client.id for client in members.clients}, prepare.holdout, progress)
    check = count_check(records, prepare) if base is db.MITBIH else None
    key = None if key is None else Path(key)
    plan = named(
        members.clients, prepare, anonymize=anonymize, ids_from_headers=False, key=key, out=out, overwrite=overwrite
    )
    about = db.database_json(base, members, config.by, anonymous=anonymize)
    with writing_key(key, plan.rows):
        build_cohort(
            plan.sources,
            out,
            plan.options,
            kind=base.kind,
            overwrite=overwrite,
            workers=workers if executor is None else executor,
            check=check,
            metadata={**about, "counts_checked": check is not None},
            on_progress=count_reporter(progress, "records"),
        )
    _compare_files(base, source, records, progress)
    return packed(open_cohort(out), pack, progress)


def _compare_files(database: db.Database, source: Path, records: Sequence[Path], progress: ProgressReporter) -> None:
    """Warn of files that are not the published ones; note those of which no published digest is known here."""
    read, published = db.read_files(source, records, database), db.published_sha256(database, source)
    if altered := db.wrong_files(read, published):
        differ = count_of(len(altered), "file differs", "files differ")
        which = listed(altered, 5)
        progress.warn(f"{source}: {differ} from the published database: {which}; fetch the database again")
    if unknown := sorted(read.keys() - published.keys()):
        count, which = count_of(len(unknown), "file"), listed(unknown, 5)
        progress.note(f"{count} not compared, for want of a published SHA-256: {which}; put {db.SUMS} beside them.")


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(PrepareConfig)
def prepare_mitbih(
    source: Path | str,
    out: Path | str,
    *,
    download: bool = False,
    url: str | None = None,
    by: str = "patient",
    how: ReadOptions | None = None,
    pack: Path | str | None = None,
    key: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Cohort:
    """Create a cohort from the MIT-BIH Arrhythmia Database: 45 patients, 12 classes, 105,045 beats by default.

    Args:
        source: as in ``prepare_database``; so are the others.
        out: see there.
        download: see there.
        url: see there.
        by: see there.
        how: see there.
        pack: see there.
        key: see there.
        overwrite: see there.
        workers: see there.
        executor: see there.
        progress: see there.
        options: the fields of ``PrepareConfig``.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.
    """
    return prepare_database(
        "mitbih",
        source,
        out,
        download=download,
        url=url,
        by=by,
        how=how,
        pack=pack,
        key=key,
        overwrite=overwrite,
        workers=workers,
        executor=executor,
        progress=progress,
        **options,
    )


def _warn_of_split_patients(
    database: db.Database, clients: set[str], holdout: Sequence[str], progress: ProgressReporter
) -> None:
    """Warn if one record of a patient is held out and another is trained on."""
    for second, first in database.same_patient.items():
        if {first, second} <= clients and (first in holdout) != (second in holdout):
            excluded, trained = (first, second) if first in holdout else (second, first)
            progress.warn(f"{excluded} is held out, and {trained} is trained on: both are of the same person")
