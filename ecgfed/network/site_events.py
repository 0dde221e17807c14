"""What happens at a site, for its console and for monitoring: each question of the server, and what came of it.

The ClientApp that answers a question is a process of its own, so lines go through a file that the site's program
follows, and counts through another. Neither holds a patient's data; the refusals' reasons stay in ``log.txt``.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ecgfed.base.errors import StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.safe_io import parse_json
from ecgfed.base.text import count_of, safe_text
from ecgfed.exports.device.federation import Federation, differences
from ecgfed.network.errors import REASONS
from ecgfed.network.protocol import protocol_difference
from ecgfed.network.provenance import version_difference
from ecgfed.network.site_results import ENDED
from ecgfed.network.site_run import RUNS

#: Files in a site's folder: the lines, those before, and the counts.
MESSAGES, OLD_MESSAGES, COUNTS = "messages.txt", "messages-old.txt", "counts.json"
#: Size above which the lines are moved to ``OLD_MESSAGES``, bytes.
MAX_MESSAGES_BYTES = 1 << 20
#: Longest line, in characters: the server chooses some of its text.
MAX_LINE = 500
#: Messages of secure aggregation beside the round's, which are not reported.
SUM_KINDS = ("query.keys", "query.shares", "query.unmask")


def add_message(folder: Path, line: str) -> None:
    """Append a line to the site's messages; an unwritable folder is ignored, since the answer is sent regardless."""
    file = folder / MESSAGES
    try:
        if file.is_file() and file.stat().st_size > MAX_MESSAGES_BYTES:
            file.replace(folder / OLD_MESSAGES)
        with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{safe_text(line)[:MAX_LINE]}\n")
    except OSError:
        return


def counts_of(folder: Path) -> dict[str, Any]:
    """Return counts of ``rounds``, ``refusals`` and ``results``, and the last answer.

    The last answer is ``round``, ``run`` and ``last_answer``, its time in POSIX seconds.
    """
    try:
        values = read_json(folder / COUNTS, StorageError) if (folder / COUNTS).is_file() else {}
    except StorageError:  # counted anew rather than ending an answer
        values = {}
    return values if isinstance(values, dict) else {}


def on_question(folder: Path, kind: str, fields: Mapping[str, Any]) -> None:
    """Report a question of the server.

    Args:
        folder: the site's folder.
        kind: Flower's message type.
        fields: the question's fields.
    """
    order = _order(fields)
    warning = version_difference(str(fields.get("version", "unknown")))
    if kind == "query.hello" and warning and not _protocol_problem(kind, fields):
        add_message(folder, f"warning: {warning}")
    if kind == "train":
        plan, clients = order.get("plan"), fields.get("clients")
        rounds = plan.get("rounds") if isinstance(plan, dict) else None
        if str(order.get("run"))[:16] != counts_of(folder).get("run"):
            _report_federation(folder, order)
        patients = count_of(len(clients), "patient") if isinstance(clients, list) else "no patients"
        add_message(folder, f"round {_number(fields.get('round'))} of {_number(rounds)}: training {patients}")
    elif kind == "evaluate":
        what = "the trained model has arrived" if fields.get("split") == "test" else "the server asks for scores"
        add_message(folder, what)


def _report_federation(folder: Path, order: Mapping[str, Any]) -> None:
    try:
        run, sites, site = (order.get(name) for name in ("run", "sites", "site"))
        federation = Federation.from_json({"run": run, "sites": sites, "site": site})
    except (KeyError, TypeError, ValueError):  # refused afterwards, with the reason
        return
    method = str(order.get("method"))[:40]
    what = f"run {federation.run[:16]} by {method} at {federation.describe()}"
    add_message(folder, f"{what}; this site is {federation.site}")
    for line in differences(federation.sites):
        add_message(folder, f"warning: {line}")


def on_answer(folder: Path, kind: str, fields: Mapping[str, Any], refused: str | None) -> None:
    """Report an answer, and count it; arguments as in ``on_question``.

    Args:
        refused: the refusal's code, None for an answer.
    """
    if kind in SUM_KINDS and refused is None:
        return
    values = counts_of(folder)
    now = round(time.time())
    order = _order(fields)
    if refused is not None:
        reason = (
            _protocol_problem(kind, fields) or f"{REASONS.get(refused, 'unknown reason')}; the reason is in log.txt"
        )
        count, text = "refusals", f"refused: {reason}"
    elif kind == "train":
        count, text = "rounds", f"round {_number(fields.get('round'))}: answered"
        values |= {"round": fields.get("round"), "run": str(order.get("run", ""))[:16]}
    elif kind == "evaluate" and fields.get("split") == "test" and _is_stored(folder, order):
        count, text = "results", "the result and the bundle are stored; see 'ecgfed federate status'"
    elif kind == "evaluate" and fields.get("split") == "test":
        count, text = "other_answers", "warning: the delivered model is not stored; the reason is in log.txt"
    else:
        count, text = "other_answers", "registered with the server" if kind == "query.hello" else "scores sent"
    values |= {count: int(values.get(count, 0)) + 1, "last_answer": now}
    try:
        write_json(folder / COUNTS, values)
    except StorageError:
        return
    add_message(folder, text)


def _is_stored(folder: Path, order: Mapping[str, Any]) -> bool:
    """Return whether a run's result is complete; a site with a privacy budget does not tell the server if it is not."""
    return (folder / RUNS / str(order.get("run"))[:16] / ENDED).is_file()


def _protocol_problem(kind: str, fields: Mapping[str, Any]) -> str:
    """Return which end to upgrade if the server's question has another protocol than this site, "" if not."""
    protocol = (fields if kind == "query.hello" else _order(fields)).get("protocol")
    return protocol_difference(protocol, str(fields.get("version", ""))) if type(protocol) is int else ""


def _order(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        order = parse_json(str(fields.get("order", "{}")))
    except ValueError:
        return {}
    return order if isinstance(order, dict) else {}


def _number(value: object) -> str:
    return f"{value:,}" if type(value) is int else "?"
