//! The places in which a path can change its meaning.
//!
//! A path is walked from the root, one component at a time. Each component that is a symbolic link is such a place, and so is
//! the last one: Kubernetes changes a mounted file by replacing a link to its directory. If a component is missing, it is the
//! last place: the file can appear only after it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// How many symbolic links are followed, as Linux does.
const MAX_LINKS: usize = 40;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathLink {
    /// The directory, without symbolic links in its path.
    pub(super) directory: PathBuf,
    /// The entry's name.
    pub(super) name: OsString,
}

impl PathLink {
    /// The path of the entry.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// The places that decide what this absolute path means.
pub(super) fn links_of(path: &Path) -> Vec<PathLink> {
    let mut links = Vec::new();
    let mut directory = PathBuf::from("/");
    let mut rest = components(path);
    let mut followed = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            // The directory is real, so this is its parent.
            directory.pop();
            continue;
        }
        let link = PathLink {
            directory: directory.clone(),
            name,
        };
        let at = link.path();
        let Ok(metadata) = fs::symlink_metadata(&at) else {
            links.push(link);
            return links;
        };
        if metadata.is_symlink() {
            links.push(link);
            followed += 1;
            let Ok(target) = fs::read_link(&at) else {
                return links;
            };
            if followed > MAX_LINKS {
                return links;
            }
            if target.is_absolute() {
                directory = PathBuf::from("/");
            }
            let mut before = components(&target);
            before.append(&mut rest);
            rest = before;
        } else if rest.is_empty() {
            links.push(link);
        } else {
            directory = at;
        }
    }
    links
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The places below `root`, as paths relative to it.
    fn places(root: &Path, path: &str) -> Vec<String> {
        let root = root.canonicalize().unwrap();
        let links = links_of(&root.join(path));
        let below = links.iter().filter_map(|link| {
            let path = link.path();
            Some(path.strip_prefix(&root).ok()?.to_str().unwrap().to_owned())
        });
        below.collect()
    }

    #[test]
    fn a_plain_file_has_one_place() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/mcp.json"), "").unwrap();
        assert_eq!(places(root.path(), "etc/mcp.json"), ["etc/mcp.json"]);
        assert_eq!(places(root.path(), "etc/../etc/./mcp.json"), ["etc/mcp.json"]);
    }

    #[test]
    fn a_mount_of_kubernetes_has_a_place_for_each_link() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("etc/..2026_1")).unwrap();
        fs::write(at("etc/..2026_1/mcp.json"), "").unwrap();
        symlink("..2026_1", at("etc/..data")).unwrap();
        symlink("..data/mcp.json", at("etc/mcp.json")).unwrap();
        assert_eq!(
            places(root.path(), "etc/mcp.json"),
            ["etc/mcp.json", "etc/..data", "etc/..2026_1/mcp.json"]
        );
    }

    #[test]
    fn the_first_missing_component_is_the_last_place() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(places(root.path(), "a/b/mcp.json"), ["a"]);
        symlink("nowhere/x", root.path().join("dangling")).unwrap();
        assert_eq!(places(root.path(), "dangling"), ["dangling", "nowhere"]);
    }

    #[test]
    fn a_loop_of_links_ends() {
        let root = tempfile::tempdir().unwrap();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        assert!(places(root.path(), "a").len() <= MAX_LINKS + 1);
    }
}
