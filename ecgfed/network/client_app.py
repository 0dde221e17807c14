"""The ClientApp: every message a site gets comes here, and nothing leaves but what this file returns.

An error is written to the site's own log and answered with one word (``ecgfed.network.errors.REASONS``): Flower would
send its text, and a text may hold a patient's id or a file's name.
"""

import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from ecgfed.errors import EcgfedError, StorageError
from ecgfed.locks import HeldError, locked
from ecgfed.network import messages
from ecgfed.network.budget import check_noise
from ecgfed.network.errors import SiteError
from ecgfed.network.programs import SITE
from ecgfed.network.site_folder import Site, open_site, registration
from ecgfed.network.site_results import EndScores, end_run, score_run
from ecgfed.network.site_run import SiteRun
from ecgfed.text import safe_text

LOG, OLD_LOG = "log.txt", "log-old.txt"
#: A server that is refused again and again fills a log and not the disk: what is longer becomes the old one, bytes.
MAX_LOG_BYTES = 4 << 20
#: A site that was killed may hold its folder a moment longer than it lives.
HELD_S = 5.0

app = ClientApp()


def handle(folder: Path, content: RecordDict, handler: Callable[[Site, RecordDict], RecordDict]) -> RecordDict:
    """Answer a message with the site's folder held, or refuse with one word.

    Args:
        folder: the site's.
        content: of the message.
        handler: what is done.
    """
    try:
        with locked(folder, wait_s=HELD_S):
            return handler(open_site(folder), content)
    except SiteError as problem:
        refusal = problem
    except HeldError as problem:
        refusal = SiteError("busy", problem.where, problem.found)
    except StorageError as problem:
        refusal = SiteError("storage", problem.where, problem.found, problem.expected, problem.action)
    except EcgfedError as problem:
        refusal = SiteError("training", problem.where, problem.found, problem.expected, problem.action)
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
        # in any locale: what is raised here would leave the site in Flower's answer
        with (folder / LOG).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(line + "\n")
    except OSError:  # the answer goes all the same
        print(ascii(line))


def _register(site: Site, content: RecordDict) -> RecordDict:
    rr, leave_out = messages.read_registration_request(content)
    reply = registration(site, rr, leave_out)
    return messages.registration_reply(reply)


def _round(site: Site, content: RecordDict) -> RecordDict:
    request = messages.read_round_request(content)
    return messages.round_reply(SiteRun(site, request.run_spec).run(request), request)


def _finish(site: Site, content: RecordDict) -> RecordDict:
    run_spec, last, split, leaves = messages.read_end_request(content)
    site_run = SiteRun(site, run_spec)
    check_noise(site.max_epsilon, site_run.plan)
    site_run.settle(last)
    # scores bear no noise: of models of a server's choice they would tell about single patients
    withhold = site.max_epsilon is not None
    if split == "valid":
        scores = EndScores(len(site_run.data.clients), None, None) if withhold else score_run(site, site_run, leaves)
    else:
        scores = end_run(site, site_run, leaves)
    return messages.end_reply(replace(scores, t_g=None, t_p=None) if withhold else scores)


def _folder() -> Path:
    return Path(os.environ[SITE])


def register(message: Message, context: Context) -> Message:
    """Say who this site is."""
    return Message(handle(_folder(), message.content, _register), reply_to=message)


def train_round(message: Message, context: Context) -> Message:
    """Train this site's participants for a round."""
    return Message(handle(_folder(), message.content, _round), reply_to=message)


def finish_run(message: Message, context: Context) -> Message:
    """Make, score and export what was trained."""
    return Message(handle(_folder(), message.content, _finish), reply_to=message)


app.query("hello")(register)
app.train()(train_round)
app.evaluate()(finish_run)
