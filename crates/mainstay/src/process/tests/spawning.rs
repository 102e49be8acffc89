use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use super::super::DescriptorLimit;
use super::super::{SpawnError, Spec, StderrRing, spawn};
use super::{PATIENT_LADDER, Started, shell, start, start_spec, stop};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt as _, BufReader};

fn refused(spec: &Spec) -> SpawnError {
    match spawn(spec, 1, &Arc::new(StderrRing::default())) {
        Ok(_) => panic!("it started"),
        Err(error) => error,
    }
}

fn command(command: impl Into<std::ffi::OsString>) -> Spec {
    Spec {
        command: command.into(),
        args: Vec::new(),
        ..shell("")
    }
}

#[tokio::test]
async fn a_child_gets_its_environment_its_directory_and_its_own_marker() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = shell("echo $ADDED; echo ${PATH:+inherited}; echo $MAINSTAY_TREE; pwd -P");
    spec.env.insert("ADDED".into(), "added".into());
    spec.env.insert("MAINSTAY_TREE".into(), "forged".into());
    spec.cwd = Some(directory.path().to_owned());

    let ring = Arc::new(StderrRing::default());
    let spawned = spawn(&spec, 1, &ring).unwrap();
    let stdout = BufReader::new(spawned.stdout).lines();
    let mut server = Started {
        process: spawned.process,
        stdin: spawned.stdin,
        stdout,
        ring,
    };
    assert_eq!(server.says().await, "added");
    assert_eq!(server.says().await, "inherited");
    assert_eq!(server.says().await, server.process.marker());
    assert_eq!(
        server.says().await,
        directory.path().canonicalize().unwrap().to_str().unwrap()
    );
    let _ = stop(server.process, &PATIENT_LADDER).await;
}

#[tokio::test]
async fn a_child_leads_its_own_group() {
    let mut server = start("echo $$; cat");
    let pid = server.says_pid().await;
    assert_eq!(pid, server.process.pid());
    let group = rustix::process::getpgid(rustix::process::Pid::from_raw(pid)).unwrap();
    assert_eq!(group.as_raw_nonzero().get(), pid);
    drop(server.stdin);
    let _ = stop(server.process, &PATIENT_LADDER).await;
}

#[tokio::test]
async fn a_missing_command_has_an_error_of_its_own() {
    let mut spec = command("no-such-server");
    spec.env.insert("PATH".into(), "/nowhere:/neither".into());
    spec.env.insert("API_KEY".into(), "secret".into());
    let error = refused(&spec);
    let SpawnError::NotFound { searched, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(searched.as_deref(), Some("/nowhere:/neither"));
    assert!(error.is_permanent());
    let said = error.to_string();
    assert!(
        said.contains("`no-such-server`") && !said.contains("/nowhere"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");

    let error = refused(&command("/no/such/server"));
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_working_directory_is_not_taken_for_a_missing_command() {
    let spec = Spec {
        cwd: Some("/no/such/directory".into()),
        ..shell("true")
    };
    let error = refused(&spec);
    assert!(matches!(error, SpawnError::WorkingDirectory { .. }), "{error:?}");
    assert!(error.is_permanent());
    assert!(error.to_string().contains("/no/such/directory"), "{error}");

    let file = tempfile::NamedTempFile::new().unwrap();
    let error = refused(&Spec {
        cwd: Some(file.path().to_owned()),
        ..shell("true")
    });
    assert!(
        matches!(error, SpawnError::WorkingDirectory { .. }),
        "a file is no directory: {error:?}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_executed_is_not_taken_for_a_missing_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("server");
    let cases = [("not a program", 0o644), ("#!/no/such/interpreter\n", 0o755)];
    for (content, mode) in cases {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let by_path = command(file.clone());
        let relative = Spec {
            cwd: Some(directory.path().to_owned()),
            ..command("./server")
        };
        let mut by_name = command("server");
        by_name.env.insert("PATH".into(), directory.path().into());
        for spec in [by_path, relative, by_name] {
            let error = refused(&spec);
            assert!(
                matches!(error, SpawnError::NotExecutable { .. }),
                "{content:?}: {error:?}"
            );
            assert!(error.is_permanent());
            assert!(error.to_string().contains("server"), "{error}");
        }
    }
}

#[tokio::test]
async fn an_argument_no_system_accepts_is_not_tried_again() {
    let error = refused(&shell("a nul \0 byte"));
    assert!(matches!(error, SpawnError::Unpassable { .. }), "{error:?}");
    let error = refused(&shell(&"x".repeat(16 << 20)));
    assert!(matches!(error, SpawnError::Unpassable { .. }), "{error:?}");
    assert!(error.is_permanent());
}

/// Where the system lets one process limit another.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_gets_the_limit_of_descriptors_that_its_configuration_names() {
    // It looks when it is told to, since the limit comes a moment after its start.
    let mut spec = shell("read go; ulimit -n; ulimit -Hn");
    let own = DescriptorLimit::of_this_process();
    for (soft, hard, expected) in [
        (Some(61), Some(62), [Some(61), Some(62)]),
        // More than this process may give.
        (Some(63), None, [Some(63), own.hard]),
    ] {
        spec.descriptors = Some(DescriptorLimit { soft, hard });
        let mut server = start_spec(&spec);
        server.stdin.write_all(b"go\n").await.unwrap();
        for limit in expected {
            let said = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
            assert_eq!(server.says().await, said);
        }
        let _ = stop(server.process, &PATIENT_LADDER).await;
    }
}
