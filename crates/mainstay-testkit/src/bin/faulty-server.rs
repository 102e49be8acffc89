//! An MCP server that fails as its script says: `faulty-server --script JSON`, or `FAULTY_SCRIPT=JSON faulty-server`.

use std::env;
use std::process::ExitCode;

use mainstay_testkit::{Script, stdio};

fn main() -> ExitCode {
    match script() {
        Ok(script) => stdio::play(script),
        Err(error) => {
            eprintln!("faulty-server: {error}");
            ExitCode::from(2)
        }
    }
}

fn script() -> Result<Script, String> {
    let mut arguments = env::args().skip(1);
    let json = match arguments.next().as_deref() {
        Some("--script") => arguments.next().ok_or("--script needs a value")?,
        Some(other) => {
            return Err(format!(
                "unknown argument {other:?}; usage: faulty-server [--script JSON]"
            ));
        }
        None => env::var("FAULTY_SCRIPT").unwrap_or_else(|_| "{}".to_owned()),
    };
    serde_json::from_str(&json).map_err(|error| format!("the script is not valid: {error}"))
}
