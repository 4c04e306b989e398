"""A JupyterLab of the tests' own: on a loopback port, with folders and settings of its own."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    "@jupyterlab/apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyterlab/notebook-extension/tracker": {"scrollPastEnd": False, "windowingMode": "full"},
}


class LabServer:
    """`jupyter lab`, started and ended here."""

    def __init__(self, folder: Path, settings: dict[str, dict[str, Any]] | None = None) -> None:
        self.folder = folder
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self.token = secrets.token_hex(16)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        for plugin, values in {**_SETTINGS, **(settings or {})}.items():
            file = folder / "settings" / f"{plugin}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))

    def start(self, timeout_s: float = 90) -> None:
        """Start it and wait until it answers."""
        env = os.environ | {name: str(self.folder / sub) for name, sub in _FOLDERS.items()}
        env |= {
            "JUPYTER_PREFER_ENV_PATH": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "widgets")]),
            "CACHEDB": str(self.folder / "cache.db"),
        }
        env.pop("NO_COLOR", None)
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={self.token}", "--ServerApp.allow_root=True",
            f"--ServerApp.root_dir={self.notebooks}", "--LabApp.expose_app_in_browser=True",
            "--LabApp.news_url=", "--LabApp.extension_manager=readonly",
            f"--FileCheckpoints.checkpoint_dir={self.folder / 'checkpoints'}",
            "--ServerApp.terminals_enabled=False", "--LanguageServerManager.autodetect=False",
        ]  # fmt: skip
        log = (self.folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.notebooks
        )
        until = time.monotonic() + timeout_s
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(OSError, urllib.error.URLError):
                self.api("GET", "api/status")
                return
            time.sleep(0.1)
        tail = (self.folder / "server.log").read_text(errors="replace")[-2000:]
        self.stop()
        raise RuntimeError(f"jupyter lab did not start:\n{tail}")

    def url(self, path: str) -> str:
        """An address of the server, with its token."""
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}"

    def api(self, method: str, path: str) -> Any:
        """The answer of one of the server's own addresses."""
        request = urllib.request.Request(self.url(path), method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=15) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def stop(self) -> None:
        """End the server, and every kernel that it started."""
        process = self._process
        if process is None:
            return
        children = []
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        if process.poll() is None:
            process.kill()
            process.wait(5)
        self._process = None


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
