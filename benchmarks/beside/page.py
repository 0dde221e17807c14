"""The table of ``docs/federation-tools.md`` from ``results.json``; ``benchmarks/pages.py`` puts it there."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common


def measured(results: dict[str, Any]) -> list[str]:
    """Return the table of what was measured, a column a tool."""
    tools = results["tools"]
    rows = [[label, *(_cell(tool, of) for tool in tools)] for label, of in ROWS]
    columns = ["", *(f"{tool['name']} {tool['version']}" for tool in tools)]
    return [*common.table(columns, rows), "", results["conditions"]]


def _cell(tool: dict[str, Any], of: Any) -> str:
    try:
        return str(of(tool))
    except KeyError:
        return "not measured"


#: Row -> its value of a tool.
ROWS: tuple[tuple[str, Any], ...] = (
    ("Python", lambda tool: tool["python"]),
    ("install size besides CPU torch: MB, packages", lambda tool: f"{tool['install_mb']:,}, {tool['packages']}"),
    ("commands from an installed tool to the first round", lambda tool: tool["commands"]),
    ("lines of own code", lambda tool: tool["own_lines"]),
    (
        "seconds from the start of the job to the end of the first round",
        lambda tool: f"{tool['seconds_to_first_round']:.0f}",
    ),
    ("seconds per round", lambda tool: f"{tool['seconds_per_round']:.1f}"),
    ("model, kB", lambda tool: f"{tool['model_bytes'] / 1e3:.0f}"),
    ("kB up, per site and round", lambda tool: f"{tool['bytes_up_per_site_and_round'] / 1e3:.0f}"),
    ("kB down, per site and round", lambda tool: f"{tool['bytes_down_per_site_and_round'] / 1e3:.0f}"),
    ("peak memory of the server, MiB", lambda tool: f"{tool['peak_mib']['server']:.0f}"),
    ("peak memory of a site, MiB", lambda tool: f"{tool['peak_mib']['site']:.0f}"),
    ("processes of a waiting site", lambda tool: tool["idle_processes_of_a_site"]),
    ("load of the machine, before and after", lambda tool: " to ".join(f"{load:.0f}" for load in tool["load"])),
)
