"""The ECG of a Polar H10 in JavaScript: frames made by hand after Polar's description of the service, gaps, faults."""

import struct

import numpy as np
import pytest
from node_runtime import Refused, in_node, own
from numpy.typing import NDArray

pytestmark = pytest.mark.browser
#: Nanoseconds of a sample at 130 Hz, samples of a frame, and a time on the clock of a sensor that was not set (2019).
SAMPLE_NS, EACH, BEGAN_NS = 10**9 / 130, 73, 599_616_023_171_427_290
#: As Polar's SDK writes it: start (2) the ECG (0); one sampling rate (0, 1), 130; one resolution (1, 1), 14 bits.
START = [0x02, 0x00, 0x00, 0x01, 0x82, 0x00, 0x01, 0x01, 0x0E, 0x00]


def frame(uv: list[int], timestamp_ns: int, kind: int = 0, frame_type: int = 0) -> NDArray[np.uint8]:
    """Return a frame: type, time of the last sample, frame type, then three bytes a sample, little-endian."""
    samples = b"".join(struct.pack("<i", value)[:3] for value in uv)
    return np.frombuffer(struct.pack("<BQB", kind, timestamp_ns, frame_type) + samples, np.uint8)


def recorded(uv: NDArray[np.int64], lost: tuple[int, ...] = (), rate_hz: float = 130.0) -> list[NDArray[np.uint8]]:
    """Return the frames of samples whose clock runs at ``rate_hz``, without those that were lost."""
    frames = []
    for number, start in enumerate(range(0, len(uv), EACH)):
        part = uv[start : start + EACH].tolist()
        time_ns = BEGAN_NS + round((start + len(part)) * 1e9 / rate_hz)
        if number not in lost:
            frames.append(frame(part, time_ns))
    return frames


def test_samples_are_microvolts_of_three_bytes() -> None:
    uv = [0, 1, -1, 255, 256, -256, 65_535, 65_536, -65_536, 8_388_607, -8_388_608]
    (found,) = in_node(own("polar", [frame(uv, BEGAN_NS)]))
    assert found[0]["atSample"] == 0
    assert found[0]["samplesMv"].tolist() == [value / 1000 for value in uv]


@pytest.mark.parametrize("rate_hz", [128.0, 130.0, 131.0])
def test_lost_frames_are_gaps_by_their_times_whatever_the_clock(rate_hz: float) -> None:
    uv = np.random.default_rng(0).integers(-3000, 3000, 20 * EACH + 40)
    lost = (3, 8, 9, 10)
    (found,) = in_node(own("polar", recorded(uv, lost, rate_hz)))
    clock = 130 / rate_hz
    expected, at = [], 0
    for number in range(21):
        if number in lost:
            continue
        run = sum(1 for one in lost if one < number and all(k in lost for k in range(one, number)))
        missing = round((run + 1) * EACH * clock - EACH) if run else 0
        at += missing
        expected.append(at)
        at += len(uv[number * EACH : (number + 1) * EACH])
    assert [one["atSample"] for one in found] == expected
    heard = np.concatenate([one["samplesMv"] for one in found])
    kept = [uv[number * EACH : (number + 1) * EACH] for number in range(21) if number not in lost]
    assert np.array_equal(heard, np.concatenate(kept) / 1000)
    if rate_hz == 130.0:
        assert expected[-1] == 20 * EACH


def test_frames_that_are_none_are_refused_in_one_line() -> None:
    good = frame([1, 2, 3], BEGAN_NS)
    later = frame([1, 2, 3], BEGAN_NS + 1000)
    asked = [
        ([good[:0]], "a frame of 0 bytes; expected 10 bytes, then 3 for each sample"),
        ([good[:10]], "a frame of 10 bytes"),
        ([good[:-1]], "a frame of 18 bytes"),
        ([frame([1], BEGAN_NS, kind=2)], "a frame of measurement type 2; expected 0, an ECG"),
        ([frame([1], BEGAN_NS, frame_type=0x80)], "an ECG frame of type 128; expected 0"),
        ([good, later], "a frame of 3 samples, 0.001 ms after the one before it; expected 23 ms or more"),
        ([later, good], "a frame of 3 samples, -0.001 ms after the one before it"),
    ]
    for (_, said), one in zip(asked, in_node(*(own("polar", frames) for frames, _ in asked)), strict=True):
        assert isinstance(one, Refused)
        assert one.line.startswith("Polar H10: ")
        assert said in one.line
        assert "\n" not in one.line


def test_the_sensor_is_started_heard_and_stopped() -> None:
    frames = [frame([5, -5], BEGAN_NS), frame([6], BEGAN_NS + round(SAMPLE_NS))]
    good, busy, refused = in_node(
        own("polar_started", [0xF0, 2, 0, 0, 0], frames),
        own("polar_started", [0xF0, 2, 0, 6], frames),
        own("polar_started", [0xF0, 2, 0, 8], frames),
    )
    for one in (good, busy):  # already started: 6
        assert one["written"] == [START, [3, 0]]
        assert [part.tolist() for part in one["heard"]] == [part.tolist() for part in frames]
    assert refused.line == "Polar H10: refused the start of the ECG (f0 02 00 08); wear the strap, and connect again"
