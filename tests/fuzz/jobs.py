"""Which commands read which artefact, and what of it carries a checksum."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath

from ecgfed.core.methods.registry import methods

from .bundle_zip import BUNDLE
from .containers import GRAPH, NPY, SAFETENSORS, ZIP
from .documents import CSV, JSON, LINES, TOML
from .headers import EDF, HEADER, MARKS
from .hospital import DICOM, ISHNE, SCP, XML
from .plain import BYTES, TEXT, Mutation

Mutations = list[tuple[float, Mutation]]
METHODS = tuple(sorted(methods()))


@dataclass(frozen=True)
class Job:
    """A command over artefacts.

    Attributes:
        line: its arguments, separated by spaces.
        needs: what of the world it is given beside the artefact itself.
        may_change: what it may make or change, in its folder.
        weight: how often it is chosen, against the artefact's other jobs.
        always_ends_well: damage in what it reads is told, and is no reason to fail.
        lists_failures: it goes on with the other recordings: exit 1, and a line for each that failed.
        serves: it is not the command line but ``serving.py``, which listens to this machine.
    """

    line: str
    needs: tuple[str, ...] = ()
    may_change: tuple[str, ...] = ("out",)
    weight: float = 1.0
    always_ends_well: bool = False
    lists_failures: bool = False
    serves: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        return tuple(self.line.split())


@dataclass(frozen=True)
class Artefact:
    """Something that is passed between people.

    Attributes:
        name: as in the world.
        holds: what is copied for a case, files or folders of the world.
        victims: patterns of the files to spoil, below the world.
        jobs: the commands that read it.
        links: a link in it may lead out: a person's own folder of recordings, or a file named by hand.
        weight: how often it is chosen.
    """

    name: str
    holds: tuple[str, ...]
    victims: tuple[str, ...]
    jobs: tuple[Job, ...]
    links: bool = False
    weight: float = 1.0


def _recording(
    name: str, file: str, folder: str, options: str = "", *, wfdb: bool = False, weight: float = 1.0
) -> Artefact:
    record, more = f"{folder}/{file}", f" {options}" if options else ""
    annotator = " --annotator edf" if name == "edfplus" else ""
    jobs = [
        Job(f"inspect {record} --json --quiet{more}{annotator}", weight=2),
        Job(f"inspect {record}{more}{annotator}"),
        Job(f"inspect {record} --out p.png --quiet{more}{annotator}", may_change=("p.png",), weight=0.2),
        Job(f"detect {record} --out out --json --quiet{more}"),
        Job(f"convert {record} --out out --json --quiet{more}{annotator}", weight=2),
        Job(f"predict bundle {record} --force --out out --quiet{more}", ("bundle",), weight=2),
        Job(f"label {record} --bundle bundle --force --out out --json --quiet{more}", ("bundle",), weight=0.7),
        Job(
            f"report {record} --bundle bundle --force --out page.html --json --quiet{more}",
            ("bundle",),
            ("page.html",),
            weight=0.7,
        ),
        Job(f"prepare folder {folder} --out out --workers 1 --json --quiet{more}{annotator}", weight=2),
        Job(
            f"personalize run --record {record} --minutes 0.25 --epochs 1 --out out --json --quiet{more}{annotator}",
            ("run", "cohort"),
            weight=0.15,
        ),
    ]
    if wfdb:
        jobs += [
            Job(f"ec57 {record} --test atr --start 0:05 --json --quiet"),
            Job(f"ec57 {record} --test atr --start 0:05", weight=0.5),
            Job(f"predict bundle {record} --force --peaks annotated --patient demo01 --out out --quiet", ("bundle",)),
            Job(f"detect {folder} --out out --quiet", weight=0.5, lists_failures=True),
            Job(f"predict bundle {folder} --force --out out --quiet", ("bundle",), lists_failures=True),
        ]
    return Artefact(name, (folder,), (f"{folder}/*",), tuple(jobs), links=True, weight=weight)


def _train(cohort: str, more: str = "") -> str:
    return f"train {cohort} --out out --rounds 1 --local-steps 1 --width 0.3 --workers 1 --json --quiet{more}"


def _method(name: str) -> Artefact:
    """The run of a registered method: what its clients keep and its server sends is another of each."""
    run = f"method-{name}"
    return Artefact(
        f"method {name}", (run,), (f"{run}/run.json", f"{run}/checkpoint/*", f"{run}/checkpoint/*"),
        (
            Job(f"train cohort --out {run} --resume --rounds 2 --workers 1 --json --quiet", ("cohort",), (run,)),
            Job(f"evaluate {run} --out out --workers 1 --json --quiet", ("cohort",)),
            Job(f"export {run} --out out --json --quiet", ("cohort",)),
        ), weight=0.15,
    )  # fmt: skip


_RUN_NEEDS = ("cohort", "run2")
_PATIENT = "records/demo01"
ARTEFACTS: tuple[Artefact, ...] = (
    Artefact(
        "cohort", ("cohort",), ("cohort/*",),
        (
            Job(_train("cohort", " --method fedavg"), weight=1),
            Job("evaluate run --cohort cohort --out out --workers 1 --json --quiet", ("run",), weight=2),
            Job("train cohort --out run --resume --rounds 3 --workers 1 --json --quiet", ("run",), ("run",)),
            Job("export run --cohort cohort --out out --json --quiet", ("run",)),
            Job("report run --cohort cohort --out page.html --json --quiet", ("run",), ("page.html",), weight=0.5),
            Job("personalize run --cohort cohort --record records/demo01 --minutes 0.25 --epochs 1 --out out --json -q",
                ("run", "records"), weight=0.2),
        ), weight=3,
    ),
    Artefact("pack", ("cohort.pack",), ("cohort.pack",),
    (Job("prepare unpack cohort.pack --out out --json --quiet"),), weight=1.5),
    Artefact(
        "run", ("run",), ("run/*", "run/checkpoint/*", "run/evaluation-test/*"),
        (
            Job("runs list . --json --quiet", _RUN_NEEDS, always_ends_well=True),
            Job("runs list .", _RUN_NEEDS, weight=0.7, always_ends_well=True),
            Job("runs show run --json --quiet", weight=1),
            Job("runs show run", weight=0.7),
            Job("runs compare run run2 --json --quiet", _RUN_NEEDS),
            Job("runs compare run2 run", _RUN_NEEDS, weight=0.7),
            Job("runs compare run2 run --out page.html --quiet", _RUN_NEEDS, ("page.html",), weight=0.5),
            Job("report run --out page.html --json --quiet", _RUN_NEEDS, ("page.html",)),
            Job("evaluate run --out out --workers 1 --json --quiet", _RUN_NEEDS, weight=1.5),
            Job("evaluate run --out out --workers 1 --all", _RUN_NEEDS, weight=0.5),
            Job("export run --out out --json --quiet", _RUN_NEEDS, weight=1),
            Job("train cohort --out run --resume --rounds 3 --workers 1 --json --quiet", _RUN_NEEDS, ("run",),
            weight=1.5),
            Job("personalize run --record records/demo01 --minutes 0.25 --epochs 1 --out out --json --quiet",
                ("cohort", "records"), weight=0.2),
        ), weight=4,
    ),
    Artefact(
        "seeds", ("seeds",), ("seeds/*/*", "seeds/*/evaluation-test/*", "seeds/*/checkpoint/progress.json"),
        (
            Job("evaluate seeds --out out --workers 1 --json --quiet", ("cohort",)),
            Job("runs compare seeds run2 --json --quiet", ("run2",)),
            Job("runs list seeds", always_ends_well=True),
        ),
    ),
    Artefact(
        "bundle", ("bundle",), ("bundle/manifest.json", "bundle/manifest.json", "bundle/*", "bundle/*/*"),
        (
            Job("predict bundle records/demo01 --force --out out --json --quiet", ("records",)),
            Job("predict bundle records/demo01 --force --out out", ("records",), weight=0.5),
            Job("predict bundle records/demo01 --patient demo02 --out out --json --quiet", ("records",)),
        ), weight=3,
    ),
    Artefact(
        "zip bundle", ("bundle.zip",), ("bundle.zip",),
        (
            Job(f"predict bundle.zip {_PATIENT} --force --out out --json --quiet", ("records",)),
            Job(f"predict bundle.zip {_PATIENT} --patient demo02 --out out --json --quiet", ("records",)),
            Job(f"report {_PATIENT} --bundle bundle.zip --force --out page.html --json --quiet", ("records",),
                ("page.html",), weight=0.5),
            Job(f"label {_PATIENT} --bundle bundle.zip --force --out out --json --quiet", ("records",), weight=0.5),
            Job(f"personalize {_PATIENT} --labels labels/demo01-labels.csv --bundle bundle.zip --force "
                "--out out --patient p --beats out-beats --json --quiet", ("records", "labels"), ("out", "out-beats"),
                weight=0.3),
        ), links=True, weight=2,
    ),
    Artefact(
        "labels", ("labels",), ("labels/demo01-labels.csv",),
        (
            Job(f"personalize {_PATIENT} --labels labels/demo01-labels.csv --bundle bundle --force --out out "
                "--patient p --beats out-beats --json --quiet", ("records", "bundle"), ("out", "out-beats"), weight=2),
        ), links=True, weight=2,
    ),
    Artefact(
        "all labels", ("own-beats",), ("own-beats/*",),
        (
            Job(f"report {_PATIENT} --labels own-beats/demo01.own --out page.html --json --quiet", ("records",),
                ("page.html",)),
            Job(f"report {_PATIENT} --labels own-beats/demo01.csv --out page.html --json --quiet", ("records",),
                ("page.html",)),
        ), links=True,
    ),
    Artefact(
        "own bundle", ("own",), ("own/manifest.json", "own/*", "own/patients/newcomer.onnx"),
        (
            Job(f"predict own {_PATIENT} --patient newcomer --out out --json --quiet", ("records",)),
            Job(f"report {_PATIENT} --bundle own --patient newcomer --out page.html --json --quiet", ("records",),
                ("page.html",)),
        ),
    ),
    Artefact(
        "batch", ("batch",), ("batch/predictions.unfinished.jsonl", "batch/predictions.unfinished.jsonl", "batch/*"),
        (
            Job("predict bundle records --force --out batch --resume --json --quiet", ("records", "bundle"),
                ("batch",), weight=2, lists_failures=True),
            Job("predict bundle records --force --out batch --overwrite --json --quiet", ("records", "bundle"),
                ("batch",), lists_failures=True),
        ), weight=2,
    ),
    Artefact(
        "served page", ("served",), ("served/post.json", "served/post.json", "served/r-labels.answers.json",
                                     "served/r-labels.csv", "served/request.http"),
        (Job("served page", may_change=("served",), serves=True),), weight=2,
    ),
    *(_method(name) for name in METHODS),
    _recording("wfdb", "demo01", "records", wfdb=True, weight=2),
    _recording("wfdb16", "r", "wfdb16", wfdb=True, weight=1.5),
    _recording("multi-segment", "r", "multi", wfdb=True, weight=1.5),
    _recording("edf", "r.edf", "edf", weight=1.3),
    _recording("edfplus", "r.edf", "edfplus", weight=1.3),
    _recording("csv", "r.csv", "csv", weight=1.3),
    _recording("tsv", "r.tsv", "tsv", weight=0.6),
    _recording("npy", "r.npy", "npy", "--fs 360 --units mV --columns MLII"),
    _recording("npz", "r.npz", "npz", weight=1.3),
    _recording("ishne", "r.ecg", "ishne"),
    _recording("scp", "r.scp", "scp"),
    _recording("aecg", "r.xml", "aecg"),
    _recording("muse", "r.xml", "muse"),
    _recording("bdf", "r.bdf", "bdf"),
    _recording("scp-reference-beat", "r.scp", "scpbeat", weight=0.6),
    _recording("edf-repaired", "r.edf", "edfrepair", "--repair", weight=0.8),
    _recording("wfdb-frames", "r", "frames", "--repair", weight=0.8),
    *((_recording("dicom", "r.dcm", "dicom"),) if find_spec("pydicom") else ()),
    Artefact("config", ("config.toml",), ("config.toml",),
             (Job("train cohort --out out --config config.toml --workers 1 --json --quiet", ("cohort",
             "evil.py")),), links=True),
    Artefact(
        "class map", ("classes.json", "classes.toml"), ("classes.json", "classes.toml"),
        (
            Job("prepare folder records --out out --classes classes.json --workers 1 --json --quiet", ("records",)),
            Job("prepare folder records --out out --classes classes.toml --workers 1 --json --quiet", ("records",)),
        ), links=True,
    ),
    Artefact(
        "class mix", ("mix.json", "mix.csv"), ("mix.json", "mix.csv"),
        (
            Job("personalize hyper --class-mix mix.json --patient p --out out --json --quiet", ("hyper", "cohort")),
            Job("personalize hyper --class-mix mix.csv --patient p --out out --json --quiet", ("hyper", "cohort")),
        ), links=True, weight=0.8,
    ),
    Artefact(
        "patients", ("patients.csv",), ("patients.csv",),
        (Job("prepare folder records --out out --patients patients.csv --workers 1 --json --quiet", ("records",)),),
        links=True, weight=0.8,
    ),
)  # fmt: skip


def mutations_of(path: PurePosixPath) -> Mutations:
    """Return the mutations that fit a file, by its name."""
    by_suffix: dict[str, Mutations] = {
        ".json": [*TEXT, *JSON],
        ".jsonl": [*TEXT, *LINES],
        ".toml": [*TEXT, *TOML],
        ".csv": [*TEXT, *CSV],
        ".tsv": [*TEXT, *CSV],
        ".hea": [*TEXT, *HEADER],
        ".edf": [*BYTES, *EDF],
        ".bdf": [*BYTES, *EDF],
        ".atr": [*BYTES, *MARKS],
        ".ecg": [*BYTES, *ISHNE],
        ".scp": [*BYTES, *SCP],
        ".dcm": [*BYTES, *DICOM],
        ".xml": [*TEXT, *XML],
        ".npy": [*BYTES, *NPY],
        ".npz": [*BYTES, *ZIP],
        ".pack": [*BYTES, *ZIP],
        ".zip": [*BYTES, *BUNDLE],
        ".own": [*BYTES, *MARKS],
        ".http": TEXT,
        ".safetensors": [*BYTES, *SAFETENSORS],
        ".onnx": [*BYTES, *GRAPH],
    }
    return by_suffix.get(path.suffix, BYTES)


#: What may change a result in silence, and why nobody can know; all else must be refused or give the same result.
UNSEALED: tuple[tuple[str, str], ...] = (
    ("cohort/cohort.json", "names, counts and settings; only the arrays' hashes are bound, by the run's fingerprint"),
    ("*/run.json", "what was asked for; method, settings, net, plan and cohort are bound by the checkpoint's identity"),
    ("*/history.jsonl", "a log"),
    ("*/timing.jsonl", "a log"),
    ("*/evaluation-*/*", "scores and tables to be read by people"),
    ("*/checkpoint/progress.json", "the index that holds the other files' checksums"),
    ("*.hea", "a WFDB header has no checksum of itself"),
    ("*.atr", "WFDB annotation has no checksum"),
    ("*.edf", "EDF has no checksum"),
    ("*.bdf", "BDF has no checksum"),
    ("frames/r.dat", "--repair reads a file that is cut short, whose checksum cannot be compared"),
    ("*.ecg", "ISHNE's checksum is of its header, and may be left out"),
    ("*.dcm", "DICOM has no checksum"),
    ("*.xml", "text has no checksum"),
    ("*.csv", "text has no checksum"),
    ("*.tsv", "text has no checksum"),
    ("*/r.npy", "a bare array has no checksum"),
    ("*.toml", "what a person asks for"),
    ("classes.json", "what a person asks for"),
    ("mix.json", "what a person asks for"),
    ("own-beats/*.own", "WFDB annotation has no checksum"),
    ("batch/predictions.unfinished.jsonl", "what is finished; the predictions' own files are bound by their checksums"),
    ("served/*", "what a browser sends"),
)


def why_unsealed(path: str) -> str | None:
    """Return why a file may change in silence, or None where it carries a checksum."""
    return next((why for pattern, why in UNSEALED if PurePosixPath(path).match(pattern)), None)
