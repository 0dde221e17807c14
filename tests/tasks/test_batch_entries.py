"""Entries of a batch's summary on the disk are those that were stored, and the summary file is the JSON of all."""

import json
import pickle
from pathlib import Path

import pytest

import ecgfed
from ecgfed.base.errors import StorageError
from ecgfed.tasks.batch_entries import _IN_MEMORY_BYTES, StoredEntries

ENTRIES = [{"file": "ä/b\n", "beats": number, "counts": {"N": 0.5}, "warnings": [None, True]} for number in range(5)]


@pytest.mark.parametrize("filler", [0, _IN_MEMORY_BYTES], ids=["in memory", "on the disk"])
def test_a_sequence_like_any_other(filler: int) -> None:
    entries = [{**entry, "filler": "x" * filler} for entry in ENTRIES[:2]] + ENTRIES[2:]
    stored = StoredEntries(entries)
    assert list(stored) == entries
    assert list(reversed(stored)) == entries[::-1]
    assert (len(stored), stored[-1], stored[1:3]) == (5, entries[-1], tuple(entries[1:3]))
    assert [(a, b) for a in stored for b in stored] == [(a, b) for a in entries for b in entries]
    stored.append({"file": "last"})
    assert stored[5] == {"file": "last"}
    with pytest.raises(IndexError):
        stored[6]
    assert not StoredEntries()
    assert list(pickle.loads(pickle.dumps(stored))) == [*entries, {"file": "last"}]


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredEntries()

    def full(data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored._file, "write", full)
    with pytest.raises(StorageError, match="TMPDIR"):
        stored.append({})


def test_the_summary_file_is_the_json_of_the_batch(records: Path, tmp_path: Path) -> None:
    batch = ecgfed.predict_batch(records, tmp_path / "out")
    text = json.dumps(batch.to_dict(), indent=1, ensure_ascii=False) + "\n"
    assert len(batch.completed) > 1
    assert batch.summary.read_text("utf-8") == text
