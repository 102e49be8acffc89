//! A name for a server that is given by its command or address alone.
//!
//! Names stand in logs and in front of models, and arguments may hold secrets. So a name is made only of a word that is
//! known to be a program, a package, an image, a module or a script: of each runner the options are known, and which of
//! them take a value. Whatever else is met, the name is the program's own.

/// How long a name may be.
const MAX_NAME_CHARS: usize = 48;

/// What a server is called that has nothing to be named after.
const UNNAMED: &str = "server";

/// A name for the server that this command starts.
pub(crate) fn of_command(command: &[String]) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    tidy(named(&words).unwrap_or_default())
}

/// A name for the server at this address: its host.
pub(crate) fn of_address(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    tidy(host)
}

/// Whether an address holds a user's name or password.
pub(crate) fn has_user_info(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

/// A program that runs another: where in its arguments the name of that one is.
struct Runner {
    programs: &'static [&'static str],
    /// Words before the options that choose what it does; one of them is needed, unless there are none.
    verbs: &'static [&'static str],
    /// Options without a value.
    flags: &'static [&'static str],
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Options whose value is the name.
    naming: &'static [&'static str],
    what: What,
}

/// What kind of word the name is.
#[derive(Clone, Copy)]
enum What {
    /// `@scope/package@version`, or a path.
    Package,
    /// `registry/image:tag@digest`.
    Image,
    /// A path, or the module behind the naming option.
    Script,
}

const NPM_FLAGS: &[&str] = &[
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "--no",
    "--no-install",
    "--offline",
    "--prefer-offline",
    "--prefer-online",
    "--silent",
    "-s",
    "--bun",
    "--ignore-existing",
    "-b",
    "--verbose",
];
const NPM_VALUED: &[&str] = &[
    "-p",
    "--package",
    "--registry",
    "--cache",
    "--userconfig",
    "--prefix",
    "-w",
    "--workspace",
    "--node-options",
    "-n",
    "--node-arg",
    "--loglevel",
];
const UV_FLAGS: &[&str] = &[
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "-n",
    "--no-cache",
    "--isolated",
    "--offline",
    "--frozen",
    "--locked",
    "--no-sync",
    "--no-project",
    "--refresh",
    "--native-tls",
    "-U",
    "--upgrade",
    "--reinstall",
    "--no-progress",
    "--no-config",
    "--managed-python",
    "--no-managed-python",
    "--script",
    "-s",
    "--no-dev",
    "--all-extras",
    "--no-env-file",
    "--active",
    "--exact",
];
const UV_VALUED: &[&str] = &[
    "--from",
    "--with",
    "-w",
    "--with-editable",
    "--with-requirements",
    "--python",
    "-p",
    "--index",
    "--default-index",
    "--index-url",
    "-i",
    "--extra-index-url",
    "--find-links",
    "-f",
    "--directory",
    "--project",
    "--env-file",
    "--cache-dir",
    "--config-file",
    "--extra",
    "--group",
    "--refresh-package",
    "--upgrade-package",
    "-P",
    "--constraints",
    "-c",
    "--overrides",
    "--prerelease",
    "--python-platform",
    "--allow-insecure-host",
    "--keyring-provider",
    "--link-mode",
    "--color",
    "--package",
    "--index-strategy",
    "--exclude-newer",
];
const CONTAINER_FLAGS: &[&str] = &[
    "-i",
    "--interactive",
    "-t",
    "--tty",
    "-d",
    "--detach",
    "--rm",
    "--init",
    "--privileged",
    "--read-only",
    "-P",
    "--publish-all",
    "-q",
    "--quiet",
    "--no-healthcheck",
];
const CONTAINER_VALUED: &[&str] = &[
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--name",
    "--network",
    "--net",
    "-p",
    "--publish",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "--entrypoint",
    "-h",
    "--hostname",
    "-l",
    "--label",
    "--label-file",
    "--platform",
    "--pull",
    "-m",
    "--memory",
    "--memory-swap",
    "--cpus",
    "-c",
    "--cpu-shares",
    "--add-host",
    "--cap-add",
    "--cap-drop",
    "--security-opt",
    "--tmpfs",
    "--gpus",
    "--device",
    "--dns",
    "--restart",
    "--shm-size",
    "--ulimit",
    "--userns",
    "--ipc",
    "--pid",
    "--log-driver",
    "--log-opt",
    "--stop-signal",
    "--stop-timeout",
    "--runtime",
    "--expose",
    "--group-add",
    "--volumes-from",
    "--cidfile",
    "--network-alias",
    "--ip",
    "--mac-address",
    "--pids-limit",
    "--sysctl",
    "--cgroupns",
    "--isolation",
    "--annotation",
];

const RUNNERS: &[Runner] = &[
    Runner {
        programs: &["npx", "bunx", "pnpx"],
        verbs: &[],
        flags: NPM_FLAGS,
        valued: NPM_VALUED,
        naming: &[],
        what: What::Package,
    },
    Runner {
        programs: &["npm", "pnpm", "yarn"],
        verbs: &["exec", "x", "dlx"],
        flags: NPM_FLAGS,
        valued: NPM_VALUED,
        naming: &[],
        what: What::Package,
    },
    Runner {
        programs: &["uvx"],
        verbs: &[],
        flags: UV_FLAGS,
        valued: UV_VALUED,
        naming: &[],
        what: What::Package,
    },
    Runner {
        programs: &["uv"],
        verbs: &["run", "tool"],
        flags: UV_FLAGS,
        valued: UV_VALUED,
        naming: &["-m", "--module"],
        what: What::Package,
    },
    Runner {
        programs: &["pipx"],
        verbs: &["run"],
        flags: &["-q", "--quiet", "-v", "--verbose", "--no-cache"],
        valued: &["--spec", "--python", "--pip-args", "--index-url", "-i", "--with"],
        naming: &[],
        what: What::Package,
    },
    Runner {
        programs: &["docker", "podman", "nerdctl"],
        verbs: &["run", "exec"],
        flags: CONTAINER_FLAGS,
        valued: CONTAINER_VALUED,
        naming: &[],
        what: What::Image,
    },
    Runner {
        programs: &["python", "python3", "pypy3"],
        verbs: &[],
        flags: &["-u", "-B", "-I", "-E", "-s", "-S", "-O", "-OO", "-q", "-v", "-P"],
        valued: &["-W", "-X"],
        naming: &["-m"],
        what: What::Script,
    },
    Runner {
        programs: &["node", "tsx", "ts-node"],
        verbs: &[],
        flags: &[
            "--enable-source-maps",
            "--no-warnings",
            "--experimental-strip-types",
            "--experimental-transform-types",
            "--experimental-vm-modules",
            "--trace-warnings",
            "--preserve-symlinks",
            "--use-system-ca",
            "--inspect",
            "--no-deprecation",
            "--esm",
        ],
        valued: &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "-C",
            "--conditions",
        ],
        naming: &[],
        what: What::Script,
    },
    Runner {
        programs: &["bun"],
        verbs: &["run", "x"],
        flags: &["--bun", "--silent", "--smol", "--hot", "--watch"],
        valued: &["--cwd", "--env-file", "--config", "-c", "--preload", "-r"],
        naming: &[],
        what: What::Package,
    },
    Runner {
        programs: &["deno"],
        verbs: &["run"],
        flags: &[
            "-A",
            "--allow-all",
            "--allow-net",
            "--allow-read",
            "--allow-write",
            "--allow-env",
            "--allow-run",
            "--allow-sys",
            "--allow-ffi",
            "--no-check",
            "-q",
            "--quiet",
            "--no-prompt",
            "--unstable",
            "--reload",
            "-r",
            "--no-lock",
            "--no-config",
            "--cached-only",
        ],
        valued: &["-c", "--config", "--import-map", "--lock", "--cert"],
        naming: &[],
        what: What::Script,
    },
];

/// The program's name, or that of what it runs.
fn named<'w>(command: &[&'w str]) -> Option<&'w str> {
    let (&first, arguments) = command.split_first()?;
    let program = last_part(first);
    if program == "env" {
        // Assignments and then another command; with options, who knows.
        let rest = arguments.iter().position(|word| !word.contains('='))?;
        if !arguments[rest].starts_with('-') {
            return named(&arguments[rest..]);
        }
    }
    if program.contains('=') {
        return None;
    }
    let runner = RUNNERS.iter().find(|runner| runner.is(program));
    Some(
        runner
            .and_then(|runner| runner.runs(arguments))
            .unwrap_or(program),
    )
}

impl Runner {
    fn is(&self, program: &str) -> bool {
        // `python3.12` is a `python3`.
        let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        self.programs.contains(&program) || (plain == "python" && self.programs.contains(&plain))
    }

    /// The name of what it runs; `None` unless every word before it is understood.
    fn runs<'w>(&self, arguments: &[&'w str]) -> Option<&'w str> {
        let mut words = arguments.iter().copied();
        let mut has_verb = self.verbs.is_empty();
        while let Some(word) = words.next() {
            if self.naming.contains(&word) {
                return self.base(words.next()?);
            } else if self.valued.contains(&word) {
                words.next()?;
            } else if word == "--" {
                return self.base(words.next()?);
            } else if self.is_flag(word) {
                continue;
            } else if !has_verb && self.verbs.contains(&word) {
                has_verb = true;
                if word == "tool" && words.next()? != "run" {
                    return None;
                }
            } else if word.starts_with('-') || !has_verb {
                return None;
            } else {
                return self.base(word);
            }
        }
        None
    }

    /// Whether a word is an option without a value, or one that holds its value.
    fn is_flag(&self, word: &str) -> bool {
        if let Some((option, _)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            return self.valued.contains(&option) || self.flags.contains(&option);
        }
        if self.flags.contains(&word) {
            return true;
        }
        // `-it` is `-i -t`; `-eKEY=VALUE` is `-e KEY=VALUE`.
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
            return false;
        };
        let knows = |options: &[&str], letter: char| options.contains(&format!("-{letter}").as_str());
        let holds_value = letters
            .chars()
            .next()
            .is_some_and(|letter| knows(self.valued, letter));
        let are_flags = !letters.is_empty() && letters.chars().all(|letter| knows(self.flags, letter));
        are_flags || (holds_value && letters.len() > 1)
    }

    /// The part of a word that a person would call the server by; `None` if it may be anything.
    fn base<'w>(&self, word: &'w str) -> Option<&'w str> {
        // An address may hold a token, and an assignment a secret.
        if word.contains("://") || word.contains('=') || word.starts_with('-') {
            return None;
        }
        let word = match self.what {
            What::Image => word.split('@').next()?,
            What::Package | What::Script => word
                .strip_prefix("npm:")
                .or_else(|| word.strip_prefix("jsr:"))
                .unwrap_or(word),
        };
        let last = last_part(word);
        let name = match self.what {
            What::Image => last.split(':').next()?,
            // The version is behind the second `@` of a scope, which the last part has left behind.
            What::Package | What::Script => last.split('@').find(|part| !part.is_empty())?,
        };
        let is_spelt = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (!name.is_empty() && name.chars().all(is_spelt)).then_some(name)
    }
}

fn last_part(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// A name of letters, digits, `-` and `.`.
fn tidy(raw: &str) -> String {
    let spelt = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let tidy: String = raw
        .chars()
        .map(|c| if spelt(c) { c } else { '-' })
        .take(MAX_NAME_CHARS)
        .collect();
    match tidy.trim_matches('-') {
        "" => UNNAMED.to_owned(),
        tidy => tidy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        of_command(&words)
    }

    #[test]
    fn a_server_is_called_what_a_person_would_call_it() {
        for (line, expected) in [
            (
                "npx -y @modelcontextprotocol/server-everything@1.2.3",
                "server-everything",
            ),
            ("npx --package=typescript -p x mcp-thing", "mcp-thing"),
            ("npm exec --yes -- @scope/pkg", "pkg"),
            ("pnpm dlx pkg@latest --stdio", "pkg"),
            ("/usr/bin/mcp-server-time --local", "mcp-server-time"),
            ("uvx mcp-server-git --repository .", "mcp-server-git"),
            ("uvx --from git+https://tok@example.com/x.git thing", "thing"),
            ("uv run --directory /srv/app server.py", "server.py"),
            ("uv tool run ruff", "ruff"),
            ("uv run -m my_server", "my-server"),
            ("docker run -i --rm mcp/fetch", "fetch"),
            (
                "docker run --rm -it -p 80:80 ghcr.io/org/image:1.2@sha256:abc serve",
                "image",
            ),
            ("docker exec -i container server", "container"),
            ("python3 server.py", "server.py"),
            ("python3.12 -u -m mcp_server_time", "mcp-server-time"),
            ("node --enable-source-maps dist/index.js", "index.js"),
            ("deno run -A npm:@scope/thing@1", "thing"),
            ("env DEBUG=1 uvx mcp-server-git", "mcp-server-git"),
            ("-", "server"),
        ] {
            assert_eq!(of(line), expected, "{line}");
        }
    }

    #[test]
    fn nothing_that_may_be_a_secret_becomes_a_name() {
        for (line, expected) in [
            ("docker run -e TOKEN=hunter2 image", "image"),
            ("docker run -eTOKEN=hunter2 image", "image"),
            ("docker run --env TOKEN=hunter2 image", "image"),
            ("docker run --env=TOKEN=hunter2 image", "image"),
            ("docker run --unknown hunter2 image", "docker"),
            ("docker compose run hunter2", "docker"),
            ("docker run TOKEN=hunter2", "docker"),
            ("npx --token hunter2 pkg", "npx"),
            ("npx https://hunter2@example.com", "npx"),
            ("npx -c hunter2", "npx"),
            ("python3 -c hunter2", "python3"),
            ("node -e hunter2", "node"),
            ("uvx --from hunter2", "uvx"),
            ("sh -c hunter2", "sh"),
            ("mcp-server --token hunter2", "mcp-server"),
            ("TOKEN=hunter2 mcp-server", "server"),
            ("env TOKEN=hunter2 mcp-server", "mcp-server"),
            ("env -S hunter2", "env"),
            ("ssh hunter2@host server", "ssh"),
            ("deno run https://example.com/x.ts?token=hunter2", "deno"),
        ] {
            let name = of(line);
            assert_eq!(name, expected, "{line}");
            assert!(!name.contains("hunter2"));
        }
    }

    #[test]
    fn an_address_is_called_by_its_host_alone() {
        for (url, expected) in [
            (
                "https://mcp.example.com:8443/mcp?token=hunter2",
                "mcp.example.com",
            ),
            ("http://user:hunter2@host/mcp", "host"),
            ("http://hunter2@host", "host"),
            ("http://[::1]:80/mcp", "1"),
            ("http:///", "server"),
        ] {
            assert_eq!(of_address(url), expected, "{url}");
        }
        assert!(has_user_info("http://hunter2@host/mcp"));
        assert!(!has_user_info("http://host/@scope"));
    }
}
