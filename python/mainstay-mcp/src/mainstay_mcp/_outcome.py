"""Whether a call ran, read from what the gateway says and from nothing else."""

from __future__ import annotations

from .errors import MainstayError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Outcome = Literal["not_sent", "refused", "unknown", "answered", "ok"]

# JSON-RPC codes of errors that the SDK makes by itself when a call has no answer: connection closed, timed out (of 2.x and of 1.x).
_CODES_WITHOUT_ANSWER = frozenset({-32000, -32001, 408})

_WORDS: dict[object, Outcome] = {
    "not_sent": "not_sent",
    "refused": "refused",
    "unknown": "unknown",
    "answered": "answered",
}


def outcome(result_or_error: object) -> Outcome:
    """What is known of a call, from its result or from the exception that it raised.

    - `ok`: it has a result.
    - `answered`: the server answered with an error: it ran, or the server says why not.
    - `not_sent`, `refused`: it did not run. It can be called again.
    - `unknown`: it may have run. Check its effects before it is called again.

    Takes results and errors of both majors of the SDK, and results as JSON objects. Whatever says nothing of itself is `unknown`,
    such as a timeout, a cancellation, or an exception of another library. The causes of an exception are not searched.
    """
    if isinstance(result_or_error, MainstayError):
        return "not_sent" if result_or_error.nothing_sent else "unknown"
    if isinstance(result_or_error, BaseException):
        return _outcome_of_exception(result_or_error)
    if isinstance(result_or_error, dict):
        meta, failed = result_or_error.get("_meta"), result_or_error.get("isError", False)
    elif hasattr(result_or_error, "content") or hasattr(result_or_error, "meta"):
        meta = getattr(result_or_error, "meta", None)
        # 2.x has `is_error`, 1.x `isError`; results other than a tool's have neither. FastMCP warns of the older name.
        failed = getattr(result_or_error, "is_error", None)
        if failed is None:
            failed = getattr(result_or_error, "isError", False)
    else:
        return "unknown"
    facts = _facts(meta)
    if facts is not None:
        return _WORDS.get(facts.get("outcome"), "unknown")
    return "answered" if failed else "ok"


def _outcome_of_exception(error: BaseException) -> Outcome:
    # anyio's task groups wrap what leaves them. The builtin class is missing before Python 3.11.
    members = getattr(error, "exceptions", None)
    if isinstance(members, tuple) and members:
        outcomes = {outcome(member) for member in members}
        return outcomes.pop() if len(outcomes) == 1 else "unknown"
    # `McpError` of 1.x and `MCPError` of 2.x: both carry the JSON-RPC error.
    answer = getattr(error, "error", None)
    code = getattr(answer, "code", None)
    if not isinstance(code, int):
        return "unknown"
    facts = _facts(getattr(answer, "data", None))
    if facts is not None:
        return _WORDS.get(facts.get("outcome"), "unknown")
    return "unknown" if code in _CODES_WITHOUT_ANSWER else "answered"


def _facts(holder: object) -> dict[str, Any] | None:
    """What the gateway says of a failed call. Lists may carry other facts, without an outcome."""
    facts = holder.get("mainstay") if isinstance(holder, dict) else None
    return facts if isinstance(facts, dict) and "outcome" in facts else None
