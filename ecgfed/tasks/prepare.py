"""``prepare``: recordings in, a cohort out; of images: ``prepare_images``."""

from collections.abc import Sequence
from pathlib import Path

from ecgfed.base.errors import CohortError, OptionError
from ecgfed.base.extras import require
from ecgfed.base.files import check_new_folder, replacing_folder
from ecgfed.base.text import count_of, listed
from ecgfed.domain.beats.labels import LabelMap, load_label_map
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.beats.rr import RR_LATEST
from ecgfed.domain.cohort.build import PrepareOptions, Source, build_cohort
from ecgfed.domain.cohort.cohort import Cohort, open_cohort
from ecgfed.domain.cohort.problems import Problems
from ecgfed.domain.cohort.split import SplitKind
from ecgfed.domain.cohort.summary import exclusions
from ecgfed.domain.record.key_table import writing_key
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.recording import ReadOptions, read_options
from ecgfed.domain.signal.detectors import OURS, Detector
from ecgfed.tasks.anonymous import named
from ecgfed.tasks.watch import NOBODY, Watch, minutes_told, report_exclusions, telling


def _options(
    leads: str | Sequence[str],
    classes: str | LabelMap,
    split: SplitKind,
    holdout: Sequence[str],
    seed: int,
    *,
    peaks: str = "annotated",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    rr_version: int = RR_LATEST,
    annotator: str = "atr",
    how: ReadOptions | None = None,
) -> PrepareOptions:
    beats = BeatOptions(lead_list(leads), peaks, detector, annotator, read_options(how), mains_hz, rr_version)
    labels = load_label_map(classes) if isinstance(classes, str) else classes
    return PrepareOptions(beats, labels, split, (holdout,) if isinstance(holdout, str) else tuple(holdout), seed)


def prepare_mitbih(
    source: Path | str,
    out: Path | str,
    *,
    download: bool = False,
    url: str | None = None,
    split: SplitKind = "random",
    by: str = "patient",
    classes: str | LabelMap = "mitbih12",
    peaks: str = "annotated",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    rr_version: int = RR_LATEST,
    holdout: Sequence[str] = (),
    leads: str | Sequence[str] = ("MLII",),
    seed: int = 0,
    pack: Path | str | None = None,
    anonymize: bool = False,
    key: Path | str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    watch: Watch = NOBODY,
) -> Cohort:
    """Make a cohort from the MIT-BIH Arrhythmia Database: 45 patients, 12 classes, 105,045 beats by default.

    Args:
        source: folder with the records; with ``download``, the folder to put them in.
        out: the cohort folder to make.
        download: fetch the records from PhysioNet first, verified.
        url: a mirror to download from.
        split: ``random`` (stratified by class) or ``chronological``.
        by: ``patient`` (201 and 202 are one person: 45 clients) or ``record`` (46, as in the GRP-FED paper).
        classes: ``mitbih12``, ``aami5``, ``aami5-bxb``, a JSON or TOML file, or a label map.
        peaks: ``annotated`` or ``detected`` R peaks.
        detector: for detected peaks: a registered name, or a ``Detector`` of your own.
        mains_hz: 50 or 60, the mains' frequency where it was recorded, for detectors that ask; None is 60.
        rr_version: of the RR features: 2, which know gaps and the patient, or 1, which come one beat late.
        holdout: client ids to keep out of training.
        leads: lead names in order of preference.
        seed: decides the random split.
        pack: also write the cohort as one small file there.
        anonymize: new ids for patients and records, and nothing said of the files they came from (docs/privacy.md).
        key: write who is who there, readable by its owner only.
        overwrite: replace ``out`` where it exists.
        workers: processes; default one a core. The result does not depend on it.
        watch: told of the progress.

    Raises:
        EcgfedError: in one line, what cannot be used.
    """
    from ecgfed.domain.cohort.download import PHYSIONET, download_mitbih
    from ecgfed.domain.cohort.mitbih import count_check, digests, mitbih_sources, wrong_files

    source, out = Path(source), Path(out)
    options = _options(
        leads, classes, split, holdout, seed, peaks=peaks, detector=detector, mains_hz=mains_hz, rr_version=rr_version
    )
    if download:
        require("wfdb", "reading the records")  # before they are fetched
        download_mitbih(source, base_url=url or PHYSIONET, progress=telling(watch, "download"))
    sources, without = mitbih_sources(source, options, by)
    _tell_of_the_same_person({one.id for one in sources}, options.holdout, watch)
    check = count_check(sources, options)
    key = None if key is None else Path(key)
    plan = named(sources, options, anonymize=anonymize, found_in_headers=False, key=key, out=out, overwrite=overwrite)
    with writing_key(key, plan.rows):
        build_cohort(
            plan.sources,
            out,
            plan.options,
            kind="mitbih",
            overwrite=overwrite,
            workers=workers,
            check=check,
            metadata={
                "by": by,
                "without_lead": [count_of(len(without), "record")] * bool(without) if anonymize else without,
                "without_lead_count": len(without),
                "counts_checked": check is not None,
            },
            progress=telling(watch, "records"),
        )
    cohort = open_cohort(out)
    read = cohort.meta["records"] if not anonymize else digests(path for one in sources for path in one.records)
    if altered := wrong_files(read):
        which = listed(altered, 5)
        differ = count_of(len(altered), "file differs", "files differ")
        watch.warn(f"{source}: {differ} from the published database: {which}; fetch the database again")
    return _packed(cohort, pack, watch)


def _tell_of_the_same_person(clients: set[str], holdout: Sequence[str], watch: Watch) -> None:
    """Warn of a record that is held out while another one of its person is trained on."""
    from ecgfed.domain.cohort.mitbih import SAME_PATIENT

    for one, other in SAME_PATIENT.items():
        if {one, other} <= clients and (one in holdout) != (other in holdout):
            held, trained = (one, other) if one in holdout else (other, one)
            watch.warn(f"{held} is held out, and {trained} is trained on: both are of the same person")


def prepare_folder(
    directory: Path | str,
    out: Path | str,
    *,
    patients: Path | str | None = None,
    patient_comment: str | None = None,
    formats: Sequence[str] = (),
    how: ReadOptions | None = None,
    annotator: str = "atr",
    split: SplitKind = "random",
    classes: str | LabelMap = "mitbih12",
    peaks: str = "annotated",
    detector: str | Detector = OURS,
    mains_hz: float | None = None,
    rr_version: int = RR_LATEST,
    holdout: Sequence[str] = (),
    leads: str | Sequence[str] = ("MLII", "II"),
    seed: int = 0,
    pack: Path | str | None = None,
    anonymize: bool = False,
    key: Path | str | None = None,
    skip_unusable: bool = False,
    overwrite: bool = False,
    workers: int | None = None,
    watch: Watch = NOBODY,
) -> Cohort:
    """Make a cohort from your own annotated recordings: WFDB, EDF, CSV, NumPy, or of hospitals.

    Every recording is read once before the work begins, so that all that is wrong with them is known together.

    Args:
        directory: folder of recordings, sub-folders included.
        out: the cohort folder to make.
        patients: CSV with columns record and patient.
        patient_comment: regular expression, one group, that finds the patient in a header's comments. What it finds
            says whose a recording is and is not written down: the clients are called ``p0001``, ``p0002``, ...
        formats: ``wfdb``, ``edf``, ``csv``, ``numpy``, ``dicom``, ``aecg``, ``scp``, ``ishne``: which recordings
            to take; default all of them.
        how: what CSV and NumPy files leave open.
        annotator: suffix of the annotation files.
        split: as in ``prepare_mitbih``; so are all arguments from here on.
        classes: see there.
        peaks: see there.
        detector: see there.
        mains_hz: see there.
        rr_version: see there.
        holdout: see there.
        leads: see there.
        seed: see there.
        pack: see there.
        anonymize: see there.
        key: see there.
        skip_unusable: leave out what cannot be used, each with a warning, and go on with the rest.
        overwrite: see there.
        workers: see there.
        watch: see there.

    Raises:
        EcgfedError: in one line, what cannot be used; of several recordings an ``UnusableError`` with its ``problems``.

    Examples:
        >>> import ecgfed
        >>> ecgfed.prepare_folder("cohort-records", "of-my-own", split="chronological")
        Cohort('of-my-own': 3 clients, 12 classes, 247 beats)
    """
    from ecgfed.domain.cohort.folder import folder_sources

    out, problems = Path(out), Problems(Path(directory))
    options = _options(
        leads,
        classes,
        split,
        holdout,
        seed,
        peaks=peaks,
        detector=detector,
        mains_hz=mains_hz,
        rr_version=rr_version,
        annotator=annotator,
        how=how,
    )
    if patients and patient_comment:
        raise OptionError("--patients and --patient-comment", "both given", "one of them")
    check_new_folder(out, overwrite=overwrite)  # before every recording is read
    sources = folder_sources(
        Path(directory),
        patients=None if patients is None else Path(patients),
        comment=patient_comment,
        formats=tuple(formats),
        annotator=annotator,
        ids=not (anonymize or patient_comment),
        problems=problems,
    )
    sources = _without_unusable(sources, options, problems, skip=skip_unusable, watch=watch)
    key, told = None if key is None else Path(key), telling(watch, "records")
    plan = named(
        sources,
        options,
        anonymize=anonymize,
        found_in_headers=bool(patient_comment),
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
            workers=workers,
            progress=told,
            watching=lambda recording: minutes_told(watch, "minutes read", recording, alone=False),
        )
    if plan.rows and key is None:
        watch.note("Clients are called p0001, p0002, ...; --key FILE writes down who is who.")
    return _packed(open_cohort(out), pack, watch)


def _without_unusable(
    sources: Sequence[Source], options: PrepareOptions, problems: Problems, *, skip: bool, watch: Watch
) -> list[Source]:
    """Return the clients and recordings that can be used; raise what is wrong with others unless they are skipped."""
    from ecgfed.domain.cohort.check import usable

    total = sum(len(source.records) for source in sources) + len(problems)
    kept = usable(sources, options.beats, problems, telling(watch, "files checked"))
    if not skip:
        problems.refuse(total)
    if problems and not kept:
        first = next(iter(problems))[1]
        raise CohortError(
            problems.folder, f"none of its {count_of(total, 'recording')} can be used, the first is {first}"
        )
    for name, problem in problems:
        watch.warn(f"left out: {problem if problem.startswith(name) else f'{name}: {problem}'}")
    return kept


def _listed(problems: Problems, anonymous: bool) -> dict[str, object]:
    """What ``cohort.json`` says of the recordings that were left out; no names of files where names leave."""
    names = [] if anonymous else [problems.name_of(record) for record in sorted(problems.errors)]
    return {"count": len(problems), "recordings": names}


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
    watch: Watch = NOBODY,
) -> Cohort:
    """Make up recordings of synthetic patients and a cohort from them: to see the software run, without data.

    Args:
        out: the cohort folder to make.
        records: where to write the records; default ``OUT-records`` beside the cohort.
        patients: how many patients.
        minutes: how long to record each.
        split: ``random`` or ``chronological``.
        holdout: client ids to keep out of training.
        seed: decides the recordings and the random split.
        pack: also write the cohort as one small file there.
        overwrite: replace ``out`` and ``records`` where they exist.
        workers: processes; default one a core.
        watch: told of the progress.

    Raises:
        EcgfedError: in one line, what cannot be used.

    Examples:
        >>> import ecgfed
        >>> ecgfed.prepare_demo("a-cohort", patients=3, minutes=1)
        Cohort('a-cohort': 3 clients, 12 classes, 247 beats)
    """
    from ecgfed.domain.cohort.demo import GENERATOR, OWN_RECORDS, write_demo_records

    out = Path(out)
    folder = out.parent / f"{out.name}-records" if records is None else Path(records)
    here, there = out.resolve(), folder.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise OptionError("--records", f"{folder} and the cohort {out} overlap", "two folders, neither in the other")
    options = _options(("MLII",), "mitbih12", split, holdout, seed)
    # Both folders or neither: the records take their name once the cohort has been made from them.
    with replacing_folder(folder, overwrite=overwrite, option="--records", markers=OWN_RECORDS) as partial:
        sources = write_demo_records(
            partial, seed=seed, patients=patients, minutes=minutes, progress=telling(watch, "patients")
        )
        build_cohort(
            sources,
            out,
            options,
            kind="demo",
            overwrite=overwrite,
            workers=workers,
            progress=telling(watch, "records"),
            metadata={"synthetic": f"made by ecgfed prepare demo, seed {seed}, generator {GENERATOR}"},
        )
    watch.note(f"Wrote {count_of(len(sources), 'record')} into {folder}.")
    return _packed(open_cohort(out), pack, watch)


def unpack_cohort(file: Path | str, out: Path | str, *, overwrite: bool = False) -> Cohort:
    """Make a cohort from a packed file, on the machine it travelled to.

    Args:
        file: written by ``pack``.
        out: the cohort folder to make.
        overwrite: replace ``out`` where it exists.

    Raises:
        CohortError: it is no packed cohort.

    Examples:
        >>> import ecgfed
        >>> here = ecgfed.prepare_demo("packed", patients=3, minutes=1, pack="packed.zip")
        >>> ecgfed.unpack_cohort("packed.zip", "unpacked")
        Cohort('unpacked': 3 clients, 12 classes, 247 beats)
    """
    from ecgfed.domain.cohort.pack import unpack_cohort as unpack

    unpack(Path(file), Path(out), overwrite=overwrite)
    return open_cohort(out)


def _packed(cohort: Cohort, file: Path | str | None, watch: Watch) -> Cohort:
    """Return the cohort, packed too where that is asked for; warn of units, and of what was excluded."""
    large = {str(one["name"]): float(one["too_large_mv"]) for one in cohort.meta["records"] if "too_large_mv" in one}
    if large:
        first = max(large, key=lambda name: large[name])
        watch.warn(
            f"the QRS of {len(large)} of {count_of(len(cohort.meta['records']), 'recording')} is higher than any "
            f"electrode gives, {large[first]:,.0f} mV in {first}: are the units right?"
        )
    noted = [one for one in cohort.meta["records"] if one.get("notes")]
    if noted:
        count = count_of(len(cohort.meta["records"]), "recording")
        watch.warn(f"{len(noted)} of {count} read with a note, {noted[0]['name']}: {noted[0]['notes'][0]}")
    report_exclusions(exclusions(cohort).values(), watch)
    if file is not None:
        from ecgfed.domain.cohort.pack import pack_cohort

        watch.note(f"Packed into {file}, {pack_cohort(cohort.path, Path(file)) / 1e6:.1f} MB.")
    return cohort
