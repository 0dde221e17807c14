"""What happens at a site, for its console and for monitoring: each question of the server, and what came of it.

The ClientApp that answers a question is a process of its own, so lines go through a file that the site's program
follows, and figures through another. Neither holds a patient's data; the refusals' reasons stay in ``log.txt``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ecgfed.base.errors import StorageError
from ecgfed.base.files import read_json, write_json
from ecgfed.base.safe_io import parse_json
from ecgfed.base.text import count_of, safe_text
from ecgfed.exports.device.federation import Federation, differences
from ecgfed.network.errors import REASONS
from ecgfed.network.provenance import version_difference
from ecgfed.network.site_results import ENDED
from ecgfed.network.site_run import RUNS

#: Files in a site's folder: the lines, those before, and the figures.
TOLD, OLD_TOLD, FIGURES = "told.txt", "told-old.txt", "figures.json"
#: Size above which the lines are moved to ``OLD_TOLD``, bytes.
MAX_TOLD_BYTES = 1 << 20
#: Longest line, in characters: the server chooses some of its text.
MAX_LINE = 500


def tell(folder: Path, line: str) -> None:
    """Append a line to the site's messages; an unwritable folder is ignored, since the answer is sent regardless."""
    file = folder / TOLD
    try:
        if file.is_file() and file.stat().st_size > MAX_TOLD_BYTES:
            file.replace(folder / OLD_TOLD)
        with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{safe_text(line)[:MAX_LINE]}\n")
    except OSError:
        return


def figures(folder: Path) -> dict[str, Any]:
    """Return the site's figures: counts of ``rounds``, ``refusals`` and ``results``, and the last question's."""
    try:
        values = read_json(folder / FIGURES, StorageError) if (folder / FIGURES).is_file() else {}
    except StorageError:  # figures are counted anew rather than ending an answer
        values = {}
    return values if isinstance(values, dict) else {}


def on_question(folder: Path, kind: str, say: Mapping[str, Any]) -> None:
    """Report a question of the server.

    Args:
        folder: the site's folder.
        kind: Flower's message type.
        say: the question's fields.
    """
    order = _order(say)
    if kind == "query.hello" and (warning := version_difference(str(say.get("version", "unknown")))):
        tell(folder, f"warning: {warning}")
    if kind == "train":
        plan, clients = order.get("plan"), say.get("clients")
        rounds = plan.get("rounds") if isinstance(plan, dict) else None
        if str(order.get("run"))[:16] != figures(folder).get("run"):
            _tell_federation(folder, order)
        patients = count_of(len(clients), "patient") if isinstance(clients, list) else "no patients"
        tell(folder, f"round {_number(say.get('round'))} of {_number(rounds)}: training {patients}")
    elif kind == "evaluate":
        what = "the trained model has arrived" if say.get("split") == "test" else "the server asks for scores"
        tell(folder, what)


def _tell_federation(folder: Path, order: Mapping[str, Any]) -> None:
    try:
        run, sites, site = (order.get(name) for name in ("run", "sites", "site"))
        federation = Federation.from_json({"run": run, "sites": sites, "site": site})
    except (KeyError, TypeError, ValueError):  # refused afterwards, with the reason
        return
    method = str(order.get("method"))[:40]
    tell(folder, f"run {federation.run[:16]} by {method} at {federation.describe()}; this site is {federation.site}")
    for line in differences(federation.sites):
        tell(folder, f"warning: {line}")


def on_answer(folder: Path, kind: str, say: Mapping[str, Any], refused: str | None) -> None:
    """Report an answer, and count it; arguments as in ``on_question``.

    Args:
        refused: the refusal's code, None for an answer.
    """
    values = figures(folder)
    now = datetime.now(UTC).replace(microsecond=0).isoformat()
    order = _order(say)
    if refused is not None:
        count, text = "refusals", f"refused: {REASONS.get(refused, 'unknown reason')}; the reason is in log.txt"
    elif kind == "train":
        count, text = "rounds", f"round {_number(say.get('round'))}: answered"
        values |= {"round": say.get("round"), "run": str(order.get("run", ""))[:16]}
    elif kind == "evaluate" and say.get("split") == "test" and _is_stored(folder, order):
        count, text = "results", "the result and the bundle are stored; see 'ecgfed federate status'"
    elif kind == "evaluate" and say.get("split") == "test":
        count, text = "other_answers", "warning: the delivered model is not stored; the reason is in log.txt"
    else:
        count, text = "other_answers", "registered with the server" if kind == "query.hello" else "scores sent"
    values |= {count: int(values.get(count, 0)) + 1, "last_answer": now}
    try:
        write_json(folder / FIGURES, values)
    except StorageError:
        return
    tell(folder, text)


def _is_stored(folder: Path, order: Mapping[str, Any]) -> bool:
    """Return whether a run's result is complete; a site with a privacy budget does not tell the server if it is not."""
    return (folder / RUNS / str(order.get("run"))[:16] / ENDED).is_file()


def _order(say: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        order = parse_json(str(say.get("order", "{}")))
    except ValueError:
        return {}
    return order if isinstance(order, dict) else {}


def _number(value: object) -> str:
    return f"{value:,}" if type(value) is int else "?"
