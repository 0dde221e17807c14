"""The ClientApp: handles every message a site receives; only what this file returns leaves the site.

An error goes to the site's own log, and the reply holds only its code (``ecgfed.network.errors.REASONS``): Flower would
send the error's text, which may contain a patient's id or a file name.
"""

import os
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ecgfed.base.errors import EcgfedError, StorageError
from ecgfed.base.locks import LockedError, locked
from ecgfed.base.text import safe_text
from ecgfed.network import messages, site_events
from ecgfed.network.budget import check_noise
from ecgfed.network.errors import SiteError
from ecgfed.network.programs import SITE
from ecgfed.network.site_folder import Site, open_site, registration
from ecgfed.network.site_results import EndScores, end_run, score_run
from ecgfed.network.site_run import SiteRun

LOG, OLD_LOG = "log.txt", "log-old.txt"
#: Log rotation size, bytes: a server whose requests are refused repeatedly must not fill the disk.
MAX_LOG_BYTES = 4 << 20
#: Seconds to wait for the folder's lock: a killed process may release it late.
HELD_S = 5.0

app = ClientApp()


def handle(folder: Path, content: RecordDict, handler: Callable[[Site, RecordDict], RecordDict]) -> RecordDict:
    """Handle a message with the site's folder locked; a failure becomes a refusal with a code.

    Args:
        content: the message's content.
        handler: returns the reply.
    """
    try:
        with locked(folder, wait_s=HELD_S):
            return handler(open_site(folder), content)
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
    _write_log(folder, refusal)
    return messages.refusal_reply(refusal)


def _write_log(folder: Path, problem: SiteError) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    line = safe_text(f"{now} refused ({problem.code}): {problem.line}")
    try:
        if (folder / LOG).is_file() and (folder / LOG).stat().st_size > MAX_LOG_BYTES:
            (folder / LOG).replace(folder / OLD_LOG)
        # must not raise in any locale: Flower would send the error's text to the server
        with (folder / LOG).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(line + "\n")
    except OSError:  # the reply is sent regardless
        print(ascii(line))


def _register(site: Site, content: RecordDict) -> RecordDict:
    return messages.registration_reply(registration(site, *messages.read_registration_request(content)))


def _round(site: Site, content: RecordDict) -> RecordDict:
    request = messages.read_round_request(content)
    return messages.round_reply(SiteRun(site, request.run_spec).run(request), request)


def _finish(site: Site, content: RecordDict) -> RecordDict:
    run_spec, last, split, leaves = messages.read_end_request(content)
    site_run = SiteRun(site, run_spec)
    check_noise(site.max_epsilon, site_run.plan)
    site_run.settle(last)
    # scores have no noise: for a model of the server's choice they could reveal a single patient
    withhold = site.max_epsilon is not None
    if split == "valid":
        scores = EndScores(len(site_run.data.clients), None, None) if withhold else score_run(site, site_run, leaves)
    else:
        scores = end_run(site, site_run, leaves)
    return messages.end_reply(replace(scores, t_g=None, t_p=None) if withhold else scores)


def _reply(message: Message, handler: Callable[[Site, RecordDict], RecordDict]) -> Message:
    folder, kind, say = Path(os.environ[SITE]), message.metadata.message_type, messages.fields_of(message.content)
    with suppress(Exception):  # Flower would send the error's text
        site_events.on_question(folder, kind, say)
    content = handle(folder, message.content, handler)
    with suppress(Exception):
        site_events.on_answer(folder, kind, say, messages.refusal_code(content))
    return Message(content, reply_to=message)


def register(message: Message, context: Context) -> Message:
    """Register this site with the server."""
    return _reply(message, _register)


def train_round(message: Message, context: Context) -> Message:
    """Train this site's participants for a round."""
    return _reply(message, _round)


def finish_run(message: Message, context: Context) -> Message:
    """Build, score and export the trained model."""
    return _reply(message, _finish)


app.query("hello")(register)
app.train()(train_round)
app.evaluate()(finish_run)
