"""``prepare``: cohorts from recordings; ``prepare_databases``: from PhysioNet's, ``prepare_images``: from images."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from ecgfed.base.deprecation import renamed_parameters
from ecgfed.base.errors import CohortError, OptionError, param, spelled
from ecgfed.base.files import check_new_folder, replacing_folder
from ecgfed.base.options import Range, flat_options, option
from ecgfed.base.text import count_of
from ecgfed.domain.beats.labels import BUILT_IN, LabelMap, load_label_map
from ecgfed.domain.beats.recording_options import RecordingOptions
from ecgfed.domain.beats.rr import RR_DEFAULT
from ecgfed.domain.cohort.build import build_cohort
from ecgfed.domain.cohort.clients import of_first_lead
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.problems import Problems
from ecgfed.domain.cohort.sources import TRAIN_LEADS, PrepareOptions, Source
from ecgfed.domain.cohort.split import SplitKind
from ecgfed.domain.cohort.summary import exclusions
from ecgfed.domain.record.key_table import writing_key
from ecgfed.domain.record.read_options import ReadOptions
from ecgfed.tasks.anonymous import named
from ecgfed.tasks.progress import SILENT, ProgressReporter, count_reporter, minutes_reporter, report_exclusions

#: Different notes on recordings that are reported; the others stand in ``cohort.json``.
MAX_NOTES = 4


@dataclass(frozen=True)
class PrepareConfig(RecordingOptions):
    """How a cohort is made of recordings, and how they are read."""

    leads: str | Sequence[str] | None = option(
        None,
        "Lead names in order of preference, or '#2' for the second; default the database's; of a folder MLII, then II.",
        flag="lead",
    )
    peaks: str = option("annotated", "``annotated`` or ``detected`` R peaks.")
    train_leads: str = option(
        "first",
        "Leads of a recording to train on: first, the one in use, or all ECG leads; first alone is scored.",
        TRAIN_LEADS,
    )
    split: SplitKind = option(  # noqa: RUF009
        "random", "``random``, stratified by class, or ``chronological``."
    )
    classes: str | LabelMap = option(  # noqa: RUF009
        "mitbih12", "Classes: mitbih12, aami5, aami5-bxb, a JSON or TOML file, or a ``LabelMap``."
    )
    rr_version: int = option(
        RR_DEFAULT,
        "RR features: 4 (for devices, one beat late), 3 (with the strip around the beat), 2 (know gaps and the "
        "patient) or 1 (one beat late).",
    )
    holdout: Sequence[str] = option((), "Ids of clients to exclude from training; as an option separated by commas.")
    seed: int = option(0, "Seed of the split.", Range(0, 2**63 - 1))
    anonymize: bool = option(False, "Omit names, dates and free text; patients and records get new ids, p0001, ...")

    def prepare_options(self) -> PrepareOptions:
        """Return the options for building the cohort; raises OptionError."""
        labels = load_label_map(self.classes) if isinstance(self.classes, str) else self.classes
        holdout = (self.holdout,) if isinstance(self.holdout, str) else tuple(self.holdout)
        beats = self.beat_options(rr_version=self.rr_version)
        return PrepareOptions(beats, labels, self.split, holdout, self.seed, train_leads=self.train_leads)


@dataclass(frozen=True)
class FolderConfig(PrepareConfig):
    """How a folder of recordings becomes a cohort."""

    skip_unusable: bool = option(False, "Skip unusable recordings with a warning each, instead of refusing all.")


@renamed_parameters("0.3", "0.5", watch="progress")
@flat_options(FolderConfig)
def prepare_folder(
    directory: Path | str,
    out: Path | str,
    *,
    patients: Path | str | None = None,
    patient_comment: str | None = None,
    formats: Sequence[str] = (),
    how: ReadOptions | None = None,
    pack: Path | str | None = None,
    key: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: ProgressReporter = SILENT,
    **options: object,
) -> Cohort:
    """Create a cohort from your own annotated recordings: WFDB, EDF, CSV, NumPy, or hospital formats.

    All recordings are checked before the work begins, so that every unusable one is reported at once.

    Args:
        directory: folder of recordings, sub-folders included.
        out: the cohort folder to create.
        patients: CSV with columns record and patient.
        patient_comment: regular expression with one group that matches the patient in a header's comments. The match
            identifies the patient and is not stored: the clients are called ``p0001``, ``p0002``, ...
        formats: ``wfdb``, ``edf``, ``csv``, ``numpy``, ``dicom``, ``aecg``, ``scp``, ``ishne``: which recordings
            to take; default all of them.
        how: a ``PrepareConfig``, or ``ReadOptions``.
        pack: as in ``prepare_database``.
        key: as in ``prepare_database``.
        overwrite: as in ``prepare_database``.
        workers: as in ``prepare_database``.
        executor: any ``concurrent.futures.Executor`` reads the recordings, in place of our own processes
            (docs/executors.md).
        progress: receives progress, notes and warnings.
        options: the fields of ``FolderConfig``.

    Raises:
        EcgfedError: an input cannot be used; for several recordings an ``UnusableError`` with its ``problems``.

    Examples:
        >>> import ecgfed
        >>> ecgfed.prepare_folder("cohort-records", "of-my-own", split="chronological")
        Cohort('of-my-own': 3 clients, 12 classes, 199 beats)
    """
    from ecgfed.domain.cohort.folder import folder_sources

    directory, out = Path(directory), Path(out)
    if executor is not None:  # its workers may run in another folder
        directory, out = directory.absolute(), out.absolute()
    problems = Problems(directory)
    config = FolderConfig.merged(how, options, "prepare_folder", leads=("MLII", "II"))
    prepare, anonymize = config.prepare_options(), config.anonymize
    if patients and patient_comment:
        where = f"{param('patients')} and {param('patient_comment')}"
        raise OptionError(where, "both given", "one of them", code="conflict")
    check_new_folder(out, overwrite=overwrite)  # before every recording is read
    sources = folder_sources(
        directory,
        patients=None if patients is None else Path(patients),
        comment=patient_comment,
        formats=tuple(formats),
        annotator=config.annotator,
        ids=not (anonymize or patient_comment),
        problems=problems,
    )
    sources = _without_unusable(sources, prepare, problems, skip=config.skip_unusable, progress=progress)
    key, on_progress = None if key is None else Path(key), count_reporter(progress, "records")
    plan = named(
        sources,
        prepare,
        anonymize=anonymize,
        ids_from_headers=bool(patient_comment),
        key=key,
        out=out,
        overwrite=overwrite,
    )
    with writing_key(key, plan.rows):
        build_cohort(
            plan.sources,
            out,
            plan.options,
            kind="folder",
            metadata={"unusable": _listed(problems, anonymize)} if problems else None,
            overwrite=overwrite,
            workers=workers if executor is None else executor,
            on_progress=on_progress,
            on_samples_for=lambda recording: minutes_reporter(progress, "minutes read", recording, single=False),
        )
    if plan.rows and key is None:
        progress.note(spelled(f"Clients are called p0001, p0002, ...; {param('key=FILE')} writes down who is who."))
    return packed(open_cohort(out), pack, progress)


def _without_unusable(
    sources: Sequence[Source], options: PrepareOptions, problems: Problems, *, skip: bool, progress: ProgressReporter
) -> list[Source]:
    """Return the usable clients and recordings; raises UnusableError for others unless ``skip``."""
    from ecgfed.domain.cohort.check import usable

    total = sum(len(source.records) for source in sources) + len(problems)
    usable_sources = usable(sources, options.beats, problems, count_reporter(progress, "files checked"))
    if not skip:
        problems.refuse(total)
    if problems and not usable_sources:
        first = next(iter(problems))[1]
        reason = f"none of its {count_of(total, 'recording')} can be used, the first is {first}"
        raise CohortError(problems.folder, reason)
    for name, problem in problems:
        progress.warn(f"left out: {problem if problem.startswith(name) else f'{name}: {problem}'}")
    return usable_sources


def _listed(problems: Problems, anonymous: bool) -> dict[str, object]:
    """Return the entry of ``cohort.json`` on skipped recordings, without file names where anonymous."""
    names = [] if anonymous else [problems.name_of(record) for record in sorted(problems.errors)]
    return {"count": len(problems), "recordings": names}


@renamed_parameters("0.3", "0.5", watch="progress")
def prepare_demo(
    out: Path | str,
    *,
    records: Path | str | None = None,
    patients: int = 12,
    minutes: float = 6.0,
    split: SplitKind = "random",
    holdout: Sequence[str] = (),
    seed: int = 0,
    pack: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: ProgressReporter = SILENT,
) -> Cohort:
    """Create recordings of synthetic patients and a cohort from them, to try the software without data.

    Args:
        out: the cohort folder to create.
        records: folder for the records; default ``OUT-records`` beside the cohort.
        patients: number of patients.
        minutes: length of each record in minutes.
        split: ``random`` or ``chronological``.
        holdout: client ids to exclude from training.
        seed: seed of the recordings and the random split.
        pack: also pack the cohort into this file.
        overwrite: replace existing ``out`` and ``records``.
        workers: processes; default one per core.
        progress: receives progress, notes and warnings.

    Raises:
        EcgfedError: an input cannot be used; the message is one line.

    Examples:
        >>> import ecgfed
        >>> ecgfed.prepare_demo("a-cohort", patients=3, minutes=1)
        Cohort('a-cohort': 3 clients, 12 classes, 247 beats)
    """
    from ecgfed.domain.cohort.demo import GENERATOR, OWN_RECORDS, write_demo_records

    out = Path(out)
    folder = out.parent / f"{out.name}-records" if records is None else Path(records)
    cohort_folder, records_folder = out.resolve(), folder.resolve()
    if cohort_folder.is_relative_to(records_folder) or records_folder.is_relative_to(cohort_folder):
        raise OptionError("records", f"{folder} and the cohort {out} overlap", "two folders, neither in the other")
    options = PrepareConfig(leads=("MLII",), split=split, holdout=holdout, seed=seed).prepare_options()
    # Both folders or neither: the records get their final name once the cohort is complete.
    with replacing_folder(folder, overwrite=overwrite, option="records", markers=OWN_RECORDS) as partial:
        on_progress = count_reporter(progress, "patients")
        sources = write_demo_records(partial, seed=seed, patients=patients, minutes=minutes, on_progress=on_progress)
        build_cohort(
            sources,
            out,
            options,
            kind="demo",
            overwrite=overwrite,
            workers=workers,
            on_progress=count_reporter(progress, "records"),
            metadata={"synthetic": f"made by ecgfed prepare demo, seed {seed}, generator {GENERATOR}"},
        )
    progress.note(f"Wrote {count_of(len(sources), 'record')} into {folder}.")
    return packed(open_cohort(out), pack, progress)


def unpack_cohort(file: Path | str, out: Path | str, *, overwrite: bool = False) -> Cohort:
    """Create a cohort from a packed file.

    Args:
        file: written by ``pack``.
        out: the cohort folder to create.
        overwrite: replace an existing ``out``.

    Raises:
        CohortError: the file is not a packed cohort.

    Examples:
        >>> import ecgfed
        >>> cohort = ecgfed.prepare_demo("packed", patients=3, minutes=1, pack="packed.zip")
        >>> ecgfed.unpack_cohort("packed.zip", "unpacked")
        Cohort('unpacked': 3 clients, 12 classes, 247 beats)
    """
    from ecgfed.domain.cohort.pack import unpack_cohort as unpack

    unpack(Path(file), Path(out), overwrite=overwrite)
    return open_cohort(out)


def _ectopic_without_class(cohort: Cohort) -> str:
    """Return a warning if the classes have no place for ectopic beats that the recordings have, "" otherwise."""
    aami, lost = BUILT_IN["aami5"].symbols, Counter[str]()
    for record in cohort.meta["records"]:
        lost.update({mark: n for mark, n in record.get("left_out", {}).items() if aami.get(mark) in ("S", "V", "F")})
    if not lost:
        return ""
    marks = ", ".join(f"{count_of(count, 'beat')} annotated {mark}" for mark, count in lost.most_common())
    # symbols in the cohort's own classes, of those that are lost: a map that has them all
    others = [name for name, labels in BUILT_IN.items() if lost.keys() <= labels.symbols.keys()]
    fix = f"; {spelled(param('classes'))} {' or '.join(others)} keeps them" if others else ""
    return f"{marks} left out, for which {cohort.labels.name} has no class{fix}"


def packed(cohort: Cohort, file: Path | str | None, progress: ProgressReporter) -> Cohort:
    """Return the cohort, also packed into ``file`` unless it is None; warn of units and exclusions."""
    records, recordings = cohort.meta["records"], len(of_first_lead(cohort.meta["records"]))
    if cohort.meta.get("train_leads") == "all" and not cohort.other_lead.any():
        progress.warn(spelled(f"{param('train_leads')} all changes nothing: no recording has another ECG to train on"))
    large = {str(record["name"]): float(record["too_large_mv"]) for record in records if "too_large_mv" in record}
    if large:
        first = max(large, key=lambda name: large[name])
        progress.warn(
            f"the QRS of {len(large)} of {count_of(recordings, 'recording')} is higher than any "
            f"electrode gives, {large[first]:,.0f} mV in {first}: are the units right?"
        )
    by_kind: dict[str, dict[str, str]] = {}
    for record in records:
        for note in record.get("notes", ()):
            by_kind.setdefault(note.replace(record["name"], "*"), {}).setdefault(record["name"], note)
    for noted in list(by_kind.values())[:MAX_NOTES]:
        count, (name, note) = count_of(recordings, "recording"), next(iter(noted.items()))
        progress.warn(f"{len(noted)} of {count} read with a note, {name}: {note}")
    if len(by_kind) > MAX_NOTES:
        progress.warn(f"{count_of(len(by_kind) - MAX_NOTES, 'other note')} on recordings stand in cohort.json")
    if ectopic := _ectopic_without_class(cohort):
        progress.warn(ectopic)
    report_exclusions(exclusions(cohort).values(), progress)
    if file is not None:
        from ecgfed.domain.cohort.pack import pack_cohort

        progress.note(f"Packed into {file}, {pack_cohort(cohort.path, Path(file)) / 1e6:.1f} MB.")
    return cohort
