use super::*;

#[test]
fn the_definition_is_sound() {
    <CommandLine as clap::CommandFactory>::command().debug_assert();
}

#[test]
fn the_common_options_stand_before_or_after_the_command() {
    for line in [
        ["mainstay", "--config", "a.json", "check"],
        ["mainstay", "check", "--config", "a.json"],
    ] {
        let arguments = CommandLine::try_parse_from(line).unwrap();
        assert_eq!(arguments.common.config, Some("a.json".into()));
    }
}

#[test]
fn a_timeout_of_nothing_is_refused() {
    for timeout in ["0", "soon", "-1s"] {
        let line = ["mainstay", "check", &format!("--timeout={timeout}")].map(str::to_owned);
        assert!(CommandLine::try_parse_from(line).is_err(), "{timeout}");
    }
}

#[test]
fn the_first_word_that_is_no_option_of_wrap_begins_the_command() {
    for line in [
        &["mainstay", "wrap", "python3", "x.py", "--quiet", "--name", "y"][..],
        &[
            "mainstay", "wrap", "--", "python3", "x.py", "--quiet", "--name", "y",
        ],
    ] {
        let arguments = CommandLine::try_parse_from(line).unwrap();
        assert!(!arguments.common.quiet);
        let Command::Wrap(wrap) = arguments.command else {
            panic!("it is wrap");
        };
        assert_eq!(wrap.command, ["python3", "x.py", "--quiet", "--name", "y"]);
        assert_eq!(wrap.name, None);
    }
    let line = ["mainstay", "wrap", "--name", "n", "-q", "npx", "--", "pkg"];
    let arguments = CommandLine::try_parse_from(line).unwrap();
    assert!(arguments.common.quiet);
    let Command::Wrap(wrap) = arguments.command else {
        panic!("it is wrap");
    };
    assert_eq!(
        (wrap.name.as_deref(), &wrap.command[..]),
        (Some("n"), &["npx", "--", "pkg"].map(str::to_owned)[..])
    );
    let misspelt = ["mainstay", "wrap", "--nmae", "n", "npx"];
    assert!(
        CommandLine::try_parse_from(misspelt).is_err(),
        "a misspelt option is no command"
    );
}

const DOCUMENT: &str = include_str!("../../../../docs/cli.md");

/// The part of the document below this heading.
fn section(heading: &str) -> Option<&'static str> {
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {heading}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

#[test]
fn the_document_has_every_command_and_every_option() {
    let program = <CommandLine as clap::CommandFactory>::command();
    let everywhere = section("Options of every command").expect("it is there");
    for option in program.get_arguments().filter_map(clap::Arg::get_long) {
        assert!(
            everywhere.contains(&format!("`--{option}")),
            "--{option} of every command"
        );
    }
    for command in program.get_subcommands() {
        let name = command.get_name();
        assert!(
            DOCUMENT.contains(&format!("\nmainstay {name} ")),
            "{name} is in the list"
        );
        let nested = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let options = command.get_arguments().chain(nested);
        let options = options.filter(|option| !option.is_hide_set());
        let options: Vec<_> = options.filter_map(clap::Arg::get_long).collect();
        let Some(section) = section(&format!("`mainstay {name}`")) else {
            assert!(options.is_empty(), "{name} has options and no section");
            continue;
        };
        for option in options {
            assert!(section.contains(&format!("--{option}")), "--{option} of {name}");
        }
    }
}

#[test]
fn the_document_has_no_option_that_there_is_not() {
    let program = <CommandLine as clap::CommandFactory>::command();
    let mut known: Vec<_> = program.get_arguments().filter_map(clap::Arg::get_long).collect();
    for command in program.get_subcommands() {
        known.extend(command.get_arguments().filter_map(clap::Arg::get_long));
        let nested = command.get_subcommands();
        known.extend(
            nested
                .flat_map(clap::Command::get_arguments)
                .filter_map(clap::Arg::get_long),
        );
    }
    known.extend(["help", "version"]);
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    for (at, _) in DOCUMENT.match_indices("--") {
        let before = DOCUMENT[..at].chars().next_back();
        let option: String = DOCUMENT[at + 2..].chars().take_while(|&c| is_name(c)).collect();
        // Lines of tables, and `--` by itself.
        if option.is_empty() || option.starts_with('-') || before == Some('-') {
            continue;
        }
        assert!(known.contains(&option.as_str()), "--{option}");
    }
}
