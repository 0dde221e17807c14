"""The reference of what is public: pages that mkdocstrings fills from docstrings."""

import importlib
import inspect
from collections.abc import Iterable

import ecgfed

#: page -> title, what it is for, the module whose ``__all__`` it shows
_MODULES = {
    "device": ("On a device", "Needs NumPy and ONNX Runtime, never torch.", "ecgfed.device"),
    "testing": ("Checks for code of your own", "How to use them: [add a method](../extend.md).", "ecgfed.testing"),
}
#: page -> title, what it is for, modules shown as they are
_FILES = {
    "methods": (
        "Writing a method",
        "Hooks, communication spec and settings of a federated method. Step by step: [add a method](../extend.md).",
        (
            "ecgfed.core.methods.base",
            "ecgfed.core.methods.interface",
            "ecgfed.core.methods.communication",
            "ecgfed.core.methods.settings",
            "ecgfed.core.methods.models",
        ),
    ),
    "errors": ("Errors", "What is raised where input is at fault.", ("ecgfed.base.errors",)),
}


_WHOLE = {module for _, _, modules in _FILES.values() for module in modules}
#: what has its place on a page already: shown once, a link elsewhere
_shown_already: set[str] = set()


def reference_pages() -> dict[str, str]:
    """Return the Markdown of every page of the reference, by its place on the site."""
    _shown_already.clear()
    verbs = [name for name in ecgfed.__all__ if name.islower()]
    types = [name for name in ecgfed.__all__ if not name.islower()]
    pages = {
        "verbs": _page("The verbs", "`import ecgfed` loads nothing until something is asked for.", "ecgfed", verbs),
        "types": _page("What verbs take and give", "Each prints in a line.", "ecgfed", types),
    }
    for page, (title, about, module) in _MODULES.items():
        pages[page] = _page(title, about, module, importlib.import_module(module).__all__)
    for page, (title, about, modules) in _FILES.items():
        pages[page] = f"# {title}\n\n{about}\n\n" + "\n\n".join(f"::: {module}" for module in modules) + "\n"
    return {f"reference/{page}.md": text for page, text in pages.items()}


def _page(title: str, about: str, module: str, names: Iterable[str]) -> str:
    """A page of some names of a module, each under the name a user writes; what is shown elsewhere as a link."""
    return "\n\n".join([f"# {title}", about, *(_shown(module, name) for name in names)]) + "\n"


def _shown(module: str, name: str) -> str:
    value, heading = getattr(importlib.import_module(module), name), f"{module}.{name}"
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"## `{heading}`\n\n`{value!r}`"
    path = f"{value.__module__}.{value.__qualname__}"
    if path in _shown_already or value.__module__ in _WHOLE:
        return f"## `{heading}`\n\nSee [`{path}`][{path}]."
    _shown_already.add(path)
    return f'::: {path}\n    options:\n      heading: "{heading}"\n      toc_label: "{heading}"'
