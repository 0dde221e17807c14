"""A cohort or a pack from somebody else: names, links, sizes, types and hashes are looked at before it is used."""

import hashlib
import io
import json
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from support import Command, assert_refused, change_json, copied, snapshot

from ecgfed import evaluate, train
from ecgfed.base.errors import CohortError, RunError
from ecgfed.core.runs.run import open_run
from ecgfed.domain.cohort import arrays as arrays_module
from ecgfed.domain.cohort.cohort import open_cohort
from ecgfed.domain.cohort.pack import pack_cohort, unpack_cohort

NAMES = ["../../../x/y", "/etc/x", "..", "", "a\\b", "a\nb", "x" * 300, 7, None, "nul"]


@pytest.fixture
def cohort(cohort_path: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return copied(cohort_path, tmp_path / "c")


def assert_refused_cohort(cohort: Path) -> None:
    with refuses(CohortError, "invalid-cohort"):
        open_cohort(cohort)


def changed_client(cohort: Path, **values: Any) -> None:
    meta = json.loads((cohort / "cohort.json").read_text())
    meta["clients"][0] |= values
    (cohort / "cohort.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("field", ["id", "patient"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_a_files_is_refused(cohort: Path, field: str, name: object) -> None:
    changed_client(cohort, **{field: name})
    assert_refused_cohort(cohort)


def labels(classes: list[object], symbols: dict[str, str]) -> dict[str, object]:
    return {"label_map": {"name": "x", "classes": classes, "symbols": symbols}}


@pytest.mark.parametrize(
    ("part", "values"),
    [
        *(("records", {"left_out": left_out}) for left_out in ("MLII", ["V"], {"V": "2"}, {"V": -1}, {"V": True})),
        *(
            ("clients", values)
            for values in ({"records": "x"}, {"records": ["a\x1b[2J"]}, {"holdout": "no"}, {"id": "P2"})
        ),
        *((None, {"leads": leads}) for leads in (["\x1b]0;x\x07"], [""])),
        *((None, {"beats": beats}) for beats in (10**12, True, -1, 2.5)),
        (None, labels(["N", "N"], {"N": "N"})),
        (None, labels(["N", 5], {"N": "N"})),
        (None, labels(["N", "V"], {"N": "Z"})),
        (None, {"fingerprint": "0" * 64}),
        (None, {"modality": "sound"}),
    ],
)
def test_a_document_that_cannot_be(cohort: Path, part: str | None, values: dict[str, Any]) -> None:
    """Each is found before the digest is compared; P2 is the second patient's id, whose files would be p1's."""
    meta = json.loads((cohort / "cohort.json").read_text())
    del meta["digest"]  # as versions 0.1 and 0.2 wrote none
    (meta if part is None else meta[part][0]).update(values)
    (cohort / "cohort.json").write_text(json.dumps(meta))
    assert_refused_cohort(cohort)


def test_export_writes_nothing_outside(cohort: Path, ecgfed: Command, fedavg_run: Path, tmp_path: Path) -> None:
    changed_client(cohort, id="../../../x/y")
    before = snapshot(tmp_path)
    out = tmp_path / "deep" / "er" / "bundle"
    assert_refused(ecgfed("export", fedavg_run, "--cohort", cohort, "--out", out), "cohort.json", "'../../../x/y'")
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["cohort.json", "label.npy", "beats.npy"])
def test_a_link_out_of_the_cohort_is_refused(cohort: Path, tmp_path: Path, name: str) -> None:
    shutil.move(cohort / name, tmp_path / "aside")
    (cohort / name).symlink_to(tmp_path / "aside")
    assert_refused_cohort(cohort)


@pytest.mark.parametrize("target", ["/dev/zero", "pipe"])
def test_what_never_ends_is_not_read(cohort: Path, target: str) -> None:
    import os

    (cohort / "label.npy").unlink()
    os.mkfifo(cohort / "pipe")
    (cohort / "label.npy").symlink_to(target)
    assert_refused_cohort(cohort)


@pytest.mark.parametrize(
    "dtype",
    ["object", ">i2", "complex64", "datetime64[s]", "timedelta64[s]", "float16", "uint16", "bool", "S2", "U1", "V2"],
)
def test_an_array_of_another_type(cohort: Path, dtype: str) -> None:
    count = len(np.load(cohort / "label.npy"))
    np.save(cohort / "label.npy", np.zeros(count, dtype), allow_pickle=True)
    assert_refused_cohort(cohort)


def test_a_structured_and_a_fortran_array(cohort: Path) -> None:
    rr = np.load(cohort / "rr.npy")
    np.save(cohort / "rr.npy", np.asfortranarray(rr))
    assert_refused_cohort(cohort)
    np.save(cohort / "rr.npy", np.zeros(len(rr), [("a", "f4"), ("b", "f4")]))
    assert_refused_cohort(cohort)


def test_a_header_that_claims_a_terabyte_is_weighed_first(cohort: Path) -> None:
    change_json(cohort / "cohort.json", beats=2**32)
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (2**32, 1, 256)}
    np.lib.format.write_array_header_1_0(stream, header)
    (cohort / "beats.npy").write_bytes(stream.getvalue() + b"\0" * 1000)
    assert_refused_cohort(cohort)


@pytest.mark.filterwarnings("error")
def test_a_header_as_python_2_wrote_it_is_no_cohorts(cohort: Path) -> None:
    """numpy reads (223L,) with a warning of its own, beside which a refusal would not be one line."""
    data = (cohort / "label.npy").read_bytes()
    assert b",), }   " in data
    (cohort / "label.npy").write_bytes(data.replace(b",), }   ", b"L,), }  ", 1))
    assert_refused_cohort(cohort)


def _swap(file: Path) -> None:
    array = np.load(file)
    array[[0, 1]] = array[[1, 0]] if (array[0] != array[1]).any() else array[[1, 0]] ^ 1
    np.save(file, array)


@pytest.mark.parametrize("name", ["label", "split", "beats", "rr", "flags", "sample"])
@pytest.mark.parametrize("command", ["evaluate", "export", "personalize", "train"])
def test_a_changed_array_is_found_whenever_the_cohort_is_used(
    cohort: Path, ecgfed: Command, fedavg_run: Path, tmp_path: Path, name: str, command: str
) -> None:
    data = bytearray((cohort / f"{name}.npy").read_bytes())
    data[-1 if name in ("split", "flags") else -2] ^= 1
    (cohort / f"{name}.npy").write_bytes(data)
    (tmp_path / "mix.json").write_text('{"N": 1}')
    options = {
        "evaluate": (fedavg_run, "--cohort", cohort),
        "export": (fedavg_run, "--cohort", cohort, "--out", tmp_path / "out"),
        "personalize": (
            *(fedavg_run, "--cohort", cohort, "--class-mix", tmp_path / "mix.json"),
            *("--patient", "new", "--out", tmp_path / "out"),
        ),
        "train": (cohort, "--out", tmp_path / "out"),
    }
    assert_refused(ecgfed(command, *options[command]), f"{name}.npy", "has changed since the cohort was prepared")
    assert not (tmp_path / "out").exists()


def test_hashes_that_were_changed_with_the_array_are_another_cohort(
    cohort: Path, cohort_path: Path, fedavg_run: Path
) -> None:
    _swap(cohort / "label.npy")
    meta = json.loads((cohort / "cohort.json").read_text())
    del meta["digest"]
    meta["sha256"]["label"] = hashlib.sha256(np.load(cohort / "label.npy").tobytes()).hexdigest()
    joined = "".join(meta["sha256"][name] for name in sorted(meta["sha256"]))
    meta["fingerprint"] = hashlib.sha256(joined.encode()).hexdigest()
    (cohort / "cohort.json").write_text(json.dumps(meta))
    assert open_cohort(cohort).fingerprint != open_cohort(cohort_path).fingerprint
    with refuses(RunError, "invalid-run", "cohort"):
        open_run(fedavg_run).cohort(cohort)


@pytest.mark.parametrize(
    "changed",
    [
        lambda meta: meta.update(filter="none"),
        lambda meta: meta["leads"].reverse() if len(meta["leads"]) > 1 else meta["leads"].append("V9"),
        lambda meta: meta["clients"][0].update(holdout=True),
        lambda meta: meta["label_map"]["symbols"].pop("N"),
        lambda meta: meta["records"][0].update(fs_hz=250.0),
        lambda meta: meta.update(units="uV"),
    ],
    ids=["filter", "leads", "holdout", "symbols", "rate", "units"],
)
def test_a_document_that_was_changed_is_refused(cohort: Path, changed: Any) -> None:
    """What the arrays do not say is bound by the document's own digest."""
    path = cohort / "cohort.json"
    meta = json.loads(path.read_text())
    rest = {name: value for name, value in meta.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    assert meta["digest"] == hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(meta))  # written otherwise, and the same
    open_cohort(cohort)
    changed(meta)
    path.write_text(json.dumps(meta))
    assert_refused_cohort(cohort)


@pytest.mark.parametrize("what", ["classes", "clients"])
def test_patients_or_classes_in_another_order_are_another_cohort(cohort: Path, fedavg_run: Path, what: str) -> None:
    """The fingerprint is of the arrays: whose they are stands in cohort.json alone."""
    meta = json.loads((cohort / "cohort.json").read_text())
    del meta["digest"]  # as versions 0.1 and 0.2 wrote none
    if what == "clients":
        first, second = meta["clients"][:2]
        first["id"], second["id"] = second["id"], first["id"]
    else:
        meta["label_map"]["classes"].reverse()
    (cohort / "cohort.json").write_text(json.dumps(meta))
    with refuses(RunError, "invalid-run", "cohort"):
        open_run(fedavg_run).cohort(cohort)


def test_a_cohort_that_holds_out_others_is_another_one(cohort_path: Path, fedavg_run: Path, tmp_path: Path) -> None:
    """Scores of everybody's beats are of other people then, and who is held out has no personal model."""
    cohort, run = copied(cohort_path, tmp_path / "c"), copied(fedavg_run, tmp_path / "r")
    meta = json.loads((cohort / "cohort.json").read_text())
    assert json.loads((run / "run.json").read_text())["held_out_clients"] == [
        client["id"] for client in meta["clients"] if client["holdout"]
    ]
    del meta["digest"]
    meta["clients"][-1]["holdout"] = not meta["clients"][-1]["holdout"]
    (cohort / "cohort.json").write_text(json.dumps(meta))
    assert open_cohort(cohort).fingerprint == open_cohort(cohort_path).fingerprint
    before = snapshot(run)
    longer = open_run(run).plan.rounds + 1
    for verb in (
        lambda: evaluate(run, cohort=cohort),
        lambda: train(cohort, run, method="fedavg", resume=True, rounds=longer),
    ):
        with refuses(RunError, "invalid-run", "cohort"):
            verb()
    assert snapshot(run) == before
    older = json.loads((run / "run.json").read_text())
    del older["held_out_clients"]  # as version 0.2 wrote it
    (run / "run.json").write_text(json.dumps(older))
    assert open_run(run).cohort(cohort).fingerprint == open_run(run).fingerprint


def test_opening_again_reads_no_array_again(cohort: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_cohort(cohort)
    hashed: list[int] = []
    real = hashlib.sha256

    def counted(data: Any = b"", **more: Any) -> Any:
        hashed.append(memoryview(data).nbytes)
        return real(data, **more)

    monkeypatch.setattr(arrays_module.hashlib, "sha256", counted)
    open_cohort(cohort)
    own = hashed[1]  # cohort.json's, without its digest and blanks
    assert own < (cohort / "cohort.json").stat().st_size
    assert hashed == [8 * 64, own]  # the fingerprint's own: eight digests
    (cohort / "label.npy").touch()
    open_cohort(cohort)
    assert hashed == [512, own, np.load(cohort / "label.npy").nbytes, 512, own]


def test_the_fingerprint_stands_in_the_scores(
    ecgfed: Command, cohort_path: Path, fedavg_run: Path, tmp_path: Path
) -> None:
    told = json.loads(ecgfed("evaluate", fedavg_run, "--split", "valid", "--out", tmp_path / "e", "--json").out)
    fingerprint = open_cohort(cohort_path).fingerprint
    assert told["cohort_fingerprint"] == fingerprint
    assert json.loads((tmp_path / "e" / "scores.json").read_text())["cohort_fingerprint"] == fingerprint


@pytest.fixture
def packed(cohort_path: Path, tmp_path: Path) -> Path:
    pack_cohort(cohort_path, tmp_path / "p.npz")
    return tmp_path / "p.npz"


def repacked(file: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> Path:
    """Change a pack's document and arrays, without the code that writes packs."""
    with np.load(file) as held:
        arrays = dict(held)
    meta = json.loads(arrays.pop("cohort").tobytes())
    change(meta, arrays)
    np.savez_compressed(file, cohort=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    return file


def _client_id(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    meta["clients"][0]["id"] = "../../../x/y"


def _label(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays["label"][0] = (arrays["label"][0] + 1) % 2


def _short(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays["split"] = arrays["split"][:-1]


def _leads(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    meta["leads"] = ["V9"]


def _floats(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays["beats"] = arrays["beats"].astype(np.float32)


def _deep(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    inner: list[Any] = []
    for _ in range(40):
        inner = [inner]
    meta["more"] = inner


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_client_id, "'../../../x/y' holds /"),
        (_label, "label is not the array that was packed"),
        (_short, "rows"),
        (_leads, "digest"),
        (_floats, "beats is float32"),
        (_deep, "deeper than 32 levels"),
    ],
)
def test_a_pack_that_would_be_no_cohort_leaves_nothing(
    packed: Path, tmp_path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None], words: str
) -> None:
    repacked(packed, change)
    before = snapshot(tmp_path)
    with pytest.raises(CohortError, match=words) as caught:
        unpack_cohort(packed, tmp_path / "out")
    assert str(packed) in str(caught.value)
    assert "partial" not in str(caught.value)
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_flipped_byte_in_a_pack_is_found(packed: Path, tmp_path: Path) -> None:
    whole = packed.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 40).tolist():
        data = bytearray(whole)
        data[at] ^= 0xFF
        packed.write_bytes(data)
        try:
            unpack_cohort(packed, tmp_path / "out", overwrite=True)
        except CohortError:
            continue
        packed.write_bytes(whole)  # a byte of the zip that means nothing: the same cohort
        unpack_cohort(packed, tmp_path / "same", overwrite=True)
        assert open_cohort(tmp_path / "out").fingerprint == open_cohort(tmp_path / "same").fingerprint


def bomb(file: Path, entry: str, shape: tuple[int, ...], descr: str) -> Path:
    """A zip whose one array is zeros, a thousand times shorter than what it claims."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    left = int(np.prod(shape)) * np.dtype(descr).itemsize
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{entry}.npy", "w") as stream:
        stream.write(header.getvalue())
        while left:
            stream.write(bytes(min(left, 1 << 24)))
            left -= min(left, 1 << 24)
    return file


def in_a_gigabyte(code: str) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False, timeout=120)


def test_a_pack_that_claims_far_more_than_it_holds(packed: Path, tmp_path: Path) -> None:
    """A megabyte of pack, a gigabyte of beats."""
    rows, bad = 2_000_000, tmp_path / "bomb.npz"
    with zipfile.ZipFile(packed) as held, zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cohort.npy", held.read("cohort.npy"))
    bomb(bad, "beats", (rows, 1, 256), "<i2")
    for name, descr in (("rr", "<f4"), ("label", "<i2"), ("client", "<i4"), ("record", "<i4"), ("sample", "<i8")):
        bomb(bad, name, (rows, 4) if name == "rr" else (rows,), descr)
    for name in ("split", "flags"):
        bomb(bad, name, (rows,), "|u1")
    assert bad.stat().st_size < 2e6
    done = in_a_gigabyte(
        "from ecgfed.domain.cohort.pack import unpack_cohort; from pathlib import Path\n"
        f"try: unpack_cohort(Path({str(bad)!r}), Path({str(tmp_path / 'out')!r}))\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    assert "CohortError" in done.stdout, done.stderr[-500:]
    assert "beats: claims 512,000,000 numbers" in done.stdout
    assert not (tmp_path / "out").exists()


def test_an_npz_recording_that_claims_far_more_than_it_holds(tmp_path: Path) -> None:
    bad = bomb(tmp_path / "r.npz", "signal", (2, 500_000_000), "|i1")
    assert bad.stat().st_size < 1.1e6
    done = in_a_gigabyte(
        "from ecgfed.domain.record.reader import read_recording; from ecgfed.domain.record.recording import "
        "ReadOptions\n"
        f"try: read_recording({str(bad)!r}, how=ReadOptions(360, 'mV', ('a', 'b')))\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    assert "RecordError" in done.stdout, done.stderr[-500:]
    assert "claims shape (2, 500000000)" in done.stdout
