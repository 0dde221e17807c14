"""The JavaScript runtime's readers beside Python's: the same files give the same samples, bad ones one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
from conftest import write_record
from node_runtime import Refused, in_node, own
from numpy.typing import NDArray
from record_files import edf_annotation, edf_bytes, r_waves, write_212

from ecgfed.base.errors import EcgfedError
from ecgfed.domain.record import lead_names
from ecgfed.domain.record.leads import are_ecg, choose_lead, distinct, name_match
from ecgfed.domain.record.reader import open_recording
from ecgfed.domain.record.recording import ReadOptions

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>"


def python_reads(path: Path, how: dict[str, Any]) -> Any:
    names = {"fsHz": "fs_hz", "units": "units", "columns": "columns"}
    options = ReadOptions(**{names[name]: tuple(v) if isinstance(v, list) else v for name, v in how.items()})
    return open_recording(path, (), every_lead=True, how=options)


def check_same(cases: list[tuple[Path, dict[str, Any]]]) -> None:
    """Read files by both languages, and compare what came."""
    for (path, how), found in zip(cases, in_node(*(own("readAt", str(path), how) for path, how in cases)), strict=True):
        assert not isinstance(found, Refused), found
        expected = python_reads(path, how)
        assert (found["leads"], found["fsHz"]) == (list(expected.leads), expected.fs_hz)
        assert np.array_equal(np.stack(found["signalsMv"]), np.asarray(expected.signals_mv), equal_nan=True), path


def wave(seconds: float = 4.0, fs_hz: float = 250.0) -> NDArray[np.float64]:
    return r_waves(fs_hz, np.arange(0.5, seconds, 0.8).tolist(), seconds)


def recoded(folder: Path, fmt: str, dtype: str, more: int) -> None:
    """Write the steps of a record in format 16 in another one of two bytes."""
    data = np.frombuffer((folder / "made.dat").read_bytes(), "<i2").astype(int) + more
    (folder / "made.dat").write_bytes(data.astype(dtype).tobytes())
    header = (folder / "made.hea").read_text()
    (folder / "made.hea").write_text(header.replace("made.dat 16", f"made.dat {fmt}"))


def test_format_61_is_format_16_the_high_byte_first(tmp_path: Path) -> None:
    """Python's reader, which stands on wfdb, reads none."""
    record = tmp_path / "made"
    steps = {"fs": 250, "units": ["mV"], "sig_name": ["MLII"], "fmt": ["16"], "adc_gain": [200.0], "baseline": [0]}
    wfdb.wrsamp("made", p_signal=wave()[:, None], write_dir=str(tmp_path), **steps)
    (before,) = in_node(own("readAt", str(record), {}))
    recoded(tmp_path, "61", ">i2", 0)
    (found,) = in_node(own("readAt", str(record), {}))
    assert np.array_equal(found["signalsMv"][0], before["signalsMv"][0])


@pytest.mark.parametrize("fmt", ["16", "24", "32", "80", "160", "212"])
def test_a_wfdb_record_of_each_format(tmp_path: Path, fmt: str) -> None:
    signals = np.stack([wave(), -0.5 * wave()], axis=1)
    gain = 40.0 if fmt == "80" else 200.0
    signals[100:150, 0] = np.nan
    if fmt == "212":
        steps = np.nan_to_num(np.rint(signals.T * gain)).astype(int).tolist()
        write_212(tmp_path, "made", steps, fs="250", gain="200(0)/mV")
    else:
        wfdb.wrsamp(
            "made",
            fs=250,
            units=["mV", "uV"],
            sig_name=["MLII", "V1"],
            write_dir=str(tmp_path),
            p_signal=signals,
            fmt=["16" if fmt == "160" else fmt] * 2,
            adc_gain=[gain] * 2,
            baseline=[0, 5],
        )
    if fmt == "160":  # wfdb writes none: the same samples, 32768 more
        recoded(tmp_path, "160", "<u2", 32768)
    check_same([(tmp_path / "made", {}), (tmp_path / "made.hea", {})])


def test_headers_as_people_write_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    steps = [rng.integers(900, 1200, 1000).tolist() for _ in range(3)]
    cases = [
        write_212(tmp_path, "frames", steps[:2], fs="360/24(0)", comments=["72 M"]),
        write_212(tmp_path, "twice", steps[:2], leads=("ECG", "ECG")),
        write_212(tmp_path, "resp", steps[:2], leads=("RESP", "II")),
        write_212(tmp_path, "volt", steps[:2], gain="0.2/uV"),
        write_212(tmp_path, "plain", steps[:2], gain="200"),
    ]
    check_same([(path, {}) for path in cases])


def edf(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_edf_and_its_gaps(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    signals = rng.integers(-900, 900, (2, 6, 200)).tolist()
    short = [one[:50] for one in signals[1]]
    gaps = [edf_annotation(float(at)) for at in (0, 1, 2, 5, 6, 9.5)]
    cases = [
        edf(tmp_path / "plain.edf", edf_bytes(signals)),
        edf(tmp_path / "other.edf", edf_bytes([signals[0], short], labels=("ECG II", "Resp"))),
        edf(tmp_path / "volt.edf", edf_bytes(signals, units=("uV", "uV"), physical=("-5000", "5000"))),
        edf(tmp_path / "half.edf", edf_bytes(signals, duration="0.5", labels=("EKG V1", "ECG"))),
        edf(tmp_path / "gaps.edf", edf_bytes(signals, reserved="EDF+D", annotations=gaps)),
        edf(tmp_path / "none.edf", edf_bytes(signals, units=("", ""))),
    ]
    check_same([*((path, {}) for path in cases[:-1]), (cases[-1], {"units": "mV"})])


def table(path: Path, head: str, rows: list[str], *, encoding: str = "utf-8") -> Path:
    path.write_bytes("\n".join([head, *rows] if head else rows).encode(encoding))
    return path


def tables(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return tables as people write them, and what each leaves open."""
    values = wave()
    at = np.arange(len(values)) / 250
    plain = [f"{t:.3f},{v:.5f}" for t, v in zip(at, values, strict=True)]
    gap = [row if i % 50 else f"{at[i]:.3f}," for i, row in enumerate(plain)]
    decimal = [row.replace(",", ";").replace(".", ",") for row in plain]
    clock = [f"0:{t:06.3f}\t{v:.4f}\t{-v:.4f}" for t, v in zip(at, values, strict=True)]
    steps = [f"{round(200 * v + 1024)}" for v in values]
    count = [f"{i},{v:.4f}" for i, v in enumerate(values)]
    wide = [f"{4 * i},{v:.4f}" for i, v in enumerate(values)]
    return [
        (table(folder / "plain.csv", "time (s),MLII (mV)", plain), {}),
        (table(folder / "gap.csv", "time,MLII_mV", gap), {}),
        (table(folder / "decimal.csv", "time;II [mV]", decimal), {}),
        (table(folder / "clock.tsv", "'Elapsed time'\t'MLII'\t'V1'\n'(mm:ss.mmm)'\t'mV'\t'mV'", clock), {}),
        (table(folder / "blank.txt", "# a comment\ntime MLII/uV", [row.replace(",", " ") for row in plain]), {}),
        (table(folder / "stated.csv", "MLII", [row.split(",")[1] for row in plain]), {"fsHz": 250, "units": "mV"}),
        (table(folder / "steps.csv", "MLII", steps), {"fsHz": 250, "units": "200(1024)/mV"}),
        (table(folder / "bare.csv", "", plain), {"columns": ["time", "MLII (mV)"]}),
        (table(folder / "count.csv", "sample,MLII (mV)", count), {"fsHz": 250}),
        (table(folder / "wide.csv", "time (ms),MLII (mV)", wide, encoding="utf-16"), {}),
        (table(folder / "latin.csv", "time (s),MLII (\u00b5V)", plain, encoding="latin-1"), {}),
        (table(folder / "resp.csv", "time,Resp (mV),II (mV)", [f"{row},{i % 7}.5" for i, row in enumerate(plain)]), {}),
    ]


def test_tables_as_people_write_them(tmp_path: Path) -> None:
    check_same(tables(tmp_path))


def bad_files(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return files that cannot be read, by what is said of each."""
    rng = np.random.default_rng(2)
    steps = [rng.integers(900, 1200, 400).tolist() for _ in range(2)]

    def wrong(name: str, old: str, new: str) -> Path:
        path = write_212(folder, name, steps)
        header = folder / f"{name}.hea"
        assert old in header.read_text()
        header.write_text(header.read_text().replace(old, new))
        return path

    cut = write_212(folder, "cut", steps)
    (folder / "cut.dat").write_bytes((folder / "cut.dat").read_bytes()[:300])
    flipped = write_212(folder, "flipped", steps)
    data = bytearray((folder / "flipped.dat").read_bytes())
    data[30] ^= 1
    (folder / "flipped.dat").write_bytes(data)
    alone = write_212(folder, "alone", steps)
    (folder / "alone.dat").unlink()
    signals = rng.integers(-900, 900, (1, 3, 200)).tolist()
    whole = edf_bytes(signals)
    rows = [f"{i / 250:.3f},{i % 9}.5" for i in range(300)]
    whole_steps = [str(i % 400) for i in range(999)]
    return {
        "is cut short at 100 of 400 samples": (cut, {}),
        "checksum of lead": (flipped, {}),
        "does not exist": (alone, {}),
        "gain '2OO/mV'": (wrong("gain", "200(1024)", "2OO"), {}),
        "leads out of the folder": (wrong("out", "out.dat 212", "../out.dat 212"), {}),
        "sampling frequency": (wrong("slow", " 360 ", " 30 "), {}),
        "is in 'mmHg'": (wrong("unit", "/mV", "/mmHg"), {}),
        "1 signal line;": (wrong("fewer", "\nfewer.dat 212 200(1024)/mV 12 1024 " + str(steps[1][0]), "\n# "), {}),
        "is cut short at 2 of 3 data records": (edf(folder / "cut.edf", whole[:-10]), {}),
        "is not EDF": (edf(folder / "not.edf", b"x" * 600), {}),
        "data records and": (edf(folder / "more.edf", whole + b"ab"), {}),
        "number of signals": (edf(folder / "many.edf", edf_bytes(signals, channels="x")), {}),
        "data records of 0 s": (edf(folder / "zero.edf", edf_bytes(signals, duration="0")), {}),
        "columns": (table(folder / "ragged.csv", "time,MLII (mV)", [*rows, "1,2,3"]), {}),
        "a number, or nothing for a gap": (table(folder / "text.csv", "time,MLII (mV)", [*rows, f"1.2,{HOSTILE}"]), {}),
        "times are not even": (table(folder / "odd.csv", "time,MLII (mV)", [*rows, "9,1"]), {}),
        "units of lead MLII are not stated": (table(folder / "units.csv", "time,MLII", rows), {}),
        "has no column of times": (table(folder / "times.csv", "MLII (mV)", ["1", "2"]), {}),
        "holds whole numbers": (table(folder / "steps.csv", "MLII (mV)", whole_steps), {"fsHz": 250}),
        "is empty": (table(folder / "empty.csv", "", [""]), {}),
        "is not text": (edf(folder / "binary.csv", b"\0\1\2,\0"), {}),
        "is infinite": (table(folder / "inf.csv", "time,MLII (mV)", [*rows, "1.2,inf"]), {}),
    }


def test_bad_files_are_refused_in_one_line_by_both(tmp_path: Path) -> None:
    cases = bad_files(tmp_path)
    found = in_node(*(own("readAt", str(path), how) for path, how in cases.values()))
    for (said, (path, how)), one in zip(cases.items(), found, strict=True):
        assert isinstance(one, Refused), said
        assert said.replace("leads out of the folder", "a file in the header's folder") in one.line
        assert "\n" not in one.line
        with pytest.raises(EcgfedError):
            python_reads(path, how)


def test_names_of_leads_are_the_same_in_both() -> None:
    known = ["II", "MLII", "ml2", "Lead II", "DII", "ECG 1", "ECG", "V1", "C1", "MCL1", "mod II", "aVR", "-aVR"]
    known.append("ECG (2)")
    other = ["RESP", "C3", "EEG Fp1", "ABP", "Marker", "ECG II", "MDC_ECG_LEAD_IIcal", "Thorax ECG", "", "x"]
    other += ["event ecg", "Pleth"]
    names = [*known, *other, *list(lead_names._LEADS)[:40]]
    jobs = [{"module": "leads.js", "call": "leadMatch", "args": [one, two]} for one in known for two in names]
    jobs += [{"module": "leads.js", "call": "areEcg", "args": [[name]]} for name in names]
    jobs += [{"module": "leads.js", "call": "areEcg", "args": [["EEG Fp1", "C3", "II"], ["uV", "mmHg", ""]]}]
    jobs += [{"module": "leads.js", "call": "distinct", "args": [["ECG", "II", "ECG", "ECG (1)"]]}]
    found = in_node(*jobs)
    expected: list[Any] = [int(name_match(one, two)) for one in known for two in names]
    expected += [are_ecg([name]) for name in names]
    expected += [are_ecg(["EEG Fp1", "C3", "II"], ["uV", "mmHg", ""]), list(distinct(["ECG", "II", "ECG", "ECG (1)"]))]
    assert found == expected


@pytest.mark.parametrize("asked", [(), ("MLII",), ("V1", "II"), ("#2",), ("ECG",), ("V9",)])
def test_the_same_lead_is_chosen(asked: tuple[str, ...]) -> None:
    present = [["Resp", "ii", "V1"], ["V5", "MLII"], ["ECG 1", "ECG 2"], ["ABP"], ["Lead II", "II"], ["ecg", "ECG"]]
    jobs = [{"module": "leads.js", "call": "chooseLead", "args": [names, "x", list(asked)]} for names in present]
    for names, found in zip(present, in_node(*jobs), strict=True):
        try:
            assert found == choose_lead(names, "x", asked)
        except EcgfedError:
            assert isinstance(found, Refused)


def test_lines_of_a_serial_port_are_samples_however_they_come() -> None:
    text = "# ecgfed fs=250 leads=MLII,V1 units=200(1024)/mV\r\n1024,1224\n,1004\n1124,nan\n"
    pieces = [list(text), [text], [text[:30], text[30:61], text[61:]]]
    for found in in_node(*(own("lines", one) for one in pieces)):
        assert found["about"]["leads"] == ["MLII", "V1"]
        assert found["about"]["fsHz"] == 250
        rows = [np.concatenate([one[lead] for one in found["found"] if one]) for lead in (0, 1)]
        assert np.array_equal(rows[0], [0.0, np.nan, 0.5], equal_nan=True)
        assert np.array_equal(rows[1], [1.0, -0.1, np.nan], equal_nan=True)


def test_lines_that_are_no_samples_are_refused() -> None:
    head = "# ecgfed fs=250 leads=MLII units=mV\n"
    bad = ["1,2\n", f"{head}x\n", f"{head}1,2\n", head.replace("250", "5"), head.replace("mV", "Pa"), head + "1" * 5000]
    for found in in_node(*(own("lines", [one]) for one in bad)):
        assert isinstance(found, Refused)
        assert found.line.startswith("stream: ")


def test_a_name_from_a_stranger_is_plain_text(tmp_path: Path) -> None:
    record = write_record(tmp_path, "made", "NNNN", annotate=False)
    header = Path(f"{record}.hea")
    header.write_text(
        header.read_text().replace("MLII", "ab\u202e\x07cd").replace("V1", "RESP").replace("/mV", "/x\u202ey")
    )
    (found,) = in_node(own("readAt", str(record), {}))
    assert isinstance(found, Refused)
    assert all(one.isprintable() for one in found.line)
