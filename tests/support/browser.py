"""Chromium of the system's package, without a window and without a network, for pages that ought to need none."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

AXE = Path(__file__).resolve().parents[2] / ".venv" / "axe" / "package" / "axe.min.js"
"""Where the Makefile puts it."""
CHROMIUM, DRIVER = ("chromium", "chromium-browser"), "chromedriver"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
)
"""The last two: whatever is asked of a network is asked of a port where nobody answers."""


@contextmanager
def browser(width: int = 1200, height: int = 900) -> Iterator:
    """A driver of a new browser that knows nobody, and logs what the page says and asks for; skips where there is no browser."""
    selenium = pytest.importorskip("selenium", reason="selenium is not installed: the report was not opened in a browser")
    binary, driver = next(filter(None, map(shutil.which, CHROMIUM)), None), shutil.which(DRIVER)
    if not binary or not driver:
        pytest.skip("no Chromium and chromedriver here (Debian: chromium, chromium-driver): the report was not opened in a browser")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    assert selenium
    with tempfile.TemporaryDirectory(prefix="gemmgen-browser-") as folder:
        options = ChromeOptions()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")} | {"HOME": folder}
        limit = socket.getdefaulttimeout()
        socket.setdefaulttimeout(60)  # which selenium keeps for each request of this driver: without it, a browser that hangs is waited for without end
        try:
            opened = Chrome(options=options, service=Service(executable_path=driver, log_output=os.devnull, env=environment))
        finally:
            socket.setdefaulttimeout(limit)
        try:
            opened.set_page_load_timeout(30)
            yield opened
        finally:
            opened.quit()


def console(opened) -> list[str]:
    """What the page said since it was last asked, but for what is no warning."""
    return [one["message"] for one in opened.get_log("browser") if one["level"] in ("WARNING", "SEVERE")]


def requests(opened) -> list[str]:
    """What pages asked for since they were last asked: addresses, but for those of the browser itself and of data in the page."""
    import json

    found = []
    for one in opened.get_log("performance"):
        message = json.loads(one["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            address = message["params"]["request"]["url"]
            found += [] if address.startswith(("chrome:", "chrome-untrusted:", "data:", "about:")) else [address]
    return found


def emulated(opened, width: int, height: int, dark: bool) -> None:
    """A window of this size, in whose system colours are light or dark."""
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def axe() -> str:
    """The text of axe-core, which `make test-all` fetches; skips where it could not be."""
    if not AXE.is_file():
        pytest.skip("no axe-core here (make test-all fetches it by npm): accessibility was not checked")
    return AXE.read_text()


def barriers(opened, text: str) -> list[tuple[str, str, str]]:
    """What axe-core finds serious or critical in the page as it is shown: (rule, impact, the elements' beginning)."""
    opened.set_script_timeout(120)
    found = opened.execute_async_script(f"{text};\nconst done = arguments[arguments.length - 1];\naxe.run(document, {{resultTypes: ['violations']}})"
                                        ".then(told => done({violations: told.violations, passes: told.passes.length}), error => done(String(error)));")
    assert isinstance(found, dict) and found["passes"], found
    return [(one["id"], one["impact"], " | ".join(node["html"][:120] for node in one["nodes"][:3]))
            for one in found["violations"] if one["impact"] in ("serious", "critical")]
