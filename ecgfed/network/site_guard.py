"""What a site takes from its server, and whether the server is still there: bounds around Flower's SuperNode.

Flower 1.41 reads responses of any length, unpacks compressed ones, and keeps every object of a message in memory. A
server that means harm, or a mistake in its code, must not fill the memory of a hospital's machine.
"""

import json
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
from flwr.supercore.inflatable import inflatable_utils

from ecgfed.network.last_answer import note_answer, note_refused, seconds_since_answer
from ecgfed.network.objects import MAX_OBJECTS, ObjectLimits, check_tree, or_empty

#: Largest response of a server: one chunk of an array, or the identifiers of a message's objects; bytes.
MAX_RESPONSE_BYTES = 8 << 20
#: Largest message of a server: the shared model, and for each patient what belongs to it alone; bytes.
MESSAGE_BYTES, MESSAGE_BYTES_OF_PATIENT = 128 << 20, 8 << 20
#: Largest record of a message that holds no weights, bytes.
RECORD_BYTES = 16 << 20
#: Share of the machine's memory that answering a question may take.
MEMORY_SHARE = 0.75
#: Seconds between two questions whether the server is there, while it is asked nothing else.
PING_S = 3.0


def message_limits(folder: Path) -> ObjectLimits:
    """Return what the objects of a server's message may take at a site."""
    try:
        patients = len(json.loads((folder / "site.json").read_bytes())["order"])
    except (OSError, ValueError, KeyError, TypeError):
        patients = 0
    return ObjectLimits(RECORD_BYTES, MESSAGE_BYTES + MESSAGE_BYTES_OF_PATIENT * patients)


def check_messages(folder: Path) -> None:
    """Have this process put together no message beyond the limits, and take no more memory than the machine can spare.

    Args:
        folder: the site's folder.
    """
    utils: Any = inflatable_utils
    utils.inflate_object_from_contents = or_empty(message_limits(folder), utils.inflate_object_from_contents)
    limit = int(MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or hard > limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def guard_supernode(folder: Path) -> None:
    """Bound what this SuperNode reads, and note whether the server answers.

    Args:
        folder: the site's folder.
    """
    client: Any = import_module("flwr.supernode.fleet_http_client").FleetHttpClient
    begin = client.__init__

    def bounded(self: Any, *given: Any, **others: Any) -> None:
        begin(self, *given, **others)
        self._client.event_hooks = {"response": [check_response]}

    client.__init__ = bounded
    node: Any = import_module("flwr.supernode.start_client_internal")
    node.get_fused_config_from_fab = lambda *_: {}  # the archive with the run's code is not opened
    node.pull_objects = _bounded_pull(node.pull_objects, message_limits(folder).array_bytes)
    pull = client.PullMessages

    def checked(self: Any, request: Any) -> Any:
        answer = pull(self, request)
        try:
            for tree in answer.message_object_trees:
                check_tree(tree)
        except ValueError as problem:
            print(f"the server's message is ignored: {problem}")
            answer.Clear()
        return answer

    client.PullMessages = checked
    for name in ("SendNodeHeartbeat", "PullMessages"):
        setattr(client, name, _noting(folder, getattr(client, name), pings=name == "SendNodeHeartbeat"))


def check_response(response: httpx.Response) -> None:
    """Refuse a response that is compressed, too long, or does not say how long it is; raises RemoteProtocolError."""
    length = response.headers.get("content-length", "")
    is_bounded = length.isdecimal() and int(length) <= MAX_RESPONSE_BYTES
    if not is_bounded or response.headers.get("content-encoding", "identity") != "identity":
        response.close()
        raise httpx.RemoteProtocolError(f"a response of {length[:20] or 'any'} bytes, or a compressed one")


def _bounded_pull(pull: Callable[..., Any], most: int) -> Callable[..., Any]:
    """Return Flower's function that fetches a message's objects, which stops beyond so many bytes or objects."""

    def pull_objects(object_ids: Sequence[str], pull_object_fn: Callable[[str], bytes], **others: Any) -> Any:
        if len(object_ids) > MAX_OBJECTS:
            raise ValueError(f"a message of {len(object_ids):,} objects")
        received = 0

        def counted(object_id: str) -> bytes:
            nonlocal received
            content = pull_object_fn(object_id)
            received += len(content)
            if received > most:
                raise ValueError(f"a message of more than {most:,} bytes")
            return content

        return pull(object_ids, counted, **others)

    return pull_objects


def _noting(folder: Path, ask: Callable[[Any, Any], Any], *, pings: bool) -> Callable[[Any, Any], Any]:
    """Return a request of the SuperNode that notes its answer; with ``pings`` it is repeated while all is quiet.

    During a training the SuperNode asks its server nothing but a heartbeat every half minute.
    """
    threads: list[threading.Thread] = []

    def noted(self: Any, request: Any) -> Any:
        if pings and not threads:
            threads.append(threading.Thread(target=_ping, args=(folder, ask, self, request), daemon=True))
            threads[0].start()
        try:
            answer = ask(self, request)
        except Exception as problem:
            if is_refused(problem):
                note_refused(folder)
            raise
        note_answer(folder)
        return answer

    return noted


def _ping(folder: Path, ask: Callable[[Any, Any], Any], client: Any, request: Any) -> None:
    while True:
        time.sleep(PING_S)
        if seconds_since_answer(folder) < PING_S:
            continue
        try:
            ask(client, request)
            note_answer(folder)
        except Exception as problem:  # whatever it is, the next one may be answered
            if is_refused(problem):
                note_refused(folder)


def is_refused(problem: BaseException | None) -> bool:
    """Return whether a request failed because nobody listens at the address: unlike a silence, no matter of the way."""
    return any(isinstance(cause, ConnectionRefusedError) for cause in _causes(problem))


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__ or problem.__context__
