//! An MCP server that fails as its script says.
//!
//! `faulty-server [--script JSON]` speaks on stdin and stdout; `--http PORT [--http-script JSON]` makes it an HTTP server
//! on that port of 127.0.0.1 (0: any free one), whose number is its first line on stdout. The script may also be
//! in `FAULTY_SCRIPT`.

use std::env;
use std::process::ExitCode;

use mainstay_testkit::http::HttpScript;
use mainstay_testkit::{Script, http, stdio};
use serde::de::DeserializeOwned;

const USAGE: &str = "usage: faulty-server [--script JSON] [--http PORT [--http-script JSON]]";

fn main() -> ExitCode {
    let played = Arguments::read().and_then(|arguments| match arguments.http {
        None => stdio::play(arguments.script),
        Some((port, script)) => {
            http::play(port, arguments.script, script).map_err(|error| format!("port {port}: {error}"))
        }
    });
    match played {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("faulty-server: {error}");
            ExitCode::from(2)
        }
    }
}

struct Arguments {
    script: Script,
    http: Option<(u16, HttpScript)>,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let mut script = env::var("FAULTY_SCRIPT").unwrap_or_else(|_| "{}".to_owned());
        let mut http_script = "{}".to_owned();
        let mut port = None;
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match &argument[..] {
                "--script" => script = value()?,
                "--http-script" => http_script = value()?,
                "--http" => {
                    let value = value()?;
                    port = Some(value.parse().map_err(|_| format!("{value:?} is no port"))?);
                }
                other => return Err(format!("unknown argument {other:?}; {USAGE}")),
            }
        }
        let http_script = parse(&http_script)?;
        Ok(Self {
            script: parse(&script)?,
            http: port.map(|port| (port, http_script)),
        })
    }
}

fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| format!("the script is not valid: {error}"))
}
