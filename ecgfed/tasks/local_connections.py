"""Connections to the server of a local page: a peer without the page's address cannot delay the others.

A single thread accepts connections and reads request heads as they arrive, so a peer that sends slowly or not at all
costs a socket and a few kilobytes, but no thread. At most ``MAX_WAITING`` peers may be waiting; the next connection
replaces the longest-waiting peer. A complete head with the page's secret path is handled in one of ``AT_ONCE``
threads; any other head gets an immediate short response that no peer can delay.
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

#: Authorized requests that are handled at the same time.
AT_ONCE = 16
#: Limits for connections with an incomplete request head: their number, bytes of the head, seconds until it is there.
MAX_WAITING, MAX_HEAD_BYTES, HEAD_S = 128, 16_384, 10.0
#: Seconds to receive the rest of a request and to send the response.
REQUEST_S = 20.0
#: Connections accepted in a row before the waiting ones are read again.
_MAX_ACCEPTED = 16
_END = b"\r\n\r\n"

#: Responds to a request: the connection, the bytes read so far, and the time by which the request must be complete.
Respond = Callable[[socket.socket, bytes, float], None]


class RestOfRequest(io.RawIOBase):
    """A request as a stream from its first byte, part of which was read before; raises TimeoutError at the deadline.

    Args:
        head: the bytes read so far.
        connection: the source of the rest.
        until: the deadline (``time.monotonic``).
    """

    def __init__(self, head: bytes, connection: socket.socket, until: float) -> None:
        self._head, self._connection, self._until = head, connection, until

    def extend(self, seconds: float) -> None:
        """Set the deadline to some seconds from now: for a body that is read part by part."""
        self._until = time.monotonic() + seconds

    def readable(self) -> bool:
        """Return True: the stream is readable."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read the bytes that have arrived, at most the length of the buffer."""
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
    """A connection with an incomplete request head."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.head = connection, b""
        self.until = time.monotonic() + HEAD_S


class Connections:
    """Listens on 127.0.0.1 at a port chosen by the system and passes requests on once their head is complete.

    Args:
        is_authorized: whether a request head has the secret path.
        respond: responds to a request without closing the connection; of an unauthorized request it gets the head only.

    Raises:
        OSError: no port is available.
    """

    def __init__(self, is_authorized: Callable[[bytes], bool], respond: Respond) -> None:
        self._is_authorized, self._respond = is_authorized, respond
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=MAX_WAITING)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._waiting: dict[socket.socket, _Waiting] = {}  # longest-waiting first
        self._free_threads = threading.BoundedSemaphore(AT_ONCE)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="local page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more requests and close the waiting connections."""
        self._closing.set()
        self._thread.join()
        for connection in list(self._waiting):
            self._drop(connection)
        self._selector.close()
        self._listener.close()

    def _listen(self) -> None:
        while not self._closing.is_set():
            ready = [key.fileobj for key, _ in self._selector.select(0.1)]
            for source in ready:  # read waiting connections before accepting new ones
                if isinstance(source, socket.socket) and source in self._waiting:
                    self._read(self._waiting[source])
            if self._listener in ready:
                self._accept()
            now = time.monotonic()
            for expired in [waiting for waiting in self._waiting.values() if waiting.until <= now]:
                self._drop(expired.connection)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except OSError:  # no connection pending, or no file descriptor left: in that case drop one
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
            if not self._is_authorized(waiting.head):
                self._respond_and_close(connection, waiting.head, 0.0)
            elif self._free_threads.acquire(blocking=False):
                threading.Thread(target=self._respond_in_thread, args=(connection, waiting.head), daemon=True).start()
            else:
                _close(connection)

    def _respond_in_thread(self, connection: socket.socket, head: bytes) -> None:
        try:
            connection.settimeout(REQUEST_S)
            self._respond_and_close(connection, head, REQUEST_S)
        finally:
            self._free_threads.release()

    def _respond_and_close(self, connection: socket.socket, head: bytes, seconds: float) -> None:
        with suppress(Exception):  # a closed browser, a peer past its deadline, or an invalid request
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
