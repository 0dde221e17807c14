"""``ecgfed doctor``: what is installed, what the machine has, and a short self-test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .output import JsonOption, QuietOption, console, print_json, table

if TYPE_CHECKING:
    from ecgfed.tasks.doctor import Examination


def doctor_command(
    self_test: Annotated[
        bool, typer.Option("--self-test/--no-self-test", help="Try detection, prediction and training (ten seconds).")
    ] = True,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what is installed and what the machine has, and try it against stored answers; exit code 1 if one differs."""
    from ecgfed.tasks.doctor import examine

    examination = examine(self_test=self_test)
    if json_output:
        print_json(examination.to_dict())
    elif not quiet:
        _print(examination)
    if not examination.healthy:
        raise typer.Exit(1)


def _print(examination: Examination) -> None:
    machine = examination.machine
    memory = "unknown" if machine.free_memory_bytes is None else f"{machine.free_memory_bytes / 1e9:.1f} GB"
    base = ", ".join(f"{name} {version}" for name, version in examination.base.items())
    for name, version in (
        ("ecgfed", f"{examination.ecgfed} in {examination.folder}"),
        ("Python", machine.python),
        ("system", machine.system),
        ("encoding", machine.locale),
        ("free", f"{machine.cores} cores, memory {memory}, disk here {machine.free_disk_bytes / 1e9:.1f} GB"),
        ("GPU", machine.gpu),
        ("base", base),
    ):
        console.print(f"{name:<9} {version}", soft_wrap=True)
    extras = [
        (extra.name, ", ".join(f"{name} {label}" for name, label in extra.installed.items()), ", ".join(extra.missing))
        for extra in examination.extras
    ]
    console.print(table(("extra", "installed", "missing"), extras))
    for check in examination.checks:
        word = {True: "well", False: "WRONG", None: "-"}[check.ok]
        console.print(f"{check.name}: {word} ({check.seconds:.1f} s). {check.message}", soft_wrap=True)
    console.print("All that was tried is well." if examination.healthy else "Something is wrong: see above.")
