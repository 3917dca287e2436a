"""Takes the screenshot of the search page that the documentation shows, from any index:

lookalike train glyphs --out run
lookalike index run glyphs --out glyphs.index
lookalike calibrate run glyphs --index glyphs.index
python docs/search_page.py glyphs.index IMAGE

It needs playwright and a chromium, as the tests of the page do.
"""

import os
import shutil
import sys
import threading
import time
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from lookalike.serve.run import listen, server_config
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store

WIDTH, HEIGHT = 1100, 720


def main(index: str, image: str) -> None:
    """Serves the index, searches by the image, and writes what the page then shows."""
    settings, out = ServeSettings(port=0), Path(__file__).with_suffix(".png")
    store = Store.open(index, "cpu")
    with listen(settings) as listener:
        server = uvicorn.Server(server_config(store, settings))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.05)
        try:
            take(f"http://127.0.0.1:{listener.getsockname()[1]}", image, out)
        finally:
            server.should_exit = True
            thread.join()
            store.close()


def take(address: str, image: str, out: Path) -> None:
    """The screenshot, once the images of the first rows are there."""
    chromium = os.environ.get("LOOKALIKE_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(address)
        page.set_input_files("#file", image)
        page.wait_for_selector(".hit")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=out)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
