"""What the control API answers. Written by generate_api.py from the OpenAPI document; do not edit.

A later version of the program may send more keys and more words than are named here. Absent values are `None`.
"""

from __future__ import annotations

from typing import TypedDict


class Actor(TypedDict, total=False):
    """Who did something."""

    agent: str | None
    via: str
    who: str | None


class ApiProblem(TypedDict, total=False):
    """Why a request failed: what is wrong, where, and what helps."""

    kind: str
    nearest: list[str]
    problems: list[ConfigProblem]
    remedy: str | None
    status: int
    title: str
    where: str | None


class CallTotals(TypedDict, total=False):
    """The calls of a server since it was added."""

    answered: int
    cancelled: int
    errors: int
    in_flight: int
    last_success_ms: int | None
    not_sent: int
    p50_us: int | None
    p95_us: int | None
    refused: int
    total: int
    unknown: int
    waiting: int


class CatalogEntry(TypedDict, total=False):
    """One thing that a server offers."""

    kind: str
    name: str


class CatalogSummary(TypedDict, total=False):
    """How much a server offers, and how old that is."""

    listed_ms: int | None
    prompts: int
    resources: int
    stale_since_ms: int | None
    templates: int
    tools: int


class ChangedEntry(TypedDict, total=False):
    """One thing that a server describes in another way."""

    kind: str
    members: list[ChangedMember]
    name: str


class ChangedMember(TypedDict, total=False):
    """One member of a definition that differs."""

    after: str | None
    before: str | None
    member: str


class ConfigProblem(TypedDict, total=False):
    """One thing wrong with a configuration."""

    column: int | None
    file: str | None
    fix: str | None
    key: str | None
    line: int | None
    message: str
    server: str | None
    severity: str


_KeywordsOfEventRecord = TypedDict("_KeywordsOfEventRecord", {"from": str}, total=False)


class EventRecord(_KeywordsOfEventRecord, total=False):
    """One thing that happened."""

    added: list[CatalogEntry]
    again: bool
    agent: str | None
    at_ms: int
    attempt: int
    by: Actor
    cause: str
    changed: list[ChangedEntry]
    command: str
    count: int
    failure: FailureDocument | None
    generation: int | None
    id: str
    left_out: int
    link: int
    lost: int | None
    next_retry_ms: int | None
    node: str | None
    outcome: str | None
    reason: str
    refused: str | None
    remedy: str | None
    removed: list[CatalogEntry]
    report: ReloadReport
    revision: int
    sequence: int
    server: str | None
    title: str
    to: str
    type: str


class FailedCalls(TypedDict, total=False):
    """Calls that failed in the same way."""

    calls: int
    error: str


class FailureDocument(TypedDict, total=False):
    """What went wrong with a server."""

    exit_code: int | None
    generation: int | None
    login: LoginNeeded | None
    message: str
    signal: int | None
    stderr: list[str]
    stderr_reason: str | None


class LoginNeeded(TypedDict, total=False):
    """What a login to a server needs."""

    resource_metadata: str | None
    scopes: list[str]


class PendingCallStatus(TypedDict, total=False):
    """A call that waits for an answer."""

    id: str
    method: str
    name: str | None
    session: int | None
    since_ms: int


class ProcessStatus(TypedDict, total=False):
    """The processes of a server."""

    cpu_ms: int | None
    pid: int
    processes: int | None
    resident_bytes: int | None


class ProgramStatus(TypedDict, total=False):
    """The running program."""

    configuration: str | None
    configuration_missing: bool
    configuration_problem: str | None
    connected: int
    instance: str
    last_event: int
    node: str | None
    pid: int
    role: str
    servers: int
    sessions: int
    started_ms: int
    version: str


class ReloadReport(TypedDict, total=False):
    """What a reload changed, by server."""

    added: list[str]
    adjusted: list[str]
    disabled: list[str]
    enabled: list[str]
    file: str | None
    problems: list[ConfigProblem]
    removed: list[str]
    replaced: list[str]
    still_disabled: list[str]
    unchanged: list[str]


class ServerStatus(TypedDict, total=False):
    """What can be seen of one server."""

    attempt: int
    budget: int
    call_failures: list[FailedCalls]
    calls: CallTotals
    calls_held_until_ms: int | None
    catalog: CatalogSummary | None
    credential: str | None
    desired: str
    era: str | None
    generation: int | None
    last_failure: FailureDocument | None
    listing_failure: str | None
    name: str
    next_listing_ms: int | None
    next_retry_ms: int | None
    node: str | None
    origin: str
    pending: list[PendingCallStatus]
    process: ProcessStatus | None
    protocol_version: str | None
    reason: str | None
    sessions: list[int]
    set_aside: list[str]
    silent_since_ms: int | None
    since_ms: int
    stale_reports: int
    start: StartStatus | None
    starts: int
    state: str
    stderr: list[str]
    target: str | None
    transport: str | None
    up: bool


class StartStatus(TypedDict, total=False):
    """What a server does that is being started."""

    program: str | None
    since_ms: int
    stage: str
