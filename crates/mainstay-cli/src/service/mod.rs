//! `mainstay service`: installs the daemon as a service of this user, for systemd or launchd.
//!
//! `systemd` and `launchd` write the files; `written_file` decides whether a file may be replaced; `manager` runs the commands of the
//! service manager. A plan is made first, so that `--dry-run` prints exactly what would be done.

mod launchd;
mod manager;
mod place;
mod plan;
mod systemd;
mod written_file;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::Common;
use crate::audit;
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, Text, plain, text};

use plan::ServicePlan;
use written_file::FileStanding;

/// Install the daemon as a service of this user: systemd on Linux, launchd on macOS
///
/// With systemd, the daemon starts when the first client connects. A unit that a person changed is never replaced without --force.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay service install --dry-run
  mainstay service install
  mainstay service status
  mainstay service uninstall")]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    pub(crate) action: ServiceAction,
    /// The service manager [default: launchd on macOS, systemd elsewhere]
    #[arg(long, global = true, value_name = "MANAGER")]
    pub(crate) manager: Option<ServiceManager>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceAction {
    /// Write the service's files, and start it
    Install(ChangeArgs),
    /// Stop the service, and remove its files
    Uninstall(ChangeArgs),
    /// Show whether the service is installed and runs; the exit code is 1 if it is not installed as it should be
    Status,
}

/// How the service is changed.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Print what would be written and run, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Replace or remove files that a person changed, too
    #[arg(long)]
    pub(crate) force: bool,
}

/// What runs the services of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceManager {
    Systemd,
    Launchd,
}

impl ServiceManager {
    /// The one of this system.
    fn of_system() -> Self {
        if cfg!(target_os = "macos") {
            Self::Launchd
        } else {
            Self::Systemd
        }
    }
}

pub(crate) fn run(service: &ServiceArgs, common: &Common, screen: &Screen) -> Done {
    let manager = service.manager.unwrap_or_else(ServiceManager::of_system);
    let plan = ServicePlan::new(manager, common).map_err(CommandFailure::failed)?;
    let (change, command, done) = match &service.action {
        ServiceAction::Install(change) => (change, "service install", install(&plan, change, screen)),
        ServiceAction::Uninstall(change) => (change, "service uninstall", uninstall(&plan, change, screen)),
        ServiceAction::Status => return status(&plan, screen),
    };
    if !change.dry_run {
        audit::keep(None, command, &done);
    }
    done
}

fn install(plan: &ServicePlan, change: &ChangeArgs, screen: &Screen) -> Done {
    if change.dry_run {
        for file in &plan.files {
            screen.print(text!("# {}\n", shown(file.path())))?;
            screen.print(Text::lines(file.text()))?;
            screen.print("\n")?;
        }
        return commands(&plan.install, screen);
    }
    if !change.force {
        refuse_changed(plan, "replace")?;
    }
    for file in &plan.files {
        let before = file.standing();
        file.write().map_err(CommandFailure::failed)?;
        let done = match before {
            FileStanding::Current => "unchanged",
            FileStanding::Missing => "written",
            FileStanding::Outdated | FileStanding::Changed => "replaced",
        };
        screen.print(text!("{} {}\n", done, shown(file.path())))?;
    }
    let ran = manager::run_all(&plan.install, screen)?;
    if ran == Exit::Success {
        screen.note("the service is installed; `mainstay service status` shows it");
    }
    Ok(ran)
}

fn uninstall(plan: &ServicePlan, change: &ChangeArgs, screen: &Screen) -> Done {
    if change.dry_run {
        for file in plan
            .files
            .iter()
            .filter(|file| file.standing() != FileStanding::Missing)
        {
            screen.print(text!("remove {}\n", shown(file.path())))?;
        }
        return commands(&plan.uninstall, screen);
    }
    if plan
        .files
        .iter()
        .all(|file| file.standing() == FileStanding::Missing)
    {
        screen.note("the service is not installed");
        return Ok(Exit::Success);
    }
    if !change.force {
        refuse_changed(plan, "remove")?;
    }
    // It is stopped while the manager still knows its files.
    let ran = manager::run_all(&plan.uninstall, screen)?;
    for file in &plan.files {
        if file.remove().map_err(CommandFailure::failed)? {
            screen.print(text!("removed {}\n", shown(file.path())))?;
        }
    }
    manager::run_all(&plan.forget, screen)?;
    Ok(ran)
}

fn status(plan: &ServicePlan, screen: &Screen) -> Done {
    let mut exit = Exit::Success;
    for file in &plan.files {
        let standing = file.standing();
        if standing != FileStanding::Current {
            exit = Exit::Failed;
        }
        screen.print(text!("{}: {}\n", shown(file.path()), standing.as_str()))?;
        if let Some(program) = file.program().filter(|program| !program.is_file()) {
            exit = Exit::Failed;
            screen.error(text!(
                "it starts {}, which does not exist; run `mainstay service install` again",
                shown(&program)
            ));
        }
    }
    for command in &plan.status {
        let said = manager::output(command);
        screen.print(text!("{}: {}\n", plain(&command.join(" ")), plain(&said)))?;
    }
    Ok(exit)
}

/// Fails if a person changed one of the files.
fn refuse_changed(plan: &ServicePlan, what: &'static str) -> Result<(), CommandFailure> {
    let changed = plan
        .files
        .iter()
        .find(|file| file.standing() == FileStanding::Changed);
    match changed {
        None => Ok(()),
        Some(file) => Err(CommandFailure::failed(anyhow::anyhow!(
            "{} was changed by hand, so it stays as it is; {what} it with --force, or put your changes in a drop-in \
             (`systemctl --user edit mainstay.service`)",
            file.path().display()
        ))),
    }
}

fn commands(commands: &[Vec<String>], screen: &Screen) -> Done {
    for command in commands {
        screen.print(text!("run {}\n", plain(&command.join(" "))))?;
    }
    Ok(Exit::Success)
}

fn shown(path: &std::path::Path) -> Text {
    plain(&path.display().to_string())
}
