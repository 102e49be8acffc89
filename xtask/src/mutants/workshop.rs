//! A copy of the project with all mutants in it, and the executables of its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::listing::Mutant;
use super::schema::{self, SwitchedSource};
use crate::child;
use crate::project::Project;

const BUILD_WITHIN: Duration = Duration::from_secs(3600);
const LIST_WITHIN: Duration = Duration::from_secs(60);
/// Errors of types hide errors of borrowing, so a few rounds are needed.
const ROUND_LIMIT: usize = 12;

/// What the compiler finds in mutants, and would refuse.
const TOLERATED_LINTS: &str = "warnings, arithmetic_overflow, unconditional_panic, unconditional_recursion";

const SWITCH: &str = include_str!("switch.rs");

pub(crate) struct Workshop {
    root: PathBuf,
    cargo: PathBuf,
    target: PathBuf,
}

/// An executable with tests.
#[derive(Clone, Debug)]
pub(crate) struct TestProgram {
    pub(crate) path: PathBuf,
    /// Where cargo would start it.
    pub(crate) directory: PathBuf,
    pub(crate) name: String,
}

impl Workshop {
    /// Copies what git knows of the project, except what is mutated. Files that are as they should be keep their times, so that
    /// cargo compiles little.
    pub(crate) fn copy_of(project: &Project, mutants: &[Mutant]) -> Result<Self> {
        let root = project.built("mutants/source");
        let mut git = Command::new("git");
        git.current_dir(project.source("")).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        for path in child::output(&mut git, LIST_WITHIN)?.split_terminator('\0') {
            let from = project.source(path);
            let is_mutated = mutants.iter().any(|mutant| mutant.file == path) || path.ends_with("src/lib.rs");
            if from.is_file() && !(is_mutated && root.join(path).exists()) {
                write_if_changed(&root.join(path), &fs::read(&from)?)?;
            }
        }
        Ok(Self {
            root,
            cargo: project.cargo().get_program().into(),
            target: project.built("mutants/target"),
        })
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new(&self.cargo);
        cargo
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// Writes the mutants into the sources, and leaves out those that do not compile. Returns the ids of those that do.
    pub(crate) fn fit(
        &self,
        project: &Project,
        package: &str,
        mutants: &[Mutant],
    ) -> Result<BTreeSet<usize>> {
        let of_package = mutants
            .iter()
            .enumerate()
            .filter(|(_, mutant)| mutant.package == package);
        let mut fitting: BTreeSet<usize> = of_package
            .filter(|(_, mutant)| mutant.function.is_some())
            .map(|(id, _)| id)
            .collect();
        // Read once: the sources may be edited meanwhile.
        let mut files = BTreeMap::new();
        for file in fitting.iter().map(|id| mutants[*id].file.as_str()) {
            files.insert(file, fs::read_to_string(project.source(file))?);
        }
        let library = self.root.join(format!("crates/{package}/src"));
        write_if_changed(&library.join("mutant.rs"), SWITCH.as_bytes())?;
        let lib = fs::read_to_string(project.source(&format!("crates/{package}/src/lib.rs")))?;
        let lib = format!("#![allow({TOLERATED_LINTS})]\n{lib}\nmod mutant;\n");
        write_if_changed(&library.join("lib.rs"), lib.as_bytes())?;
        for _round in 0..ROUND_LIMIT {
            let mut schemas = BTreeMap::new();
            for (&file, original) in &files {
                let chosen = fitting
                    .iter()
                    .map(|id| (*id, &mutants[*id]))
                    .filter(|(_, mutant)| mutant.file == file);
                let schema =
                    schema::write(original, chosen).with_context(|| format!("cannot mutate {file}"))?;
                write_if_changed(&self.root.join(file), schema.text.as_bytes())?;
                schemas.insert(file.to_owned(), schema);
            }
            let mut unfit: BTreeSet<usize> = schemas
                .values()
                .flat_map(|schema| schema.without_place.clone())
                .collect();
            let mut unexplained = Vec::new();
            for error in self.errors(package)? {
                let blamed = error.blamed(&schemas);
                if blamed.is_empty() {
                    unexplained.push(error.text);
                }
                unfit.extend(blamed);
            }
            println!(
                "{package}: {} mutants, {} of them do not compile",
                fitting.len(),
                unfit.len()
            );
            if unfit.is_empty() && unexplained.is_empty() {
                return Ok(fitting);
            }
            if unfit.is_empty() {
                bail!("no mutant explains these errors:\n{}", unexplained.join("\n"));
            }
            fitting.retain(|id| !unfit.contains(id));
        }
        bail!("the mutants of {package} do not compile after {ROUND_LIMIT} rounds")
    }

    fn errors(&self, package: &str) -> Result<Vec<CompileError>> {
        let mut cargo = self.cargo();
        cargo.args([
            "check",
            "--quiet",
            "--lib",
            "--message-format",
            "json",
            "--package",
            package,
        ]);
        let (text, _) = child::said(&mut cargo, BUILD_WITHIN)?;
        let messages = json_lines(&text).filter(|line| line["reason"] == "compiler-message");
        let errors = messages.filter(|line| line["message"]["level"] == "error");
        Ok(errors.map(|line| CompileError::read(&line["message"])).collect())
    }

    /// Builds the tests of a package, and the programs that they start.
    pub(crate) fn test_programs(&self, package: &str, skipped: &[&str]) -> Result<Vec<TestProgram>> {
        let mut cargo = self.cargo();
        cargo.args(["build", "--quiet", "--package", "mainstay-testkit", "--bins"]);
        child::run(&mut cargo, BUILD_WITHIN)?;
        let mut cargo = self.cargo();
        // Benches and examples are no tests.
        cargo.args([
            "test",
            "--no-run",
            "--quiet",
            "--lib",
            "--bins",
            "--tests",
            "--message-format",
            "json",
        ]);
        let (text, status) = child::said(cargo.args(["--package", package]), BUILD_WITHIN)?;
        if !status.success() {
            bail!(
                "the tests of {package} do not compile with its mutants:\n{}",
                rendered(&text)
            );
        }
        let programs = json_lines(&text).filter_map(|line| {
            let name = line["target"]["name"].as_str()?.to_owned();
            let manifest = Path::new(line["manifest_path"].as_str()?);
            let is_test = line["profile"]["test"].as_bool()?;
            let program = TestProgram {
                path: line["executable"].as_str()?.into(),
                directory: manifest.parent()?.to_owned(),
                name,
            };
            (is_test && !skipped.contains(&program.name.as_str())).then_some(program)
        });
        Ok(programs.collect())
    }
}

impl TestProgram {
    /// The names of its tests. Ignored ones are left out.
    pub(crate) fn tests(&self) -> Result<Vec<String>> {
        let names = |more: &[&str]| -> Result<BTreeSet<String>> {
            let mut list = Command::new(&self.path);
            list.current_dir(&self.directory)
                .args(["--list", "--format", "terse"])
                .args(more);
            let text = child::output(&mut list, LIST_WITHIN)?;
            let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
            Ok(names.map(str::to_owned).collect())
        };
        let ignored = names(&["--ignored"])?;
        Ok(names(&[])?
            .into_iter()
            .filter(|name| !ignored.contains(name))
            .collect())
    }
}

struct CompileError {
    /// The file and the bytes in it, the most important place first.
    places: Vec<(String, Range<usize>)>,
    text: String,
}

impl CompileError {
    fn read(message: &Value) -> Self {
        let spans = message["spans"].as_array().into_iter().flatten();
        let place = |span: &Value| {
            let offset = |key: &str| usize::try_from(span[key].as_u64()?).ok();
            Some((
                span["file_name"].as_str()?.to_owned(),
                offset("byte_start")?..offset("byte_end")?,
            ))
        };
        let mut spans: Vec<&Value> = spans.collect();
        spans.sort_by_key(|span| span["is_primary"] != true);
        Self {
            places: spans.into_iter().filter_map(place).collect(),
            text: message["rendered"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn blamed(&self, schemas: &BTreeMap<String, SwitchedSource>) -> Vec<usize> {
        let blamed = |(file, bytes): &(String, Range<usize>)| Some(schemas.get(file)?.blamed(bytes));
        let mut blamed = self.places.iter().filter_map(blamed);
        // The summary at the end has no place, and no mutant to blame.
        blamed.find(|mutants| !mutants.is_empty()).unwrap_or_default()
    }
}

fn json_lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok())
}

fn rendered(text: &str) -> String {
    let messages = json_lines(text).filter(|line| line["message"]["level"] == "error");
    messages
        .filter_map(|line| line["message"]["rendered"].as_str().map(str::to_owned))
        .collect()
}

fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
