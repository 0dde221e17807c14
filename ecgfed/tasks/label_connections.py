"""Connections to the labelling page's server: whoever does not know the page's address holds up nobody.

One thread takes connections and reads the heads of their requests as they come, so a peer that sends slowly, or
nothing, costs a socket and some kilobytes and no thread. There are ``MAX_WAITING`` such peers at most: one more takes
the place of the one that has waited longest. A whole head that names the page's secret path gets a thread, of which
there are ``AT_ONCE``; one that does not is answered at once, by a few bytes that no peer can delay.
"""

import io
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Requests that are answered at once; each knows the page's address.
AT_ONCE = 16
#: Connections whose request has not come, the bytes of its head, and the seconds it may take.
MAX_WAITING, MAX_HEAD_BYTES, HEAD_S = 128, 16_384, 10.0
#: Seconds for the rest of a request to come, and for its answer to be taken.
REQUEST_S = 20.0
#: Connections taken before those that are there are read again.
_MAX_ACCEPTED = 16
_END = b"\r\n\r\n"

#: Answers one request: the connection, what was read of the request, and the time by which all of it has to be there.
Respond = Callable[[socket.socket, bytes, float], None]


class RestOfRequest(io.RawIOBase):
    """A request from its beginning, of which some was read before; raises TimeoutError when it takes too long.

    Args:
        head: the bytes that were read.
        connection: where the rest comes from.
        until: the time (``time.monotonic``) by which all has to be there.
    """

    def __init__(self, head: bytes, connection: socket.socket, until: float) -> None:
        self._head, self._connection, self._until = head, connection, until

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read some bytes, however many have come."""
        if self._head:
            view = memoryview(buffer)
            chunk = self._head[: len(view)]
            self._head = self._head[len(chunk) :]
            view[: len(chunk)] = chunk
            return len(chunk)
        remaining_s = self._until - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining_s)
        return self._connection.recv_into(buffer)


class _Waiting:
    """A connection whose request has not come yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.head = connection, b""
        self.until = time.monotonic() + HEAD_S


class Connections:
    """Listens on 127.0.0.1 at a port that the system chooses, and hands over whole requests.

    Args:
        knows: says of a request's head whether it names the secret path.
        answer: answers a request and does not close it; of one that does not know the path nothing but the head can be
            read.

    Raises:
        OSError: no port can be had.
    """

    def __init__(self, is_authorized: Callable[[bytes], bool], respond: Respond) -> None:
        self._is_authorized, self._respond = is_authorized, respond
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=MAX_WAITING)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._waiting: dict[socket.socket, _Waiting] = {}  # the one that has waited longest first
        self._free_threads = threading.BoundedSemaphore(AT_ONCE)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="labelling page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, and close the connections that have sent none."""
        self._closing.set()
        self._thread.join()
        for connection in list(self._waiting):
            self._drop(connection)
        self._selector.close()
        self._listener.close()

    def _listen(self) -> None:
        while not self._closing.is_set():
            ready = [key.fileobj for key, _ in self._selector.select(0.1)]
            for one in ready:  # whoever is there is heard before others are let in
                if isinstance(one, socket.socket) and one in self._waiting:
                    self._read(self._waiting[one])
            if self._listener in ready:
                self._accept()
            now = time.monotonic()
            for waiting in [one for one in self._waiting.values() if one.until <= now]:
                self._drop(waiting.connection)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except OSError:  # nobody else is there, or this process has no file left for one: then one must go
                if len(self._waiting) >= _MAX_ACCEPTED:
                    self._drop(next(iter(self._waiting)))
                return
            connection.setblocking(False)
            if len(self._waiting) >= MAX_WAITING:
                self._drop(next(iter(self._waiting)))
            self._waiting[connection] = _Waiting(connection)
            self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, waiting: _Waiting) -> None:
        connection = waiting.connection
        try:
            chunk = connection.recv(MAX_HEAD_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        waiting.head += chunk
        if not chunk or (_END not in waiting.head and len(waiting.head) >= MAX_HEAD_BYTES):
            self._drop(connection)
        elif _END in waiting.head:
            self._unregister(connection)
            self._hand_over(connection, waiting.head)

    def _hand_over(self, connection: socket.socket, head: bytes) -> None:
        """Answer a stranger here, where nothing is read or waited for; whoever knows the path in a thread."""
        if not self._is_authorized(head):
            self._respond_and_close(connection, head, 0.0)
        elif self._free_threads.acquire(blocking=False):
            threading.Thread(target=self._respond_in_thread, args=(connection, head), daemon=True).start()
        else:
            _close(connection)

    def _respond_in_thread(self, connection: socket.socket, head: bytes) -> None:
        try:
            connection.settimeout(REQUEST_S)
            self._respond_and_close(connection, head, REQUEST_S)
        finally:
            self._free_threads.release()

    def _respond_and_close(self, connection: socket.socket, head: bytes, seconds: float) -> None:
        with suppress(Exception):  # a browser that hung up, a peer that took too long, or bytes that are no request
            self._respond(connection, head, time.monotonic() + seconds)
        _close(connection)

    def _unregister(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._waiting[connection]

    def _drop(self, connection: socket.socket) -> None:
        self._unregister(connection)
        _close(connection)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
    connection.close()
