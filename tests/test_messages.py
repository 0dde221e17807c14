"""The wording of errors, in one table: real failures, from Python and from the command line.

Other tests assert an error's class, code and parameter. A message has ``<parameter|option>`` where the two differ.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support import Command

import ecgfed as package
from ecgfed import ReadOptions
from ecgfed.base.errors import EcgfedError

MODEL = Path(package.__file__).parent / "exports" / "model"


class Golden(NamedTuple):
    """A failure, what it carries (class, code, parameter or -), and its message."""

    typed: str
    call: Callable[[], object]
    carries: str
    message: str


TABLE = [
    Golden(
        "inspect r/p9",
        lambda: package.inspect_recording("r/p9"),
        "RecordError invalid-record -",
        "r/p9.hea: does not exist; expected a WFDB header beside the signal file; check the path",
    ),
    Golden(
        "inspect r/p1 --lead V9",
        lambda: package.inspect_recording("r/p1", leads="V9"),
        "RecordError unknown-lead leads",
        "r/p1: has no lead V9; it has MLII, V1; name one with <leads|--lead>, say <leads|--lead> MLII",
    ),
    Golden(
        "inspect r/p1 --mains 70",
        lambda: package.inspect_recording("r/p1", mains_hz=70),
        "OptionError invalid-value mains_hz",
        "<mains_hz|--mains>: 70; expected 50 or 60, the mains' frequency in Hz where it was recorded",
    ),
    Golden(
        "predict r/p1 --peaks magic --out o",
        lambda: package.predict("r/p1", peaks="magic"),
        "OptionError unknown-choice peaks",
        "<peaks|--peaks>: 'magic'; expected annotated or detected",
    ),
    Golden(
        "inspect two.csv",
        lambda: package.inspect_recording("two.csv"),
        "RecordError not-stated fs_hz",
        "two.csv: has no column of times; it has MLII, and units of lead MLII are not stated; expected mV, uV or V; "
        "say the sampling frequency with <fs_hz|--fs>, or which column holds times with <columns|--columns>, as in "
        "'time (ms),MLII (mV)', and state the units with <units|--units>",
    ),
    Golden(
        "inspect two.csv --fs 250",
        lambda: package.inspect_recording("two.csv", how=ReadOptions(fs_hz=250)),
        "RecordError not-stated units",
        "two.csv: units of lead MLII are not stated; expected mV, uV or V; state the units with <units|--units>",
    ),
    Golden(
        "inspect timed.csv --fs 250 --units mV",
        lambda: package.inspect_recording("timed.csv", how=ReadOptions(250, "mV")),
        "RecordError contradiction fs_hz",
        "timed.csv: its times say 500 Hz; expected 250 as <fs_hz|--fs> says; leave <fs_hz|--fs> out",
    ),
    Golden(
        "inspect bare.npy --fs 250 --units mV",
        lambda: package.inspect_recording("bare.npy", how=ReadOptions(250, "mV")),
        "RecordError not-stated columns",
        "bare.npy: does not name its 2 leads; name them in order with <columns=MLII|--columns MLII>,V1",
    ),
    Golden(
        "detect r/p1 --suffix hea --out o",
        lambda: package.detect("r/p1", "o", suffix="hea"),
        "OptionError invalid-value suffix",
        "<suffix|--suffix>: 'hea'; expected letters (WFDB allows no others), not hea, dat or atr",
    ),
    Golden(
        "ec57 r --mapping x --test qrs",
        lambda: package.score_ec57("r", test="qrs", mapping="x"),
        "OptionError unknown-choice mapping",
        "<mapping|--mapping>: 'x'; expected one of aami5, <aami5-bxb|aami5-bxb>",
    ),
    Golden(
        "ec57 r --test qrs",
        lambda: package.score_ec57("r", test="qrs"),
        "RecordError invalid-record test",
        "r: no record has annotations .qrs; expected RECORD.SUFFIX; check <test|--test>, <test_folder|--test-folder>",
    ),
    Golden(
        "convert r/p1 --out o --key k",
        lambda: package.convert("r/p1", "o", key="k"),
        "OptionError missing key",
        "<key|--key>: given without <anonymize|--anonymize>; expected both, or neither",
    ),
    Golden(
        "convert r/p1 --out r",
        lambda: package.convert("r/p1", "r"),
        "OptionError invalid-value out",
        "<out|--out>: p1.hea, p1.dat is the recording itself; expected another folder",
    ),
    Golden(
        "label r/p1 --count 0 --out o",
        lambda: package.label("r/p1", "o", count=0),
        "OptionError invalid-value count",
        "<count|--count>: 0; expected 1 to 1000 labels",
    ),
    Golden(
        "predict r/p1 --patient p7 --out o",
        lambda: package.predict("r/p1", patient="p7", force=True),
        "BundleError unknown-patient patient",
        "MODEL: has no patient 'p7'; expected none: it holds the global model alone; leave "
        "<patient|--patient> out for the global model",
    ),
    Golden(
        "predict r --out o --resume --overwrite",
        lambda: package.predict_batch("r", out="o", resume=True, overwrite=True),
        "OptionError conflict resume",
        "<resume|--resume> and <overwrite|--overwrite>: both given; expected one of them",
    ),
    Golden(
        "report r/p1 --patient p1 --out o.html",
        lambda: package.report("r/p1", patient="p1", out="o.html"),
        "OptionError missing patient",
        "<patient|--patient>: without <bundle|--bundle>; expected the bundle that holds this patient's model",
    ),
    Golden(
        "prepare demo --patients 0 --out o",
        lambda: package.prepare_demo("o", patients=0),
        "OptionError invalid-value patients",
        "<patients|--patients>: 0; expected 1 to 1000",
    ),
    Golden(
        "prepare folder r --format doc --out o",
        lambda: package.prepare_folder("r", "o", formats=["doc"]),
        "OptionError unknown-choice formats",
        "<formats|--format>: 'doc'; expected one or more of wfdb, edf, csv, numpy, dicom, aecg, muse, scp, ishne",
    ),
    Golden(
        "prepare folder r --holdout x --out o",
        lambda: package.prepare_folder("r", "o", holdout=["x"]),
        "OptionError unknown-choice holdout",
        "<holdout|--holdout>: no client x; expected ids among p1, p2, p3, p4",
    ),
    Golden(
        "prepare cifar10 --source x --alpha 1 --out o",
        lambda: package.prepare_cifar10("x", "o", alpha=1),
        "OptionError conflict alpha",
        "<alpha|--alpha>: given for longtail; expected <partition|--partition> dirichlet; leave <alpha|--alpha> out",
    ),
    Golden(
        "train c --engine magic",
        lambda: package.train("c", engine="magic"),
        "OptionError unknown-choice engine",
        "<engine|--engine>: 'magic'; expected one of auto, threads, batched",
    ),
    Golden(
        "train c --set lr=-1",
        lambda: package.train("c", settings={"lr": -1}),
        "OptionError invalid-value settings",
        "<settings|--set> lr: <-1.0|-1.0>; expected 0 to 100",
    ),
    Golden(
        "train c --rounds 1 --passes 2",
        lambda: package.train("c", rounds=1, passes=2),
        "OptionError conflict rounds",
        "<rounds|--rounds> and <passes|--passes>: both given; expected one of them",
    ),
    Golden(
        "train c --dp-noise 1",
        lambda: package.train("c", dp_noise=1),
        "OptionError missing dp_noise",
        "<dp_noise|--dp-noise>: given without <dp_clip|--dp-clip>; expected the longest update, such as "
        "<dp_clip|--dp-clip> 0.5",
    ),
    Golden(
        "train c --out r",
        lambda: package.train("c", "r"),
        "RunError exists out",
        "r: is not empty; expected a new folder; choose another <out|--out>, or pass <resume=True|--resume> "
        "or <overwrite=True|--overwrite>",
    ),
    Golden(
        "evaluate r",
        lambda: package.evaluate("r"),
        "RunError invalid-run -",
        "r: holds no run.json; expected a run; make one with 'ecgfed train'",
    ),
    Golden(
        "evaluate r --global mean",
        lambda: package.evaluate("r", protocol="mean"),
        "OptionError unknown-choice protocol",
        "<protocol|--global>: 'mean'; expected one of ensemble, average",
    ),
    Golden(
        "export r --out o --int8-loss 0.1",
        lambda: package.export("r", "o", int8_loss=0.1),
        "OptionError missing int8_loss",
        "<int8_loss|--int8-loss>: 0.1 without <int8|--int8>; expected both; add <int8|--int8>, or leave it out",
    ),
]


@pytest.fixture(scope="module")
def folder(records: Path, cohort_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records ``r``, a cohort ``c``, and files that leave something open."""
    folder = tmp_path_factory.mktemp("messages")
    shutil.copytree(records, folder / "r")
    shutil.copytree(cohort_path, folder / "c")
    rows = [f"{value:.3f}" for value in np.sin(np.arange(2000) / 30)]
    (folder / "two.csv").write_text("\n".join(["MLII", *rows]))
    (folder / "timed.csv").write_text(
        "\n".join(["time (s),MLII", *(f"{number / 500:.3f},{value}" for number, value in enumerate(rows))])
    )
    np.save(folder / "bare.npy", np.array([rows, rows], np.float32))
    return folder


@pytest.mark.parametrize("golden", TABLE, ids=[golden.typed for golden in TABLE])
def test_messages(golden: Golden, folder: Path, ecgfed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(EcgfedError) as caught:
        golden.call()
    error = caught.value
    typed, message = ecgfed(*golden.typed.split()), golden.message.replace("MODEL", str(MODEL))
    kinds = {kind.__name__ for kind in type(error).mro()}
    kind, code, parameter = golden.carries.split()
    assert kind in kinds
    assert (error.code, error.parameter or "-") == (code, parameter)
    assert str(error) == re.sub(r"<(.*?)\|(.*?)>", r"\1", message)
    assert (typed.code, typed.out) == (2, "")
    assert typed.err == "ecgfed: " + re.sub(r"<(.*?)\|(.*?)>", r"\2", message) + "\n"
    assert not list(folder.glob("o*"))
