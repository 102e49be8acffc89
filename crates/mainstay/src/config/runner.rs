//! Programs that fetch a server before they run it.

use std::path::Path;

use super::target::{ConfigText, StdioTarget};

/// Whatever their arguments, these install a package and then run it.
const RUNNERS: [&str; 7] = ["npx", "bunx", "pnpx", "uvx", "uv", "pipx", "deno"];

/// These do with one of these commands.
const RUNNERS_BY_COMMAND: [(&str, &[&str]); 6] = [
    ("npm", &["exec", "x"]),
    ("pnpm", &["dlx", "exec"]),
    ("yarn", &["dlx"]),
    ("bun", &["x"]),
    ("docker", &["run"]),
    ("podman", &["run"]),
];

/// Shells, whose scripts may begin one.
const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "dash"];

/// Whether the program may have to install the server before it runs.
pub(super) fn is_package_runner(program: &StdioTarget) -> bool {
    let args: Vec<&str> = program.args().iter().map(ConfigText::value).collect();
    let command = name(program.command().value());
    if SHELLS.contains(&command) {
        return args.iter().any(|arg| {
            let words: Vec<&str> = arg.split_whitespace().collect();
            (0..words.len()).any(|at| runs_packages(name(words[at]), &words[at + 1..]))
        });
    }
    runs_packages(command, &args)
}

fn runs_packages(command: &str, args: &[&str]) -> bool {
    let first = args.iter().find(|arg| !arg.starts_with('-'));
    RUNNERS.contains(&command)
        || RUNNERS_BY_COMMAND.iter().any(|(runner, commands)| {
            *runner == command && first.is_some_and(|first| commands.contains(first))
        })
}

fn name(command: &str) -> &str {
    Path::new(command)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or(command)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::ServerConfig;

    fn limit(command: &[&str]) -> u64 {
        let server = ServerConfig::stdio("s", command[0]).args(command[1..].iter().copied());
        server.build().expect("valid").policy().limits.open.as_secs()
    }

    #[test]
    fn a_package_runner_has_ten_minutes_and_any_other_program_five() {
        for runner in [
            &["npx", "-y", "server"][..],
            &["/usr/local/bin/npx", "server"],
            &["npm", "exec", "server"],
            &["pnpm", "dlx", "server"],
            &["yarn", "dlx", "server"],
            &["uvx", "server"],
            &["uv", "run", "server.py"],
            &["pipx", "run", "server"],
            &["docker", "run", "-i", "--rm", "image"],
            &["podman", "--log-level=warn", "run", "image"],
            &["bash", "-lc", "cd /srv && npx -y server"],
        ] {
            assert_eq!(limit(runner), 600, "{runner:?}");
        }
        for other in [
            &["node", "server.js"][..],
            &["npm", "start"],
            &["docker", "exec", "-i", "box", "server"],
            &["bash", "-c", "python server.py"],
            &["./run"],
        ] {
            assert_eq!(limit(other), 300, "{other:?}");
        }
    }

    #[test]
    fn a_longer_startup_timeout_and_a_bound_of_the_policy_count_more() {
        let server = ServerConfig::stdio("s", "npx").startup_timeout(Duration::from_secs(900));
        let config = server.clone().build().expect("valid");
        assert_eq!(config.policy().limits.open, Duration::from_secs(900));
        let mut policy = config.policy().clone();
        policy.limits.open = Duration::from_secs(20);
        let config = server.startup_timeout(Duration::from_secs(5)).policy(policy);
        let config = config.build().expect("valid");
        assert_eq!(config.policy().limits.open, Duration::from_secs(20));
    }
}
