from __future__ import annotations

import asyncio
from types import SimpleNamespace as Object
from typing import Any

import pytest

from mainstay_mcp import ControlError, ProgramError, outcome


class SdkError(Exception):
    """As `McpError` and `MCPError` are."""

    def __init__(self, code: int, data: Any = None) -> None:
        super().__init__(code)
        self.error = Object(code=code, data=data)


class Group(Exception):
    """As `ExceptionGroup` is, which Python 3.10 does not have."""

    def __init__(self, *members: Exception) -> None:
        super().__init__(members)
        self.exceptions = members


def facts(word: str) -> dict[str, Any]:
    return {"mainstay": {"outcome": word, "server": "s"}}


@pytest.mark.parametrize("word", ["not_sent", "refused", "unknown", "answered"])
def test_what_the_gateway_says_is_read_from_results_errors_and_json(word: str) -> None:
    assert outcome(Object(content=[], meta=facts(word), isError=True)) == word
    assert outcome(Object(content=[], meta=facts(word), is_error=True)) == word
    assert outcome({"content": [], "_meta": facts(word), "isError": True}) == word
    assert outcome(SdkError(-32000, facts(word))) == word


def test_without_its_words_a_result_is_ok_or_answered() -> None:
    assert outcome(Object(content=[], meta=None, isError=False)) == "ok"
    assert outcome(Object(content=[], meta={"other": 1}, is_error=True)) == "answered"
    assert outcome(Object(tools=[], meta={"mainstay": {"unavailable": ["s"]}})) == "ok"
    assert outcome({"content": [], "isError": True}) == "answered"
    assert outcome(SdkError(-32602)) == "answered"


@pytest.mark.parametrize(
    "silent",
    [
        SdkError(-32000),
        SdkError(-32001),
        SdkError(408),
        SdkError(-32000, facts("a word of a later version")),
        Object(content=[], meta=facts("a word of a later version"), is_error=True),
        ValueError("x"),
        asyncio.CancelledError(),
        asyncio.TimeoutError(),
        ControlError("x", kind="timed_out"),
        None,
        "a text",
    ],
)
def test_what_says_nothing_of_itself_is_unknown(silent: object) -> None:
    assert outcome(silent) == "unknown"


def test_a_group_has_the_outcome_that_all_of_its_members_have() -> None:
    missing = ProgramError("x")
    assert outcome(missing) == "not_sent"
    assert outcome(Group(missing, Group(missing))) == "not_sent"
    assert outcome(Group(missing, SdkError(-32602))) == "unknown"
