"""What a reader notes of a file is the same, read whole or opened."""

from pathlib import Path

from ecgfed.domain.record.reader import open_recording, read_recording


def test_a_lead_without_calibration_is_noted_however_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "u.hea").write_text("u 1 250 5000\nu.dat 16 0 16 0 0 0 0 II\n")
    (tmp_path / "u.dat").write_bytes(bytes(10_000))
    whole, opened = read_recording(tmp_path / "u"), open_recording(tmp_path / "u")
    assert len(whole.notes) == 1
    assert "not calibrated" in whole.notes[0]
    assert opened.notes == whole.notes
    assert opened.beat_leads == whole.beat_leads == ()
