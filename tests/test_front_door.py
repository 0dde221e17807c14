"""``import ecgfed``: light, lazy, typed, and the same whatever else has been imported."""

import ast
import inspect
import json
import subprocess
import sys
import types
import typing
from importlib import import_module
from pathlib import Path

import pytest

import ecgfed

FRONT = Path(ecgfed.__file__)
#: What ``import ecgfed`` loads of our own: the old import paths are known from the beginning.
FRONT_MODULES = {"ecgfed", "ecgfed.base", "ecgfed.base.aliases"}
VERBS = sorted(name for name in ecgfed.__all__ if isinstance(getattr(ecgfed, name), types.FunctionType))


def fresh(code: str) -> typing.Any:
    """What a fresh interpreter prints, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_it_loads_the_standard_library_at_most() -> None:
    code = "import sys, json; before = set(sys.modules); import ecgfed; "
    new = set(fresh(code + "print(json.dumps(sorted(set(sys.modules) - before)))"))
    assert {name for name in new if name.split(".")[0] == "ecgfed"} == FRONT_MODULES
    others = {name.split(".")[0] for name in new} - {"ecgfed"}
    assert others <= sys.stdlib_module_names, others - sys.stdlib_module_names


def test_dir_lists_what_it_offers_without_loading_it() -> None:
    names, loaded = fresh(
        "import sys, json, ecgfed; print(json.dumps([dir(ecgfed), [m for m in sys.modules if 'ecgfed.' in m]]))"
    )
    assert set(ecgfed.__all__) | {"__version__"} <= set(names)
    assert set(loaded) == FRONT_MODULES - {"ecgfed"}


def test_a_type_of_a_device_brings_no_torch() -> None:
    loaded = fresh("import sys, json, ecgfed; ecgfed.predict, ecgfed.open_bundle; print(json.dumps(list(sys.modules)))")
    assert "ecgfed.tasks.predict" in loaded
    assert not {"torch", "wfdb", "pandas", "sklearn", "onnx", "matplotlib"} & {name.split(".")[0] for name in loaded}


def typed_names() -> dict[str, str]:
    """What a type checker sees: name -> module, from the stub."""
    found = {}
    for node in ast.parse(FRONT.with_suffix(".pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1
            assert all(alias.asname == alias.name for alias in node.names)
            found.update({alias.name: f"ecgfed.{node.module}" for alias in node.names})
    return found


def test_what_a_type_checker_sees_is_what_there_is() -> None:
    typed = typed_names()
    assert set(typed) == {*ecgfed.__all__, "LongRecording", "Watch"}  # deprecated
    assert sorted(ecgfed.__all__) == sorted(set(ecgfed.__all__))
    for name, module in typed.items():
        assert getattr(ecgfed, name) is getattr(import_module(module), name), name


def test_star_brings_all_of_it() -> None:
    space: dict[str, object] = {}
    exec("from ecgfed import *", space)
    assert set(ecgfed.__all__) <= set(space)


def test_what_is_not_there_is_said_with_what_is() -> None:
    with pytest.raises(AttributeError) as refused:
        ecgfed.trian  # noqa: B018
    assert "'ecgfed' has no attribute 'trian'" in str(refused.value)
    assert "train" in str(refused.value)
    with pytest.raises(ImportError, match="nothing_of_ours"):
        exec("from ecgfed import nothing_of_ours")
    assert not hasattr(ecgfed, "__wrapped__")  # what tools ask every object for


def test_no_import_replaces_a_verb() -> None:
    """Importing a module binds its name in the folder above: no folder may be called what a verb is called."""
    inside = {path.stem for path in FRONT.parent.iterdir()}
    assert "tasks" in inside
    assert not inside & set(ecgfed.__all__)
    replaced, imported = fresh(
        "import importlib, json, pkgutil, types, ecgfed\n"
        "names = [m.name for m in pkgutil.walk_packages(ecgfed.__path__, 'ecgfed.')]\n"
        "for name in names:\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError as error:\n"
        "        assert error.name.split('.')[0] in ('flwr', 'fastapi', 'httpx'), name\n"
        "print(json.dumps([[n for n in ecgfed.__all__ if not callable(getattr(ecgfed, n))], names]))"
    )
    assert replaced == []
    assert {"ecgfed.tasks.train", "ecgfed.exports.device.bundle", "ecgfed.core.runs.run"} <= set(imported)


def test_signatures_are_typed_and_paths_may_be_strings() -> None:
    assert {"train", "predict", "evaluate", "export", "personalize", "prepare_folder"} <= set(VERBS)
    for name in VERBS:
        verb = getattr(ecgfed, name)
        hints = typing.get_type_hints(verb)
        parameters = inspect.signature(verb).parameters
        assert set(hints) == {*parameters, "return"}, name
        for parameter, hint in hints.items():
            assert hint is not typing.Any, (name, parameter)
            kinds = typing.get_args(hint) or (hint,)
            assert parameter == "return" or Path not in kinds or str in kinds, (name, parameter)


def test_docstrings_name_every_argument() -> None:
    for name in VERBS:
        verb = getattr(ecgfed, name)
        lines = [line.strip() for line in inspect.cleandoc(verb.__doc__).splitlines()]
        for parameter in inspect.signature(verb).parameters:
            assert any(line.startswith(f"{parameter}: ") for line in lines), (name, parameter)
        assert "Raises:" in lines, name


#: As a reader types it at the top of a file, with no guard: a worker process must not run it again.
SCRIPT = """
import sys
import ecgfed
print("began")
cohort = ecgfed.prepare_folder(sys.argv[1], sys.argv[2], workers=2)
print(repr(cohort))
"""


def test_a_script_without_a_guard_prepares_with_several_workers(records: Path, tmp_path: Path) -> None:
    assert len(list(records.glob("*.hea"))) >= 4  # fewer are read in one process
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", records, "made"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    made, alone = ecgfed.open_cohort(tmp_path / "made"), ecgfed.prepare_folder(records, tmp_path / "alone", workers=1)
    assert done.stdout.splitlines() == ["began", repr(made).replace(f"{tmp_path}/", "")]
    assert made.fingerprint == alone.fingerprint
