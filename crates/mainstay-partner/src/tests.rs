use super::{PathBuf, fs, locate, read};

fn path(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(text))
}

#[test]
fn a_promised_file_is_used_even_when_it_is_not_there() {
    assert_eq!(locate(path("/promised"), path("/installed")), path("/promised"));
    assert_eq!(locate(path("/promised"), None), path("/promised"));
}

#[test]
fn an_empty_promise_skips_what_is_installed() {
    assert_eq!(locate(path(""), path("/installed")), None);
}

#[test]
fn without_a_promise_what_is_installed_is_used() {
    assert_eq!(locate(None, path("/installed")), path("/installed"));
    assert_eq!(locate(None, None), None);
}

#[test]
fn a_partner_whose_program_is_gone_is_named() {
    let here = std::env::current_exe().unwrap();
    let text = |git: &str| {
        let partner = |command: &str| format!(r#"{{"command":"{command}","args":[],"env":{{}}}}"#);
        let clients = r#"{"node":"node","python":"","packages":"","scripts":""}"#;
        let fine = partner(here.to_str().unwrap());
        format!(
            r#"{{"everything":{fine},"filesystem":{fine},"memory":{fine},"time":{fine},"git":{},"python":{fine},"rmcp":{fine},"old_sdks":{{"python-sdk-1.6.0":{fine}}},"clients":{clients}}}"#,
            partner(git)
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("partners.json");

    fs::write(&file, text("/nowhere/mcp-server-git")).unwrap();
    assert_eq!(
        read(&file).unwrap_err(),
        "partner git is missing at /nowhere/mcp-server-git"
    );

    fs::write(&file, text(here.to_str().unwrap())).unwrap();
    assert_eq!(read(&file).unwrap().git.command, here);
}

#[test]
fn a_file_that_is_not_there_is_an_error_and_not_a_skip() {
    assert!(
        read(&PathBuf::from("/nowhere/partners.json"))
            .unwrap_err()
            .starts_with("cannot read")
    );
}
