"""``serve`` after kills, on a full disk, and with recordings that are read in another way later."""

import json
from pathlib import Path

import pytest
import served_work
from served_work import Work, announce, files_of

from ecgfed.base.errors import StorageError
from ecgfed.base.locks import LockedError
from ecgfed.tasks import serve_folder, serve_tasks
from ecgfed.tasks.serve import serve

demo, work = served_work.demo, served_work.work


def test_a_recording_left_incomplete_by_a_kill_blocks_no_other_and_not_the_page(work: Work, demo: Path) -> None:
    first, second = (work.add(*files_of(demo))[1]["recordings"][0] for _ in range(2))
    work.end()
    (work.folder / "recordings" / second / "recording.json").unlink()
    damaged = work.folder / "recordings" / first / "recording.json"
    stored = json.loads(damaged.read_text())
    del stored["facts"]["missing"]
    damaged.write_text(json.dumps(stored))
    again = Work(folder=work.folder).start()
    assert again.state()["recordings"] == []
    status, added = again.add(*files_of(demo))
    assert (status, added["recordings"]) == (200, ["0003-demo01"])
    again.end()


def test_a_second_server_of_the_folder_is_refused_and_removes_nothing_of_the_first(work: Work, demo: Path) -> None:
    files = files_of(demo)
    sizes = [{"name": file.name, "size": file.stat().st_size} for file in files]
    number = work.post("upload", {"files": sizes})[1]["upload"]
    assert work.send(number, 0, files[0].read_bytes())[0] == 200
    with pytest.raises(LockedError):
        serve(work.folder, opened=lambda _: None)
    assert work.send(number, 1, files[1].read_bytes())[0] == 200
    assert work.post(f"upload/{number}/done", {})[1]["recordings"] == ["0001-demo01"]


def test_a_kill_while_a_recording_is_read_loses_no_upload(
    work: Work, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object, **__: object) -> None:
        raise MemoryError  # nothing of serve comes after it, as after a kill

    with monkeypatch.context() as patched:
        patched.setattr(serve_tasks, "file_summary", ended)
        assert work.add(*files_of(demo))[0] == 500
    work.end()
    again = Work(folder=work.folder).start()
    (entry,) = again.state()["recordings"]
    assert again.post(f"recordings/{entry['id']}/read", {})[1]["facts"]["samples"] > 0
    again.end()


def test_why_a_file_cannot_be_read_is_known_in_the_next_session(work: Work, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    recording = work.add(tmp_path / "empty.csv")[1]["recordings"][0]
    problem = work.entry(recording)["problem"]
    work.end()
    again = Work(folder=work.folder).start()
    assert problem
    assert again.entry(recording)["problem"] == problem
    again.end()


def test_the_number_of_a_model_that_was_not_completed_is_not_used_again(work: Work, demo: Path) -> None:
    recording = work.add(*files_of(demo))[1]["recordings"][0]
    work.end()
    entry = serve_folder.WorkFolder(work.folder).entries[recording]
    (entry.folder / "model-1.zip").write_bytes(b"")
    (entry.folder / "model-1.json").write_text("{}")
    (entry.folder / "model-2.zip").write_bytes(b"")  # killed before its patient was written
    (entry.folder / "beats-3").mkdir()  # killed before its model was written
    assert [model.name for model in entry.models()] == ["model-1.zip"]
    assert entry.next_number() == 4


def test_another_lead_can_be_labelled_and_the_earlier_labels_stay(work: Work, demo: Path) -> None:
    recording = work.add(*files_of(demo))[1]["recordings"][0]
    assert work.job(recording, "label")["state"] == "done"
    page = work.ask("GET", f"recordings/{recording}/label/")[1]
    data = json.loads(page.split('id="page-data">')[1].split("</script>")[0])
    at = min(point["sample"] for point in data["points"].values())
    about = {"version": 1, "recording": data["recording"], "groups": data["digest"]}
    kept = {**about, "revision": 1, "cursor": 1, "actions": [], "given": []}
    rows = [[at, "N", data["beats"], "clinician"]]
    assert work.post(f"recordings/{recording}/label/save", {"base": 0, "kept": kept, "rows": rows})[0] == 200
    labels = (work.folder / "recordings" / recording / "demo01-labels.csv").read_bytes()
    assert work.post(f"recordings/{recording}/read", {"lead": "V1"})[0] == 200
    assert work.job(recording, "label")["state"] == "done"
    assert (work.folder / "recordings" / recording / "demo01-labels-1.csv").read_bytes() == labels
    assert work.ask("GET", f"recordings/{recording}/label/state")[1] == {"kept": None}


def test_a_page_that_still_sends_hears_why_it_is_refused(work: Work) -> None:
    number = announce(work, "a.edf")[1]["upload"]
    assert work.send(number, 0, bytes(30_000_000))[0] == 413  # more than a socket holds


def test_a_folder_whose_making_failed_can_be_served_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, value: object) -> None:
        raise StorageError(path, "could not be written")

    with monkeypatch.context() as patched:
        patched.setattr(serve_folder, "write_json", full)
        with pytest.raises(StorageError):
            serve_folder.WorkFolder(tmp_path / "work")
    assert serve_folder.WorkFolder(tmp_path / "work").entries == {}


def test_what_cannot_be_stored_changes_nothing(work: Work, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, value: object) -> None:
        raise StorageError(path, "could not be written")

    recording = work.add(*files_of(demo))[1]["recordings"][0]
    before = work.entry(recording)
    monkeypatch.setattr(serve_folder, "write_json", full)
    assert work.post(f"recordings/{recording}/read", {"lead": "V1"})[0] == 400
    assert work.entry(recording) == before
