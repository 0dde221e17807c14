"""A page for each registered method: its words and equations, source, settings, what travels, its results."""

import re
import sys
from collections.abc import Sequence

from equations import with_equations
from repository import DOCS, ROOT
from tables import table

from ecgfed.base.options import Option as Setting
from ecgfed.core.federation.method_summary import MethodSummary, summarize_method
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import ALWAYS_SENT, Entry
from ecgfed.core.methods.registry import methods

_WHOSE = {"everybody": "everybody, the same", "addressee": "made for this client", "another": "as that client sent it"}
_KNOWN = {"never": "no", "as it is": "yes, it goes up as it is", "in effect": "yes, it can work it out"}


def method_pages() -> dict[str, str]:
    """Return the Markdown of every method's page, by its place on the site."""
    tables = result_tables((DOCS / "results.md").read_text())
    return {f"methods/{name}.md": _page(summarize_method(kind), kind, tables) for name, kind in methods().items()}


def _page(about: MethodSummary, kind: type[Method], tables: Sequence[tuple[str, list[str]]]) -> str:
    file = str(sys.modules[kind.__module__].__file__)
    source = file.removeprefix(f"{ROOT}/")
    kept = "what a patient keeps beside it, if anything, stands [below](#what-travels)"
    ensemble = "no model for everybody: an ensemble stands in"
    model = f"one model for everybody; {kept}" if about.has_global_model else ensemble
    fits = "fit" if about.averages else "do not fit, since its aggregate is no weighted mean of weights"
    parts = [
        f"# `{about.name}`",
        f"**{about.card.title}** ({about.card.reference}). It trains {model}.",
        f"```text\necgfed train cohort --method {about.name} --out run\n```",
        "## What it does",
        _with_links(with_equations(about.text)),
        f"Source: `{source}`. `--aggregation` and `--dp-clip` {fits} ([privacy](../privacy.md#differential-privacy)). "
        "What the paper leaves open and how it is settled here: [all methods](../methods.md).",
        "## What travels",
        _stays(about),
        _travels(about),
        _bytes(about),
        "## Settings",
        "`--set NAME=VALUE` on the command line, `[set]` in a TOML file.",
        table(("setting", "default", "allowed", "meaning"), [_setting(one) for one in about.settings]),
        *_results(about, tables),
    ]
    return "\n\n".join(parts) + "\n"


def _with_links(text: str) -> str:
    """Return a docstring's text with the pages it names as links."""
    return re.sub(r"\bdocs/([\w-]+\.md)", r"[docs/\1](../\1)", text)


def with_method_links(text: str) -> str:
    """Return the page of all methods with each name in a table's first cell as a link to its page."""
    known = methods()

    def linked(name: re.Match[str]) -> str:
        return f"[{name[0]}](methods/{name[1]}.md)" if name[1] in known else name[0]

    return re.sub(r"^\|[^|]+\|", lambda cell: re.sub(r"`([\w-]+)`", linked, cell[0]), text, flags=re.MULTILINE)


def _stays(about: MethodSummary) -> str:
    """Say that recordings stay, and with which settings beats of them do not."""
    leaving = [one for one in about.full_card.down if one.form == "beats"]
    but = [f"but with {_when(one)} {one.what} travel to every client" for one in leaving]
    return "; ".join(["Recordings stay with their patient", *but]) + "."


def _travels(about: MethodSummary) -> str:
    card = about.full_card
    down = [("the server sends", one.what, _WHOSE[one.scope], _when(one)) for one in card.down]
    up = [("a client sends back", one.what, "", _when(one)) for one in (*card.up, *card.metrics)]
    up += [("a client sends back", what, "", "always") for what in ALWAYS_SENT.values()]
    kept = [
        ("a client keeps", one.what, f"the server knows it: {_KNOWN[one.known]}", _when(one)) for one in card.stores
    ]
    rows = down + up + (kept or [("a client keeps", "nothing but its recordings", "", "always")])
    return table(("which way", "what", "whose", "when"), list(dict.fromkeys(rows)))


def _bytes(about: MethodSummary) -> str:
    cost = about.cost
    rows = [
        ("first round", f"{cost.first_down_bytes:,}", f"{cost.first_up_bytes:,}"),
        ("a late round", f"{cost.down_bytes:,}", f"{cost.up_bytes:,}"),
    ]
    return (
        "Bytes of a client's round, with the default net, 12 classes and the method's own settings. A local step on 64 "
        f"beats takes {cost.step_flops / 1e6:,.0f} million operations.\n\n" + table(("bytes", "down", "up"), rows)
    )


def _when(entry: Entry) -> str:
    return ", ".join(f"`{condition}`" for condition in entry.condition) or "always"


def _setting(one: Setting) -> tuple[str, str, str, str]:
    default = str(one.default).lower() if one.default is None or isinstance(one.default, bool) else one.default
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"`{one.name}`", f"`{shown}`", one.allowed, with_equations(one.meaning)


def _results(about: MethodSummary, tables: Sequence[tuple[str, list[str]]]) -> list[str]:
    """The method's rows of the results page, each table under its section's name; nothing where it has none."""
    found = []
    for section, lines in tables:
        rows = [line for line in lines[2:] if _is_of(line.split("|")[1].strip(), about)]
        if rows:
            found += [f"### {section}", "\n".join([*lines[:2], *rows])]
    return (
        ["## Its rows of the results", "From [the results](../results.md), where each is explained.", *found]
        if found
        else []
    )


def _is_of(label: str, about: MethodSummary) -> bool:
    """Whether a row's first cell names a method: its title or its name, alone or before a comma."""
    return label.split(",")[0].strip("*` ") in (about.card.title, about.name)


def result_tables(text: str) -> list[tuple[str, list[str]]]:
    """Return every table of a page as its lines, with the heading it stands under."""
    return [
        (section.splitlines()[0], table.splitlines())
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        for table in re.findall(r"(?:^\|.*\n?)+", section, flags=re.MULTILINE)
    ]
