//! What every server must satisfy, whether it was written in a file or built in Rust.

mod http;

use std::env;
use std::ffi::OsString;
use std::path::{Path, is_separator};
use std::time::Duration;

use mainstay_lifecycle::{Policy, WhenSpent};

use super::duration::LONGEST;
use super::problem::{Severity, dotted};
use super::report::Fault;
use super::server::{DEFAULT_CALL_IDLE_TIMEOUT, ServerConfig};
use super::target::{StdioTarget, Target};

/// The longest name of a server: it becomes part of every tool name, which model APIs hold to 64.
const MAX_NAME_CHARS: usize = 64;

/// Something wrong with a server, by the path of its key: `restart.backoff.first`; the server itself is the empty path.
pub(super) struct Flaw {
    pub(super) severity: Severity,
    pub(super) key: String,
    pub(super) fault: Fault,
}

impl Flaw {
    pub(super) fn error(key: impl Into<String>, fault: impl Into<Fault>) -> Self {
        Self {
            severity: Severity::Error,
            key: key.into(),
            fault: fault.into(),
        }
    }

    pub(super) fn warning(key: impl Into<String>, fault: impl Into<Fault>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(key, fault)
        }
    }
}

/// Everything wrong with a server.
pub(super) fn server(config: &ServerConfig) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    name(&config.settings.name, &mut flaws);
    match &config.target {
        Target::Stdio(target) => stdio(target, &mut flaws),
        Target::Http(target) => http::check(target, config.settings.era, &mut flaws),
        Target::Custom(_) => {}
    }
    durations(config, &mut flaws);
    usefulness(config, &mut flaws);
    config.settings.tools.check(&mut flaws);
    flaws
}

fn name(name: &str, flaws: &mut Vec<Flaw>) {
    let chars = name.chars().count();
    let fault = if name.trim().is_empty() {
        Fault::new("the name of a server is empty", "give it a name")
    } else if chars > MAX_NAME_CHARS {
        Fault::new(
            format!("the name of a server has {chars} characters"),
            format!("use at most {MAX_NAME_CHARS}"),
        )
    } else if name.chars().any(char::is_control) {
        Fault::new(
            "the name of a server holds a control character",
            "use visible characters",
        )
    } else if name.trim() != name {
        Fault::new("the name of a server begins or ends with a space", "remove it")
    } else if name.contains("__") {
        Fault::new(
            "the name of a server holds `__`, which stands between server and tool in `server__tool`",
            "use a single `_`, or `-`",
        )
    } else {
        return;
    };
    flaws.push(Flaw::error("", fault));
}

fn stdio(target: &StdioTarget, flaws: &mut Vec<Flaw>) {
    let command = target.command.value();
    if command.trim().is_empty() {
        flaws.push(Flaw::error(
            "command",
            Fault::new("the command is empty", "name the program to run"),
        ));
    }
    if holds_arguments(target) {
        let fault = Fault::new(
            "the command holds a space, and there is no program of that name",
            r#"name only the program, and put its arguments in "args""#,
        );
        flaws.push(Flaw::warning("command", fault));
    }
    for name in target
        .env
        .keys()
        .filter(|name| name.is_empty() || name.contains(['=', '\0']))
    {
        let fault = Fault::new("not a name of a variable", "a name is not empty and holds no `=`");
        flaws.push(Flaw::error(dotted("env", name), fault));
    }
    if target.cwd.as_ref().is_some_and(|cwd| cwd.value().is_empty()) {
        let fault = Fault::new("the directory is empty", "name one, or remove the key");
        flaws.push(Flaw::error("cwd", fault));
    }
    let args = target.args.iter().enumerate();
    let values = [("command".to_owned(), command)]
        .into_iter()
        .chain(args.map(|(n, arg)| (format!("args[{n}]"), arg.value())))
        .chain(
            target
                .env
                .iter()
                .map(|(name, value)| (dotted("env", name), value.expose())),
        )
        .chain(target.cwd.iter().map(|cwd| ("cwd".to_owned(), cwd.value())));
    for (key, _) in values.filter(|(_, value)| value.contains('\0')) {
        flaws.push(Flaw::error(
            key,
            "holds a NUL character, which cannot be passed to a program",
        ));
    }
}

/// Whether a command is a whole command line, `npx -y server`, and not a program with a space in its name.
fn holds_arguments(target: &StdioTarget) -> bool {
    let command = target.command.value().trim();
    let Some((program, _)) = command.split_once(' ') else {
        return false;
    };
    let is_name = !program.contains(is_separator);
    (is_name || exists(program, target)) && !exists(command, target)
}

/// Whether there is a file of this name: in the directories of `PATH`, or where the path leads.
fn exists(program: &str, target: &StdioTarget) -> bool {
    if program.contains(is_separator) {
        return Path::new(program).is_file();
    }
    let own = target.env.get("PATH").map(|path| OsString::from(path.expose()));
    let path = own.or_else(|| env::var_os("PATH")).unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn durations(config: &ServerConfig, flaws: &mut Vec<Flaw>) {
    let settings = [
        ("startup_timeout", config.settings.startup_timeout),
        ("call_timeout", config.settings.call_timeout),
        ("call_idle_timeout", config.settings.call_idle_timeout),
        ("wait_timeout", config.settings.wait_timeout),
    ];
    let of_target = match &config.target {
        Target::Http(target) => http::durations(target),
        Target::Stdio(_) | Target::Custom(_) => Vec::new(),
    };
    let all = settings.into_iter().chain(of_target);
    for (key, duration) in all.chain(policy_durations(&config.settings.policy)) {
        if duration.is_zero() {
            flaws.push(Flaw::error(key, "must be longer than zero"));
        } else if duration > LONGEST {
            flaws.push(Flaw::error(key, "a duration cannot be longer than a year"));
        }
    }
}

fn policy_durations(policy: &Policy) -> Vec<(&'static str, Duration)> {
    let mut durations = vec![
        ("limits.turn", policy.limits.turn),
        ("limits.open", policy.limits.open),
        ("limits.list", policy.limits.list),
        ("limits.close", policy.limits.close),
        ("limits.drain", policy.limits.drain),
        ("restart.bucket.refill_every", policy.bucket.refill_every),
        ("restart.stable_after", policy.stable_after),
        ("lack_pause", policy.lack_pause),
        ("restart.backoff.ceiling", policy.backoff.ceiling()),
    ];
    // The first pause is never above the ceiling, so a zero ceiling is one mistake, not two.
    if !policy.backoff.ceiling().is_zero() {
        durations.push(("restart.backoff.first", policy.backoff.first()));
    }
    match policy.when_spent {
        WhenSpent::ProbeEvery(period) => durations.push(("restart.slow_probe", period)),
        WhenSpent::GiveUp => {}
    }
    if let Some(probe) = &policy.probe {
        durations.push(("probe.after_silence", probe.after_silence));
        durations.push(("probe.timeout", probe.timeout));
    }
    durations.extend(policy.expiry.every.map(|every| ("refresh_interval", every)));
    durations.extend(policy.idle_stop.map(|idle_stop| ("idle_stop", idle_stop)));
    durations
}

/// Settings that contradict each other without harm.
fn usefulness(config: &ServerConfig, flaws: &mut Vec<Flaw>) {
    if config.settings.call_idle_timeout > config.settings.call_timeout
        && config.settings.call_idle_timeout != DEFAULT_CALL_IDLE_TIMEOUT
    {
        let fault = Fault::new(
            "has no effect, since call_timeout is shorter",
            "make it shorter, or remove it",
        );
        flaws.push(Flaw::warning("call_idle_timeout", fault));
    }
    if config.settings.required && !config.settings.enabled {
        let fault = Fault::new(
            "has no effect, since the server is disabled",
            "enable it, or remove this",
        );
        flaws.push(Flaw::warning("required", fault));
    } else if config.settings.required && config.settings.lazy {
        let fault = Fault::new("has no effect, since the server is lazy", "remove one of the two");
        flaws.push(Flaw::warning("required", fault));
    }
}
