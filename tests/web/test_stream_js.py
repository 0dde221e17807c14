"""What a stream in JavaScript takes and refuses, how it ends and how it passes a gap, beside Python's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import synthetic_signal
from node_runtime import in_node, own
from numpy.typing import NDArray

import ecgfed
from ecgfed.base.errors import RecordError
from ecgfed.device import StreamClassifier, open_bundle

pytestmark = pytest.mark.browser
MODEL = Path(ecgfed.__file__).parent / "exports" / "model"
RUNNER = ("onnxruntime-node",)
FS_HZ = 360
HOUR = 3600 * FS_HZ
WEEK = 7 * 24 * HOUR
Floats = NDArray[np.float64]


def signal(symbols: str, seed: int) -> Floats:
    """Return one lead."""
    return synthetic_signal(symbols, fs_hz=float(FS_HZ), seed=seed)[0]


def played(steps: list[Any], **how: Any) -> dict[str, Any]:
    """Return the job that does steps with one stream, ``[method, *args]`` each."""
    return own("steps", {"bundle": str(MODEL)}, {"fsHz": FS_HZ, **how}, steps)


def pythons(steps: list[Any], **how: Any) -> list[dict[str, Any]]:
    """Do the same steps with Python's stream; ``push`` has the sample's number for its second argument."""
    stream = StreamClassifier(open_bundle(MODEL).classifier(), float(FS_HZ), **how)
    told = []
    for call, *args in steps:
        refused, found = "", []
        try:
            if call == "push":
                found = stream.push(args[0], at_sample=args[1]["atSample"] if len(args) > 1 else None)
            else:
                found = getattr(stream, call)(*args)
        except RecordError as problem:
            refused = problem.line
        # the model's own class: JavaScript names it where no signal overrides it in Python
        names = [stream.classifier.classes[one.label] if one.label >= 0 else "" for one in found]
        beats = [[one.sample, name, one.flags, one.stage] for one, name in zip(found, names, strict=True)]
        told.append({"beats": beats, "seen": stream.sample_count, "refused": refused})
    return told


def same_steps(steps: list[Any], *, at_least: int, **how: Any) -> list[dict[str, Any]]:
    """Do steps in both languages: in the end the same beats of each recording, the same count of samples, refusals."""
    (found,) = in_node(played(steps, **how), packages=RUNNER)
    javascript, python = found["told"], pythons(steps, **how)
    assert [one["seen"] for one in javascript] == [one["seen"] for one in python]
    assert [bool(one.get("refused")) for one in javascript] == [bool(one["refused"]) for one in python]
    assert not any("failed" in one for one in javascript)
    for one, other in zip(recordings(steps, javascript), recordings(steps, python), strict=True):
        assert one == other
    assert sum(len(one["beats"]) for one in javascript) >= at_least
    return list(javascript)


def recordings(steps: list[Any], told: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the beats of each recording, which ends with ``finish``."""
    found: list[list[Any]] = [[]]
    for (call, *_), one in zip(steps, told, strict=True):
        found[-1] += one["beats"]
        if call == "finish":
            found.append([])
    return found


def test_after_finish_another_recording_begins_at_sample_0() -> None:
    one, other = signal("NNNNV" * 12, 1), signal("NNVNN" * 10, 2)
    steps = [["push", one], ["finish"], ["finish"], ["push", other], ["push", other[:100]], ["finish"]]
    told = same_steps(steps, at_least=90)
    assert told[1]["seen"] == told[2]["seen"] == 0
    assert told[3]["seen"] == len(other)
    assert told[2]["beats"] == []


def test_what_is_sent_without_waiting_is_done_in_turn() -> None:
    one = signal("NNNNV" * 12, 1)
    (found,) = in_node(own("unawaited", {"bundle": str(MODEL)}, FS_HZ, one), packages=RUNNER)
    first, second = found
    assert len(first) > 50
    assert first == second


def test_a_gap_of_hours_passes_as_in_python() -> None:
    """A gap of a day is passed in leaps: in steps of a quarter of a second it took minutes."""
    one, other = signal("NNNNV" * 12, 1), signal("NNVNN" * 12, 2)
    steps = [["push", one], ["gap", 24 * HOUR + 77], ["push", other], ["finish"]]
    told = same_steps(steps, at_least=100)
    assert told[1]["seen"] == len(one) + 24 * HOUR + 77
    both = [["push", np.stack([one, -one])], ["gap", 2 * HOUR], ["push", np.stack([other, -other])], ["finish"]]
    same_steps(both, at_least=100, leads=2, lead=1)


def test_a_long_gap_is_the_same_to_the_last_bit_however_it_comes() -> None:
    """Told, as NaN in chunks, or in a whole recording that is classified at once."""
    one, other = signal("NNNNV" * 12, 3), signal("NNVNN" * 12, 4)
    whole = np.concatenate([one, np.full(900 * FS_HZ + 13, np.nan), other])
    recording = {"fsHz": FS_HZ, "leads": ["MLII"], "signalsMv": whole[None]}
    sizes: list[list[int]] = [[10**9], [333], [90_000, 1]]
    jobs = [own("streamed", {"bundle": str(MODEL)}, recording, {"lead": 0}, size) for size in sizes]
    found = in_node(*jobs, packages=RUNNER)
    for each in found:
        assert len(each["beats"]) > 100
        for beat, expected in zip(each["beats"], each["whole"], strict=True):
            assert (beat["sample"], beat["flags"]) == (expected["sample"], expected["flags"])
            assert np.array_equal(beat["probabilities"], expected["probabilities"])
    (told,) = in_node(played([["push", one], ["gap", 900 * FS_HZ + 13], ["push", other], ["finish"]]), packages=RUNNER)
    beats = [beat[0] for step in told["told"] for beat in step["beats"]]
    assert beats == [beat["sample"] for beat in found[0]["beats"]]


def test_the_recorders_own_numbers_say_what_was_left_out() -> None:
    one = signal("NNNNV" * 24, 5)
    cut, left = 20 * FS_HZ, 3 * FS_HZ
    steps = [
        ["push", one[:cut], {"atSample": 0}],
        ["push", one[cut + left :], {"atSample": cut + left}],
        ["push", one[:9], {"atSample": 5}],  # the clock was set back
        ["push", one[:9], {"atSample": len(one) + WEEK + 1}],
        ["push", one[:9], {"atSample": len(one) + 0.5}],
        ["push", one[:9], {"atSample": -1}],
        ["push", one[:9], {"atSample": len(one)}],
        ["gap", WEEK + 1],
        ["gap", -1],
        ["gap", 1.5],
        ["finish"],
    ]
    told = same_steps(steps, at_least=100)
    assert told[2]["refused"] == (
        f"atSample: is 5, and {len(one)} samples have come; expected a whole number, {len(one)} or more; "
        "begin another stream where the recorder's clock was set back"
    )
    assert told[3]["refused"] == f"gap: of {WEEK + 1} samples; expected 0 to 7 days"
    assert [bool(one.get("refused")) for one in told] == [False, False, *[True] * 4, False, *[True] * 3, False]


NAN = {"number": "NaN"}


def typed(kind: str, *values: float) -> dict[str, Any]:
    return {"typed": kind, "values": list(values)}


#: Leads, what is pushed, and how many samples are taken of it; or what is said of it.
PUSHED: list[tuple[int, Any, int | str]] = [
    (1, [0.5], 1),
    (1, [0.5, NAN, 0.25], 3),
    (1, [[0.5, 0.25]], 2),
    (1, [], 0),
    (1, [[]], 0),
    (1, typed("Float64Array", 0.5, 0.25), 2),
    (1, typed("Float32Array", 0.5), 1),
    (1, [typed("Float32Array", 0.5)], 1),
    (2, [[0.5, 0.1], [0.2, 0.3]], 2),
    (2, [[], []], 0),
    (2, [typed("Float64Array", 0.5), [0.25]], 1),
    (1, [[0.5], [0.5]], "shape (2, 1); expected (samples,) of one lead"),
    (2, [0.5, 0.25], "shape (2,); expected (2, samples)"),
    (2, [], "shape (0,); expected (2, samples)"),
    (2, [[0.5]], "shape (1, 1); expected (2, samples)"),
    (2, [[0.5], [0.5], [0.5]], "shape (3, 1); expected (2, samples)"),
    (2, typed("Float64Array", 0.5, 0.25), "shape (2,); expected (2, samples)"),
    (2, [[0.5], [0.5, 0.25]], "rows of 1 and 2 samples; expected (2, samples)"),
    (2, [[0.5], 0.5], "rows and single values; expected (2, samples)"),
    (1, [["0.5"]], "sample 0 is the text '0.5'; expected a number in millivolt"),
    (1, ["0.5"], "sample 0 is the text '0.5'; expected a number in millivolt"),
    (1, "0.5", "is the text '0.5'; expected (samples,) of one lead"),
    (1, [None], "sample 0 is null; expected a number in millivolt"),
    (1, [0.5, {"nothing": True}], "sample 1 is undefined; expected a number in millivolt"),
    (1, [True], "sample 0 is boolean true; expected a number in millivolt"),
    (1, {"nothing": True}, "is undefined; expected (samples,) of one lead"),
    (1, None, "is null; expected (samples,) of one lead"),
    (1, 5, "is number 5; expected (samples,) of one lead"),
    (1, {"a": 1}, "is an object; expected (samples,) of one lead"),
    (1, [[[0.5]]], "sample 0 is an object"),
    *[
        (1, typed(kind, 1, 2), f"values of type {kind}; expected millivolts in floating point")
        for kind in ("Int8Array", "Uint8Array", "Int16Array", "Uint16Array", "Int32Array", "BigInt64Array")
    ],
    (1, [typed("Int16Array", 1)], "values of type Int16Array; expected millivolts in floating point"),
    (2, [typed("Int16Array", 1), typed("Int16Array", 1)], "values of type Int16Array; expected millivolt"),
    (2, typed("Int16Array", 1, 2), "values of type Int16Array; expected millivolts in floating point"),
]


def test_what_a_stream_takes_and_refuses() -> None:
    """One line each; what was refused leaves the stream as it was."""
    jobs = [played([["push", given], ["push", [[0.0]] * leads]], leads=leads) for leads, given, _ in PUSHED]
    for (_, given, expected), found in zip(PUSHED, in_node(*jobs, packages=RUNNER), strict=True):
        first, second = found["told"]
        assert "failed" not in first, given
        if isinstance(expected, int):
            assert (first.get("refused"), first["seen"]) == (None, expected), given
        else:
            assert expected in first["refused"], given
            assert first["refused"].startswith("samples: ")
            assert "\n" not in first["refused"]
            assert first["seen"] == 0
        assert second["seen"] == first["seen"] + 1


@pytest.mark.parametrize("size", [90, 7000])
def test_a_model_that_fails_once_costs_its_own_beats_and_no_numbers(size: int) -> None:
    one = signal("NNNNV" * 30, 6)
    (found,) = in_node(own("failing", {"bundle": str(MODEL)}, FS_HZ, one, size), packages=RUNNER)
    whole, failing = found["whole"]["beats"], found["failing"]["beats"]
    assert (found["whole"]["failed"], found["failing"]["failed"]) == (0, 1)
    assert 0 < len(whole) - len(failing) < 50
    assert all(beat in whole for beat in failing)
    assert failing[-1] == whole[-1]


def test_streams_that_cannot_be_are_refused_in_one_line() -> None:
    asked: list[tuple[dict[str, Any], str]] = [
        ({"fsHz": 360, "leads": 1.5}, "lead: is 0 of 1.5; expected 0 to one less than the number of leads"),
        ({"fsHz": 360, "leads": 0}, "lead: is 0 of 0; expected 0 to one less"),
        ({"fsHz": 360, "leads": 2, "lead": 2}, "lead: is 2 of 2"),
        ({"fsHz": 360, "leads": 2, "lead": -1}, "lead: is -1 of 2"),
        ({"fsHz": 360, "leads": "2"}, "lead: is 0 of 2"),
        ({"fsHz": 1e9}, "fsHz: sampling frequency 1000000000 Hz; expected 100 to 20000 Hz"),
        ({"fsHz": 50}, "fsHz: sampling frequency 50 Hz"),
        ({"fsHz": "360"}, "fsHz: sampling frequency 360 Hz"),
        ({"fsHz": NAN}, "fsHz: sampling frequency NaN Hz"),
        ({}, "fsHz: sampling frequency undefined Hz"),
        ({"nothing": True}, "fsHz: sampling frequency undefined Hz"),
        ({"fsHz": 360, "railsMv": ["5"]}, "railsMv: sample 0 is the text '5'"),
    ]
    (found,) = in_node(own("made", {"bundle": str(MODEL)}, [one for one, _ in asked]), packages=RUNNER)
    for (given, said), one in zip(asked, found, strict=True):
        assert said in one["refused"], given
    classifier = open_bundle(MODEL).classifier()
    for given, _ in asked[:7]:
        how = {name: value for name, value in given.items() if name != "fsHz"}
        with pytest.raises(RecordError):
            StreamClassifier(classifier, given["fsHz"], **how)


def test_recordings_that_are_none_are_refused_in_one_line() -> None:
    lead = [0.0] * 3600
    asked: list[tuple[Any, str]] = [
        ({"nothing": True}, "recording: is undefined; expected { fsHz, signalsMv, leads }"),
        (None, "recording: is null; expected { fsHz, signalsMv, leads }"),
        ("208", "recording: is string; expected { fsHz, signalsMv, leads }"),
        ({}, "recording: sampling frequency undefined Hz; expected 100 to 20000 Hz"),
        ({"fsHz": 360}, "recording: signalsMv: undefined; expected an array with a row for each lead"),
        ({"fsHz": 360, "signalsMv": lead}, "recording: signalsMv: shape (3600,); expected an array with a row"),
        ({"fsHz": 360, "signalsMv": typed("Float64Array", 1)}, "recording: signalsMv: shape (1,); expected an array"),
        ({"fsHz": 360, "signalsMv": []}, "recording: holds no samples"),
        ({"fsHz": 360, "signalsMv": [typed("Int16Array", 1, 2)]}, "row 0 of signalsMv: values of type Int16Array"),
        ({"name": "a", "fsHz": 360, "signalsMv": [["x"]]}, "a, row 0 of signalsMv: sample 0 is the text 'x'"),
        ({"fsHz": 1e9, "signalsMv": [lead]}, "sampling frequency 1000000000 Hz; expected 100 to 20000 Hz"),
    ]
    (found,) = in_node(own("classifying", {"bundle": str(MODEL)}, [one for one, _ in asked]), packages=RUNNER)
    for (given, said), one in zip(asked, found, strict=True):
        assert said in one.get("refused", one), given


def test_a_bundle_without_onnx_runtime_is_one_line() -> None:
    options: list[Any] = [{"nothing": True}, {}, {"ort": {}}, {"ort": None}]
    for path in (str(MODEL), "bundle.zip", "nowhere"):
        (found,) = in_node(own("opening", path, options))
        for one in found:
            assert one["refused"].startswith("ort: is not ")
            assert one["refused"].endswith(
                'pass onnxruntime-node (in a page onnxruntime-web): import * as ort from "onnxruntime-node"'
            )
