"""Every check of the project, in one command: `python -m tests`.

Checks run in this order; one that fails does not stop the later ones, and the last lines say which
failed. `python -m tests fast` runs those that take seconds (what a commit hook wants), `python -m
tests ruff mypy` those that are named. Checks of the front end need Node and are skipped, with that
reason, where there is none.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
BUNDLES = ROOT / "widgets" / "tinylab_widgets" / "static"
IN_CI = os.environ.get("CI", "") not in ("", "0", "false")


class Skip(Exception):
    """Raised by a check that can't run here; its text is the reason."""


def call(*command: str | Path, cwd: Path = ROOT) -> bool:
    """Whether the command ends with status 0."""
    return subprocess.run([str(part) for part in command], cwd=cwd, check=False).returncode == 0


def python(*arguments: str) -> bool:
    """Whether this Python, given these arguments, ends with status 0."""
    return call(sys.executable, *arguments)


def npm(*arguments: str) -> bool:
    """Whether npm, run in js/ with its packages in place, ends with status 0."""
    if shutil.which("npm") is None:
        if IN_CI:
            raise RuntimeError("npm is missing, and CI does not skip the front end")
        raise Skip("no Node here; the bundle that is committed is used as it is")
    modules = ROOT / "js" / "node_modules"
    if not modules.exists() and not call("npm", "ci", "--ignore-scripts", cwd=ROOT / "js"):
        return False
    return call("npm", *arguments, cwd=ROOT / "js")


def digests() -> dict[str, str]:
    """File name -> SHA-256, of the committed bundles."""
    files = sorted(path for path in BUNDLES.rglob("*") if path.is_file())
    return {str(f.relative_to(BUNDLES)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def bundle_is_current() -> bool:
    """Rebuild the bundle and compare it with what is committed."""
    before = digests()
    if not npm("run", "build"):
        return False
    after = digests()
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    for name in changed:
        print(f"{name}: the committed bundle is not what `npm run build` makes")
    return not changed


def run_pytest() -> bool:
    """All Python tests and the notebooks, on three processes: who drives a browser often waits."""
    notebooks = [str(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    extra = ["--nbmake", "--nbmake-timeout=900", *notebooks] if notebooks else []
    return python("-m", "pytest", "-q", "-n", "3", "--dist", "worksteal", "tests", *extra)


def replay_of_models() -> bool:
    """What became of the kernels of the benchmark models since the main branch: listed, read.

    Fails where a kernel of the other revision cannot be made any more.
    """
    base = other_revision()
    with tempfile.TemporaryDirectory() as folder:
        tree, record = Path(folder) / "base", Path(folder) / "kernels.jsonl"
        if not call("git", "worktree", "add", "-q", "--detach", tree, base):
            raise Skip(f"no working tree of {base}")
        try:
            if not (tree / "benchmarks" / "replay.py").exists():
                raise Skip(f"{base} does not record kernels yet")
            command = [sys.executable, "-m", "benchmarks.replay", "record", record]
            if not call(*command, cwd=tree):
                return False
        finally:
            call("git", "worktree", "remove", "--force", tree)
        listed = subprocess.run(
            [sys.executable, "-m", "tinylab.lab.cli", "replay", record],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
    print(listed.stdout + listed.stderr)
    return listed.returncode in (0, 1) and ": error\n" not in listed.stdout


def other_revision() -> str:
    """Where this branch left the main one; the commit before this one on the main branch itself."""
    if shutil.which("git") is None:
        raise Skip("no git here")
    for name in ("origin/main", "main"):
        found = subprocess.run(
            ["git", "merge-base", "HEAD", name],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
        if found.returncode == 0:
            base = found.stdout.strip()
            return "HEAD~1" if base == head() else base
    raise Skip("no main branch to compare with")


def head() -> str:
    """The commit that is checked out."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return found.stdout.strip()


FAST: dict[str, Callable[[], bool]] = {
    "ruff": lambda: python("-m", "ruff", "check", "."),
    "format": lambda: python("-m", "ruff", "format", "--check", "."),
    "mypy": lambda: python("-m", "mypy"),
    "layers": lambda: call(BIN / "lint-imports"),
    "layout": lambda: python("-m", "pytest", "-q", "tests/layout"),
}
SLOW: dict[str, Callable[[], bool]] = {
    "biome": lambda: npm("run", "lint"),
    "tsc": lambda: npm("run", "typecheck"),
    "vitest": lambda: npm("test"),
    "bundle": bundle_is_current,
    "replay": replay_of_models,
    "pytest": run_pytest,
}
CHECKS = FAST | SLOW


def run(names: list[str]) -> Iterator[tuple[str, str, float]]:
    """(check, "passed" | "FAILED" | "skipped: why", seconds), as each ends."""
    for name in names:
        print(f"\n==== {name}", flush=True)
        start = time.monotonic()
        try:
            verdict = "passed" if CHECKS[name]() else "FAILED"
        except Skip as reason:
            verdict = f"skipped: {reason}"
        except (OSError, RuntimeError) as error:
            verdict = f"FAILED: {error}"
        yield name, verdict, time.monotonic() - start


def main(arguments: list[str]) -> int:
    """Run the named checks, all of them if none is named; 0 if none failed."""
    names = list(CHECKS) if not arguments else list(FAST) if arguments == ["fast"] else arguments
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        print(f"unknown check {unknown[0]}; there are: fast {' '.join(CHECKS)}")
        return 2
    results = list(run(names))
    print("\n" + "\n".join(f"{name:8} {took:7.1f} s  {verdict}" for name, verdict, took in results))
    failed = [name for name, verdict, _ in results if verdict.startswith("FAILED")]
    passed = sum(verdict == "passed" for _, verdict, _ in results)
    skipped = len(results) - passed - len(failed)
    print(f"checks: {passed} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
