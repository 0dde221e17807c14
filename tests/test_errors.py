"""One error in two voices: the command line's options, and Python's parameters."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from ecgfed.base.deprecation import EcgfedDeprecation
from ecgfed.base.errors import EcgfedError, OptionError, RecordError, in_python
from ecgfed.domain.record.reader import check_annotator, read_annotation, read_recording
from ecgfed.domain.record.recording import Annotation, Recording, read_options


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--lead: is empty; expected names", "leads: is empty; expected names"),
        ("--class-mix: missing; pass --class-mix FILE", "class_mix: missing; pass class_mix=FILE"),
        ("runs/a: exists; pass --resume or --overwrite", "runs/a: exists; pass resume=True or overwrite=True"),
        ("--resume and --overwrite: both given", "resume and overwrite: both given"),
        (
            "x: stopped; go on with ecgfed train c --out x --resume",
            "x: stopped; go on with ecgfed train c --out x --resume",
        ),
        ("--global: 'x'; expected ensemble", "protocol: 'x'; expected ensemble"),
        ("my--lead.csv: no --fs", "my--lead.csv: no fs_hz"),
        ("/a/--lead/b.csv: an em-dash -- here", "/a/--lead/b.csv: an em-dash -- here"),
    ],
)
def test_options_are_parameters_in_python(line: str, said: str) -> None:
    assert in_python(line) == said


def test_an_error_keeps_both_and_survives_a_worker() -> None:
    error = OptionError("--mains", "70", "50 or 60", "pass --download")
    assert error.line == "--mains: 70; expected 50 or 60; pass --download"
    assert str(error) == "mains_hz: 70; expected 50 or 60; pass download=True"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.line, str(again)) == (OptionError, error.line, str(error))


def test_the_former_name_of_the_reason_still_works() -> None:
    with pytest.warns(EcgfedDeprecation, match=r"EcgfedError\.found is deprecated since ecgfed 0\.3 .* use reason"):
        error = OptionError("--mains", found="70", expected="50 or 60")
    assert error.reason == "70"
    with pytest.warns(EcgfedDeprecation, match="use reason"):
        assert error.found == "70"


def test_what_a_library_quotes_is_cut() -> None:
    error = OptionError("--mains", "7" * 10_000, "50 or 60", "do so")
    assert len(error.line) < 700
    assert error.line.endswith("777...; expected 50 or 60; do so")


def test_what_a_file_leaves_open_has_one_type() -> None:
    assert read_options(None).fs_hz is None
    with pytest.raises(OptionError, match=r"^how: \{'fs_hz': 360\}; expected ReadOptions"):
        read_options({"fs_hz": 360})  # type: ignore[arg-type]


@pytest.mark.parametrize("annotator", ["", ".atr", "a/b", ".."])
def test_an_annotator_is_a_suffix_without_its_dot(annotator: str) -> None:
    with pytest.raises(EcgfedError, match=r"^annotator: "):
        check_annotator(annotator)


def test_an_annotation_is_read_from_a_path_too(records: Path) -> None:
    by_path, by_text = read_annotation(records / "p1"), read_annotation(str(records / "p1"))
    known = read_annotation(read_recording(records / "p1"))
    assert known.sample.tolist() == by_path.sample.tolist() == by_text.sample.tolist()
    with pytest.raises(RecordError, match="p9"):
        read_annotation(records / "p9")


def test_objects_with_arrays_can_be_compared_and_kept_in_sets() -> None:
    one, two = (Annotation(np.arange(3), np.array(["N", "V", "N"])) for _ in range(2))
    assert one == one
    assert one != two
    recording = Recording("a", Path("a"), "II", ("II",), 360.0, np.zeros((1, 10)), ())
    assert len({one, two, recording, recording}) == 3


def test_a_line_stays_short_whatever_a_file_names() -> None:
    """A name of a million characters, from an index that anybody may have written."""
    error = EcgfedError("run/" + "x" * 1_000_000 + ".json", "y" * 1_000_000, "z" * 1_000_000, "restore it")
    assert len(error.line) < 2000
    assert error.line.startswith("run/xxx")
    assert ".json: yyy" in error.line
    assert error.line.endswith("; restore it")
    usual = "f/" * 300 + "record.hea"
    assert EcgfedError(usual, "is empty").where == usual
