//! The bearer tokens of `mainstay serve`: where they are written, and how their file is read again.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use mainstay_gateway::DoorTokens;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::args::ServeArgs;
use crate::output::{Screen, Text, plain, text};

/// The shortest token that is accepted, in characters: shorter ones can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// The mode bits of group and others.
const READABLE_BY_OTHERS: u32 = 0o044;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The user that may change every file anyway.
const ROOT: u32 = 0;

/// How long the token file may take to be read before a warning says so.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The tokens of which clients must show one. They never stand on the command line, where every user of the machine could read
/// them.
pub(crate) fn tokens(arguments: &ServeArgs, screen: &Screen) -> anyhow::Result<Vec<String>> {
    match (&arguments.token_file, &arguments.token_env) {
        (Some(file), _) => {
            let FileTokens { tokens, warning } = tokens_of_file(file)?;
            if let Some(warning) = warning {
                screen.warning(warning);
            }
            Ok(tokens)
        }
        (None, Some(variable)) => {
            let text =
                std::env::var(variable).with_context(|| format!("the variable {variable} holds no token"))?;
            tokens_of_text(&text, &format!("the variable {variable}"))
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// The tokens of a file, and what a person should change about the file.
struct FileTokens {
    tokens: Vec<String>,
    warning: Option<Text>,
}

fn tokens_of_file(file: &Path) -> anyhow::Result<FileTokens> {
    let shown = file.display();
    let cannot = || format!("cannot read {shown}");
    // What is opened is what is looked at, whatever a link points to meanwhile. A pipe, such as that of `<(…)`, has no name to protect.
    let mut opened = File::open(file).with_context(cannot)?;
    let about = opened.metadata().with_context(cannot)?;
    let warning = check_file(file, &about)?;
    let mut text = String::new();
    opened.read_to_string(&mut text).with_context(cannot)?;
    Ok(FileTokens {
        tokens: tokens_of_text(&text, &shown.to_string())?,
        warning,
    })
}

/// Refuses a file whose tokens another user may have chosen, and warns of one that other users can read.
fn check_file(file: &Path, about: &Metadata) -> anyhow::Result<Option<Text>> {
    let (shown, user) = (file.display(), rustix::process::geteuid().as_raw());
    // A link of another user in a directory of all users leads wherever that user likes.
    let link = file.symlink_metadata().ok().filter(Metadata::is_symlink);
    for (what, owner) in [
        ("", Some(about.uid())),
        ("the link ", link.map(|link| link.uid())),
    ] {
        if let Some(owner) = owner.filter(|owner| *owner != user && *owner != ROOT) {
            return Err(anyhow!(
                "{what}{shown} belongs to user {owner}, who could choose the tokens: `chown {user} {shown}`, or write a file of your own"
            ));
        }
    }
    if !about.is_file() {
        return Ok(None);
    }
    if about.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(anyhow!(
            "other users can write {shown}, and so choose the tokens: `chmod 600 {shown}`"
        ));
    }
    let is_readable = about.mode() & READABLE_BY_OTHERS != 0;
    Ok(is_readable.then(|| {
        let shown = plain(&shown.to_string());
        text!(
            "other users can read the tokens in {}: `chmod 600 {}`",
            shown,
            shown
        )
    }))
}

/// The tokens of a text, one on each line. A byte order mark before the first is skipped.
fn tokens_of_text(text: &str, place: &str) -> anyhow::Result<Vec<String>> {
    let mut tokens = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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
        if line.len() < SHORTEST_TOKEN {
            return Err(anyhow!(
                "the token in line {} of {place} has fewer than {SHORTEST_TOKEN} characters and can be guessed: make one with \
                 `openssl rand -hex 32`",
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
    let FileTokens { tokens, warning } = read??;
    if let Some(warning) = warning {
        screen.warning(warning);
    }
    let changes = door.replace(tokens)?;
    Ok(match (changes.added, changes.removed) {
        (0, 0) => text!("token file applied: nothing changed"),
        (added, removed) => text!("token file applied: {} added, {} removed", added, removed),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn refused(text: &str) -> String {
        tokens_of_text(text, "here").expect_err(text).to_string()
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_token_and_a_short_token_is_refused_with_the_way_to_a_long_one() {
        let read = tokens_of_text(&format!("\u{feff}{TOKEN}\r\n# remark\n"), "here");
        assert_eq!(read.expect("a token"), [TOKEN]);
        let remark = tokens_of_text(&format!("\u{feff}# remark\n{TOKEN}"), "here");
        assert_eq!(remark.expect("a token"), [TOKEN]);
        let short = refused(&format!("{TOKEN}\n{}\n", &TOKEN[1..]));
        assert!(
            short.contains("line 2 of here") && short.contains("`openssl rand -hex 32`"),
            "{short}"
        );
        assert!(!short.contains(&TOKEN[1..]), "the message holds no token");
        assert!(refused("\u{feff}\n").contains("holds no token"));
    }

    #[test]
    fn who_can_write_the_file_or_lead_to_another_chooses_the_tokens_and_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("tokens");
        fs::write(&file, TOKEN).expect("written");
        let of_mode = |mode| {
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("set");
            tokens_of_file(&file)
        };
        for (mode, is_warned) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
            let read = of_mode(mode).expect("accepted");
            assert_eq!(
                (read.tokens, read.warning.is_some()),
                (vec![TOKEN.to_owned()], is_warned)
            );
        }
        for mode in [0o620, 0o602, 0o666] {
            let refused = of_mode(mode).err().expect("refused").to_string();
            assert!(refused.contains("chmod 600"), "{refused}");
        }
        of_mode(0o600).expect("accepted");
        let link = directory.path().join("link");
        symlink(&file, &link).expect("a link");
        assert_eq!(tokens_of_file(&link).expect("an own link").tokens, [TOKEN]);
        // Only root can make one of another user.
        if std::os::unix::fs::lchown(&link, Some(4711), None).is_ok() {
            let refused = tokens_of_file(&link).err().expect("refused").to_string();
            assert!(
                refused.starts_with("the link ") && refused.contains("user 4711"),
                "{refused}"
            );
            std::os::unix::fs::lchown(&link, Some(0), None).expect("root");
            std::os::unix::fs::chown(&file, Some(4711), None).expect("root");
            for path in [&file, &link] {
                let refused = tokens_of_file(path).err().expect("refused").to_string();
                assert!(refused.contains("belongs to user 4711"), "{refused}");
            }
        }
    }
}
