//! Where the paths of a configuration start from.
//!
//! `~/` is the home directory. A relative `cwd` starts from the folder of the file it is written in, since the working
//! directory of a program started by an editor is anyone's guess. A relative `command` with a slash starts from the
//! server's own `cwd`, as in a shell; it is made absolute here, because systems disagree on it.

use std::path::{Path, is_separator};

use super::expand::Lookup;
use crate::config::problem::ProblemText;

use crate::config::target::ConfigText;

/// Replaces `~` or a leading `~/` by the home directory.
pub(super) fn with_home(text: ConfigText, lookup: Lookup<'_>) -> Result<ConfigText, ProblemText> {
    let Some(below) = text
        .value()
        .strip_prefix('~')
        .filter(|below| below.is_empty() || below.starts_with(is_separator))
    else {
        return Ok(text);
    };
    let Some(home) = lookup("HOME").filter(|home| !home.is_empty()) else {
        return Err(ProblemText::new(
            "`~` stands for HOME, which is not set",
            "set it, or write the whole path",
        ));
    };
    let value = format!("{home}{below}");
    Ok(text.with_value(value))
}

/// The directory a server runs in, made absolute.
pub(super) fn from_folder(cwd: ConfigText, folder: &Path) -> Result<ConfigText, ProblemText> {
    // An empty path is a mistake to be reported, not the folder itself.
    if cwd.value().is_empty() || Path::new(cwd.value()).is_absolute() {
        return Ok(cwd);
    }
    match folder.join(cwd.value()).into_os_string().into_string() {
        Ok(value) => Ok(cwd.with_value(value)),
        Err(_) => Err(ProblemText::new(
            "the folder of this file has a name that is not Unicode",
            "write the whole path",
        )),
    }
}

/// The program, made absolute where it is a relative path rather than a name to be looked up.
pub(super) fn from_cwd(command: ConfigText, cwd: Option<&ConfigText>) -> ConfigText {
    match cwd {
        Some(cwd) if command.value().contains(is_separator) => {
            let path = Path::new(cwd.value()).join(command.value());
            // Both halves are texts, so nothing is lost.
            let value = path.to_string_lossy().into_owned();
            command.with_value(value)
        }
        Some(_) | None => command,
    }
}
