//! `cargo xtask seeded`: the faults that are seeded into the lifecycle machine by hand, and which tests find each.
//!
//! The faults stand in `crates/mainstay-lifecycle/seeded-faults.txt`. Each is made in a copy of the crate, never in the sources
//! themselves. The copy is a workspace of its own, with its own build directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use crate::child;
use crate::project::Project;

const PACKAGE: &str = "mainstay-lifecycle";
const CRATE: &str = "crates/mainstay-lifecycle";
const LIST: &str = "seeded-faults.txt";
/// The exploration compares the scopes with those that this page shows.
const PAGE: &str = "docs/lifecycle.md";

const BUILD_TIMEOUT: Duration = Duration::from_secs(600);
/// Ten times as long as the exploration takes. A fault with which the machine loops for ever counts as found.
const TEST_TIMEOUT: Duration = Duration::from_secs(240);

/// One wrong place.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    /// What goes wrong.
    name: String,
    /// The file below `src`.
    file: String,
    right: String,
    wrong: String,
}

/// What looks for a fault.
struct Look {
    name: &'static str,
    /// The bound of the exploration; `None` is that of the gate.
    bound: Option<&'static str>,
    /// The arguments of `cargo test`.
    arguments: &'static [&'static str],
}

const LOOKS: [Look; 3] = [
    Look {
        name: "small",
        bound: Some("small"),
        arguments: &["--lib", "explore::"],
    },
    Look {
        name: "gate",
        bound: None,
        arguments: &["--lib", "explore::"],
    },
    Look {
        name: "other tests",
        bound: None,
        arguments: &["--lib", "--test", "specification", "--", "--skip", "explore::"],
    },
];

/// Tries each fault whose name or file contains `part`. An error if no test of the gate finds one of them.
pub(crate) fn run(project: &Project, part: &str) -> Result<()> {
    let faults = read(project)?;
    let mut faults: Vec<_> = faults
        .iter()
        .filter(|fault| fault.name.contains(part) || fault.file.contains(part))
        .collect();
    ensure!(
        !faults.is_empty(),
        "no name and no file of a seeded fault contains {part:?}"
    );
    faults.sort_by_key(|fault| &fault.file);
    let copy = Copy::make(project)?;
    copy.build().context("without a fault")?;
    for look in &LOOKS {
        ensure!(
            !copy.finds(look),
            "the tests ({}) fail without a fault",
            look.name
        );
    }
    println!(
        "| file | fault | {} |",
        LOOKS.each_ref().map(|look| look.name).join(" | ")
    );
    println!("| --- | --- | --- | --- | --- |");
    let mut survivors = Vec::new();
    for fault in &faults {
        let source = copy.crate_file(&format!("src/{}", fault.file));
        let right = fs::read_to_string(&source)?;
        fs::write(&source, fault.in_text(&right)?)?;
        copy.build().with_context(|| fault.name.clone())?;
        let found = LOOKS.each_ref().map(|look| copy.finds(look));
        fs::write(&source, right)?;
        let words = found.map(|found| if found { "found" } else { "missed" });
        println!("| `{}` | {} | {} |", fault.file, fault.name, words.join(" | "));
        // The gate runs the exploration in its own bound, and all other tests.
        let [_, gate, others] = found;
        if !gate && !others {
            survivors.push(&fault.name);
        }
    }
    ensure!(survivors.is_empty(), "no test of the gate finds: {survivors:#?}");
    println!("the tests of the gate find all {}", faults.len());
    Ok(())
}

fn read(project: &Project) -> Result<Vec<Fault>> {
    let list = project.source(CRATE).join(LIST);
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    parse(&text).with_context(|| format!("in {}", list.display()))
}

/// A fault is a line `= FILE: NAME`, then the right lines, each after `-`, then the wrong ones, each after `+`. Empty lines and
/// lines that begin with `#` are left out.
fn parse(text: &str) -> Result<Vec<Fault>> {
    let mut faults: Vec<Fault> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("line {}", number + 1);
        let Some(sign) = line.chars().next().filter(|&sign| sign != '#') else {
            continue;
        };
        let rest = &line[sign.len_utf8()..];
        if sign == '=' {
            let (file, name) = rest.split_once(": ").with_context(place)?;
            faults.push(Fault {
                name: name.to_owned(),
                file: file.trim().to_owned(),
                right: String::new(),
                wrong: String::new(),
            });
            continue;
        }
        let fault = faults.last_mut().with_context(place)?;
        let side = match sign {
            '-' => &mut fault.right,
            '+' => &mut fault.wrong,
            _ => bail!("{}: a line begins with =, -, + or #", place()),
        };
        side.push_str(rest);
        side.push('\n');
    }
    Ok(faults)
}

impl Fault {
    /// The text of the file with this fault in it.
    fn in_text(&self, text: &str) -> Result<String> {
        let count = if self.right.is_empty() {
            0
        } else {
            text.matches(&self.right).count()
        };
        ensure!(
            count == 1,
            "{:?}: its right lines are {count} times in {}, and not once",
            self.name,
            self.file
        );
        Ok(text.replacen(&self.right, &self.wrong, 1))
    }
}

/// The crate as a workspace of its own, with the page that its tests read.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn make(project: &Project) -> Result<Self> {
        let root = project.built("seeded");
        let crate_copy = root.join(CRATE);
        if crate_copy.exists() {
            fs::remove_dir_all(&crate_copy)?;
        }
        copy_tree(&project.source(CRATE), &crate_copy)?;
        let page = root.join(PAGE);
        fs::create_dir_all(page.parent().context("a page is in a directory")?)?;
        fs::copy(project.source(PAGE), page)?;
        let manifest = fs::read_to_string(project.source("Cargo.toml"))?;
        let members = format!("members = [{CRATE:?}]");
        let manifest: Vec<&str> = manifest
            .lines()
            .filter(|line| !line.starts_with("default-members"))
            .map(|line| {
                if line.starts_with("members = ") {
                    &members
                } else {
                    line
                }
            })
            .collect();
        fs::write(root.join("Cargo.toml"), manifest.join("\n"))?;
        Ok(Self { root })
    }

    fn crate_file(&self, path: &str) -> PathBuf {
        self.root.join(CRATE).join(path)
    }

    /// A fault that does not compile is no fault of the machine.
    fn build(&self) -> Result<()> {
        let mut cargo = self.cargo();
        cargo.args(["--quiet", "--no-run", "--lib", "--test", "specification"]);
        child::run(&mut cargo, BUILD_TIMEOUT)
    }

    fn finds(&self, look: &Look) -> bool {
        let mut cargo = self.cargo();
        cargo.args(look.arguments).env_remove("MAINSTAY_EXPLORE");
        if let Some(bound) = look.bound {
            cargo.env("MAINSTAY_EXPLORE", bound);
        }
        !child::succeeds(&mut cargo, TEST_TIMEOUT)
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            // What a wrong place leaves unused is no finding.
            .env("RUSTFLAGS", "--cap-lints allow")
            .args(["test", "--package", PACKAGE]);
        cargo
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CRATE, Fault, Path, fs, parse};

    fn listed() -> Vec<Fault> {
        parse(include_str!("../../crates/mainstay-lifecycle/seeded-faults.txt")).unwrap()
    }

    #[test]
    fn every_seeded_fault_can_be_made_in_the_machine_as_it_is() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(CRATE)
            .join("src");
        for fault in listed() {
            let right = fs::read_to_string(sources.join(&fault.file)).unwrap();
            assert_ne!(fault.in_text(&right).unwrap(), right, "{}", fault.name);
        }
    }

    #[test]
    fn every_seeded_fault_has_a_name_of_its_own() {
        let mut names: Vec<_> = listed().into_iter().map(|fault| fault.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_fault_has_right_lines_and_wrong_ones() {
        let faults =
            parse("# a comment\n= a.rs: it waits\n-    one\n-two\n+    three\n\n= b.rs: none\n-x\n").unwrap();
        let fault = |name: &str, file: &str, right: &str, wrong: &str| Fault {
            name: name.to_owned(),
            file: file.to_owned(),
            right: right.to_owned(),
            wrong: wrong.to_owned(),
        };
        let expected = [
            fault("it waits", "a.rs", "    one\ntwo\n", "    three\n"),
            fault("none", "b.rs", "x\n", ""),
        ];
        assert_eq!(faults, expected);
        assert!(parse("-before any fault\n").is_err());
        assert!(parse("= without a name\n").is_err());
        assert!(parse("= a.rs: x\n?\n").is_err());
    }

    #[test]
    fn right_lines_that_are_not_there_once_are_an_error() {
        let [fault] = &parse("= a.rs: it waits\n-one\n+two\n").unwrap()[..] else {
            panic!("one fault")
        };
        assert_eq!(fault.in_text("zero\none\n").unwrap(), "zero\ntwo\n");
        assert!(fault.in_text("zero\n").is_err());
        assert!(fault.in_text("one\none\n").is_err());
    }
}
