//! The keys that Mainstay reads, each with its shape and what it means.
//!
//! The reader and the JSON Schema share these tables, so that neither knows a key that the other does not. The reader panics
//! in debug builds if it asks for a key that its table lacks.

/// What to make of the keys of an object.
pub(super) struct Keys {
    /// Understood. Each may be written in snake_case, as here, or in camelCase.
    pub(super) known: &'static [Key],
    /// Understood too, snake_case, because other programs write them; never suggested for a misspelt key.
    pub(super) adopted: &'static [&'static str],
    /// Written by other programs for themselves: passed over in silence.
    pub(super) foreign: &'static [&'static str],
    /// Written by other programs to change what they do: worth a warning, since they change nothing here.
    pub(super) ignored_with_warning: &'static [(&'static str, &'static str)],
}

/// One key that is understood.
pub(super) struct Key {
    /// Its name in snake_case.
    pub(super) name: &'static str,
    /// What its value may be. `null` is the same as leaving the key out.
    pub(super) shape: Shape,
    /// What it means, for a person who writes it in an editor.
    pub(super) meaning: &'static str,
}

/// What a value may be.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Text,
    Flag,
    Duration,
    /// A whole number of at least one.
    Count,
    /// A whole number, zero included.
    WholeNumber,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// `false` alone.
    Off,
    Texts,
    /// At least one text.
    SomeTexts,
    /// Texts, numbers and booleans.
    Scalars,
    /// Texts by names of the person's own.
    TextsByName,
    /// Texts, numbers and booleans by names of the person's own.
    ScalarsByName,
    Object(&'static Keys),
    /// Any of these.
    AnyOf(&'static [Self]),
}

impl Keys {
    /// Nothing but these, which no other program writes.
    const fn only(known: &'static [Key]) -> Self {
        Self {
            known,
            adopted: &[],
            foreign: &[],
            ignored_with_warning: &[],
        }
    }

    /// The names of the keys that are understood, in snake_case.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.known.iter().map(|key| key.name)
    }

    /// The key that this is a spelling of, if it is understood.
    pub(super) fn find(&self, written: &str) -> Option<&'static str> {
        let mut understood = self.names().chain(self.adopted.iter().copied());
        understood.find(|key| spells(written, key))
    }
}

const fn key(name: &'static str, shape: Shape, meaning: &'static str) -> Key {
    Key { name, shape, meaning }
}

/// Whether `written` is the snake_case `key` or its camelCase twin.
pub(super) fn spells(written: &str, key: &str) -> bool {
    written == key || written == camel_case(key)
}

/// A snake_case key in camelCase.
pub(super) fn camel_case(key: &str) -> String {
    let mut camel = String::with_capacity(key.len());
    for (n, word) in key.split('_').enumerate() {
        let mut letters = word.chars();
        let first = letters.next().filter(|_| n > 0);
        match first {
            Some(first) => camel.extend(first.to_uppercase().chain(letters)),
            None => camel.push_str(word),
        }
    }
    camel
}

/// The entry of a server.
pub(super) const SERVER: Keys = Keys {
    known: &[
        key(
            "command",
            Shape::Text,
            "The program to start: a name looked up in PATH, or a path. Its arguments go in `args`.",
        ),
        key("args", Shape::Scalars, "The arguments of the program."),
        key(
            "env",
            Shape::ScalarsByName,
            "Variables set for the program, on top of the environment that it inherits. Values are secrets.",
        ),
        key(
            "cwd",
            Shape::Text,
            "The directory that the program runs in. A relative path starts from the folder of this file.",
        ),
        key(
            "type",
            Shape::Choice(&[
                "stdio",
                "http",
                "sse",
                "streamable-http",
                "local",
                "remote",
                "streamable_http",
                "streamableHttp",
                "streamable",
            ]),
            "How the server is reached: `stdio` for a program, `http` for Streamable HTTP, `sse` for the older HTTP+SSE. \
             Without it, Mainstay finds out.",
        ),
        key(
            "url",
            Shape::Text,
            "The address of a server over HTTP: https://… or http://…, without a user name or a password.",
        ),
        key(
            "headers",
            Shape::ScalarsByName,
            "Headers of every request to the address. Values are secrets.",
        ),
        key(
            "bearer_token_env",
            Shape::Text,
            "The name of the variable that holds a token, which is sent as `Authorization: Bearer …`.",
        ),
        key(
            "oauth",
            Shape::AnyOf(&[Shape::Flag, Shape::Object(&OAUTH)]),
            "How to log in, if the server asks for it; `false` turns logins off. Most servers need nothing here.",
        ),
        key("tls", Shape::Object(&TLS), "Certificates for the address."),
        key(
            "unix_socket",
            Shape::Text,
            "Connect to this unix-domain socket instead of the host in `url`.",
        ),
        key(
            "connect_timeout",
            Shape::Duration,
            "How long it may take to make a connection, TLS included. Default: 10s.",
        ),
        key(
            "first_byte_timeout",
            Shape::Duration,
            "How long the head of an answer may take. Default: as long as the call.",
        ),
        key(
            "era",
            Shape::Choice(&["legacy", "modern"]),
            "Use only this era of the protocol: `legacy` (2024-11-05 to 2025-11-25) or `modern` (2026-07-28). Without it, \
             Mainstay finds out.",
        ),
        key("enabled", Shape::Flag, "Whether the server runs. Default: true."),
        key(
            "disabled",
            Shape::Flag,
            "The opposite of `enabled`, as other programs write it. Default: false.",
        ),
        key(
            "required",
            Shape::Flag,
            "Start-up fails if this server does. Default: false.",
        ),
        key(
            "lazy",
            Shape::Flag,
            "Start the server only when it is first needed. Default: false.",
        ),
        key(
            "isolation",
            Shape::Choice(&["shared", "session"]),
            "`shared`: all clients of the gateway use the same server. `session`: each client session has its own. Default: \
             shared.",
        ),
        key(
            "startup_timeout",
            Shape::Duration,
            "How long the server may be inactive while it starts. Default: 1m.",
        ),
        key(
            "call_timeout",
            Shape::Duration,
            "How long a call may take in all. Default: 1h.",
        ),
        key(
            "call_idle_timeout",
            Shape::Duration,
            "How long a call may go without progress; never above `call_timeout`. Default: 5m.",
        ),
        key(
            "wait_timeout",
            Shape::Duration,
            "How long a call waits for a connection while the server starts or comes back. Default: 15s.",
        ),
        key(
            "restart",
            Shape::AnyOf(&[
                Shape::Choice(&["probe", "give_up", "giveUp", "never"]),
                Shape::Object(&RESTART),
            ]),
            "How patiently a lost server is started again. `give_up`: a person must act once the budget is spent. `never`: \
             only a call or a person starts it again.",
        ),
        key(
            "replay",
            Shape::Choice(&["safe", "never"]),
            "Whether a call that was cut off, and may have run, is sent again (once). `safe`: only for tools hinted read-only \
             or idempotent. Default: safe.",
        ),
        key(
            "probe",
            Shape::AnyOf(&[Shape::Flag, Shape::Object(&PROBE)]),
            "How a silent connection is examined; `false` never examines.",
        ),
        key(
            "idle_stop",
            Shape::AnyOf(&[Shape::Duration, Shape::Off]),
            "Stop the server after this time without use; the next call starts it again. Default: false.",
        ),
        key(
            "refresh_interval",
            Shape::Duration,
            "List what the server offers this often, beside when it says that something changed.",
        ),
        key(
            "waiters",
            Shape::WholeNumber,
            "How many calls may wait while the server is coming back; with 0, every call fails fast. Default: 256.",
        ),
        key(
            "tools",
            Shape::AnyOf(&[Shape::SomeTexts, Shape::Object(&TOOLS)]),
            "Which tools are shown, and how. A list is short for `include`.",
        ),
    ],
    adopted: &[
        "auth",
        "available_tools",
        "bearer_token",
        "bearer_token_env_var",
        "cmd",
        "connection_timeout",
        "dev",
        "disabled_tools",
        "enabled_tools",
        "env_file",
        "env_http_headers",
        "env_keys",
        "env_vars",
        "environment",
        "envs",
        "exclude_tools",
        "http_headers",
        "http_url",
        "include_tools",
        "oauth_resource",
        "oauth_scopes",
        "request_options",
        "sandbox",
        "sandbox_enabled",
        "scopes",
        "server_url",
        "settings",
        "source",
        "startup_timeout_ms",
        "startup_timeout_sec",
        "timeout",
        "tool_timeout_sec",
        "transport",
        "transport_type",
        "uri",
    ],
    foreign: &[
        "$schema",
        "//",
        "_comment",
        "comment",
        "note",
        "name",
        "title",
        "displayName",
        "display_name",
        "description",
        "icon",
        "icons",
        "id",
        "version",
        "tags",
        "category",
        "gallery",
        "trust",
        "alwaysAllow",
        "autoApprove",
        "autoAllow",
        "authProviderType",
        "targetAudience",
        "targetServiceAccount",
        "bundled",
        "code",
        "dependencies",
        "default_tools_approval_mode",
        "faviconUrl",
        "remote",
        "serverName",
        "supports_parallel_tool_calls",
    ],
    ignored_with_warning: &[
        (
            "headers_helper",
            r#"write the headers in "headers", with variables: ${NAME}"#,
        ),
        ("watch_paths", "restart the server when they change"),
    ],
};

pub(super) const OAUTH: Keys = Keys {
    known: &[
        key(
            "client_id",
            Shape::Text,
            "The ID of a client that you registered at the authorization server. Without it, Mainstay registers itself.",
        ),
        key(
            "client_secret_env",
            Shape::Text,
            "The name of the variable that holds the secret of `client_id`.",
        ),
        key(
            "client_metadata_url",
            Shape::Text,
            "The address of a client ID metadata document, which is used as the client ID.",
        ),
        key(
            "scopes",
            Shape::AnyOf(&[Shape::Texts, Shape::Text]),
            "The scopes to ask for, in place of those that the server names.",
        ),
        key(
            "resource",
            Shape::AnyOf(&[Shape::Text, Shape::Off]),
            "What is sent as `resource`; `false` sends none. Default: what the server publishes.",
        ),
        key(
            "issuer",
            Shape::Text,
            "The issuer that is accepted. Default: the one that the server names.",
        ),
        key(
            "redirect_port",
            Shape::Count,
            "The port of this machine that the browser is redirected to. Default: any.",
        ),
        key(
            "grant",
            Shape::Choice(&["authorization_code", "client_credentials", "jwt_bearer"]),
            "How the token is obtained: by a person (`authorization_code`), for the client itself (`client_credentials`), or \
             with the token of a workload (`jwt_bearer`). Default: authorization_code.",
        ),
        key(
            "private_key",
            Shape::Text,
            "A PEM file of the key that the client authenticates with (`private_key_jwt`).",
        ),
        key(
            "assertion_file",
            Shape::Text,
            "The file that holds the token of the workload, for the grant `jwt_bearer`.",
        ),
        key(
            "allow_private",
            Shape::Flag,
            "Whether the authorization server may be at a private address and without TLS. Default: false.",
        ),
        key(
            "user",
            Shape::Text,
            "A name for the person, if several people log in to this server on one machine.",
        ),
    ],
    // Claude Code writes callbackPort; Gemini CLI enabled and clientSecret; opencode clientSecret and scope.
    adopted: &["callback_port", "client_secret", "enabled", "scope"],
    foreign: &[
        "audiences",
        "authServerMetadataUrl",
        "authorizationUrl",
        "callbackUrl",
        "redirectUri",
        "registrationUrl",
        "tokenParamName",
        "tokenUrl",
        "xaa",
    ],
    ignored_with_warning: &[],
};

/// Cursor's form of `oauth`.
pub(super) const OF_CURSOR: Keys = Keys {
    known: &[],
    adopted: &["CLIENT_ID", "CLIENT_SECRET", "scopes"],
    foreign: &[],
    ignored_with_warning: &[],
};

pub(super) const TLS: Keys = Keys::only(&[
    key(
        "ca",
        Shape::Text,
        "A PEM file of certificates to trust beside those of the system.",
    ),
    key(
        "cert",
        Shape::Text,
        "A PEM file of the certificate that is shown to the server; without `key`, it holds the key too.",
    ),
    key("key", Shape::Text, "A PEM file of the key of `cert`."),
]);

pub(super) const RESTART: Keys = Keys::only(&[
    key(
        "budget",
        Shape::Count,
        "How many failures in a row are answered with growing pauses. Default: 10.",
    ),
    key("backoff", Shape::Object(&BACKOFF), "The pauses between attempts."),
    key(
        "when_spent",
        Shape::Choice(&["probe", "give_up", "giveUp"]),
        "When the budget is spent: `probe` keeps trying slowly, for ever; `give_up` waits for a person. Default: probe.",
    ),
    key(
        "slow_probe",
        Shape::Duration,
        "How often `probe` tries. Default: 5m.",
    ),
    key(
        "bucket",
        Shape::Object(&BUCKET),
        "How many restarts that lead to nothing may come at once.",
    ),
    key(
        "stable_after",
        Shape::Duration,
        "How long a connection must live to count as good without completing a call. Default: 1m.",
    ),
]);

pub(super) const BACKOFF: Keys = Keys::only(&[
    key(
        "first",
        Shape::Duration,
        "The longest first pause; each pause is drawn at random up to its longest, which doubles. Default: 200ms.",
    ),
    key(
        "ceiling",
        Shape::Duration,
        "The longest pause of all. Default: 30s.",
    ),
]);

pub(super) const BUCKET: Keys = Keys::only(&[
    key(
        "size",
        Shape::Count,
        "How many restarts that lead to nothing may come at once. Default: 10.",
    ),
    key(
        "refill_every",
        Shape::Duration,
        "How often one more is allowed. Default: 6s.",
    ),
]);

pub(super) const PROBE: Keys = Keys::only(&[
    key(
        "after_silence",
        Shape::Duration,
        "How long a connection may be silent before the server is asked. Default: 15s.",
    ),
    key(
        "timeout",
        Shape::Duration,
        "How long the answer may take. Default: 5s.",
    ),
    key(
        "misses",
        Shape::Count,
        "How many missed answers in a row condemn the connection. Default: 2.",
    ),
]);

pub(super) const TOOLS: Keys = Keys::only(&[
    key(
        "include",
        Shape::SomeTexts,
        "Show only tools that match one of these; `*` stands for any characters.",
    ),
    key(
        "exclude",
        Shape::Texts,
        "Hide tools that match one of these, included or not.",
    ),
    key(
        "rename",
        Shape::TextsByName,
        "New names of tools: letters, digits, `_` and `-`, at most 64.",
    ),
    key("describe", Shape::TextsByName, "Other descriptions of tools."),
]);

/// Continue's options of requests.
pub(super) const OF_CONTINUE: Keys = Keys::only(&[key("headers", Shape::ScalarsByName, "Headers.")]);

/// The older form of Zed's `command`.
pub(super) const OF_ZED: Keys = Keys::only(&[
    key("path", Shape::Text, "The program."),
    key("args", Shape::Scalars, "Its arguments."),
    key("env", Shape::ScalarsByName, "Its variables."),
]);

/// opencode's limits, in milliseconds.
pub(super) const OF_OPENCODE: Keys = Keys::only(&[
    key("startup", Shape::Duration, "How long the start may take."),
    key("request", Shape::Duration, "How long a request may take."),
]);
