"""``ecgfed methods``: what can be trained, what travels, and with which settings."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from ecgfed.base.errors import OptionError

from .output import JsonOption, QuietOption, console, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ecgfed.base.options import Option as Setting
    from ecgfed.core.federation.method_summary import MethodSummary
    from ecgfed.core.methods.communication import CommunicationSpec, Entry


def methods_command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One method in full.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Show it with this setting; repeatable.")
    ] = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the federated methods with what travels and what stays, or show one in full, its settings too."""
    from ecgfed.core.federation.method_summary import summarize_method
    from ecgfed.core.methods.registry import method_by_name, methods
    from ecgfed.core.methods.settings import named_values

    if name is None:
        if set_:
            raise OptionError("--set", "given without a method", "ecgfed methods NAME --set ...")
        every = [summarize_method(kind) for kind in methods().values()]
        if json_output:
            print_json([description.as_json() for description in every])
        elif not quiet:
            _print_table(every)
        return
    description = summarize_method(method_by_name(name, "NAME"), named_values(set_ or []))
    if json_output:
        print_json(description.as_json())
    elif not quiet:
        _print_method(description)


def _print_table(every: Sequence[MethodSummary]) -> None:
    from ecgfed.core.config import TrainConfig
    from ecgfed.core.methods.communication import summarize

    rows = []
    for description in every:
        size = f"{description.cost.down_bytes / 1000:.0f}, {description.cost.up_bytes / 1000:.0f}"
        rows.append((description.name, *(summarize(entries) for _, entries in _travelling(description.card)), size))
    console.print(table(("method", "the server sends", "comes back", "a client keeps", "kB down, up"), rows))
    for line in (
        "kB: a client's round late in a run, default net, 12 classes, default settings. * The server knows it too.",
        "Every client reports its losses, its number and how many training beats it has. Recordings stay, but with "
        "--set risk=meta-bsm: some validation beats of all patients then go to every client.",
        f"'ecgfed train' takes {TrainConfig.method} unless told otherwise. Defaults are tuned on validation beats of "
        "MIT-BIH. Methods that average models share one server step, Adam's, which falls to 0 over the run; 'ecgfed "
        "methods fedavg' says how to have the papers' plain mean.",
        "'ecgfed methods NAME' shows a method in full, and its settings with their ranges.",
    ):
        _wrapped(line, 0)


def _print_method(description: MethodSummary) -> None:
    from ecgfed.core.methods.communication import ALWAYS_SENT

    cost = description.cost
    _print_wrapped(f"{description.name}: {description.card.title} ({description.card.reference})\n")
    _print_text(description.text)
    _print_wrapped("What travels")
    for title, entries in _travelling(description.full_card):
        _print_wrapped(f"  {title}:" + ("" if entries else " nothing"))
        for entry in entries:
            _wrapped(f"{entry.what}{_beside(entry)}", 4)
    _print_wrapped("  it reports:")
    for entry in description.full_card.metrics:
        _wrapped(f"{entry.what}{_beside(entry)}", 4)
    for what in ALWAYS_SENT.values():
        _wrapped(what, 4)
    fits = "fit" if description.averages else "do not fit: its aggregate is no weighted mean of weights"
    _print_wrapped(f"\n--aggregation and --dp-clip {fits}")
    each = description.card.needs_each
    alone = "it sends no weights" if each is None else f"the server needs of each client: {each.what}"
    _print_wrapped(f"--secure-aggregation {'fits' if description.sums else f'does not fit: {alone}'}")
    _print_wrapped("\nA client's round with the default net and 12 classes")
    _print_wrapped(f"  first: {cost.first_down_bytes:,} bytes down, {cost.first_up_bytes:,} up")
    _print_wrapped(f"  late:  {cost.down_bytes:,} bytes down, {cost.up_bytes:,} up")
    _print_wrapped(f"  a step of 64 beats: {cost.step_flops / 1e6:,.0f} million operations")
    _print_wrapped("\nSettings (--set NAME=VALUE) and their defaults")
    for setting in description.settings:
        _wrapped(f"{setting.name}={_default(setting)}  ({setting.allowed})", 2)
        _wrapped(_plain(setting.meaning), 6)


def _print_text(text: str) -> None:
    """Print a file's own words: paragraphs as wide as the terminal, equations as they are."""
    for block in text.split("\n\n"):
        first, *rest = block.splitlines()
        if first.startswith(".. math::"):
            _print_wrapped("\n".join([f"   {first.removeprefix('.. math::')}".rstrip(), *rest]).strip("\n"))
        else:
            _wrapped(_plain(" ".join(line.strip() for line in (first, *rest))), 0)
        _print_wrapped("")


def _plain(text: str) -> str:
    """Text without its markup: ``x`` and :math:`x` are x."""
    return re.sub(r":math:`([^`]*)`", r"\1", text).replace("``", "")


def _travelling(card: CommunicationSpec) -> tuple[tuple[str, Sequence[Entry]], ...]:
    return ("the server sends", card.down), ("comes back", card.up), ("a client keeps", card.stores)


def _beside(entry: Entry) -> str:
    """What is to be said of an entry beside what it is: where it lies, whose it is, and when."""
    notes = [entry.name]
    owner, known = getattr(entry, "scope", "everybody"), getattr(entry, "known", "never")
    if owner != "everybody":
        notes.append("made for this client" if owner == "addressee" else "as that client sent it")
    if known != "never":
        notes.append("goes up as it is" if known == "as it is" else "the server can work it out")
    if entry.condition:
        notes.append(f"with {', '.join(entry.condition)}")
    return f" ({'; '.join(notes)})"


def _default(setting: Setting) -> str:
    value = setting.default
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_wrapped(text: str) -> None:
    for line in text.split("\n"):  # the console prints a string as one line
        console.print(line, soft_wrap=True)


def _wrapped(text: str, indent: int) -> None:
    """Print a paragraph; later lines of an indented one are two further in."""
    before, after = " " * indent, " " * (indent + 2 if indent else 0)
    _print_wrapped(textwrap.fill(text, min(console.width, 120), initial_indent=before, subsequent_indent=after))
