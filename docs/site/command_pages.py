"""A page for each command, from its own help."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from ecgfed_cli.main import app
from ecgfed_cli.synopses import SYNOPSES
from tables import table

NAME = "ecgfed"


def command_pages() -> dict[str, str]:
    """Return the Markdown of every command's page, by its place on the site, in the order a user meets them."""
    return {f"commands/{'-'.join(path)}.md": _page(path, context) for path, context in _commands() if path}


def command_paths() -> list[str]:
    """Return every command as it is typed, without the program's name: ``runs list``."""
    return [" ".join(path) for path, _ in _commands() if path]


def _commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its context, groups before what is in them."""
    group = typer.main.get_command(app)
    root = group.make_context(NAME, ["doctor"], resilient_parsing=True)
    yield from _below((), root)


def _below(path: tuple[str, ...], context: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, context
    commands = getattr(context.command, "commands", {})
    if not commands:
        return
    for name in context.command.list_commands(context):
        if not commands[name].hidden:
            yield from _below((*path, name), type(context)(commands[name], info_name=name, parent=context))


def _page(path: tuple[str, ...], context: Any) -> str:
    command, name = context.command, " ".join(path)
    about, example = SYNOPSES.get(name, ("", ""))
    parts = [f"# `{NAME} {name}`", _prose(command.help or about)]
    inside = getattr(command, "commands", None)
    if inside:
        rows = [
            (f"[`{NAME} {name} {one}`]({'-'.join((*path, one))}.md)", SYNOPSES.get(f"{name} {one}", ("", ""))[0])
            for one in command.list_commands(context)
        ]
        return "\n\n".join([*parts, table(("command", "what it does"), rows)]) + "\n"
    usage = command.get_usage(context).removeprefix("Usage: ")
    parts.append(f"```text\n{' '.join(usage.split())}\n```")
    if example:
        parts.append(f"For example:\n\n```text\n{example}\n```")
    kinds = (("Arguments", "argument"), ("Options", "option"))
    for title, kind in kinds:
        records = [one.get_help_record(context) for one in command.params if one.param_type_name == kind]
        rows = [(f"`{names}`", _prose(meaning)) for names, meaning in filter(None, records)]
        if rows:
            parts += [f"## {title}", table((title[:-1].lower(), "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _prose(text: str) -> str:
    """Help as Markdown: paragraphs filled, what is quoted or looks like an option as code, nothing taken for markup."""
    paragraphs = [" ".join(one.split()) for one in text.replace("\b", "").split("\n\n")]
    safe = "\n\n".join(one for one in paragraphs if one)
    safe = re.sub(r"([*_<>\[\]])", r"\\\1", safe)
    return re.sub(r"(?<![\w-])(--[a-z][a-z0-9-]*)", r"`\1`", safe)
