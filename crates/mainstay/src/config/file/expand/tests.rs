use std::path::Path;

use super::{ExpandError, ExpandErrorKind, Expanded, MAX_EXPANDED_BYTES, MAX_NESTING, Remark, Variables};
use crate::config::file::bounded::FilesRead;
use crate::config::file::layout::Inputs;

fn lookup(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/ann".into()),
        "EMPTY" => Some(String::new()),
        "TRICK" => Some("${HOME}".into()),
        "BIG" => Some("x".repeat(MAX_EXPANDED_BYTES / 2)),
        _ => None,
    }
}

fn expand_in(written: &str, bare_names: bool, braces: bool) -> Result<Expanded, ExpandError> {
    let inputs = Inputs::of(None);
    let variables = Variables {
        lookup: &lookup,
        files: &FilesRead::default(),
        folder: Path::new("/etc/m"),
        workspace: Path::new("/src/app"),
        workspace_is_known: true,
        inputs: &inputs,
        bare_names,
        braces,
        is_shell: false,
    };
    super::expand(written, &variables)
}

fn expand(written: &str) -> Result<Expanded, ExpandError> {
    expand_in(written, false, false)
}

fn value(written: &str) -> String {
    expand(written).unwrap().text.value().to_owned()
}

fn error(written: &str) -> (usize, ExpandErrorKind) {
    let ExpandError { at, kind } = expand(written).unwrap_err();
    (at, kind)
}

#[test]
fn variables_defaults_and_escapes_expand() {
    for (written, expected) in [
        ("plain $HOME } text", "plain $HOME } text"),
        ("${HOME}/x", "/home/ann/x"),
        ("${env:HOME}", "/home/ann"),
        ("a${EMPTY}b", "ab"),
        ("${NOPE:-fallback}", "fallback"),
        ("${NOPE:-}", ""),
        ("${EMPTY:-fallback}", "fallback"),
        ("${HOME:-${NOPE}}", "/home/ann"),
        ("${NOPE:-${ALSO:-${HOME}}/y}z", "/home/ann/yz"),
        ("${env:-x}", "x"),
        ("${file:-x}${input:-y}", "xy"),
        ("$${HOME}", "${HOME}"),
        ("$$${HOME}", "$${HOME}"),
        ("${NOPE:-{a$$}$$$}$}$$}", "{a}$}$$$}"),
        ("${TRICK}", "${HOME}"),
        ("é${HOME}é", "é/home/anné"),
        ("{env:HOME} {", "{env:HOME} {"),
        ("${userHome}${/}x${pathSeparator}y", "/home/ann/x/y"),
        ("${workspaceFolder}/${workspaceFolderBasename}", "/src/app/app"),
        ("${NOPE:-${userHome}}", "/home/ann"),
        ("${HOME:-${input:none}}", "/home/ann"),
        ("a${{ secrets.HOME }}b${{inputs.HOME}}", "a/home/annb/home/ann"),
    ] {
        assert_eq!(value(written), expected, "{written}");
    }
}

#[test]
fn only_a_text_with_a_variable_hides_its_value() {
    assert_eq!(expand("--t=${HOME}").unwrap().text.shown(), "--t=${HOME}");
    assert_eq!(expand("$${x}").unwrap().text.shown(), "${x}");
}

#[test]
fn what_cannot_be_expanded_says_where_and_why() {
    assert_eq!(error("ab${NOPE}"), (2, ExpandErrorKind::NotSet("NOPE".into())));
    assert_eq!(error("${A:-${B}}"), (5, ExpandErrorKind::NotSet("B".into())));
    for unterminated in ["x${", "x${HOME", "x${HOME:-", "x${NOPE:-a", "x${HO ME"] {
        assert_eq!(
            error(unterminated),
            (1, ExpandErrorKind::Unterminated),
            "{unterminated}"
        );
    }
    for no_name in ["${}", "${1A}", "${HO ME}", "${HOME:x}", "${:-x}"] {
        assert_eq!(error(no_name), (0, ExpandErrorKind::NotAName), "{no_name}");
    }
    assert_eq!(
        error("a${{ secrets.NOPE }}"),
        (1, ExpandErrorKind::NotSet("NOPE".into()))
    );
    assert_eq!(error("${{ other.HOME }}").1, ExpandErrorKind::NotAName);
    assert_eq!(error("${{ secrets.HO ME }}").1, ExpandErrorKind::NotAName);
    for of_editors in [
        "${config:a.b}",
        "${command:x}",
        "${workspaceFolder:two}",
        "${fileBasename}",
    ] {
        assert!(
            matches!(error(of_editors), (0, ExpandErrorKind::OfEditors(_))),
            "{of_editors}"
        );
    }
    assert!(matches!(
        error("${input:token}"),
        (0, ExpandErrorKind::NoInput { .. })
    ));
    assert!(matches!(
        error("x${file:/no/such/file}"),
        (1, ExpandErrorKind::File { .. })
    ));
}

#[test]
fn a_bare_name_is_a_variable_only_where_the_file_says_so() {
    let gemini = |written| expand_in(written, true, false).unwrap();
    assert_eq!(
        gemini("$HOME/x ${HOME} $").text.value(),
        "/home/ann/x /home/ann $"
    );
    assert_eq!(gemini("$HOME").text.shown(), "$HOME");
    let unset = gemini("pa$NOPE");
    assert_eq!(
        (unset.text.value(), &*unset.remarks),
        ("pa$NOPE", &[Remark::LiteralUnset(None)][..])
    );
    assert_eq!(
        gemini("Bearer $TOK").remarks,
        [Remark::LiteralUnset(Some("TOK".into()))]
    );
    let plain = |written| expand(written).unwrap().remarks;
    assert_eq!(plain("a $HOME $HOME"), [Remark::Literal(Some("HOME".into()))]);
    assert_eq!(plain("$NOPE"), [Remark::Literal(None)]);
    assert_eq!(plain("x$MY_TOKEN"), [Remark::Literal(None)]);
    assert_eq!(
        plain("Bearer $MY_TOKEN"),
        [Remark::Literal(Some("MY_TOKEN".into()))]
    );
    // A password, an end of a pattern, an amount.
    for innocent in ["pa$word", "^x$", "$5", "$$", "a$"] {
        assert_eq!(plain(innocent), [], "{innocent}");
    }
}

#[test]
fn opencode_writes_variables_in_braces() {
    let opencode = |written| expand_in(written, false, true);
    let expanded = opencode("Bearer {env:HOME} {x}").unwrap().text;
    assert_eq!(
        (expanded.value(), expanded.shown()),
        ("Bearer /home/ann {x}", "Bearer {env:HOME} {x}")
    );
    assert_eq!(
        opencode("a{env:NOPE}").unwrap_err().kind,
        ExpandErrorKind::NotSet("NOPE".into())
    );
    assert_eq!(
        opencode("a{env:HOME").unwrap_err().kind,
        ExpandErrorKind::Unterminated
    );
}

#[test]
fn neither_depth_nor_length_grows_without_bound() {
    let nested = "${A:-".repeat(MAX_NESTING + 1) + &"}".repeat(MAX_NESTING + 1);
    assert_eq!(error(&nested).1, ExpandErrorKind::TooDeep);
    let hostile = "${A:-".repeat(500_000);
    assert_eq!(error(&hostile).1, ExpandErrorKind::TooDeep);
    assert_eq!(error("${BIG}${BIG}${BIG}").1, ExpandErrorKind::TooLong);
}
