//! `cargo xtask dashboard`: the dashboard in a real browser, as `tests/dashboard` drives it. The screenshots that it makes are below
//! `target/dashboard`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::arguments::DashboardOptions;
use crate::project::Project;
use crate::{child, npm, tools};

const SOURCE: &str = "tests/dashboard";
const AUTHORIZATION_SERVER: &str = "tests/authorization-server";
const BUILD_SILENCE: Duration = Duration::from_secs(15 * 60);
/// A step of the script waits for half a minute at most.
const SCRIPT_SILENCE: Duration = Duration::from_secs(300);

pub(crate) fn run(project: &Project, options: &DashboardOptions) -> Result<()> {
    let browser = tools::ensure_browser()?;
    let packages = project.built("partners/dashboard");
    npm::install(project, SOURCE, &packages).context("cannot install what drives the browser")?;
    let authorization = project.built("partners/authorization-server");
    npm::install(project, AUTHORIZATION_SERVER, &authorization)
        .context("cannot install the authorization server")?;
    let mut build = project.cargo();
    build.args(["build", "--package", "mainstay-cli"]);
    // Figures are those of the program as people run it.
    let built = match options.load_seconds {
        Some(_) => {
            build.arg("--release");
            "release/mainstay"
        }
        None => "debug/mainstay",
    };
    child::run_while_it_speaks(&mut build, BUILD_SILENCE)?;
    // The Node of the test clients, where that is there: a machine's own may be too old.
    let node = npm::node(&project.built("partners/clients"));
    let mut script = Command::new(node);
    let file = match options.load_seconds {
        Some(_) => "load.mjs",
        None => "dashboard.mjs",
    };
    script
        .arg(project.source(SOURCE).join(file))
        .arg(project.built(built))
        .arg(project.built("dashboard"))
        .arg(browser)
        .arg(packages);
    match options.load_seconds {
        Some(seconds) => script.arg(seconds.to_string()),
        None => script.arg(authorization),
    };
    child::run_while_it_speaks(&mut script, SCRIPT_SILENCE)
}
