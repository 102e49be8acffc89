"""The method `x/echo` of an extension that no SDK knows, for servers on the Python SDK and on what is built on it."""

from typing import Any, Literal

from mcp_types import Notification, NotificationParams, RequestParams, Result


class EchoParams(RequestParams):
    value: Any


class EchoResult(Result):
    value: Any


class EchoedParams(NotificationParams):
    value: Any


class Echoed(Notification[EchoedParams, Literal["notifications/x/echoed"]]):
    method: Literal["notifications/x/echoed"] = "notifications/x/echoed"
    params: EchoedParams


async def echo(ctx, params: EchoParams) -> EchoResult:
    """Sends the value in a notification, and answers with it."""
    await ctx.session.send_notification(Echoed(params=EchoedParams(value=params.value)), related_request_id=ctx.request_id)
    return EchoResult(value=params.value, _meta={"com.example/kept": [1, {"a": None}]})


def add_echo(low_level):
    low_level.add_request_handler("x/echo", EchoParams, echo)
