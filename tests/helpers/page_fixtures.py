"""Fixtures for tests of the page: a server that answers from a list, and a browser."""

import shutil
from collections.abc import Iterator

import pytest

from page_browser import Open, Opened, sync_api
from page_stub import Server, Stub

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    if not CHROMIUM:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--headless=new",
                "--disable-background-networking",
                "--disable-gpu",
            ],
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def stub(page_server: Server) -> Stub:
    return page_server.fresh()


@pytest.fixture(scope="module")
def common_page(browser: "sync_api.Browser") -> "sync_api.Page":
    """One page for most tests: a new one takes longer than many a test."""
    return browser.new_context().new_page()


@pytest.fixture
def visit(browser: "sync_api.Browser", common_page: "sync_api.Page", stub: Stub) -> Iterator[Open]:
    """Opens the page; what goes wrong on it fails the test, refused requests aside.

    With options it is one of its own.
    """
    pages = []

    def go(url: str = "", **options: object) -> Opened:
        page = browser.new_context(**options).new_page() if options else common_page
        page.set_default_timeout(10_000)
        opened = Opened(page)
        pages.append(opened)
        for event, listen in opened.listeners().items():
            page.on(event, listen)
        page.goto(url or stub.url)
        return opened

    yield go
    for opened in pages:
        opened.leave(close=opened.page is not common_page)
        real = [text for text in opened.complaints if "Failed to load resource" not in text]
        assert real == []
