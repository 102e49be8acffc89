//! Which file is used, and which are only mentioned.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::{ConfigError, ConfigOrigin, locate};

struct TestDirectory {
    root: tempfile::TempDir,
}

impl TestDirectory {
    /// A working directory, a home with `.config/mainstay/mcp.json`, and two files that can be named.
    fn new() -> Self {
        let directory = Self {
            root: tempfile::tempdir().unwrap(),
        };
        for file in [
            "home/.config/mainstay/mcp.json",
            "flag.json",
            "env.json",
            "cwd/keep",
        ] {
            directory.write(file);
        }
        directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{}").unwrap();
    }

    fn env<'a>(&'a self, set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            let (_, value) = set.iter().find(|(key, _)| *key == name)?;
            Some(if value.is_empty() {
                OsString::new()
            } else {
                self.path(value).into_os_string()
            })
        }
    }
}

#[test]
fn the_flag_comes_before_the_variable_and_the_variable_before_the_users_file() {
    let directory = TestDirectory::new();
    let cwd = directory.path("cwd");
    let set = [("MAINSTAY_CONFIG", "env.json"), ("HOME", "home")];
    let found = locate(Some(&directory.path("flag.json")), directory.env(&set), &cwd).unwrap();
    assert_eq!(
        (found.path, found.origin),
        (Some(directory.path("flag.json")), ConfigOrigin::Flag)
    );
    let found = locate(None, directory.env(&set), &cwd).unwrap();
    assert_eq!(
        (found.path, found.origin),
        (Some(directory.path("env.json")), ConfigOrigin::Env)
    );
    let users = directory.path("home/.config/mainstay/mcp.json");
    for set in [
        &[("HOME", "home")][..],
        &[("HOME", "home"), ("MAINSTAY_CONFIG", ""), ("XDG_CONFIG_HOME", "")],
    ] {
        let found = locate(None, directory.env(set), &cwd).unwrap();
        assert_eq!(
            (found.path.as_ref(), found.origin),
            (Some(&users), ConfigOrigin::User)
        );
    }
}

#[test]
fn the_xdg_directory_stands_in_for_dot_config_unless_it_is_relative() {
    let directory = TestDirectory::new();
    directory.write("xdg/mainstay/mcp.json");
    let cwd = directory.path("cwd");
    let found = locate(
        None,
        directory.env(&[("HOME", "home"), ("XDG_CONFIG_HOME", "xdg")]),
        &cwd,
    )
    .unwrap();
    assert_eq!(found.path, Some(directory.path("xdg/mainstay/mcp.json")));
    let home = directory.path("home").into_os_string();
    let env = |name: &str| match name {
        "HOME" => Some(home.clone()),
        "XDG_CONFIG_HOME" => Some("xdg".into()),
        _ => None,
    };
    let found = locate(None, env, &cwd).unwrap();
    assert_eq!(found.path, Some(directory.path("home/.config/mainstay/mcp.json")));
}

#[test]
fn files_in_the_working_directory_are_mentioned_and_never_used() {
    let directory = TestDirectory::new();
    let files = [
        "cwd/.mcp.json",
        "cwd/mcp.json",
        "cwd/.vscode/mcp.json",
        "cwd/.cursor/mcp.json",
    ];
    files.iter().for_each(|file| directory.write(file));
    let cwd = directory.path("cwd");
    let found = locate(None, directory.env(&[]), &cwd).unwrap();
    assert_eq!(
        (found.path, found.origin, found.user_path),
        (None, ConfigOrigin::None, None)
    );
    assert_eq!(found.mentioned, files.map(|file| directory.path(file)));
    let found = locate(Some(Path::new("mcp.json")), directory.env(&[]), &cwd).unwrap();
    assert_eq!(
        (found.path, found.origin),
        (Some(directory.path("cwd/mcp.json")), ConfigOrigin::Flag)
    );
    assert_eq!(found.mentioned.len(), 3);
}

#[test]
fn a_named_file_that_does_not_exist_is_an_error() {
    let directory = TestDirectory::new();
    let cwd = directory.path("cwd");
    let error = locate(
        Some(Path::new("gone.json")),
        directory.env(&[("MAINSTAY_CONFIG", "env.json")]),
        &cwd,
    )
    .unwrap_err();
    let expected = "the file named by --config does not exist; create it, or name another";
    assert_eq!(
        error.to_string(),
        format!("{}: {expected}", cwd.join("gone.json").display())
    );
    let error = locate(
        None,
        directory.env(&[("MAINSTAY_CONFIG", "gone.json"), ("HOME", "home")]),
        &cwd,
    )
    .unwrap_err();
    assert!(matches!(
        error,
        ConfigError::Missing {
            origin: Some(ConfigOrigin::Env),
            ..
        }
    ));
    let found = locate(None, directory.env(&[("HOME", "nohome")]), &cwd).unwrap();
    assert_eq!(found.path, None);
    assert_eq!(
        found.user_path,
        Some(directory.path("nohome/.config/mainstay/mcp.json"))
    );
}
