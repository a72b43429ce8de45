"""The page at / on which people try a model; it asks /v1/chat/completions like any client."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

from starlette.responses import HTMLResponse


def chat_page() -> HTMLResponse:
    """Return the page. Browsers run its own script alone, and let it ask its own server alone."""
    page = _read()
    script, style = (_digest(page, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(page, headers={"content-security-policy": policy, "referrer-policy": "no-referrer"})


@cache
def _read() -> str:
    return resources.files("intact.lm.serving").joinpath("chat_page.html").read_text(encoding="utf-8")


def _digest(page: str, tag: str) -> str:
    """Return the hash by which a policy names the text of an element."""
    text = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[0]
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
