//! A copy of the project with all mutants in it, and the executables of its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
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
    /// Copies what git knows of the project, except what is mutated, and removes what an earlier run copied and the project has
    /// no longer. Files that are as they should be keep their times, so that cargo compiles little.
    pub(crate) fn copy_of(project: &Project, mutants: &[Mutant]) -> Result<Self> {
        let root = project.built("mutants/source");
        let switched = switched_files(mutants);
        let mut kept = switched.clone();
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
            if !from.is_file() {
                continue;
            }
            kept.insert(path.to_owned());
            if !(switched.contains(path) && root.join(path).exists()) {
                write_if_changed(&root.join(path), &fs::read(&from)?)?;
            }
        }
        remove_others(&root, "", &kept)?;
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
        // What did not compile in an earlier run need not be tried again: the sources stay as they are, and cargo builds nothing.
        let known = self.unfit_file(package);
        let unfit = UnfitMutants::read(&known);
        fitting.retain(|id| !unfit.holds(&mutants[*id], &files));
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
                let of_package = mutants.iter().enumerate();
                let unfit =
                    of_package.filter(|(id, mutant)| mutant.package == package && !fitting.contains(id));
                UnfitMutants::of(unfit.map(|(_, mutant)| mutant), &files).write(&known)?;
                return Ok(fitting);
            }
            if unfit.is_empty() {
                bail!("no mutant explains these errors:\n{}", unexplained.join("\n"));
            }
            fitting.retain(|id| !unfit.contains(id));
        }
        bail!("the mutants of {package} do not compile after {ROUND_LIMIT} rounds")
    }

    fn unfit_file(&self, package: &str) -> PathBuf {
        self.root.with_file_name(format!("unfit-{package}.json"))
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

/// The mutants that did not compile, each by its name and by a hash of the file that it is in.
#[derive(Debug, Default, PartialEq, Eq)]
struct UnfitMutants(BTreeMap<String, u64>);

impl UnfitMutants {
    fn of<'a>(mutants: impl Iterator<Item = &'a Mutant>, files: &BTreeMap<&str, String>) -> Self {
        let known = mutants.filter_map(|mutant| {
            let text = files.get(mutant.file.as_str())?;
            Some((mutant.name.clone(), hash(text)))
        });
        Self(known.collect())
    }

    fn holds(&self, mutant: &Mutant, files: &BTreeMap<&str, String>) -> bool {
        let text = files.get(mutant.file.as_str());
        text.is_some_and(|text| self.0.get(&mutant.name) == Some(&hash(text)))
    }

    /// None where an earlier run left nothing that can be read.
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    fn write(&self, path: &Path) -> Result<()> {
        write_if_changed(path, &serde_json::to_vec(&self.0)?)
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
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

/// The files that [`Workshop::fit`] writes itself.
fn switched_files(mutants: &[Mutant]) -> BTreeSet<String> {
    let own = |package: &str| ["lib.rs", "mutant.rs"].map(|file| format!("crates/{package}/src/{file}"));
    let files = mutants
        .iter()
        .flat_map(|mutant| own(&mutant.package).into_iter().chain([mutant.file.clone()]));
    files.collect()
}

/// Removes the files below a folder of the copy that are not to be kept. A test that is left there would still be built.
fn remove_others(root: &Path, folder: &str, kept: &BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().context("a file of the copy has a readable name")?;
        let path = if folder.is_empty() {
            name.to_owned()
        } else {
            format!("{folder}/{name}")
        };
        if entry.file_type()?.is_dir() {
            remove_others(root, &path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file is in a directory")?)?;
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant() -> Mutant {
        let mutant = serde_json::json!({
            "package": "a", "file": "crates/a/src/x.rs", "name": "n", "genre": "FnValue", "replacement": "()",
            "span": { "start": { "line": 1, "column": 1 }, "end": { "line": 1, "column": 1 } }, "function": null,
        });
        serde_json::from_value(mutant).expect("a mutant")
    }

    #[test]
    fn a_file_that_the_project_has_no_longer_is_removed_from_the_copy() -> Result<()> {
        let root = tempfile::tempdir()?;
        for path in ["crates/a/tests/old.rs", "crates/a/tests/new.rs", "Cargo.toml"] {
            write_if_changed(&root.path().join(path), b"text")?;
        }
        let kept = ["crates/a/tests/new.rs", "Cargo.toml"];
        remove_others(root.path(), "", &kept.map(str::to_owned).into())?;
        assert!(!root.path().join("crates/a/tests/old.rs").exists());
        for path in kept {
            assert!(root.path().join(path).exists(), "{path}");
        }
        Ok(())
    }

    #[test]
    fn a_mutant_that_did_not_compile_is_remembered_until_its_file_changes() -> Result<()> {
        let files = |text: &str| BTreeMap::from([("crates/a/src/x.rs", text.to_owned())]);
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("unfit.json");
        assert_eq!(UnfitMutants::read(&path), UnfitMutants::default());
        let unfit = UnfitMutants::of([&mutant()].into_iter(), &files("old"));
        unfit.write(&path)?;
        let unfit = UnfitMutants::read(&path);
        assert!(unfit.holds(&mutant(), &files("old")));
        assert!(!unfit.holds(&mutant(), &files("new")));
        assert!(!UnfitMutants::default().holds(&mutant(), &files("old")));
        Ok(())
    }

    #[test]
    fn only_the_libraries_of_mutated_packages_are_written_with_switches() {
        let files: Vec<_> = switched_files(&[mutant()]).into_iter().collect();
        assert_eq!(
            files,
            [
                "crates/a/src/lib.rs",
                "crates/a/src/mutant.rs",
                "crates/a/src/x.rs"
            ]
        );
    }
}
