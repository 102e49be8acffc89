//! `mainstay schema`: the JSON Schema of the configuration, for editors.

use clap::Args;

use crate::exit::{Done, Exit};
use crate::output::{Screen, Text};

/// Print the JSON Schema of the configuration, for editors
///
/// Save it, and name it in `"$schema"` of the configuration or in the settings of the editor.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay schema > ~/.config/mainstay/schema.json
  mainstay check --no-start")]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(screen: &Screen) -> Done {
    let mut text = Text::lines(&mainstay::config::json_schema());
    text.push("\n");
    screen.print(text)?;
    Ok(Exit::Success)
}
