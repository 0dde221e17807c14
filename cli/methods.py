"""``ecgfed methods``: what can be trained."""

import dataclasses
from typing import Any

from rich.table import Table

from .output import JsonOption, QuietOption, console, print_json


def methods_command(json_output: JsonOption = False, quiet: QuietOption = False) -> None:
    """List the federated methods, their papers, what travels and what stays, and their settings."""
    from ecgfed.federation.cost import cost_of
    from ecgfed.methods.registry import methods

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "title": kind.card.title,
            "reference": kind.card.reference,
            "shared": kind.card.shared,
            "stays": kind.card.stays,
            **dataclasses.asdict(cost_of(kind)),
            "settings": {f.name: f.default for f in dataclasses.fields(kind.settings_type)},
        }
        for name, kind in methods().items()
    ]
    if json_output:
        print_json(rows)
    elif not quiet:
        _print(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table("method", "paper", "travels", "stays with the patient", "kB down, up", "MFLOP a step")
    for column in (0, 4, 5):
        table.columns[column].no_wrap = True
    for row in rows:
        size = f"{row['down_bytes'] / 1000:.0f}, {row['up_bytes'] / 1000:.0f}"
        table.add_row(
            row["name"],
            f"{row['title']}: {row['reference']}",
            row["shared"],
            row["stays"],
            size,
            f"{row['step_flops'] / 1e6:.0f}",
        )
    console.print(table)
    console.print("A client's round with the default net, 12 classes, 64 beats a step.", highlight=False)
    console.print("Settings (--set NAME=VALUE) and their defaults:", highlight=False)
    for row in rows:
        settings = ", ".join(f"{name}={value}" for name, value in row["settings"].items())
        console.print(f"  {row['name']}: {settings}", highlight=False)
