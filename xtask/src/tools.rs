//! What must be on the machine: looked for first, installed only where that needs no confirmation.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::child;
use crate::project::Project;

const LOOK_WITHIN: Duration = Duration::from_secs(30);
const INSTALL_WITHIN: Duration = Duration::from_secs(900);

/// A command that must succeed, and the Debian package that brings it.
struct RustTool {
    name: &'static str,
    look: &'static [&'static str],
    package: &'static str,
}

const PARTNER_TOOLS: &[RustTool] = &[
    RustTool {
        name: "node",
        look: &["node", "--version"],
        package: "nodejs",
    },
    RustTool {
        name: "npm",
        look: &["npm", "--version"],
        package: "npm",
    },
    RustTool {
        name: "git",
        look: &["git", "--version"],
        package: "git",
    },
    // On Debian `python3` can come without the part that makes virtual environments.
    RustTool {
        name: "python3 with venv",
        look: &["python3", "-c", "import venv, ensurepip"],
        package: "python3-venv",
    },
    RustTool {
        name: "prometheus with promtool",
        look: &["promtool", "--version"],
        package: "prometheus",
    },
    // A real keyring on a private bus, for the tests of logins.
    RustTool {
        name: "gnome-keyring",
        look: &["gnome-keyring-daemon", "--version"],
        package: "gnome-keyring",
    },
    RustTool {
        name: "secret-tool",
        look: &["sh", "-c", "command -v secret-tool"],
        package: "libsecret-tools",
    },
    RustTool {
        name: "dbus",
        look: &["sh", "-c", "command -v dbus-run-session && command -v dbus-send"],
        package: "dbus",
    },
];

const BROWSER: &[RustTool] = &[RustTool {
    name: "chromium",
    look: &["chromium", "--version"],
    package: "chromium",
}];

/// What installing and running the test partners takes.
pub(crate) fn ensure_partner_tools() -> Result<()> {
    ensure(PARTNER_TOOLS)
}

/// The browser that shows the dashboard: its program.
pub(crate) fn ensure_browser() -> Result<&'static str> {
    ensure(BROWSER)?;
    let path = ["/usr/bin/chromium", "/usr/local/bin/chromium"];
    let found = path.into_iter().find(|path| std::path::Path::new(path).exists());
    found.context("chromium is installed, and is neither in /usr/bin nor in /usr/local/bin")
}

fn ensure(tools: &'static [RustTool]) -> Result<()> {
    let missing = missing(tools);
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing
        .iter()
        .map(|tool| tool.name)
        .collect::<Vec<_>>()
        .join(", ");
    let packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    if !can_install_packages() {
        let packages = packages.join(" ");
        bail!(
            "missing: {names}; install them (on Debian: apt-get install {packages}), or leave the partners out with --quick"
        );
    }
    println!("missing: {names}; installing {}", packages.join(" "));
    child::run_with_retries(apt_get().args(["update", "--quiet"]), INSTALL_WITHIN)?;
    let mut install = apt_get();
    install
        .args(["install", "--quiet", "--yes", "--no-install-recommends"])
        .args(&packages);
    child::run_with_retries(&mut install, INSTALL_WITHIN)?;
    match self::missing(tools).first() {
        Some(tool) => bail!("{} is still missing after installing {}", tool.name, tool.package),
        None => Ok(()),
    }
}

/// rustfmt and clippy, which a minimal toolchain comes without.
pub(crate) fn ensure_rust_components(project: &Project) -> Result<()> {
    for component in ["fmt", "clippy"] {
        if child::succeeds(project.cargo().args([component, "--version"]), LOOK_WITHIN) {
            continue;
        }
        let name = if component == "fmt" { "rustfmt" } else { component };
        if !child::succeeds(Command::new("rustup").arg("--version"), LOOK_WITHIN) {
            bail!("{name} is missing, and so is rustup, which could install it");
        }
        let mut rustup = Command::new("rustup");
        rustup
            .args(["component", "add", name])
            .current_dir(project.source(""));
        child::run_with_retries(&mut rustup, INSTALL_WITHIN)?;
    }
    Ok(())
}

/// Whether tests can run under nextest; it is used where it is there, and not needed.
pub(crate) fn has_nextest(project: &Project) -> bool {
    child::succeeds(project.cargo().args(["nextest", "--version"]), LOOK_WITHIN)
}

fn missing(tools: &'static [RustTool]) -> Vec<&'static RustTool> {
    let found = |tool: &RustTool| match tool.look {
        [program, arguments @ ..] => child::succeeds(Command::new(program).args(arguments), LOOK_WITHIN),
        [] => true,
    };
    tools.iter().filter(|tool| !found(tool)).collect()
}

fn can_install_packages() -> bool {
    let is_root = child::output(Command::new("id").arg("-u"), LOOK_WITHIN).is_ok_and(|id| id.trim() == "0");
    is_root && child::succeeds(apt_get().arg("--version"), LOOK_WITHIN)
}

fn apt_get() -> Command {
    let mut apt_get = Command::new("apt-get");
    apt_get.env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}
