//! `mainstay schema`: the JSON Schema of the configuration, for editors.

use clap::Args;

use crate::exit::{Done, Exit};
use crate::json::{OutputName, schema_of};
use crate::output::{Screen, Text};

/// Print the JSON Schema of the configuration, for editors
///
/// Save it, and name it in `"$schema"` of the configuration or in the settings of the editor.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay schema > ~/.config/mainstay/schema.json
  mainstay check --no-start")]
pub(crate) struct SchemaArgs {
    /// The schema of a command's JSON output instead
    #[arg(long, value_name = "COMMAND")]
    pub(crate) output: Option<OutputName>,
}

pub(crate) fn run(arguments: &SchemaArgs, screen: &Screen) -> Done {
    if let Some(output) = arguments.output {
        screen.print(Text::document(&schema_of(output)))?;
        return Ok(Exit::Success);
    }
    let mut text = Text::lines(&mainstay::config::json_schema());
    text.push("\n");
    screen.print(text)?;
    Ok(Exit::Success)
}
