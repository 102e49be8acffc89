//! The packages that the project is built from, as `cargo metadata` lists them: for every platform, with every feature.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::child;
use crate::project::Project;

const METADATA_WITHIN: Duration = Duration::from_secs(120);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    /// Where it comes from; `None` if it is in this repository.
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) requirement: String,
    pub(crate) is_path: bool,
}

impl Package {
    pub(crate) fn is_ours(&self) -> bool {
        self.source.is_none()
    }
}

pub(crate) fn packages(project: &Project) -> Result<Vec<Package>> {
    let mut cargo = project.cargo();
    let metadata = child::output(
        cargo.args(["metadata", "--format-version", "1", "--all-features", "--locked"]),
        METADATA_WITHIN,
    )?;
    read(&metadata)
}

pub(crate) fn read(metadata: &str) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata wrote no JSON")?;
    let packages = metadata["packages"].as_array();
    let packages = packages.context("cargo metadata lists no packages")?;
    Ok(packages.iter().map(package).collect())
}

fn package(package: &Value) -> Package {
    let text = |field: &str| package[field].as_str().map(str::to_owned);
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    Package {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        license: text("license"),
        rust_version: text("rust_version"),
        source: text("source"),
        dependencies: dependencies.map(dependency).collect(),
    }
}

fn dependency(dependency: &Value) -> Dependency {
    let text = |field: &str| dependency[field].as_str().unwrap_or_default().to_owned();
    Dependency {
        name: text("name"),
        requirement: text("req"),
        is_path: dependency["path"].is_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_their_dependencies() {
        let metadata = r#"{"packages":[
            {"name":"far","version":"1.0.0","license":"MIT","rust_version":"1.60","source":"registry+x","dependencies":[]},
            {"name":"ours","version":"0.1.0","license":null,"rust_version":null,"source":null,"dependencies":[
                {"name":"far","req":"^1","path":null}, {"name":"beside","req":"*","path":"/beside"}]}]}"#;
        let [far, ours] = &read(metadata).unwrap()[..] else {
            panic!("two packages")
        };
        assert_eq!(
            (far.license.as_deref(), far.rust_version.as_deref()),
            (Some("MIT"), Some("1.60"))
        );
        assert!(!far.is_ours() && ours.is_ours());
        let of = |name: &str, requirement: &str, is_path| Dependency {
            name: name.to_owned(),
            requirement: requirement.to_owned(),
            is_path,
        };
        assert_eq!(
            ours.dependencies,
            [of("far", "^1", false), of("beside", "*", true)]
        );
        assert!(read("{}").is_err() && read("").is_err());
    }
}
