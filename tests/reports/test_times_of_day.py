"""Times on a report's page: of the day where the start is known, else counted; date and patient only on request."""

import datetime as dt
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_record

import ecgfed
from ecgfed.base.errors import OptionError
from ecgfed.domain.record.metadata import RecordingMetadata, Start
from ecgfed.domain.record.reader import read_recording
from ecgfed.reports.markup import ELAPSED, PageTimes, clock
from ecgfed.reports.recording_report import RecordingReport

METADATA = RecordingMetadata(Start(dt.date(2026, 3, 4), dt.time(23, 59, 50)), 93, "F", "Holter 7")


@pytest.fixture(scope="module")
def begun(records: Path) -> ecgfed.Recording:
    return replace(read_recording(records / "p1", every_lead=True), metadata=METADATA)


def shown_times(report: RecordingReport) -> list[tuple[float, str]]:
    """Seconds and text of every time that is a link."""
    links = re.findall(r'data-at="([0-9.]+)">([^<]+)</a>', report.html)
    return [(float(seconds), text) for seconds, text in links]


@pytest.mark.parametrize("digits", [0, 1])
@pytest.mark.parametrize("start", [dt.datetime(2026, 3, 4, 9, 15), dt.datetime(2026, 3, 4, 23, 59, 58, 970_000)])
def test_a_time_of_day_is_the_start_plus_the_seconds(start: dt.datetime, digits: int) -> None:
    times = PageTimes((start - dt.datetime(2026, 3, 4)).total_seconds())
    for seconds in (0.0, 0.04, 1.0, 59.96, 3600.0, 86_399.99, 200_000.5):
        unit = 10**digits
        since = (start - dt.datetime(2026, 3, 4)).total_seconds() + seconds
        exact = dt.datetime(2026, 3, 4) + dt.timedelta(seconds=round(since * unit) / unit)
        day = (exact.date() - start.date()).days
        expected = f"{exact:%H:%M:%S}" + (f".{exact.microsecond // 100_000}" if digits else "")
        assert times.text(seconds, digits) == (f"day {day + 1} {expected}" if day else expected)
        assert ELAPSED.text(seconds, digits) == clock(seconds, digits)


def test_every_time_of_the_page_is_of_the_day_and_no_date_without_request(tmp_path: Path) -> None:
    """Of more than a minute: a shorter recording has no line to lead to."""
    record = write_record(tmp_path, "long", "NNNNV" * 20)
    report = ecgfed.report(replace(read_recording(record, every_lead=True), metadata=METADATA))
    assert isinstance(report, RecordingReport)
    times = shown_times(report)
    assert times
    for seconds, text in times:
        assert text in {PageTimes(86_390.0).text(seconds, digits) for digits in (0, 1)}
    assert {text.startswith("day 2 ") for seconds, text in times if seconds > 11} == {True}
    everything = report.html + json.dumps(report.to_dict())
    assert not any(text in everything for text in ("2026-03-04", "Holter 7", "90 or older"))
    assert report.to_dict()["start"] == "23:59:50"
    assert report.parts.data["clock_s"] == 86_390.0


def test_without_a_start_times_count(records: Path) -> None:
    report = ecgfed.report(records / "p1")
    assert isinstance(report, RecordingReport)
    assert report.to_dict()["start"] is None
    assert "counted from the start of the recording" in dict(report.parts.header)["Times"]
    for seconds, text in shown_times(report):
        assert text in {clock(seconds, digits) for digits in (0, 1)}


def test_what_is_requested_is_shown_and_an_age_from_90_on_is_one(begun: ecgfed.Recording) -> None:
    report = ecgfed.report(begun, show=["date,age", "sex"], indication="<b>Syncope</b>")
    assert isinstance(report, RecordingReport)
    told = report.to_dict()
    assert told["start"] == "2026-03-04T23:59:50"
    assert told["patient"] == {
        "Date": "2026-03-04", "Age": "90 or older", "Sex": "female", "Indication": "<b>Syncope</b>",
    }  # fmt: skip
    assert "&lt;b&gt;Syncope" in report.html
    assert "<b>Syncope" not in report.html
    assert "Holter 7" not in report.html


def test_a_stated_start_comes_before_the_files(begun: ecgfed.Recording) -> None:
    report = ecgfed.report(begun, start="09:15:00")
    assert isinstance(report, RecordingReport)
    assert report.to_dict()["start"] == "09:15:00"
    for seconds, text in shown_times(report):
        assert text in {PageTimes(33_300.0).text(seconds, digits) for digits in (0, 1)}


@pytest.mark.parametrize(
    ("name", "value"), [("show", "name"), ("start", "tomorrow"), ("start", "2026-03-04T09:15:00"), ("start", "25:00")]
)
def test_what_cannot_be_shown_is_refused(begun: ecgfed.Recording, name: str, value: str) -> None:
    with pytest.raises(OptionError):
        ecgfed.report(begun, **{name: value})  # type: ignore[arg-type]


def test_files_beside_the_page_state_the_date_on_request_alone(begun: ecgfed.Recording, tmp_path: Path) -> None:
    def written(name: str, **options: object) -> tuple[str, dict[str, object]]:
        ecgfed.report(begun, out=tmp_path / f"{name}.html", formats="fhir,table,aecg", **options)  # type: ignore[arg-type]
        texts = [(tmp_path / f"{name}.{end}").read_text() for end in ("fhir.json", "csv", "aecg.xml")]
        resources = [entry["resource"] for entry in json.loads(texts[0])["entry"]]
        (at,) = (one for one in resources if "valueTime" in one)
        assert at["valueTime"] == "23:59:50"
        return "".join(texts), at

    plain, at = written("plain")
    assert "2026-03-04" not in plain
    assert "20260304" not in plain
    assert "effectivePeriod" not in at
    dated, at = written("dated", show="date")
    assert "2026-03-04T23:59:50" in dated  # the table
    assert '<low value="20260304235950.000"/>' in dated
    assert at["effectivePeriod"] == {"start": "2026-03-04", "end": "2026-03-05"}  # a time would need its offset
