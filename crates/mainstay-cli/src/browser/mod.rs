//! Shows an address that holds a secret in the person's browser.
//!
//! Every user of a machine can read every command line, so the address stands in none. The browser opens a private file, which sends it on. One
//! that cannot read such files, as inside a snap, opens a page without a secret instead, and the person types the code that the terminal
//! shows.

mod confined;
mod file;
mod page;

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mainstay_bridge::RuntimeDirectory;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use tokio::sync::oneshot;

use self::file::RedirectFile;
use self::page::CodePage;
use crate::output::{Screen, plain, text};

/// How long a browser may take to open the file: one on a busy machine takes some seconds to start.
pub(crate) const BROWSER_TIMEOUT: Duration = Duration::from_secs(60);

/// Programs that open an address on this system.
#[cfg(target_os = "macos")]
const OPENERS: &[&str] = &["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: &[&str] = &["xdg-open", "x-www-browser", "www-browser"];

/// What the path in a file's address leaves as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// An address on its way to the browser. Dropping it takes the address back.
pub(crate) struct Handover {
    way: HandoverWay,
    failed: Option<oneshot::Receiver<()>>,
}

enum HandoverWay {
    File(RedirectFile),
    Page(CodePage),
}

impl Handover {
    /// The code that the person types into the page, if there is one.
    pub(crate) fn code(&self) -> Option<&str> {
        match &self.way {
            HandoverWay::File(_) => None,
            HandoverWay::Page(page) => Some(page.code()),
        }
    }

    /// Completes if the program that opens addresses reports a failure.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(crate) async fn failed(&mut self) {
        if let Some(failed) = &mut self.failed {
            let told = failed.await;
            self.failed = None;
            if told.is_ok() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Opens an address, by a page with a code if that is wanted; `None` if no browser could be started. `BROWSER` names commands, separated by
/// `:`; `%s` in one stands for the address.
pub(crate) async fn open(address: &str, with_code: bool, screen: &Screen) -> Option<Handover> {
    // Only pages, whatever a server names as its authorization endpoint.
    if !address.starts_with("https://") && !address.starts_with("http://") {
        return None;
    }
    let named = env::var("BROWSER").ok().filter(|named| !named.is_empty());
    let has_display = env::var_os("DISPLAY").is_some() || env::var_os("WAYLAND_DISPLAY").is_some();
    if named.is_none() && cfg!(target_os = "linux") && !has_display {
        return None;
    }
    let commands: Vec<&str> = match &named {
        Some(named) => named.split(':').collect(),
        None => OPENERS.to_vec(),
    };
    for command in commands {
        let Some(program) = command.split_ascii_whitespace().next() else {
            continue;
        };
        let way = choose_way(program, address, with_code).await?;
        let shown = match &way {
            HandoverWay::File(file) => file_address(file.path()),
            HandoverWay::Page(page) => page.address().to_owned(),
        };
        if let Some(failed) = start(command, &shown) {
            let failed = Some(failed);
            return Some(Handover { way, failed });
        }
    }
    if let Some(named) = named {
        screen.warning(text!(
            "none of the commands in BROWSER could be started: {}",
            plain(&named)
        ));
    }
    None
}

/// How this program gets the address. A page with a code always works; it costs the person a few keys.
async fn choose_way(program: &str, address: &str, with_code: bool) -> Option<HandoverWay> {
    if !with_code && !confined::is_confined(program) {
        let directory = RuntimeDirectory::find(|name| env::var_os(name)).map_err(anyhow::Error::from);
        let made = directory
            .and_then(|directory| Ok(RedirectFile::create(directory.path(), address, BROWSER_TIMEOUT)?));
        match made {
            Ok(file) => return Some(HandoverWay::File(file)),
            Err(error) => tracing::debug!(%error, "there is no private file for the browser"),
        }
    }
    let page = CodePage::open(address).await;
    page.inspect_err(|error| tracing::debug!(%error, "there is no page for the browser"))
        .ok()
        .map(HandoverWay::Page)
}

fn file_address(path: &Path) -> String {
    let path = path.as_os_str().as_encoded_bytes();
    let path = percent_encoding::percent_encode(path, PATH);
    format!("file://{path}")
}

/// A document that sends the browser on to this address.
fn redirect_document(address: &str) -> String {
    let address = escaped(address);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><title>Mainstay</title>\
         <p><a href=\"{address}\">Continue</a></p>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Starts a command with the address as its last argument, or in place of `%s`. No shell is involved. Its failure is reported.
fn start(command: &str, address: &str) -> Option<oneshot::Receiver<()>> {
    let mut words = command.split_ascii_whitespace();
    let program = words.next()?;
    let mut arguments: Vec<String> = words.map(|word| word.replace("%s", address)).collect();
    if !command.contains("%s") {
        arguments.push(address.to_owned());
    }
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (report, failed) = oneshot::channel();
    // It may run for as long as the browser does.
    std::thread::spawn(move || {
        if !child.wait().is_ok_and(|status| status.success()) {
            let _ = report.send(());
        }
    });
    Some(failed)
}

/// Bytes that no other user can guess.
fn draw_random<const N: usize>() -> std::io::Result<[u8; N]> {
    use std::io::Read as _;
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_file_is_encoded_and_a_document_holds_it_as_text() {
        assert_eq!(
            file_address(Path::new("/a b/c#d.html")),
            "file:///a%20b/c%23d.html"
        );
        let document = redirect_document("https://a.example/?x=1&y=\"><script>");
        assert!(document.contains("url=https://a.example/?x=1&amp;y=&quot;&gt;&lt;script&gt;\""));
    }

    #[tokio::test]
    async fn only_a_failure_of_the_opener_is_reported() {
        let failed = start("false", "x").expect("started");
        failed.await.expect("it says so");
        let ended = start("true", "x").expect("started");
        ended.await.expect_err("it has nothing to say");
        assert!(start("/no/such/program", "x").is_none());
    }
}
