"""The public interface as a file: names of the Python API with their signatures, commands with their options.

    python tests/public_api.py            # records what is new in docs/ecgfed-api.json and docs/deprecations.md
    python tests/public_api.py --remove   # and what is gone: allowed after its deprecation (docs/versions.md)

A parameter with ``=`` has a default; default values may change between minor versions and are not recorded.
"""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from pathlib import Path
from typing import Any, TypedDict

import typer
from ecgfed_cli.main import app

import ecgfed
from ecgfed.base import deprecation

ROOT = Path(__file__).resolve().parent.parent
FILE, PAGE = ROOT / "docs" / "ecgfed-api.json", ROOT / "docs" / "deprecations.md"
MODULES = ("ecgfed", "ecgfed.device", "ecgfed.methods", "ecgfed.testing")
PAGE_HEAD = """# Deprecated names

Names of version 0.2 that have a new name. They still work, with a warning, until the version in the third column.
`python tests/public_api.py` writes this page from the code. Modules that moved are listed in
[`ecgfed/base/aliases.py`](../ecgfed/base/aliases.py). [What a version number promises](versions.md).

| deprecated | since | removed in | use instead |
| --- | --- | --- | --- |
"""


class Interface(TypedDict):
    """What is frozen: dotted name -> signature, and command -> its arguments and options."""

    python: dict[str, str]
    commands: dict[str, list[str]]


def signature(function: object) -> str:
    """Return parameters without types: ``(cohort, out, *, rounds=)``; ``value`` for what has no signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "value"
    parts, star = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        prefix = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        parts.append(f"{prefix}{one.name}{'' if one.default is one.empty else '='}")
    return f"({', '.join(parts)})"


def members(kind: type) -> dict[str, str]:
    """Return the public attributes and methods of a class, those of ecgfed's own base classes included."""
    found = (
        dict.fromkeys((one.name for one in dataclasses.fields(kind)), "value") if dataclasses.is_dataclass(kind) else {}
    )
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("ecgfed"):
            for name, member in vars(base).items():
                if name.startswith("_") or type(member).__name__ == "_Renamed" or name in found:
                    continue
                inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                found[name] = signature(inner) if inspect.isfunction(inner) else "value"
    return found


def python_names() -> dict[str, str]:
    """Return every public name of the modules with its signature, members of classes below them."""
    found: dict[str, str] = {}
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            found[f"{module}.{name}"] = signature(value) if callable(value) else "value"
            if inspect.isclass(value) and value.__module__.startswith("ecgfed"):
                found |= {f"{module}.{name}.{member}": how for member, how in members(value).items()}
    return dict(sorted(found.items()))


def commands(group: Any = None, path: str = "ecgfed") -> dict[str, list[str]]:
    """Return every command that is not hidden, with its arguments in order and its options by name."""
    found: dict[str, list[str]] = {}
    for name, command in sorted((group or typer.main.get_command(app)).commands.items()):
        if getattr(command, "hidden", False):
            continue
        whole = f"{path} {name}"
        if hasattr(command, "commands"):
            found |= commands(command, whole)
            continue
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        arguments = [str(one.name).upper() for one in shown if one.param_type_name == "argument"]
        options = {
            label for one in shown if one.param_type_name == "option" for label in (*one.opts, *one.secondary_opts)
        }
        found[whole] = [*arguments, *sorted(options - {"--help", "-h"})]
    return found


def interface() -> Interface:
    """Return the interface of the installed ecgfed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"python": python_names(), "commands": commands()}


def parts(text: str) -> tuple[list[str], dict[str, bool], set[str]]:
    """Return of a signature: positional names in order, every name with whether it is required, and its ``*``s."""
    positional, required, stars, keyword = [], {}, set(), False
    for one in filter(None, text.strip("()").split(", ")):
        if one.startswith("*"):
            keyword = keyword or not one.startswith("**")
            stars |= {one} - {"*"}
            continue
        name = one.removesuffix("=")
        required[name] = name == one
        if not keyword:
            positional.append(name)
    return positional, required, stars


def breaks(old: str, new: str) -> bool:
    """Return whether a call that an old signature allows may fail with the new one."""
    if "value" in (old, new) or old == new:
        return old != new
    (before, was, stars), (after, now, stars_now) = parts(old), parts(new)
    new_names = now.keys() - was.keys()
    return (
        after[: len(before)] != before
        or not was.keys() <= now.keys()
        or not {star[:2] == "**" for star in stars} <= {star[:2] == "**" for star in stars_now}
        or any(now[name] and not was[name] for name in was)
        or any(now[name] for name in new_names)
    )


def removed(old: Interface, new: Interface) -> list[str]:
    """Return what a program or script that uses ``old`` may miss in ``new``."""
    lost = [
        f"{name}{old_signature} -> {new['python'][name]}" if name in new["python"] else name
        for name, old_signature in old["python"].items()
        if name not in new["python"] or breaks(old_signature, new["python"][name])
    ]
    for command, options in old["commands"].items():
        if command not in new["commands"]:
            lost.append(command)
        else:
            lost += [f"{command} {one}" for one in options if one not in new["commands"][command]]
    return lost


def deprecations() -> str:
    """Return the page of deprecated names, from the marks in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(ecgfed.__path__, "ecgfed."):
            if not module.name.startswith("ecgfed.network"):  # nothing public, and needs Flower
                importlib.import_module(module.name)
    rows = {
        f"| `{one.what}` | v{one.since} | v{one.removed} | `{one.instead}` |"
        for one in deprecation.REGISTER
        if one.what.startswith("ecgfed.")
    }
    return PAGE_HEAD + "\n".join(sorted(rows)) + "\n"


def as_text(found: Interface) -> str:
    """Return the interface as the text of its file."""
    return json.dumps(found, indent=1) + "\n"


def main() -> None:
    found = interface()
    known: Interface = json.loads(FILE.read_text("utf-8")) if FILE.is_file() else {"python": {}, "commands": {}}
    if (lost := removed(known, found)) and "--remove" not in sys.argv:
        sys.exit("removed or changed, allowed only after a deprecation (docs/versions.md):\n" + "\n".join(lost))
    FILE.write_text(as_text(found), "utf-8")
    PAGE.write_text(deprecations(), "utf-8")
    print(f"{len(found['python'])} names, {len(found['commands'])} commands: {FILE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
