//! `mainstay man`: the manual pages, made from the same definition that reads the arguments.
//!
//! Without a directory it prints the page of the program itself; packagers let it write a page for each command.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use crate::args::CommandLine;
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, Text};

/// Print the manual page, or write one for each command
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay man | man -l -
  mainstay man --directory /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write the page of the program and one for each command into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

pub(crate) fn run(man: &ManArgs, screen: &Screen) -> Done {
    let mut program = CommandLine::command();
    program.build();
    match &man.directory {
        None => {
            let page = page(program).map_err(CommandFailure::failed)?;
            screen.print(Text::lines(&page))?;
        }
        Some(directory) => pages(&program, directory).map_err(CommandFailure::failed)?,
    }
    Ok(Exit::Success)
}

/// Writes the page of a command and those of the commands below it: `mainstay.1`, `mainstay-check.1`.
fn pages(command: &clap::Command, directory: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = directory.join(format!("{name}.1"));
    let text = page(command.clone())?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let below = command.get_subcommands();
    for command in below.filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        pages(command, directory)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .context("cannot make the page")?;
    String::from_utf8(page).context("the page is not UTF-8")
}
