"""Messages between a notebook and its workers: a JSON object, bytes, and open files.

Nothing is unpickled: a worker runs code that may have overwritten its memory, so what it sends is
data. The files of one message are its last part, sent over the Unix socket beside a byte each.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

_HEAD = struct.Struct("<IQI")  # length of the JSON text, of the bytes, number of files
_MOST = 1 << 31


class Closed(EOFError):
    """The other side is gone."""


class Channel:
    """One end of a Unix socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any], blob: bytes = b"", files: Sequence[int] = ()) -> None:
        """Sends a message, whole.

        Raises: Closed if nobody is there.
        """
        text = json.dumps(message).encode()
        try:
            self.sock.settimeout(None)
            self.sock.sendall(_HEAD.pack(len(text), len(blob), len(files)) + text + blob)
            if files:
                socket.send_fds(self.sock, [b"f"], list(files))
        except OSError as e:
            raise Closed(str(e)) from None

    def receive(self, limit_s: float | None = None) -> tuple[dict[str, Any], bytes, list[int]]:
        """The next message.

        Raises: Closed if the other side is gone, TimeoutError if it says nothing in time.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        text_size, blob_size, count = _HEAD.unpack(self._read(_HEAD.size, deadline))
        if text_size + blob_size > _MOST:
            raise Closed("a message of impossible size")
        message = json.loads(self._read(text_size, deadline))
        blob = self._read(blob_size, deadline)
        return message, blob, self._read_files(count, deadline) if count else []

    def close(self) -> None:
        """Hangs up."""
        self.sock.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._wait(deadline)
            try:
                part = self.sock.recv(min(size - len(data), 1 << 20))
            except TimeoutError:
                raise
            except OSError as e:
                raise Closed(str(e)) from None
            if not part:
                raise Closed("the other side hung up")
            data += part
        return bytes(data)

    def _read_files(self, count: int, deadline: float | None) -> list[int]:
        self._wait(deadline)
        _, files, _, _ = socket.recv_fds(self.sock, 1, count)
        if len(files) != count:
            raise Closed(f"{len(files)} of {count} files arrived")
        return files

    def _wait(self, deadline: float | None) -> None:
        if deadline is None:
            self.sock.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left)
