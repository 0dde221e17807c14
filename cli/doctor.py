"""``ecgfed doctor``: what is installed, what the machine has, and a short self-test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .output import JsonOption, QuietOption, console, print_json, table

if TYPE_CHECKING:
    from ecgfed.tasks.doctor import Check, Examination, Extra


def doctor_command(
    self_test: Annotated[
        bool, typer.Option("--self-test/--no-self-test", help="Try detection, prediction and training (ten seconds).")
    ] = True,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what is installed and what the machine has, and try it against stored answers; exit code 1 if one differs."""
    from ecgfed.tasks.doctor import examine

    found = examine(self_test=self_test)
    if json_output:
        print_json(found.to_dict())
    elif not quiet:
        _print(found)
    if not found.healthy:
        raise typer.Exit(1)


def _print(found: Examination) -> None:
    machine = found.machine
    memory = "unknown" if machine.free_memory_bytes is None else f"{machine.free_memory_bytes / 1e9:.1f} GB"
    base = ", ".join(f"{name} {said}" for name, said in found.base.items())
    for name, said in (
        ("ecgfed", f"{found.ecgfed} in {found.folder}"),
        ("Python", machine.python),
        ("system", machine.system),
        ("encoding", machine.locale),
        ("free", f"{machine.cores} cores, memory {memory}, disk here {machine.free_disk_bytes / 1e9:.1f} GB"),
        ("GPU", machine.gpu),
        ("base", base),
    ):
        console.print(f"{name:<9} {said}", soft_wrap=True)
    console.print(table(("extra", "installed", "missing"), [_extra_row(one) for one in found.extras]))
    for check in found.checks:
        console.print(_check_line(check), soft_wrap=True)
    console.print("All that was tried is well." if found.healthy else "Something is wrong: see above.")


def _extra_row(extra: Extra) -> tuple[str, str, str]:
    return extra.name, ", ".join(f"{name} {said}" for name, said in extra.installed.items()), ", ".join(extra.missing)


def _check_line(check: Check) -> str:
    word = {True: "well", False: "WRONG", None: "-"}[check.ok]
    return f"{check.name}: {word} ({check.seconds:.1f} s). {check.says}"
