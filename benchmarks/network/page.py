"""The tables of README.md and ``docs/hospitals.md`` from the results files; ``benchmarks/pages.py`` puts them there."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

GIB = 2.0**30


def faults(results: dict[str, Any]) -> list[str]:
    """Return the table of what was tried."""
    rows = [
        (row["fault"], row["happened"] if row["held"] else f"**did not hold**: {row['happened']}")
        for row in results["faults"]
    ]
    return common.table(("fault", "result"), [[cell.replace("|", "/") for cell in row] for row in rows])


def mitbih(results: dict[str, Any]) -> list[str]:
    """Return the table of what is the same on MIT-BIH."""
    rows = []
    for one in results["mitbih"]:
        apart = max(one["server_difference"], one["kept_difference"])
        same = "bit for bit" if not apart and one["same_history"] else f"apart by {apart:.1e}"
        each = "; ".join(f"{site['T_g']:.3f}, {site['T_p']:.3f}" for site in one["sites"])
        rows.append((f"`{one['method']}`", one["rounds"], one["steps"], same, each, one["bundles"]))
    patients = results["mitbih"][0]["patients"]
    return [
        f"All {sum(patients)} MIT-BIH records with lead MLII at {len(patients)} sites of "
        f"{', '.join(map(str, patients[:-1]))} and {patients[-1]} patients, compared with one machine "
        f"(`{results['command']}`): the server's state, the history and what each patient keeps. Sites and server are "
        "separate processes with TLS and keys. The runs are too short for good scores:",
        "",
        *common.table(("method", "rounds", "steps", "equal to one machine", "T_g, T_p at each site", "bundles"), rows),
    ]


def loopback(results: dict[str, Any]) -> list[str]:
    """Return the table of what a federation costs."""
    rows = []
    for one in results["loopback"]:
        peak = one["peak_mib"]
        rows.append(
            (
                one["sites"],
                f"{one['bytes_up_per_site_and_round'] / 1e6:.2f}",
                f"{one['bytes_down_per_site_and_round'] / 1e6:.2f}",
                f"{one['seconds_per_round']:.1f}",
                f"{one['times_one_machine']:.0f}",
                f"{peak['flower-superlink']:.0f} + {peak['flwr-serverapp']:.0f}",
                f"{one['load_before']:.1f}",
            )
        )
    columns = ("sites", "MB up", "MB down", "s per round", "times one machine", "server, MiB", "load before")
    seconds, patients = results["one_machine_seconds_per_round"], results["patients"]
    return [
        f"GRP-FED, {patients} synthetic patients in total, all processes on one machine with {results['cores']} cores. "
        f"Without a federation, a round takes {seconds:.2f} s. MB are per site and round, the final delivery included:",
        "",
        *common.table(columns, rows),
    ]


def transport(results: dict[str, Any]) -> list[str]:
    """Return the table of smaller updates."""
    rows = [(f"`{one['transport']}`", f"{one['T_g']:.3f}", f"{one['T_p']:.3f}") for one in results["transport"]]
    first = results["transport"][0]
    return [
        f"GRP-FED on MIT-BIH, {first['passes']:g} passes ({first['rounds']} rounds), one seed, validation beats:",
        "",
        *common.table(("`--transport`", "T_g", "T_p"), rows),
    ]


def scale(results: dict[str, Any]) -> list[str]:
    """Return the paragraph's table: what was computed, not measured."""
    found = results["scale"]
    rows = [
        (
            one["what"],
            f"{one['bytes_up'] / 1e9:,.2f}",
            f"{one['line_s'] / 60:,.1f}",
            f"{one['held_bytes'] / GIB:,.1f}",
            "yes" if one["fits_in_memory"] else "no",
        )
        for one in found["rounds"]
    ]
    line, memory = found["line_bits_per_s"] / 1e9, found["server_memory_bytes"] / GIB
    columns = ("round with", "GB up", f"minutes at {line:g} Gbit/s", "GiB held", f"fits in {memory:g} GiB")
    cores = found["superlink_cores"]
    return [
        f"Computed from the measured costs for {found['hospitals']:,} hospitals of {found['patients_each']:,} patients "
        "each, never run:",
        "",
        *common.table(columns, rows),
        "",
        f"A site costs the SuperLink {found['superlink_cores_per_site'] * 1000:.1f} thousandths of a core (the slope "
        f"over {', '.join(str(one['sites']) for one in results['loopback'])} sites), so {found['hospitals']:,} sites "
        f"cost {cores:.0f} cores. It is one process: {found['sites_for_one_core']:.0f} sites fill one core.",
    ]
