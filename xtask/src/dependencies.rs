//! The licences, sources and names of what is depended on, by the rules of `deny.toml`.
//!
//! The rules that decide whether a change may be merged are checked here, from `cargo metadata`, so that they are checked on every
//! machine. Where `cargo-deny` is installed, it checks the same file as well, and knows more: licence texts, and duplicates.
//!
//! Advisories are left to a person or a scheduled job (`cargo deny check advisories`): they are fetched from a database that
//! grows every day, and a change must not fail for an advisory that was published since.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use toml::de::{DeTable, DeValue};

use crate::metadata::{self, Package};
use crate::project::Project;
use crate::{child, licence};

const LOOK_WITHIN: Duration = Duration::from_secs(30);
const CHECK_WITHIN: Duration = Duration::from_secs(300);

/// The one registry that packages may come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(project: &Project) -> Result<()> {
    let text = fs::read_to_string(project.source("deny.toml")).context("cannot read deny.toml")?;
    let rules = Rules::read(&text).context("deny.toml")?;
    let packages = metadata::packages(project)?;
    let findings = rules.findings(&packages);
    if !findings.is_empty() {
        bail!("against the rules of deny.toml:\n  {}", findings.join("\n  "));
    }
    println!(
        "{} packages have an allowed licence and source, and none is banned",
        packages.len()
    );
    if child::succeeds(project.cargo().args(["deny", "--version"]), LOOK_WITHIN) {
        let mut cargo = project.cargo();
        let deny = cargo.args(["deny", "--workspace", "check", "bans", "licenses", "sources"]);
        child::run(deny, CHECK_WITHIN)?;
    }
    Ok(())
}

/// The part of `deny.toml` that is checked here.
#[derive(Debug, PartialEq, Eq)]
struct Rules {
    allowed_licences: Vec<String>,
    /// Further licences, for one package each.
    exceptions: BTreeMap<String, Vec<String>>,
    banned: Vec<String>,
}

impl Rules {
    fn read(text: &str) -> Result<Self> {
        let table = DeTable::parse(text).map_err(|error| anyhow!("{error}"))?;
        let table = DeValue::Table(table.into_inner());
        let licences = member(&table, "licenses")?;
        let bans = member(&table, "bans")?;
        // Rules that are checked whatever the file says must be in the file, so that it does not promise less.
        for (section, rule, value) in [
            ("bans", "wildcards", "deny"),
            ("sources", "unknown-registry", "deny"),
            ("sources", "unknown-git", "deny"),
        ] {
            if string(member(member(&table, section)?, rule)?)? != value {
                bail!("{section}.{rule} must be {value:?}");
            }
        }
        let exceptions = array(member(licences, "exceptions")?)?.map(|exception| {
            let name = string(member(exception, "name")?)?.to_owned();
            Ok((name, strings(member(exception, "allow")?)?))
        });
        let banned = array(member(bans, "deny")?)?;
        Ok(Self {
            allowed_licences: strings(member(licences, "allow")?)?,
            exceptions: exceptions.collect::<Result<_>>()?,
            banned: banned
                .map(|banned| Ok(string(member(banned, "name")?)?.to_owned()))
                .collect::<Result<_>>()?,
        })
    }

    fn findings(&self, packages: &[Package]) -> Vec<String> {
        let of_each = packages.iter().flat_map(|package| {
            let Package { name, version, .. } = package;
            let found = [self.licence(package), source(package), self.ban(package)];
            let found = found.into_iter().flatten().chain(wildcards(package));
            found.map(move |finding| format!("{name} {version} {finding}"))
        });
        let unused = self.exceptions.keys().filter(|name| {
            let is_it = |package: &Package| package.name == **name;
            !packages.iter().any(is_it)
        });
        let unused = unused.map(|name| format!("{name} has an exception, and is no dependency"));
        of_each.chain(unused).collect()
    }

    fn licence(&self, package: &Package) -> Option<String> {
        let Some(expression) = &package.license else {
            return Some("names no licence".to_owned());
        };
        let exceptions = self.exceptions.get(&package.name);
        let accepts = |name: &str| {
            let mut accepted = self
                .allowed_licences
                .iter()
                .chain(exceptions.into_iter().flatten());
            accepted.any(|accepted| accepted == name)
        };
        match licence::is_satisfied(expression, &accepts) {
            Ok(true) => None,
            Ok(false) => Some(format!("is under {expression}")),
            Err(error) => Some(format!("is under {expression}: {error}")),
        }
    }

    fn ban(&self, package: &Package) -> Option<String> {
        self.banned
            .contains(&package.name)
            .then(|| "is banned".to_owned())
    }
}

fn source(package: &Package) -> Option<String> {
    let source = package.source.as_deref().filter(|source| *source != CRATES_IO)?;
    Some(format!("comes from {source}"))
}

/// The dependencies of a package of ours that any version would do for. Packages of this repository may stand there by their path.
fn wildcards(package: &Package) -> impl Iterator<Item = String> {
    let dependencies = package.dependencies.iter().filter(|_| package.is_ours());
    let wild = dependencies.filter(|dependency| dependency.requirement == "*" && !dependency.is_path);
    wild.map(|dependency| format!("takes any version of {}", dependency.name))
}

fn member<'a, 't>(value: &'a DeValue<'t>, name: &str) -> Result<&'a DeValue<'t>> {
    let member = match value {
        DeValue::Table(table) => table.get(name),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => None,
    };
    Ok(member.with_context(|| format!("{name} is missing"))?.get_ref())
}

fn array<'a, 't>(value: &'a DeValue<'t>) -> Result<impl Iterator<Item = &'a DeValue<'t>>> {
    let items = value.as_array().context("an array is expected")?;
    Ok(items.iter().map(toml::Spanned::get_ref))
}

fn string<'a>(value: &'a DeValue<'_>) -> Result<&'a str> {
    value.as_str().context("a string is expected")
}

fn strings(value: &DeValue<'_>) -> Result<Vec<String>> {
    array(value)?.map(|item| Ok(string(item)?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::{CRATES_IO, Rules, metadata};

    const DENY: &str = r#"
        [licenses]
        allow = ["MIT", "ISC"]
        exceptions = [{ name = "data", allow = ["CDLA-Permissive-2.0"] }]
        [bans]
        wildcards = "deny"
        deny = [{ name = "openssl-sys" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    /// What is found in a package of this name, licence and source, beside one that needs the exception.
    fn findings(name: &str, licence: &str, source: &str, requirement: &str) -> Vec<String> {
        let metadata = format!(
            r#"{{"packages":[{{"name":"data","version":"1.0.0","license":"CDLA-Permissive-2.0","source":"{CRATES_IO}","dependencies":[]}},
            {{"name":"{name}","version":"2.0.0","license":{licence},"source":{source},
            "dependencies":[{{"name":"a","req":"{requirement}","path":null}},{{"name":"b","req":"*","path":"/b"}}]}}]}}"#
        );
        let rules = Rules::read(DENY).unwrap();
        rules.findings(&metadata::read(&metadata).unwrap())
    }

    #[test]
    fn a_licence_a_source_a_name_and_a_wildcard_against_the_rules_are_found() {
        let registry = &format!("{CRATES_IO:?}");
        let good: [String; 0] = [];
        assert_eq!(findings("x", r#""MIT OR GPL-3.0""#, registry, "^1"), good);
        assert_eq!(findings("x", r#""MIT""#, "null", "^1"), good);
        assert_eq!(
            findings("x", r#""MIT""#, registry, "*"),
            good,
            "no package of ours"
        );
        for (name, licence, source, requirement, found) in [
            ("x", r#""GPL-3.0""#, &**registry, "^1", "x 2.0.0 is under GPL-3.0"),
            ("x", "null", registry, "^1", "x 2.0.0 names no licence"),
            (
                "x",
                r#""CDLA-Permissive-2.0""#,
                registry,
                "^1",
                "x 2.0.0 is under CDLA-Permissive-2.0",
            ),
            (
                "openssl-sys",
                r#""MIT""#,
                registry,
                "^1",
                "openssl-sys 2.0.0 is banned",
            ),
            (
                "x",
                r#""MIT""#,
                r#""git+https://x""#,
                "^1",
                "x 2.0.0 comes from git+https://x",
            ),
            (
                "x",
                r#""MIT""#,
                r#""registry+https://x""#,
                "^1",
                "x 2.0.0 comes from registry+https://x",
            ),
            ("x", r#""MIT""#, "null", "*", "x 2.0.0 takes any version of a"),
        ] {
            assert_eq!(findings(name, licence, source, requirement), [found]);
        }
    }

    #[test]
    fn an_exception_without_a_package_and_a_file_that_promises_less_are_found() {
        let rules = Rules::read(DENY).unwrap();
        assert_eq!(
            rules.findings(&[]),
            ["data has an exception, and is no dependency"]
        );
        for rule in ["wildcards", "unknown-registry", "unknown-git"] {
            let less = DENY.replace(&format!("{rule} = \"deny\""), &format!("{rule} = \"allow\""));
            assert!(Rules::read(&less).is_err(), "{rule}");
        }
        assert!(Rules::read("").is_err() && Rules::read("[licenses").is_err());
    }
}
