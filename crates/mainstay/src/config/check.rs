//! What every server must satisfy, whether it was written in a file or built in Rust.

#[cfg(feature = "http")]
mod http;

use std::env;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, is_separator};
use std::time::Duration;

use mainstay_lifecycle::{Policy, WhenSpent};

use super::duration::LONGEST;
use super::problem::{ProblemText, SettingProblem, dotted};
use super::server::{DEFAULT_CALL_IDLE_TIMEOUT, ServerConfig};
use super::target::{StdioTarget, Target};
use crate::PlainText;
#[cfg(not(feature = "http"))]
use crate::transport::http::HttpConfigError;

/// The longest name of a server: it becomes part of every tool name, which model APIs hold to 64.
const MAX_NAME_CHARS: usize = 64;

/// Everything wrong with a server.
pub(super) fn server(config: &ServerConfig) -> Vec<SettingProblem> {
    let mut problems = Vec::new();
    name(&config.settings.name, &mut problems);
    match &config.target {
        Target::Stdio(target) => stdio(target, &mut problems),
        #[cfg(feature = "http")]
        Target::Http(target) => http::check(target, config.settings.era, &mut problems),
        #[cfg(not(feature = "http"))]
        Target::Http(_) => {
            let missing = HttpConfigError::MissingFeature { feature: "http" };
            problems.push(SettingProblem::error("url", missing.to_string()));
        }
        Target::Custom(_) | Target::Unusable(_) => {}
    }
    durations(config, &mut problems);
    usefulness(config, &mut problems);
    config.settings.tools.check(&mut problems);
    problems
}

fn name(name: &str, problems: &mut Vec<SettingProblem>) {
    let chars = name.chars().count();
    let problem = if name.trim().is_empty() {
        ProblemText::new("the name of a server is empty", "give it a name")
    } else if chars > MAX_NAME_CHARS {
        ProblemText::new(
            format!("the name of a server has {chars} characters"),
            format!("use at most {MAX_NAME_CHARS}"),
        )
    } else if let Some(hidden) = name.chars().find(|c| is_hidden(*c)) {
        ProblemText::new(
            format!(
                "the name of a server holds a character that is not seen (U+{:04X})",
                u32::from(hidden)
            ),
            "remove it",
        )
    } else if name.trim() != name {
        ProblemText::new("the name of a server begins or ends with a space", "remove it")
    } else if name.contains("__") {
        ProblemText::new(
            "the name of a server holds `__`, which stands between server and tool in `server__tool`",
            "use a single `_`, or `-`",
        )
    } else {
        return;
    };
    problems.push(SettingProblem::error("", problem));
}

/// Whether a character would make a name look like another one, or be shown otherwise than it is.
fn is_hidden(c: char) -> bool {
    // The sign behind many pictures, such as a heart, which asks for colours.
    const VARIATION_SELECTORS: RangeInclusive<char> = '\u{fe00}'..='\u{fe0f}';
    c.is_control() || (PlainText::is_hidden(c) && !VARIATION_SELECTORS.contains(&c))
}

fn stdio(target: &StdioTarget, problems: &mut Vec<SettingProblem>) {
    let command = target.command.value();
    if command.trim().is_empty() {
        problems.push(SettingProblem::error(
            "command",
            ProblemText::new("the command is empty", "name the program to run"),
        ));
    }
    if holds_arguments(target) {
        let problem = ProblemText::new(
            "the command holds a space, and there is no program of that name",
            r#"name only the program, and put its arguments in "args""#,
        );
        problems.push(SettingProblem::warning("command", problem));
    }
    for name in target
        .env
        .keys()
        .filter(|name| name.is_empty() || name.contains(['=', '\0']))
    {
        let problem = ProblemText::new("not a name of a variable", "a name is not empty and holds no `=`");
        problems.push(SettingProblem::error(dotted("env", name), problem));
    }
    if target.cwd.as_ref().is_some_and(|cwd| cwd.value().is_empty()) {
        let problem = ProblemText::new("the directory is empty", "name one, or remove the key");
        problems.push(SettingProblem::error("cwd", problem));
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
        problems.push(SettingProblem::error(
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

/// Whether there is a file of this name: in the directories of `PATH`, or where the path leads. The crate `which` would also
/// ask for the right to execute it; here a file without that right is still the file that was meant.
fn exists(program: &str, target: &StdioTarget) -> bool {
    if program.contains(is_separator) {
        return Path::new(program).is_file();
    }
    let own = target.env.get("PATH").map(|path| OsString::from(path.expose()));
    let path = own.or_else(|| env::var_os("PATH")).unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn durations(config: &ServerConfig, problems: &mut Vec<SettingProblem>) {
    let settings = &config.settings;
    let mut durations = vec![
        ("startup_timeout", settings.startup_timeout),
        ("call_timeout", settings.call_timeout),
        ("call_idle_timeout", settings.call_idle_timeout),
        ("wait_timeout", settings.wait_timeout),
    ];
    if let Target::Http(target) = &config.target {
        let (connect, first_byte) = (target.connect_timeout, target.first_byte_timeout);
        durations.extend(connect.map(|limit| ("connect_timeout", limit)));
        durations.extend(first_byte.map(|limit| ("first_byte_timeout", limit)));
    }
    durations.extend(policy_durations(&settings.policy));
    for (key, duration) in durations {
        if duration.is_zero() {
            problems.push(SettingProblem::error(key, "must be longer than zero"));
        } else if duration > LONGEST {
            problems.push(SettingProblem::error(
                key,
                "a duration cannot be longer than a year",
            ));
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
fn usefulness(config: &ServerConfig, problems: &mut Vec<SettingProblem>) {
    if config.settings.call_idle_timeout > config.settings.call_timeout
        && config.settings.call_idle_timeout != DEFAULT_CALL_IDLE_TIMEOUT
    {
        let problem = ProblemText::new(
            "has no effect, since call_timeout is shorter",
            "make it shorter, or remove it",
        );
        problems.push(SettingProblem::warning("call_idle_timeout", problem));
    }
    if config.settings.required && !config.settings.enabled {
        let problem = ProblemText::new(
            "has no effect, since the server is disabled",
            "enable it, or remove this",
        );
        problems.push(SettingProblem::warning("required", problem));
    } else if config.settings.required && config.settings.lazy {
        let problem = ProblemText::new("has no effect, since the server is lazy", "remove one of the two");
        problems.push(SettingProblem::warning("required", problem));
    }
}
