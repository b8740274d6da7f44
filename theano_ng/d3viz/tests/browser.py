"""A browser for tests: chromedriver, used through its HTTP interface (W3C WebDriver)."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


def missing():
    """Return a message that names a missing program; return None if all are installed."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")):
        return "the pages are tested in Chromium, which is not installed"
    if not shutil.which("chromedriver"):
        return "Chromium is driven by chromedriver, which is not installed"
    return None


class Browser:
    """A headless Chromium with one window, used as a context manager.

    Parameters
    ----------
    width, height : int
    """

    def __init__(self, width=1280, height=800):
        self.profile = tempfile.mkdtemp(prefix="theano_ng-browser-")
        # The browser writes all its files into the folder of its profile, which is removed at the end.
        own = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"), self.profile)
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **own},
        )
        self.session = None
        try:
            for line in self.driver.stdout:
                if "started successfully on port" in line:
                    self.address = "http://127.0.0.1:%d/session" % int(line.rstrip(". \n").rpartition(" ")[2])
                    break
            arguments = (
                "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
                " --disable-component-update --disable-sync --hide-scrollbars --force-device-scale-factor=1"
            ).split()
            binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
            options = {
                "binary": binary,
                "args": [*arguments, "--user-data-dir=" + self.profile, "--window-size=%d,%d" % (width, height)],
            }
            capabilities = {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            self.session = self._send("POST", "", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _send(self, method, path, content=None):
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        # The driver runs on this machine, so requests to it use no proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError("%s %s: %s" % (method, path, error.read().decode()[:2000])) from None

    def _do(self, path, content=None, method="POST"):
        return self._send(
            method, "/%s/%s" % (self.session, path), {} if content is None and method == "POST" else content
        )

    def open(self, path):
        """Open a file and wait until the page is ready."""
        self._do("url", {"url": path.resolve().as_uri()})
        self.wait("return document.getElementById('graph').dataset.ready === 'yes'")

    def run(self, script, *args):
        """Return the value that a script returns."""
        return self._do("execute/sync", {"script": script, "args": list(args)})

    def wait(self, script, *args, seconds=20):
        """Wait until a script returns a true value, and return that value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *args)
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError("still false after %s s: %s" % (seconds, script))
            time.sleep(0.02)

    def element(self, selector):
        """Return the handle of the first element that a CSS selector finds."""
        return next(iter(self._do("element", {"using": "css selector", "value": selector}).values()))

    def place(self, selector):
        """Return the center of an element in the window."""
        return self.run(
            "const r = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return [Math.round(r.x + r.width / 2), Math.round(r.y + r.height / 2)]",
            selector,
        )

    def mouse(self, *steps):
        """Move and press the mouse.

        ``(x, y)`` moves it to a position. ``"down"``, ``"up"`` and ``"menu"`` press, release and right-click.
        """
        actions = []
        for step in steps:
            if step == "menu":
                actions += [{"type": "pointerDown", "button": 2}, {"type": "pointerUp", "button": 2}]
            elif isinstance(step, str):
                actions.append({"type": "pointerDown" if step == "down" else "pointerUp", "button": 0})
            else:
                actions.append({"type": "pointerMove", "x": int(step[0]), "y": int(step[1]), "duration": 10})
        self._do("actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def wheel(self, x, y, delta):
        """Turn the wheel at a position."""
        action = {"type": "scroll", "x": int(x), "y": int(y), "deltaX": 0, "deltaY": delta, "duration": 0}
        self._do("actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [action]}]})

    def click(self, selector):
        self.mouse(self.place(selector), "down", "up")

    def double_click(self, selector):
        self.mouse(self.place(selector), "down", "up", "down", "up")

    def type(self, selector, text):
        """Type into a field; U+E007 is Enter, U+E00C Escape."""
        self._do("element/%s/value" % self.element(selector), {"text": text})

    def screenshot(self):
        """Return the window as a PNG."""
        return base64.b64decode(self._do("screenshot", method="GET"))

    def count_pixels(self, png, colors):
        """Return, for each color (red, green, blue), the number of pixels of a PNG that have this color."""
        script = """
            const [source, colors, done] = arguments;
            const image = new Image();
            image.onload = () => {
              const canvas = Object.assign(document.createElement("canvas"), {width: image.width, height: image.height});
              const context = canvas.getContext("2d");
              context.drawImage(image, 0, 0);
              const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
              const wanted = colors.map(([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0);
              const counts = wanted.map(() => 0);
              for (const pixel of pixels) wanted.forEach((color, i) => (counts[i] += pixel === color));
              done(counts);
            };
            image.src = source;
        """
        source = "data:image/png;base64," + base64.b64encode(png).decode()
        return self._do("execute/async", {"script": script, "args": [source, [list(color) for color in colors]]})

    def messages(self):
        """Return the console's messages since the last call."""
        return [entry["message"] for entry in self._do("se/log", {"type": "browser"})]

    def requests(self):
        """Return the addresses that were requested since the last call."""
        found = []
        for entry in self._do("se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def close(self):
        try:
            if self.session is not None:
                self._send("DELETE", "/" + self.session)
        finally:
            self.session = None
            self.driver.terminate()
            self.driver.wait(20)
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
