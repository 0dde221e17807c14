"""The untouched artefacts: one of each kind, as small as they come, made by ecgfed's own commands where it can."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import hospital_files
import numpy as np
from record_files import edf_annotation, edf_bytes, encode_212

from ecgfed.domain.record.reader import read_annotation, read_recording
from ecgfed.domain.record.wfdb_writer import annotation_bytes

from .child import Limits, Task, run_one
from .jobs import METHODS
from .serving import write_served

PATIENT, FS = "demo01", 360
#: What ``make`` has to be told of a bare array.
BARE = ("--fs", "360", "--units", "mV")
FAST = ("--local-steps", "1", "--quiet", "--workers", "1", "--eval-every", "1", "--width", "0.3")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("prepare", "demo", "--out", "cohort", "--records", "records", "--patients", "3", "--minutes", "0.5",
    "--workers", "1",
     "--pack", "cohort.pack", "--quiet"),
    ("train", "cohort", "--out", "run", "--rounds", "2", *FAST),
    ("train", "cohort", "--out", "run2", "--rounds", "2", "--method", "fedavg", *FAST),
    ("train", "cohort", "--out", "hyper", "--rounds", "1", "--method", "fed-rod-hyper", *FAST),
    ("train", "cohort", "--out", "seeds", "--seeds", "0,1", "--rounds", "1", "--method", "fedavg", *FAST),
    *(("evaluate", run, "--quiet", "--workers", "1") for run in ("run", "run2", "seeds")),
    *(("export", "run", "--out", name, "--quiet") for name in ("bundle", "bundle.zip")),
    *(("train", "cohort", "--out", f"method-{name}", "--rounds", "1", "--method", name, *FAST) for name in METHODS),
    ("label", f"records/{PATIENT}", "--bundle", "bundle", "--out", "labels", "--count", "6", "--quiet"),
)  # fmt: skip
_PERSONALIZE = ("personalize", f"records/{PATIENT}", "--labels", f"labels/{PATIENT}-labels.csv", "--bundle", "bundle",
                "--patient", "newcomer", "--out", "own", "--beats", "own-beats", "--quiet")  # fmt: skip


def command(*arguments: str) -> Callable[[], None]:
    """Return what runs ``ecgfed ARGUMENTS`` in a child."""

    def run() -> None:
        from ecgfed_cli.main import main

        sys.argv = ["ecgfed", *arguments]
        main()

    return run


def make_world(world: Path) -> None:
    """Make the artefacts in a new folder, the watcher's folders beside it; RuntimeError where a command fails."""
    folder = world.parent
    for path in (world, folder / "tmp", folder / "home"):
        path.mkdir(parents=True, exist_ok=True)
    actions = [*(command(*arguments) for arguments in _COMMANDS), _label, command(*_PERSONALIZE), _kill_batch]
    for number, action in enumerate(actions):
        ended = run_one(Task(folder, world, action), Limits(seconds=300, idle_s=60))
        if ended.code:
            raise RuntimeError(f"command {number + 1} of the world: {ended}")
    for run in world.glob("**/run.json"):  # a case has its own copy of the cohort, beside it
        about = json.loads(run.read_text())
        about["cohort"]["path"] = os.path.relpath(world / "cohort", run.parent)
        run.write_text(json.dumps(about, indent=1) + "\n")
    _recordings(world)
    _options(world)
    write_served(world)


def _label() -> None:
    """Answer the labelling page as a person does who knows the annotation."""
    import ecgfed

    labelling = ecgfed.label(f"records/{PATIENT}", "labels", bundle="bundle", count=6, overwrite=True)
    marks, answers = ecgfed.read_annotation(f"records/{PATIENT}").beats(), {}
    while len(answers) < 6 and (sample := labelling.next_beat(answers)) is not None:
        answers[sample] = str(marks.symbol[np.abs(marks.sample - sample).argmin()])
    labelling.save_labels(answers)


def _kill_batch() -> None:
    """Leave a batch as it lies there when it was killed at its last recording."""
    from ecgfed.tasks.batch_state import STATE, BatchState

    BatchState.end = lambda self: None  # type: ignore[method-assign]
    command("predict", "bundle", "records", "--force", "--out", "batch", "--quiet")()
    batch = Path("batch")
    (batch / "predictions.summary.json").unlink()
    lines = (batch / STATE).read_text().splitlines()
    (batch / STATE).write_text("\n".join(lines[:-1]) + "\n")
    for file in json.loads(lines[-1])["written"]:
        (batch / file).unlink()


def _digital(world: Path) -> np.ndarray:
    """Decode the demo record by hand: (2, samples) whole numbers of a format-212 file."""
    raw = np.frombuffer((world / "records" / f"{PATIENT}.dat").read_bytes(), np.uint8).astype(int)
    low, both, high = raw[0::3], raw[1::3], raw[2::3]
    pairs = np.stack([low | (both & 15) << 8, high | (both >> 4) << 8])
    return np.where(pairs > 2047, pairs - 4096, pairs)


def _recordings(world: Path) -> None:
    """Write the demo record in every format, with its annotation beside it."""
    steps = _digital(world)
    signal_mv = (steps - 1024) / 200
    marks = world / "records" / f"{PATIENT}.atr"
    times = np.arange(steps.shape[1]) / FS
    rows = [f"{t:.6f},{a:.3f},{b:.3f}" for t, a, b in zip(times, *signal_mv, strict=True)]
    text = "# made up\ntime,MLII (mV),V1 (mV)\n" + "\n".join(rows) + "\n"
    seconds = steps.shape[1] // FS
    edf = [channel.reshape(seconds, FS).tolist() for channel in (steps - 1024)]
    ranges = {"physical": ("-5", "5"), "digital": ("-1000", "1000")}
    lists = [edf_annotation(s) + (edf_annotation(s + 0.4, "N") + edf_annotation(s + 0.9, "V")) for s in range(seconds)]
    files: dict[str, bytes] = {
        "csv/r.csv": text.encode(),
        "tsv/r.tsv": text.replace(",", "\t").encode(),
        "edf/r.edf": edf_bytes(edf, **ranges),
        "edfplus/r.edf": edf_bytes(edf, **ranges, reserved="EDF+C", annotations=lists, annotation_bytes=120),
        "wfdb16/r.dat": (steps - 1024).T.astype("<i2").tobytes(),
        "edfrepair/r.edf": edf_bytes(edf, **ranges, records="-1"),
        "bdf/r.bdf": edf_bytes(
            edf, **ranges, sample_bytes=3, reserved="BDF+C", annotations=lists, annotation_bytes=120
        ),
        # four samples of the first lead in a frame, one of the second
        "frames/r.dat": np.concatenate([(steps[0] - 1024).reshape(-1, 4), (steps[1] - 1024)[::4, None]], axis=1)
        .astype("<i2")
        .tobytes(),
    }
    files |= _hospital(steps - 1024)
    for name, data in files.items():
        (world / name).parent.mkdir(exist_ok=True)
        (world / name).write_bytes(data)
    for folder in ("npy", "npz", "multi"):
        (world / folder).mkdir()
    np.save(world / "npy" / "r.npy", signal_mv[0].astype(np.float32))
    np.savez_compressed(world / "npz" / "r.npz", MLII=signal_mv[0], fs=FS, units="mV")
    _header(world / "wfdb16" / "r.hea", "r", "r.dat 16 200(0)/mV 12 0", steps - 1024)
    (world / "frames" / "r.hea").write_text(
        f"r 2 {FS // 4} {steps.shape[1] // 4}\nr.dat 16x4 200(0)/mV 12 0 {steps[0][0] - 1024} "
        f"{(steps[0] - 1024).sum() % 65536} 0 MLII\nr.dat 16 0 12 0 0\n"
    )
    half = steps.shape[1] // 2
    for name, part in (("s1", steps[:, :half]), ("s2", steps[:, half:])):
        (world / "multi" / f"{name}.dat").write_bytes(encode_212([int(v) for frame in part.T for v in frame]))
        _header(world / "multi" / f"{name}.hea", name, f"{name}.dat 212 200(1024)/mV 12 1024", part)
    (world / "multi" / "r.hea").write_text(f"r/2 2 {FS} {steps.shape[1]}\ns1 {half}\ns2 {steps.shape[1] - half}\n")
    folders = {Path(name).parts[0] for name in files} - {"edfplus", "frames"}
    for folder in sorted(folders | {"npy", "npz", "multi"}):
        shutil.copyfile(marks, world / folder / "r.atr")
    # annotations of a record with frames count frames, unless they state another time
    recording = read_recording(world / "records" / PATIENT, "MLII")
    (world / "frames" / "r.atr").write_bytes(annotation_bytes(read_annotation(recording), FS))


def _hospital(steps: np.ndarray) -> dict[str, bytes]:
    """Return the same in hospital formats: 5 microvolt a step."""
    leads = [[int(step) for step in lead] for lead in steps]
    channels = [
        hospital_files.dicom_channel((f"2:{code}", "MDC", "Lead"), sensitivity="0.005", unit="mV") for code in (2, 3)
    ]
    text = hospital_files.aecg_text(leads).replace('"0.002"', f'"{1 / FS:.10f}"').replace('value="2.5"', 'value="5"')
    return {
        "ishne/r.ecg": hospital_files.ishne_bytes(leads, resolutions_nv=(5000, 5000), fs=FS),
        "scp/r.scp": hospital_files.scp_bytes(leads, step_nv=5000, step_us=round(1e6 / FS), order=2, coded=True),
        "aecg/r.xml": text.encode(),
        "muse/r.xml": hospital_files.muse_text(
            [hospital_files.muse_lead(name, lead, step="5") for name, lead in zip(("MLII", "V1"), leads, strict=True)],
            base=str(FS),
        ).encode(),
        "scpbeat/r.scp": hospital_files.scp_bytes(
            leads,
            step_nv=5000,
            step_us=round(1e6 / FS),
            flags=5,
            more={
                4: hospital_files.scp_locations(
                    200, 30, [(0, 500 * at + 1, 500 * at + 30, 500 * at + 60) for at in range(9)]
                ),
                5: hospital_files.scp_reference([[0] * 71] * 2, step_nv=5000, step_us=round(1e6 / FS)),
            },
        ),
        "dicom/r.dcm": hospital_files.dicom_bytes(hospital_files.dicom_group(leads, channels, fs=str(FS))),
    }


def _header(path: Path, name: str, signal: str, steps: np.ndarray) -> None:
    lines = [f"{name} 2 {FS} {steps.shape[1]}"]
    for lead, channel in zip(("MLII", "V1"), steps, strict=True):
        lines.append(f"{signal} {channel[0]} {channel.sum() % 65536} 0 {lead}")
    path.write_text("\n".join([*lines, "# patient: made-up", ""]))


def _options(world: Path) -> None:
    """Write what commands take beside artefacts: settings, class maps, class mixes, who is who."""
    (world / "config.toml").write_text(
        'method = "grp-fed"\nrounds = 1\nlocal_steps = 1\nbatch_size = 16\nseed = 3\nrr = true\nwidth = 0.3\n'
        "eval_every = 1\n# how\n[set]\nlr = 0.01\nmomentum = 0.9\n"
    )
    classes = {"normal": ["N", "L", "R"], "ventricular": ["V", "E"], "other": ["A", "/", "F"]}
    (world / "classes.json").write_text(json.dumps({"classes": classes}, indent=1))
    (world / "classes.toml").write_text("[classes]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in classes.items()))
    (world / "mix.json").write_text(json.dumps({"N": 0.9, "V": 0.1}))
    (world / "mix.csv").write_text("class,number\nN,90\nV,10\n")
    (world / "patients.csv").write_text("record,patient\n" + "".join(f"demo0{i},p{i}\n" for i in (1, 2, 3)))
    (world / "evil.py").write_text("from pathlib import Path\nPath('ran-code').write_text('x')\nclass X: pass\n")


def warm_up(world: Path) -> None:
    """Import in this process all that a case may need, and trace each graph of the world's net once for all cases."""
    import importlib
    import pkgutil

    import ecgfed
    from ecgfed.base.extras import EXTRA_OF

    for package in (ecgfed, importlib.import_module("ecgfed_cli")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as problem:
                if problem.name not in EXTRA_OF:  # what an extra brings is not everywhere; no case needs it then
                    raise
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.font_manager", "wfdb", "edfio",
                 "scipy.signal", "onnx", "onnxruntime", "safetensors.torch", "rich.progress",
                 "rich.table"):  # fmt: skip
        importlib.import_module(name)
    if world.is_dir():
        _trace_once([world / name for name in ("run", "hyper")])


def _trace_once(runs: Iterable[Path]) -> None:
    """Let torch's exporter trace a role of a net once; a case whose net is another still traces its own."""
    from ecgfed.core.methods.models import Pipeline
    from ecgfed.core.runs.run import open_run
    from ecgfed.exports.bundles.graphs import GraphTemplate

    known: dict[object, dict[str, object]] = {}
    make = GraphTemplate.__init__

    def init(self: GraphTemplate, net, role, params) -> None:  # type: ignore[no-untyped-def]
        key = (net.spec, role, tuple(sorted((name, value.shape) for name, value in params.items())))
        if key not in known:
            make(self, net, role, params)
            known[key] = dict(vars(self))
        vars(self).update(known[key])

    GraphTemplate.__init__ = init  # type: ignore[method-assign]
    for path in runs:
        run = open_run(path)
        state = run.state()
        chains = [run.method.personal_model(state.server, run.client_state(state, 0))]
        answer = run.method.global_model(state.server, iter([run.client_state(state, 0)]), "ensemble")
        chains += [answer] if isinstance(answer, Pipeline) else []
        for chain in chains:
            for part in chain.stages:
                GraphTemplate(run.net, part.role, part.params)
            if {part.role for part in chain.stages} == {"extractor", "head"}:
                params = {name: value for part in chain.stages for name, value in part.params.items()}
                GraphTemplate(run.net, "model", params)
