"""The ClientApp: handles every message a site receives; only what this file returns leaves the site.

An error goes to the site's own log, and the reply holds only its code (``ecgfed.network.errors.REASONS``): Flower would
send the error's text, which may contain a patient's id or a file name.
"""

import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.locks import LockedError, locked
from ecgfed.base.text import safe_text
from ecgfed.network import messages, site_events, site_sums, sum_messages
from ecgfed.network.audit import NOISED, QUESTIONS, UNKNOWN, UPDATE, append, check_questions, count_of_answers, describe
from ecgfed.network.budget import check_counts, check_noise
from ecgfed.network.errors import SiteError
from ecgfed.network.private_answers import scoring_time_s, time_class
from ecgfed.network.programs import SITE
from ecgfed.network.site_folder import Site, open_site, registration
from ecgfed.network.site_results import end_run, private_scores, score_run, server_state
from ecgfed.network.site_run import SiteRun

LOG, OLD_LOG = "log.txt", "log-old.txt"
#: Log rotation size, bytes: a server whose requests are refused repeatedly must not fill the disk.
MAX_LOG_BYTES = 4 << 20
#: Seconds to wait for the folder's lock: a killed process may release it late.
HELD_S = 5.0
#: Flower's message types that a site answers.
KINDS = (messages.REGISTRATION, messages.ROUND, messages.END, *site_events.SUM_KINDS)

_app = ClientApp()


def handle(folder: Path, content: RecordDict, handler: Callable[[Site, RecordDict], RecordDict]) -> RecordDict:
    """Handle a message with the site's folder locked; a failure becomes a refusal with a code.

    Args:
        content: the message's content.
        handler: returns the reply.
    """
    started = time.monotonic()
    asked: dict[str, Any] = {"question": QUESTIONS.get(handler.__name__, UNKNOWN)}
    try:
        asked = describe(asked["question"], content)
        with locked(folder, wait_s=HELD_S):
            site = open_site(folder)
            site.asked.update(asked)
            asked = site.asked
            reply = handler(site, content)
            _audit(folder, asked, started)
            return reply
    except SiteError as problem:
        refusal = problem
    except LockedError as problem:
        refusal = SiteError("busy", problem.where, problem.reason)
    except StorageError as problem:
        refusal = SiteError("storage", *problem.parts)
    except EcgfedError as problem:
        refusal = SiteError("training", *problem.parts)
    except Exception:
        refusal = SiteError("internal", folder, traceback.format_exc().strip().replace("\n", " | "))
    _write_log(folder, f"refused ({refusal.code}): {refusal.line}")
    try:
        with locked(folder, wait_s=HELD_S):
            _audit(folder, {**asked, "answer": f"refused: {refusal.code}"}, started)
    except (EcgfedError, OSError) as problem:
        _write_log(folder, f"the audit log lacks this refusal: {problem}")
    return messages.refusal_reply(refusal)


def _audit(folder: Path, asked: dict[str, Any], started: float) -> None:
    """Write a question and the kind of its answer into the audit log; without it, nothing is answered."""
    append(folder, {"answer": asked["question"], **asked, "seconds": round(time.monotonic() - started, 3)})


def _write_log(folder: Path, text: str) -> None:
    line = safe_text(f"{datetime.now(UTC).strftime('%Y-%m-%d %H:%M:%S UTC')} {text}")
    try:
        if (folder / LOG).is_file() and (folder / LOG).stat().st_size > MAX_LOG_BYTES:
            (folder / LOG).replace(folder / OLD_LOG)
        # must not raise in any locale: Flower would send the error's text to the server
        with (folder / LOG).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(line + "\n")
    except OSError:  # the reply is sent regardless
        print(ascii(line))


def _register(site: Site, content: RecordDict) -> RecordDict:
    rr, leave_out, weak, most_per_class = messages.read_registration_request(content)
    check_counts(site.max_epsilon, most_per_class)
    return messages.registration_reply(registration(site, rr, leave_out, weak, most_per_class))


def _round(site: Site, content: RecordDict) -> RecordDict:
    with time_class(site.is_private):
        request = messages.read_round_request(content, len(site.order))
        site_run = SiteRun(site, request.run_spec)
        site.asked["answer"] = NOISED if site.is_private else UPDATE
        if request.run_spec.is_secure:
            secrets = site_sums.check_exchange(site, request, sum_messages.boxes_of(content))
            update = site_run.run(request)
            reply = sum_messages.sum_reply(
                site_sums.masked_sum(site, site_run, request, update, secrets), update, request
            )
        else:
            reply = messages.round_reply(site_run.run(request), request)
        for client, problem in site_run.failures.items():
            _write_log(site.path, f"patient number {client}: training failed, a noised zero was sent: {problem}")
        return reply


def _keys(site: Site, content: RecordDict) -> RecordDict:
    keys = site_sums.new_keys(site, *sum_messages.read_stage_request(content), sum_messages.read_digests(content))
    return sum_messages.keys_reply(keys)


def _shares(site: Site, content: RecordDict) -> RecordDict:
    request, public = sum_messages.read_stage_request(content), sum_messages.read_public_keys(content)
    return RecordDict({sum_messages.BOXES: sum_messages.boxes_record(site_sums.new_shares(site, *request, public))})


def _unmask(site: Site, content: RecordDict) -> RecordDict:
    request, arrived = sum_messages.read_stage_request(content), sum_messages.read_arrived(content)
    return sum_messages.unmask_reply(site_sums.reveal(site, *request, arrived))


def _finish(site: Site, content: RecordDict) -> RecordDict:
    run_spec, last, split, leaves = messages.read_end_request(content)
    site_run = SiteRun(site, run_spec)
    check_noise(site.max_epsilon, site_run.plan)
    site_run.settle(last)
    if split == "valid":
        kind = count_of_answers({"question": "scores", "answer": "scores", "run": run_spec.run})
        check_questions(site.path, site.limits.scores, "scores of this run", kind)
    if not site.is_private:
        return messages.end_reply((score_run if split == "valid" else end_run)(site, site_run, leaves))
    server_state(site_run, leaves)  # refused for every site alike
    with time_class(True, scoring_time_s(len(site_run.data.clients), int(site_run.data.train_examples.sum()))):
        scores, problem = private_scores(site, site_run, leaves, split)
        if problem:
            _write_log(site.path, f"a model could not be scored, which the server is not told: {problem}")
        return messages.end_reply(scores)


def _unknown(site: Site, content: RecordDict) -> RecordDict:
    raise SiteError("request", "the server", "asks for something that this version does not know")


def _reply(message: Message, handler: Callable[[Site, RecordDict], RecordDict]) -> Message:
    asked = message.content if message.has_content() else RecordDict()
    folder, kind, fields = Path(os.environ[SITE]), message.metadata.message_type, messages.fields_of(asked)
    with suppress(Exception):  # Flower would send the error's text
        site_events.on_question(folder, kind, fields)
    content = handle(folder, asked, handler)
    with suppress(Exception):
        site_events.on_answer(folder, kind, fields, messages.refusal_code(content))
    return Message(content, reply_to=message)


def register(message: Message, context: Context) -> Message:
    """Register this site with the server."""
    return _reply(message, _register)


def train_round(message: Message, context: Context) -> Message:
    """Train this site's participants for a round."""
    return _reply(message, _round)


def make_keys(message: Message, context: Context) -> Message:
    """Make keys for a round of secure aggregation."""
    return _reply(message, _keys)


def share_secrets(message: Message, context: Context) -> Message:
    """Share the secrets of a round of secure aggregation."""
    return _reply(message, _shares)


def unmask_sum(message: Message, context: Context) -> Message:
    """Reveal what unmasks the sum of a round."""
    return _reply(message, _unmask)


def finish_run(message: Message, context: Context) -> Message:
    """Build, score and export the trained model."""
    return _reply(message, _finish)


_app.query("hello")(register)
_app.train()(train_round)
_app.query("keys")(make_keys)
_app.query("shares")(share_secrets)
_app.query("unmask")(unmask_sum)
_app.evaluate()(finish_run)


def app(message: Message, context: Context) -> Message:
    """Answer every message, one of an unknown type with a refusal that the audit log has a line for."""
    if message.metadata.message_type not in KINDS:
        return _reply(message, _unknown)
    answer: Message = _app(message, context)
    return answer
