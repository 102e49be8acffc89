//! Which line of stderr says why a server failed.

/// Words of lines that say what is wrong.
const ERROR_WORDS: [&str; 21] = [
    "error",
    "exception",
    "fail",
    "fatal",
    "panic",
    "cannot",
    "can't",
    "could not",
    "unable",
    "not found",
    "no such",
    "no module",
    "not set",
    "not in this registry",
    "denied",
    "refused",
    "invalid",
    "missing",
    "required",
    "unauthorized",
    "undefined",
];

/// What package managers put before each line, whatever it says.
const PREFIXES: [&str; 3] = ["npm error", "npm ERR!", "npm err!"];

/// Beginnings of lines that say nothing about the server.
const NOTICES: [&str; 9] = [
    "npm notice",
    "npm warn",
    "npm WARN",
    "A complete log of this run",
    "at ",
    "Node.js v",
    "Traceback (most recent call last)",
    "warning:",
    "(Use `node --trace",
];

/// What servers say when they come up.
const BANNERS: [&str; 8] = [
    "running on stdio",
    "server running",
    "server started",
    "server is running",
    "starting",
    "listening",
    "welcome to",
    "press ctrl",
];

/// The last line that names an error; without one, the last with any content. Banners, frames, stack frames and the notices
/// of package managers have none.
pub(super) fn most_specific(lines: &[String]) -> Option<&str> {
    let candidates = || {
        lines
            .iter()
            .rev()
            .map(|line| line.trim())
            .filter(|line| has_content(line))
    };
    let error = candidates().find(|line| has_any(without_prefix(line), &ERROR_WORDS));
    error.or_else(|| candidates().find(|line| !has_any(line, &BANNERS)))
}

fn has_content(line: &str) -> bool {
    let text = without_prefix(line);
    let letters = text.chars().filter(|c| c.is_alphanumeric()).count();
    let is_framed = text.contains(|c| matches!(c, '\u{2500}'..='\u{259f}'));
    // A word of two letters and a frame are decoration; so is a line that is mostly signs.
    letters > 2
        && !is_framed
        && letters * 3 >= text.chars().filter(|c| !c.is_whitespace()).count()
        && !NOTICES.iter().any(|notice| text.starts_with(notice))
}

fn without_prefix(line: &str) -> &str {
    let line = line.trim_start();
    let rest = PREFIXES.iter().find_map(|prefix| line.strip_prefix(prefix));
    rest.unwrap_or(line).trim_start()
}

fn has_any(line: &str, words: &[&str]) -> bool {
    let line = line.to_lowercase();
    words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::most_specific;

    fn of(stderr: &str) -> Option<String> {
        let lines: Vec<String> = stderr.lines().map(str::to_owned).collect();
        most_specific(&lines).map(str::to_owned)
    }

    #[test]
    fn the_line_that_says_what_is_wrong_is_chosen() {
        for (stderr, chosen) in [
            (
                "npm error code E404\n\
                 npm error 404 Not Found - GET https://registry.example/no-such-server\n\
                 npm error 404\n\
                 npm error 404  'no-such-server@*' is not in this registry.\n\
                 npm error 404\n\
                 npm error 404 Note that you can also install from a\n\
                 npm error 404 tarball, folder, http url, or git folder.\n\
                 npm error A complete log of this run can be found in: /home/u/.npm/_logs/x.log",
                "npm error 404  'no-such-server@*' is not in this registry.",
            ),
            (
                "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n\
                 Error: Cannot find module '/srv/index.js'\n\
                 \x20   at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)\n\
                 \x20 code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v20.20.2",
                "Error: Cannot find module '/srv/index.js'",
            ),
            (
                "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n\
                 ModuleNotFoundError: No module named 'mcp'",
                "ModuleNotFoundError: No module named 'mcp'",
            ),
            (
                "GITHUB_TOKEN is not set\n\
                 ╭──────────────────────────╮\n│      FastMCP  2.0        │\n╰──────────────────────────╯\n\
                 ==========================\nStarting MCP server 'x' with transport 'stdio'",
                "GITHUB_TOKEN is not set",
            ),
            (
                "opened the database\nSecure MCP Server running on stdio",
                "opened the database",
            ),
        ] {
            assert_eq!(of(stderr).as_deref(), Some(chosen), "{stderr}");
        }
    }

    #[test]
    fn nothing_is_quoted_where_nothing_was_said() {
        for stderr in [
            "",
            "╭───╮\n│ x │\n╰───╯",
            "-------\n=======\n>>>",
            "npm notice New major version of npm available! 10.8.2 -> 11.0.0\nnpm warn deprecated x",
            "Knowledge Graph MCP Server running on stdio",
        ] {
            assert_eq!(of(stderr), None, "{stderr}");
        }
    }
}
