"""What a recording of a day, and one of two weeks, costs: seconds and peak memory.

    python benchmarks/long/run.py --source MITDB --work DIR [--days 14]

Makes records of an hour, a day and two weeks out of MIT-BIH (``records.py``): two leads at 250 Hz, WFDB format 16 and
212, EDF. Each verb runs in a process of its own, imports included, and says its seconds, its processor time and its
peak memory (``VmHWM``: ``ru_maxrss`` would begin at what this program had). ``predict`` takes the bundle ``--bundle``.
Beside them on the same hour and day: wfdb's ``gqrs`` (Python) and sleepecg, one lead, signal read before the clock
starts and without the process's start, which flatters them; gqrs on the hour alone, because it takes minutes for it.

Prints a table and writes ``results.json`` (or ``--results``). Two weeks need 1 GB below ``--work`` while it runs.
"""

import argparse
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, benchmark, option, print_table, save
from records import pieces, write_edf, write_wfdb

BUNDLE = ROOT / "tests" / "data" / "version-0.1" / "bundle"
MIB = 1 << 20
COLUMNS = ("record", "what", "seconds", "processor, s", "peak, MiB", "beats")
#: What a process does: ``made`` is its answer's number of beats.
VERBS = {
    "detect": "made = len(ecgfed.detect({record!r}, {out!r}, overwrite=True).records[0].sample)",
    "predict": "p = ecgfed.predict({bundle!r}, {record!r}, force=True); p.save({out!r}, overwrite=True); made = len(p)",
    "inspect": "ecgfed.inspect_recording({record!r}); made = 0",
    "prepare": "made = len(ecgfed.prepare_folder({folder!r}, {out!r}, overwrite=True).label)",
}
PEERS = {
    "gqrs": "from wfdb.processing import gqrs_detect as find\nlook = lambda: find(sig=signal, fs=250)",
    "sleepecg": "from sleepecg import detect_heartbeats as find\nlook = lambda: find(signal, 250)",
}
#: What each is imported from.
PACKAGES = {"gqrs": "wfdb", "sleepecg": "sleepecg"}
_PEAK = "(peak,) = (int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM:'))"
_VERB = f"""
import time; begun = time.perf_counter()
import json, ecgfed
{{work}}
{_PEAK}
print(json.dumps([time.perf_counter() - begun, time.process_time(), peak * 1024, made]))
"""
_PEER = f"""
import json, time, ecgfed
signal = ecgfed.read_recording({{record!r}}).signal_mv
{{work}}
begun, before = time.perf_counter(), time.process_time()
made = len(look())
spent = [time.perf_counter() - begun, time.process_time() - before]
{_PEAK}
print(json.dumps([*spent, peak * 1024, made]))
"""


def measured(program: str) -> dict[str, Any]:
    """Run a program in a process of its own; return its seconds, processor time, peak memory and beats."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    wall_s, cpu_s, peak, beats = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": round(wall_s, 2), "cpu_s": round(cpu_s, 2), "peak_mib": round(peak / MIB), "beats": beats}


def main(given: argparse.Namespace) -> None:
    parts, work = pieces(given.source), given.work / "records"
    files = {
        "1 h": write_wfdb(work / "hour", parts, 1),
        "24 h, format 16": write_wfdb(work / "day", parts, 24),
        "24 h, format 212": write_wfdb(work / "day212", parts, 24, fmt=212),
        "24 h, EDF": write_edf(work / "day.edf", parts, 24),
    }
    rows = [about(name, verb, file, given) for name, file in files.items() for verb in ("detect", "predict", "inspect")]
    for name, file in list(files.items())[:2]:
        for peer, program in PEERS.items():
            if find_spec(PACKAGES[peer]) is None:
                print(f"left out: {peer}, because {PACKAGES[peer]} is not installed", flush=True)
            elif peer != "gqrs" or name == "1 h":
                found = measured(_PEER.format(record=str(file), work=program))
                rows.append({"record": name, "what": f"{peer}, one lead, once read", **found})
    if given.days:
        long = write_wfdb(work / "long", parts, 24 * given.days, fmt=212)
        rows += [
            about(f"{given.days} days, format 212", verb, long, given) for verb in ("detect", "predict", "inspect")
        ]
        long.with_suffix(".dat").unlink()
    rows.append(prepared(parts, given))
    print_table(
        COLUMNS, [[row[key] for key in ("record", "what", "seconds", "cpu_s", "peak_mib", "beats")] for row in rows]
    )
    save(given, {"fs_hz": 250, "leads": 2, "rows": rows})


def about(name: str, verb: str, record: Path, given: Any) -> dict[str, Any]:
    """Return a row of the table."""
    places = {"record": str(record), "out": str(given.work / "out"), "bundle": str(given.bundle)}
    row = {"record": name, "what": verb, **measured(_VERB.format(work=VERBS[verb].format(**places)))}
    print(row, flush=True)
    return row


def prepared(parts: list[Any], given: Any) -> dict[str, Any]:
    """Prepare a cohort of a day whose annotation is what the detector marks."""
    import ecgfed

    folder = given.work / "annotated"
    record = write_wfdb(folder / "day", parts, 24)
    ecgfed.detect(record, folder, suffix="ann", overwrite=True)
    (folder / "day.ann").replace(folder / "day.atr")
    work = VERBS["prepare"].format(folder=str(folder), out=str(given.work / "cohort"))
    return {"record": "24 h, format 16", "what": "prepare", **measured(_VERB.format(work=work))}


if __name__ == "__main__":
    benchmark(
        main,
        option("--days", type=int, default=14, help="days of the longest record; 0 leaves it out"),
        option("--bundle", type=Path, default=BUNDLE, help="for predict"),
    )
