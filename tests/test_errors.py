"""One error in two voices: the command line's options, and Python's parameters."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from ecgfed_cli.main import app
from ecgfed_cli.spelling import _commands, _parameters

import ecgfed
from ecgfed.base.deprecation import EcgfedDeprecation
from ecgfed.base.errors import CODES, EcgfedError, OptionError, RecordError, param, spelling
from ecgfed.domain.cohort.problems import UnusableError
from ecgfed.domain.record.leads import NoLeadError
from ecgfed.domain.record.reader import check_annotator, read_annotation, read_recording
from ecgfed.domain.record.recording import Annotation, Recording, read_options
from ecgfed.network.errors import REASONS, SiteError

PACKAGE = Path(ecgfed.__file__).parent


def test_parameters_are_spelled_as_in_a_call_or_as_somebody_else_wants() -> None:
    error = OptionError("mains_hz", "70", "50 or 60", f"pass {param('download=True')} or {param('class_mix=FILE')}")
    with spelling(lambda name, value: f"<{name} {value}>"):
        assert str(error) == "<mains_hz >: 70; expected 50 or 60; pass <download True> or <class_mix FILE>"
        assert error.action == "pass <download True> or <class_mix FILE>"
    assert str(error) == "mains_hz: 70; expected 50 or 60; pass download=True or class_mix=FILE"
    assert error.line == str(error)
    assert (error.where, error.reason, error.expected) == ("mains_hz", "70", "50 or 60")


def test_what_a_file_is_called_is_no_parameter() -> None:
    for name in ("{leads}.csv", "my--lead.csv", "/a/--lead/b.csv", "leads"):
        error = RecordError(name, "is empty")
        with spelling(lambda name, value: "x"):
            assert (error.where, error.parameter) == (name, None)


def test_the_pages_example_reads_a_file_without_a_sampling_frequency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (PACKAGE.parent / "docs" / "errors.md").read_text(), re.DOTALL)
    rows = "\n".join(f"{0.1 * (number % 50 == 0):.3f}" for number in range(1000))
    (tmp_path / "holter.csv").write_text(f"MLII (mV)\n{rows}\n")
    monkeypatch.chdir(tmp_path)
    names = {"ecgfed": ecgfed}
    exec(code, names)
    assert names["recording"].fs_hz == 250  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("where", "action", "parameter"),
    [
        ("out", f"pass {param('overwrite=True')}", "out"),
        (f"{param('config')} a.toml", "", "config"),
        ("a.csv", f"leave {param('fs_hz')} out, or {param('units')}", "fs_hz"),
        ("BUNDLE", "", None),
        (Path("leads"), "", None),
    ],
)
def test_the_parameter_is_in_where_else_the_first_of_the_action(
    where: object, action: str, parameter: str | None
) -> None:
    assert OptionError(where, "is wrong", action=action).parameter == parameter


def test_an_error_survives_a_worker_with_all_it_carries() -> None:
    errors: list[EcgfedError] = [
        OptionError("mains_hz", "70", "50 or 60", code="unknown-choice"),
        UnusableError("folder", [("a", "a is empty"), ("b", "b is")], 3),
        SiteError("privacy", "run", "is too much", action=f"more {param('dp_noise')}"),
        NoLeadError("r", "has no lead", action=f"name one with {param('leads')}"),
    ]
    errors[3].ecg = ("II",)  # type: ignore[attr-defined]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
        with spelling(lambda name, value: f"--{name}"):
            assert str(again) == str(error)


def _keywords(name: str) -> Iterator[str]:
    """Yield each constant that is passed as a keyword, or set in a class, anywhere in the package."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield from (k.value.value for k in node.keywords if k.arg == name and isinstance(k.value, ast.Constant))


def test_every_code_is_listed_and_every_listed_code_is_used() -> None:
    classes, defaults = [EcgfedError], set()
    while classes:
        kind = classes.pop()
        defaults.add(kind.default_code)
        classes += kind.__subclasses__()
    assert defaults | {code for code in _keywords("code") if code in CODES} == set(CODES)
    assert {code for code in _keywords("code") if "-" in str(code)} <= set(CODES)
    assert not set(CODES) & set(REASONS) - {"storage"}


def test_the_page_of_errors_lists_the_codes() -> None:
    page = (PACKAGE.parent / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert {code.strip("`"): text for code, text in rows} == CODES
    assert all(f"`{code}`" in page for code in REASONS)


def test_every_marked_parameter_is_one_of_a_command() -> None:
    """So that no message of the command line names what cannot be typed."""
    pattern = re.compile(r"""param\(['"](\w+)|OptionError\(\s*"([a-z_0-9]+)",""")
    named = {a or b for path in PACKAGE.rglob("*.py") for a, b in pattern.findall(path.read_text(encoding="utf-8"))}
    commands = list(_commands(typer.main.get_command(app)))
    known = {name for name in named if any(_parameters(command, name) for command in commands)}
    # of Python alone: the database that a command is called after, the label page's form, reading options as one, the
    # script of web/live, and of the page of serve: files that are sent, the seconds of a replay; your own functions,
    # arrays and executor, a table of predictions, and a stream's early answers
    own = {"augmentation", "callbacks", "lr_schedule", "predictions", "sampler", "executor"}
    own |= {"X", "y", "client", "time", "gap", "early"}
    assert named - known == {"database", "files", "form", "how", "ort", "predict", "recording", "seconds"} | own
    assert len(known) > 90


def test_the_former_name_of_the_reason_still_works() -> None:
    with pytest.warns(EcgfedDeprecation, match=r"EcgfedError\.found is deprecated since ecgfed 0\.3 .* use reason"):
        error = OptionError("mains_hz", found="70", expected="50 or 60")
    assert error.reason == "70"
    with pytest.warns(EcgfedDeprecation, match="use reason"):
        assert error.found == "70"


def test_what_a_library_quotes_is_cut() -> None:
    error = OptionError("mains_hz", "7" * 10_000, "50 or 60", "do so")
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
