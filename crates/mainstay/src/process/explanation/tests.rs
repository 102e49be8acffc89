use super::{EXCERPT_LINES_LIMIT, StderrExcerpt};

fn lines(stderr: &str) -> Vec<String> {
    stderr.lines().map(str::to_owned).collect()
}

fn of(stderr: &str) -> Option<String> {
    StderrExcerpt::of(lines(stderr)).reason
}

/// What a Go program with cobra writes.
const COBRA: &str = "Error: required flag(s) \"token\" not set\n\
    Usage:\n  srv stdio [flags]\n\nExamples:\n  srv stdio --token x\n\n\
    Flags:\n  -h, --help         help for stdio\n      --token string     the token (required)\n\n\
    Global Flags:\n      --fail-fast        end at the first error\n      --host string      the host\n\
    \x20     --log string       the log\n      --port int         the port\n      --read-only        refuse all changes\n\
    \x20 -v, --version          Print version information and quit";

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
            "Traceback (most recent call last):\n  File \"x.py\", line 9, in <module>\n    fail(\"missing\")\n\
             myapp.Boom: the moon is full\nclosing 3 files, which may fail",
            "myapp.Boom: the moon is full",
        ),
        (
            "  + Exception Group Traceback (most recent call last):\n  |   File \"x.py\", line 9\n\
             \x20 | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n\
             \x20 +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n\
             \x20   |   File \"y.py\", line 2\n    | KeyError: 'token'\n    +------------------------------------",
            "KeyError: 'token'",
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
        (COBRA, "Error: required flag(s) \"token\" not set"),
        (
            "2026/11/18 20:00:00 unknown flag: --x\nUsage of srv:\n  -token string\n    \tthe token (required)",
            "2026/11/18 20:00:00 unknown flag: --x",
        ),
        (
            "usage: prog [-h]\n            [--missing X]\nprog: error: the following arguments are required: X",
            "prog: error: the following arguments are required: X",
        ),
        (
            "panic: no more\n\ngoroutine 1 [running]:\nmain.main()\n\t/srv/main.go:5 +0x1d\nexit status 2",
            "panic: no more",
        ),
        (
            "time=2026-11-18T20:00:00Z level=ERROR msg=\"no such host\"\nthe cache could not be saved",
            "time=2026-11-18T20:00:00Z level=ERROR msg=\"no such host\"",
        ),
        (
            "read the settings\n[11/18/26 20:00:00] INFO     Starting MCP server 'x' with   server.py:1495\n\
             \x20                            transport 'stdio', which cannot\n                             be shared\n\
             \x20                   INFO     Listening to what is there, with              server.py:1499\n\
             \x20                            nothing missing",
            "read the settings",
        ),
        (
            "Usage: files <directory> …\nNote: directories can be given by:\n  1. the arguments\n\
             At least one directory must be given.",
            "At least one directory must be given.",
        ),
        (
            "Usage: files <directory>\n  --help  this text",
            "Usage: files <directory>",
        ),
        ("read the settings\n--token is required", "--token is required"),
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
        "[11/18/26 20:00:00] INFO     Starting MCP server 'x' with   server.py:1495\n                             transport 'stdio'",
    ] {
        assert_eq!(of(stderr), None, "{stderr}");
    }
}

/// What a Go program with the package `flag` writes.
const GO_FLAG: &str = "flag provided but not defined: -x\nUsage of srv:\n\
    \x20 -a string\n    \tthe address (default \"::\")\n  -d string\n    \tthe directory\n\
    \x20 -l string\n    \tthe log, which cannot be a pipe\n  -p int\n    \tthe port\n\
    \x20 -t string\n    \tthe token (required)\n  -v\tsay more of each error";

/// What cobra writes if the program silences its prefix.
const UNKNOWN_COMMAND: &str = "unknown command \"sdtio\" for \"srv\"\nUsage:\n  srv [command]\n\n\
    Available Commands:\n  http        serve over HTTP\n  login       ask for the missing token\n  stdio       serve over stdio\n\n\
    Flags:\n  -h, --help           help for srv\n      --fail-fast      end at the first error\n\
    \x20     --token string   the token (required)\n\nUse \"srv [command] --help\" for more information about a command.";

#[test]
fn an_excerpt_has_the_line_that_explains_the_failure_and_the_last_ones() {
    for stderr in [COBRA, GO_FLAG, UNKNOWN_COMMAND] {
        let all = lines(stderr);
        let short = StderrExcerpt::of(all.clone());
        assert_eq!(short.lines.len(), EXCERPT_LINES_LIMIT);
        assert_eq!(short.lines[0], all[0]);
        assert_eq!(short.lines[1..], all[all.len() - EXCERPT_LINES_LIMIT + 1..]);
        assert_eq!(short.reason.as_ref(), Some(&all[0]));
    }

    let numbered: Vec<String> = (0..30).map(|n| format!("line number {n}")).collect();
    let excerpt = |lines: &[String]| StderrExcerpt::of(lines.to_vec()).lines;
    assert_eq!(excerpt(&numbered), numbered[20..]);
    assert_eq!(excerpt(&numbered[..3]), numbered[..3]);
    assert!(excerpt(&[]).is_empty());
}
