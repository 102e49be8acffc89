//! `mainstay reload`: has the daemon read its configuration again.

use super::documents::ReloadDocument;
use super::{ReloadArgs, failed, in_place, say, with_daemon};
use crate::exit::{Done, Exit};
use crate::output::{Screen, Text, plain, text};

pub(crate) fn run(arguments: &ReloadArgs, screen: &Screen) -> Done {
    with_daemon(async |client| {
        let report = client.reload().await.map_err(failed)?;
        for problem in &report.problems {
            screen.warning(plain(&in_place(problem)));
        }
        if arguments.json {
            screen.print(Text::document(&ReloadDocument::new(&report)))?;
        } else {
            let file = report.file.as_deref().unwrap_or("the configuration");
            screen.print(text!("applied {}: {}\n", plain(file), say::changes(&report)))?;
        }
        Ok(Exit::Success)
    })
}
