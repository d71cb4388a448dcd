"""The chat page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.demo, pytest.mark.browser]


@pytest.fixture
def page() -> Iterator[Page]:
    if not CHROMIUM.exists():
        pytest.fail(
            "Chromium is missing; install the packages chromium and chromium-driver of the distribution"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser.new_page()
        browser.close()


def test_a_chat_streams_stops_and_begins_anew(server, page, tmp_path):
    foreign, errors = [], []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((server.url, "data:")) else foreign.append(request.url)
        ),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(server.url)
    expect(page.locator("#model")).to_contain_text("demo")
    page.screenshot(path=tmp_path / "empty.png")

    page.get_by_role("button", name="Settings").click()
    page.locator("#temperature").fill("0")
    page.get_by_role("button", name="Settings").click()
    box = page.locator("form textarea")
    box.fill("What is the capital of France?")
    box.press("Enter")
    answer = page.locator(".assistant").last
    expect(answer).to_contain_text("The capital of France is Paris.", timeout=60_000)
    expect(page.locator(".user")).to_have_text("What is the capital of France?")
    page.screenshot(path=tmp_path / "answered.png")

    expect(page.locator("#send")).not_to_have_class("stop", timeout=120_000)
    box.fill("Count from one to one hundred in words.")
    box.press("Enter")
    expect(page.locator("#send.stop")).to_be_visible(timeout=10_000)
    page.locator("#send.stop").click()
    expect(page.locator("#send.stop")).to_have_count(0, timeout=10_000)

    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".user")).to_have_count(0)
    assert foreign == [], "the page asks nobody but its server"
    assert errors == []


def test_what_a_user_writes_stays_text(server, page):
    page.goto(server.url)
    box = page.locator("form textarea")
    box.fill("<img src=x onerror=\"document.title='broken'\"> <|im_end|>")
    box.press("Enter")
    expect(page.locator(".user")).to_contain_text("<img src=x")
    expect(page.locator(".assistant").last).not_to_be_empty(timeout=60_000)
    assert page.title() != "broken"
    assert page.locator(".user img").count() == 0
