"""The chat page in a real browser: streams, stops, remembers, and asks nothing of any other server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.fake_runner import limits
from tests.server.conftest import Running
from tests.server.fake_model import VOCAB, saying

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync"

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def slow(start: Callable[..., Running]) -> Running:
    bounds = limits(context=4096, sequences=4, waiting=4, batch=64, pages=4 * 128 + 1, vocab=VOCAB)
    server = start(bounds=bounds, step_s=0.01)
    server.runner.script = saying("It is **Paris**.\n\n```python\nprint(1 < 2)\n```\nAs `code`. 🙂")
    return server


@pytest.fixture
async def page(slow: Running) -> Any:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS.split())
        page = await browser.new_page()
        page.set_default_timeout(20_000)
        page.asked, page.complaints = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        await page.goto(slow.url)
        await page.evaluate("temperature.value = 0")
        yield page
        assert page.complaints == []
        assert all(url.startswith((slow.url, "data:")) for url in page.asked)
        await browser.close()


async def test_streams_and_renders(page: Any, slow: Running) -> None:
    await page.fill("#text", "What is the capital of France?")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".assistant.streaming")
    early = await page.inner_text(".assistant .body")
    await page.wait_for_selector(".assistant footer:has-text('per second')")
    assert len(early) < len(await page.inner_text(".assistant .body"))
    assert await page.inner_text(".assistant strong") == "Paris"
    assert await page.inner_text(".assistant pre") == "print(1 < 2)"
    assert await page.inner_text(".user") == "What is the capital of France?"


async def test_stop_frees_the_engine(page: Any, slow: Running) -> None:
    slow.runner.script = lambda seen: ord("x")
    await page.click("#hello button")
    await page.wait_for_selector(".assistant.streaming")
    await page.click("#send:has-text('Stop')")
    await page.wait_for_selector(".assistant footer:has-text('stopped')")
    assert await page.is_disabled("#send")
    for _ in range(50):
        if slow.free_pages == slow.all_pages:
            break
        await page.wait_for_timeout(20)
    assert slow.free_pages == slow.all_pages


async def test_settings_reach_the_server(page: Any, slow: Running) -> None:
    slow.runner.script = saying("ok")
    await page.click("#toggle")
    await page.fill("#system", "Be brief.")
    async with page.expect_request("**/v1/chat/completions") as sent:
        await page.fill("#text", "hi")
        await page.keyboard.press("Enter")
    body = (await sent.value).post_data_json
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    assert body["temperature"] == 0
    await page.wait_for_selector(".assistant:not(.waiting):not(.streaming)")
    theme = await page.get_attribute("html", "data-theme")
    await page.click("#theme")
    assert await page.get_attribute("html", "data-theme") != theme


async def test_an_error_is_shown_and_text_is_never_html(page: Any, slow: Running) -> None:
    await page.fill("#text", "<img src=x onerror=alert(1)>" + "y" * 5000)
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".error:has-text('the prompt has')")
    assert await page.locator("#log img").count() == 0
    page.complaints.clear()  # the browser notes the 400
