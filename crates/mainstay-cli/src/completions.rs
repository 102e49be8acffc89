//! `mainstay completions`: the completions of a shell, made from the same definition that reads the arguments.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use crate::args::CommandLine;
use crate::exit::{Done, Exit};
use crate::output::{Screen, Text};

/// Print the completions of a shell
///
/// The shell reads them from a file in a directory of its own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay completions bash > ~/.local/share/bash-completion/completions/mainstay
  mainstay completions zsh > ~/.zfunc/_mainstay
  mainstay completions fish > ~/.config/fish/completions/mainstay.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: CompletedShell,
}

/// The shells that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletedShell {
    Bash,
    Fish,
    Zsh,
}

impl From<CompletedShell> for Shell {
    fn from(shell: CompletedShell) -> Self {
        match shell {
            CompletedShell::Bash => Self::Bash,
            CompletedShell::Fish => Self::Fish,
            CompletedShell::Zsh => Self::Zsh,
        }
    }
}

pub(crate) fn run(completions: &CompletionsArgs, screen: &Screen) -> Done {
    let mut script = Vec::new();
    let mut program = CommandLine::command();
    let name = program.get_name().to_owned();
    clap_complete::generate(Shell::from(completions.shell), &mut program, name, &mut script);
    screen.print(Text::lines(&String::from_utf8_lossy(&script)))?;
    Ok(Exit::Success)
}
