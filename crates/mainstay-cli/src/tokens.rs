//! The bearer tokens of `mainstay serve`: where they are written, and how their file is read again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use mainstay_gateway::DoorTokens;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::args::ServeArgs;
use crate::output::{Screen, Text, plain, text};

/// How long the token file may take to be read before a warning says so.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The tokens of which clients must show one. They never stand on the command line, where every user of the machine could read
/// them.
pub(crate) fn tokens(arguments: &ServeArgs) -> anyhow::Result<Vec<String>> {
    match (&arguments.token_file, &arguments.token_env) {
        (Some(file), _) => tokens_of_file(file),
        (None, Some(variable)) => {
            let text =
                std::env::var(variable).with_context(|| format!("the variable {variable} holds no token"))?;
            tokens_of_text(&text, &format!("the variable {variable}"))
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn tokens_of_file(file: &Path) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    tokens_of_text(&text, &file.display().to_string())
}

/// The tokens of a text, one on each line.
fn tokens_of_text(text: &str, place: &str) -> anyhow::Result<Vec<String>> {
    let mut tokens = Vec::new();
    for (n, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.contains(|part: char| part.is_whitespace() || part.is_control()) {
            return Err(anyhow!(
                "line {} of {place} is no token: write one token on each line, without spaces, and remarks after #",
                n + 1
            ));
        }
        tokens.push(line.to_owned());
    }
    match tokens.is_empty() {
        true => Err(anyhow!("{place} holds no token")),
        false => Ok(tokens),
    }
}

/// A token file that is read again on request. A task does that until this is dropped.
pub(crate) struct FollowedTokens {
    requests: watch::Sender<()>,
}

impl FollowedTokens {
    pub(crate) fn follow(file: &Path, door: DoorTokens, screen: &Screen) -> Self {
        let (requests, mut requested) = watch::channel(());
        let (file, screen) = (file.to_owned(), *screen);
        tokio::spawn(async move {
            while requested.changed().await.is_ok() {
                match apply(&file, &door, &screen).await {
                    Ok(applied) => screen.note(applied),
                    Err(error) => screen.warning(text!(
                        "the token file is not applied, and the tokens before stay in force: {}; correct {} and send SIGHUP to \
                         process {}",
                        plain(&format!("{error:#}")),
                        plain(&file.display().to_string()),
                        std::process::id()
                    )),
                }
            }
        });
        Self { requests }
    }

    /// Has the file read and applied. Several requests while it is being read become one.
    pub(crate) fn read_again(&self) {
        self.requests.send_replace(());
    }
}

/// Reads the file on a thread that may block. Only one does: a read that takes too long is reported, and still awaited.
async fn apply(file: &Path, door: &DoorTokens, screen: &Screen) -> anyhow::Result<Text> {
    let path: PathBuf = file.to_owned();
    let mut reading = spawn_blocking(move || tokens_of_file(&path));
    let read = match timeout(READ_TIMEOUT, &mut reading).await {
        Ok(read) => read,
        Err(_) => {
            screen.warning(text!(
                "reading {} takes longer than {} s; the tokens before stay in force until it is read",
                plain(&file.display().to_string()),
                READ_TIMEOUT.as_secs()
            ));
            reading.await
        }
    };
    let changes = door.replace(read??)?;
    Ok(match (changes.added, changes.removed) {
        (0, 0) => text!("token file applied: nothing changed"),
        (added, removed) => text!("token file applied: {} added, {} removed", added, removed),
    })
}
