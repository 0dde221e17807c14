"""The page of ``serve`` over HTTP: what it makes is what the same tasks make without it; and whom it refuses."""

import http.client
import json
import socket
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import served_work
from served_work import Work, announce, files_of

import ecgfed
from ecgfed.base.errors import OptionError, StorageError
from ecgfed.domain.labels.user_labels import read_user_labels
from ecgfed.exports.device.stream import StreamClassifier
from ecgfed.tasks import local_server, serve_folder
from ecgfed.tasks.predict import opened_bundle
from ecgfed.tasks.serve import serve

demo, work = served_work.demo, served_work.work


def test_a_recording_from_its_files_to_the_patients_model(
    work: Work, demo: Path, tmp_path: Path, quick_finetuning: None
) -> None:
    status, added = work.add(*files_of(demo))
    assert status == 200
    recording = added["recordings"][0]
    entry = work.entry(recording)
    assert (entry["stated"], entry["facts"]["leads"], entry["facts"]["fs_hz"]) == (True, ["MLII", "V1"], 360)

    # the report is the one that the same files give without the page
    assert work.job(recording, "report")["state"] == "done"
    assert work.ask("GET", f"recordings/{recording}/files/report.html")[1] == ecgfed.report(demo).html

    # the labels are those that the page saved
    assert work.post(f"recordings/{recording}/personalize", {})[0] == 409
    assert work.job(recording, "label")["state"] == "done"
    page = work.ask("GET", f"recordings/{recording}/label/")[1]
    data = json.loads(page.split('id="page-data">')[1].split("</script>")[0])
    truth = ecgfed.read_annotation(demo).beats()
    samples = sorted({point["sample"] for point in data["points"].values()})[:6]
    given = [(at, str(truth.symbol[np.abs(truth.sample - at).argmin()])) for at in samples]
    counts = [data["beats"] - len(given) + 1, *[1] * (len(given) - 1)]
    rows = [[at, label, count, "clinician"] for (at, label), count in zip(given, counts, strict=True)]
    about = {"version": 1, "recording": data["recording"], "groups": data["digest"]}
    kept = {**about, "revision": 1, "cursor": 1, "actions": [], "given": []}
    assert work.post(f"recordings/{recording}/label/save", {"base": 0, "kept": kept, "rows": rows})[0] == 200
    labels = next((work.folder / "recordings" / recording).glob("*-labels.csv"))
    assert [(label.sample, label.label) for label in read_user_labels(labels)] == given
    assert work.post(f"recordings/{recording}/label/done", {})[1]["ended"] is False

    # the model is the one that the same labels give without the page
    assert work.job(recording, "personalize")["state"] == "done"
    downloaded = tmp_path / "model.zip"
    downloaded.write_bytes(raw(work, f"recordings/{recording}/files/model-1.zip"))
    own = ecgfed.personalize_labels(demo, tmp_path / "own.zip", labels=labels)
    assert downloaded.read_bytes() == (tmp_path / "own.zip").read_bytes()
    assert work.job(recording, "report-personal")["state"] == "done"
    expected = ecgfed.report(demo, downloaded, patient=own.patient).html
    served = work.ask("GET", f"recordings/{recording}/files/report-personal.html")[1]
    assert served.replace("model-1.zip", "model.zip") == expected

    # what was made is still there in the next session
    assert work.end().recordings == 1
    again = Work(folder=work.folder).start()
    entry = again.entry(recording)
    assert (entry["reports"], entry["labels"], entry["model"]) == (
        {"report": True, "personal": True},
        True,
        "model-1.zip",
    )
    again.end()


def raw(work: Work, what: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", work.port, timeout=10)
    connection.request("GET", work.address.removeprefix(work.origin) + what)
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    assert reply.status == 200
    assert reply.headers["Content-Disposition"].startswith("attachment")
    return data


def test_a_replay_gives_what_the_stream_gives(work: Work, demo: Path) -> None:
    recording = work.add(*files_of(demo))[1]["recordings"][0]
    begun = work.post(f"recordings/{recording}/replay", {"begin": True})[1]
    read = ecgfed.read_recording(demo, begun["lead"], every_lead=True)
    at, beats = 0, []
    replay = {"replay": begun["replay"]}
    for seconds in (0, -1, 1e9, "1", None):
        assert work.post(f"recordings/{recording}/replay", {**replay, "at": at, "seconds": seconds})[0] == 400
    assert work.post(f"recordings/{recording}/replay", {**replay, "at": 1, "seconds": 1})[0] == 400
    while at < begun["samples"]:
        status, part = work.post(f"recordings/{recording}/replay", {**replay, "at": at, "seconds": 7.3})
        assert status == 200
        at, beats = part["at"], beats + part["beats"]
    assert part["ended"]
    stream = StreamClassifier(opened_bundle(None, None).classifier(None), read.fs_hz, leads=2, early="decided")
    reference = stream.push(read.signals_mv) + stream.finish()
    final = [(beat.sample, beat.override or beat.name) for beat in reference if beat.stage == "final"]
    assert [(beat["sample"], beat["class"]) for beat in beats if beat["stage"] == "final"] == final
    assert work.post(f"recordings/{recording}/replay", {**replay, "at": at, "seconds": 1})[0] == 409  # it has ended


def test_everything_missing_is_asked_for_at_once(work: Work, demo: Path, tmp_path: Path) -> None:
    """A board's table with two leads of other names: all to state at once, and then the report of its signal."""
    read = ecgfed.read_recording(demo, "MLII", every_lead=True)
    steps = np.rint(read.signals_mv * 200 + 512).astype(int)
    board = tmp_path / "board.csv"
    rows = "".join(f"{a},{b}\n" for a, b in steps.T.tolist())
    board.write_text("ch1,ch2\n" + rows)
    recording = work.add(board)[1]["recordings"][0]
    entry = work.entry(recording)
    assert not entry["stated"]
    assert [one["parameter"] for one in entry["facts"]["missing"]] == ["fs_hz", "units", "leads"]
    assert work.post(f"recordings/{recording}/report", {})[0] == 409
    assert work.post(f"recordings/{recording}/read", {"fs_hz": "fast"})[0] == 400
    assert work.post(f"recordings/{recording}/read", {"fs_hz": "360", "units": "apples", "lead": "ch1"})[0] == 400
    stated = {"fs_hz": "360", "units": "200(512)/mV", "lead": "ch1"}
    status, said = work.post(f"recordings/{recording}/read", stated)
    assert (status, said["facts"]["missing"]) == (200, [])
    assert said["preview"]["leads"][0]["name"] == "ch1"
    assert work.job(recording, "report")["state"] == "done"
    how = ecgfed.ReadOptions(fs_hz=360, units="200(512)/mV")
    assert (
        work.ask("GET", f"recordings/{recording}/files/report.html")[1]
        == ecgfed.report(board, leads="ch1", how=how).html
    )


def test_files_that_are_no_recording(work: Work, demo: Path, tmp_path: Path) -> None:
    status, said = work.add(files_of(demo)[1])
    assert status == 400
    assert "demo01.hea" in said["said"]
    other = tmp_path / "readme.md"
    other.write_text("nothing")
    assert work.add(other)[0] == 400
    damaged = tmp_path / "d.edf"
    damaged.write_bytes(b"0       " + b"x" * 400)
    status, said = work.add(damaged)
    assert status == 200  # it is listed with what is wrong with it
    (line,) = work.entry(said["recordings"][0])["problem"].splitlines()
    assert "d.edf" in line


@pytest.mark.parametrize(
    "name", ["../../x.edf", "..\\x.edf", "/etc/x.edf", "C:\\x.edf", "a\0b.edf", ".h.edf", f"{'x' * 500}.edf", "a:b.edf"]
)
def test_a_name_stays_inside_its_folder(work: Work, name: str) -> None:
    status, said = announce(work, name)
    assert status == 200
    assert work.send(said["upload"], 0, b"abc")[0] == 200
    uploads = work.folder / "uploads" / f"{said['upload']}.part"
    written = list(uploads.iterdir())
    assert [file.read_bytes() for file in written] == [b"abc"]
    assert not written[0].name.startswith(".")
    top = {file.name for file in work.folder.iterdir() if not file.name.startswith(".")}
    assert top == {"ecgfed-serve.json", "uploads", "recordings"}


@pytest.mark.parametrize("name", ["", ".", "..", "nul.edf", 3, None, "///"])
def test_what_is_no_name(work: Work, name: object) -> None:
    assert announce(work, name)[0] == 400


def test_nothing_is_overwritten(work: Work) -> None:
    assert announce(work, "a.edf", "A.edf")[0] in (400, 409)
    number = announce(work, "a.edf")[1]["upload"]
    assert work.send(number, 0, b"abc")[0] == 200
    assert work.send(number, 0, b"xyz")[0] == 409
    assert (work.folder / "uploads" / f"{number}.part" / "a.edf").read_bytes() == b"abc"
    assert announce(work, "a.edf")[1]["upload"] != number


@pytest.mark.parametrize("size", [-1, 1.5, "3", None, True, serve_folder.MAX_FILE_BYTES + 1])
def test_sizes_that_are_refused(work: Work, size: object) -> None:
    assert announce(work, "a.edf", size=size)[0] == 400


def test_too_many_files_and_no_list(work: Work) -> None:
    assert announce(work, *(f"{i}.edf" for i in range(serve_folder.MAX_FILES + 1)))[0] == 400
    assert announce(work, *(f"{i}.edf" for i in range(9)), size=serve_folder.MAX_FILE_BYTES)[0] == 400
    for body in ({}, [], {"files": 3}, {"files": []}, {"files": ["a.edf"]}, 7):
        assert work.post("upload", body)[0] == 400


def test_a_body_of_another_size_or_type(work: Work) -> None:
    number = announce(work, "a.edf")[1]["upload"]
    assert work.send(number, 0, b"ab")[0] == 400
    assert work.send(number, 0, b"abcd")[0] == 413
    assert work.send(number, 0, b"abc", Content_Type="application/json")[0] == 415
    assert work.send(number, 0, b"", Content_Length="", Transfer_Encoding="chunked")[0] == 411
    assert work.send(number, 1, b"abc")[0] == 404
    assert work.send("9999", 0, b"abc")[0] == 404
    assert work.post(f"upload/{number}/done", {})[0] == 400  # nothing has arrived
    assert list((work.folder / "uploads" / f"{number}.part").iterdir()) == []


def test_a_body_that_comes_slowly_is_ended_and_leaves_nothing(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "REQUEST_S", 0.3)
    number = announce(work, "a.edf")[1]["upload"]
    path = work.address.removeprefix(work.origin) + f"upload/{number}/0"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{work.port}\r\nOrigin: {work.origin}\r\n"
    with socket.create_connection(("127.0.0.1", work.port), timeout=10) as wire:
        wire.sendall(f"{head}Content-Type: application/octet-stream\r\nContent-Length: 3\r\n\r\na".encode())
        assert wire.recv(1000) == b""  # hung up
    assert list((work.folder / "uploads").iterdir()) == []
    assert work.send(number, 0, b"abc")[0] == 404


def test_strangers_are_refused(work: Work, demo: Path) -> None:
    recording = work.add(*files_of(demo))[1]["recordings"][0]
    for what in ("state", f"recordings/{recording}/files/report.html", ""):
        assert work.ask("GET", f"/{'x' * 43}/{what}")[0] == 404
        assert work.ask("GET", what, Host="evil.example")[0] == 403
        assert work.ask("GET", what, Sec_Fetch_Site="cross-site")[0] == 403
    for what in ("upload", "done", f"recordings/{recording}/report", f"recordings/{recording}/read"):
        assert work.ask("POST", what, b"{}", Origin="http://evil.example")[0] == 403
        assert work.ask("POST", what, b"{}", Origin="")[0] == 403
        assert work.ask("POST", what, b"{}", Content_Type="text/plain")[0] == 415
    assert not work.ended


@pytest.mark.parametrize(
    "what",
    [
        "files/../recording.json",
        "files/recording.json",
        "files/..%2f..%2fecgfed-serve.json",
        "files/%2fetc%2fpasswd",
        "files/",
        "nothing",
        "label/",
        "../../",
    ],
)
def test_only_what_was_made_is_sent(work: Work, demo: Path, what: str) -> None:
    recording = work.add(*files_of(demo))[1]["recordings"][0]
    assert work.ask("GET", f"recordings/{recording}/{what}")[0] == 404
    assert work.ask("GET", f"recordings/../{recording}/files/report.html")[0] == 404


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_the_folder_is_its_owners(work: Work, demo: Path) -> None:
    work.add(*files_of(demo))
    folders = [work.folder, *(path for path in work.folder.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) & 0o077 for folder in folders[:1]} == {0}
    assert {stat.S_IMODE(file.stat().st_mode) for file in (work.folder / "uploads").rglob("*.dat")} == {0o600}


def test_another_folder_is_refused_and_one_that_is_served(work: Work, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(OptionError):
        serve(tmp_path / "mine", opened=lambda _: None)
    with pytest.raises(OptionError):
        serve(tmp_path / "mine" / "thesis.txt", opened=lambda _: None)
    with pytest.raises(StorageError):
        serve(work.folder, opened=lambda _: None)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all of it"


def test_it_ends_when_no_page_is_open(tmp_path: Path) -> None:
    server = Work(folder=tmp_path / "work", idle_s=0.2).start()
    server.thread.join(30)
    assert server.ended[0].ended == "idle"


def test_a_failed_job_is_told_in_a_line_and_the_next_one_is_done(
    work: Work, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = work.add(*files_of(demo))[1]["recordings"][0]
    monkeypatch.setattr("ecgfed.tasks.serve_tasks.report", lambda *_, **__: 1 / 0)
    job = work.job(recording, "report")
    assert job["state"] == "failed"
    assert job["problem"].count("\n") == 0
    assert work.job(recording, "label")["state"] == "done"
