//! `mainstay import`: takes over the servers of the hosts on this machine, and points the hosts at `mainstay connect`.
//!
//! Everything is planned and shown first. Only with `--yes` is anything written: Mainstay's configuration, then each
//! host's file. A file that cannot be read or written costs that file alone.

mod restore;
mod show;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use mainstay_bridge::{VARIABLES_HINT, inherited_variables};
use mainstay_hosts::file::Keep;
use mainstay_hosts::host::{HostProgram, UserFolders, places};
use mainstay_hosts::import::{HostFile, ImportPlan, Rewritten};
use mainstay_hosts::servers::ConfigFile;
use mainstay_hosts::text::EditableText;

use crate::args::Common;
use crate::audit;
use crate::exit::{CommandFailure, Done, Exit};
use crate::load::{self, warn_of_inherited};
use crate::output::{Screen, Text, plain, text};

/// Take over the servers of the hosts on this machine
///
/// Shows what each host has and what would be written; nothing is written without --yes. Equal servers become one; servers
/// that differ under one name are kept apart. With --rewrite, each entry that starts a program is pointed at `mainstay
/// connect`, so that all hosts share one process; all other bytes of the host's file stay, and a copy is kept beside it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay import
  mainstay import --from claude-desktop,cursor --yes
  mainstay import --rewrite --yes
  mainstay import --restore --yes")]
pub(crate) struct ImportArgs {
    /// Only these hosts: claude-desktop, claude-code, cursor, vscode, vscode-insiders, vscodium, cline, codex, zed, windsurf, gemini,
    /// goose, opencode
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) from: Vec<HostProgram>,
    /// The files of the project in the working directory, too, such as `.mcp.json`
    #[arg(long)]
    pub(crate) project: bool,
    /// Point the hosts' entries at `mainstay connect`
    #[arg(long)]
    pub(crate) rewrite: bool,
    /// With --rewrite: let all servers run in this directory that do not need the one their host starts them in
    ///
    /// Servers in different directories are different processes, and each host starts its servers in another one.
    #[arg(long, value_name = "DIRECTORY", requires = "rewrite")]
    pub(crate) cwd: Option<PathBuf>,
    /// Turn the hosts' entries back to what they were before --rewrite
    #[arg(long, conflicts_with = "rewrite")]
    pub(crate) restore: bool,
    /// Write what is shown
    #[arg(long, visible_alias = "write")]
    pub(crate) yes: bool,
}

pub(crate) fn run(arguments: &ImportArgs, common: &Common, screen: &Screen) -> Done {
    let ended = show_and_write(arguments, common, screen);
    let is_kept = match &ended {
        Ok(done) => done.is_due || done.is_failed,
        Err(_) => true,
    };
    let done = ended.map(|done| match done.is_failed {
        true => Exit::Failed,
        false => Exit::Success,
    });
    if arguments.yes && is_kept {
        let command = match (arguments.restore, arguments.rewrite) {
            (true, _) => "import --restore",
            (false, true) => "import --rewrite",
            (false, false) => "import",
        };
        audit::keep(None, command, &done);
    }
    done
}

fn show_and_write(
    arguments: &ImportArgs,
    common: &Common,
    screen: &Screen,
) -> Result<ImportDone, CommandFailure> {
    let machine = ThisMachine::find(arguments)?;
    let HostFiles {
        files,
        missing,
        unread,
    } = machine.files(arguments, screen);
    let names = |hosts: Vec<HostProgram>| Text::join(hosts.into_iter().map(|host| plain(host.title())), ", ");
    if files.is_empty() && !unread {
        screen.note(text!(
            "no host's configuration was found; looked for: {}",
            names(missing)
        ));
        return Ok(ImportDone::default());
    }
    let mut done = if arguments.restore {
        restore::run(&files, arguments.yes, common, screen)?
    } else {
        let done = import(&files, arguments, common, &machine, screen)?;
        if !missing.is_empty() {
            screen.note(text!("looked for, and not found: {}", names(missing)));
        }
        done
    };
    if !arguments.yes && done.is_due {
        screen.note("nothing was written; run the command again with --yes to write this");
    }
    done.is_failed |= unread;
    Ok(done)
}

/// What a run came to.
#[derive(Default)]
struct ImportDone {
    /// Whether there was something to write.
    is_due: bool,
    /// Whether a file could not be read or written.
    is_failed: bool,
}

/// What was found of the hosts.
struct HostFiles {
    /// The files that can be read.
    files: Vec<HostFile>,
    /// The hosts without a file.
    missing: Vec<HostProgram>,
    /// Whether a file cannot be read.
    unread: bool,
}

/// Where the files are, and where this program is.
struct ThisMachine {
    folders: UserFolders,
    project: Option<PathBuf>,
    program: String,
}

impl ThisMachine {
    fn find(arguments: &ImportArgs) -> Result<Self, CommandFailure> {
        let folders = UserFolders::of(|name| env::var_os(name));
        let folders = folders.ok_or_else(|| {
            CommandFailure::usage(anyhow!(
                "the home directory is not known; set HOME to an absolute path"
            ))
        })?;
        let project = match arguments.project {
            true => Some(env::current_dir().context("the working directory is not known"))
                .transpose()
                .map_err(CommandFailure::failed)?,
            false => None,
        };
        Ok(Self {
            folders,
            project,
            program: program_path().map_err(CommandFailure::failed)?,
        })
    }

    fn files(&self, arguments: &ImportArgs, screen: &Screen) -> HostFiles {
        let mut found = HostFiles {
            files: Vec::new(),
            missing: Vec::new(),
            unread: false,
        };
        for host in wanted_hosts(arguments) {
            let mut is_missing = true;
            for place in places(host, &self.folders, self.project.as_deref()) {
                match HostFile::read(&place, &self.folders.home, &self.program) {
                    Ok(Some(file)) => found.files.push(file),
                    Ok(None) => continue,
                    Err(error) => {
                        found.unread = true;
                        screen.error(plain(&format!("{host}: {:#}", anyhow!(error))));
                    }
                }
                is_missing = false;
            }
            if is_missing {
                found.missing.push(host);
            }
        }
        found
    }
}

/// The hosts that the import is about.
fn wanted_hosts(arguments: &ImportArgs) -> impl Iterator<Item = HostProgram> {
    let is_wanted = |host: &HostProgram| arguments.from.is_empty() || arguments.from.contains(host);
    HostProgram::ALL.into_iter().filter(is_wanted)
}

/// The path of this program as a host should call it: the one in `PATH` if that is this program, since it outlives an
/// upgrade that moves the file behind it.
fn program_path() -> anyhow::Result<String> {
    let current = env::current_exe().context("the path of this program is not known")?;
    let resolved = current.canonicalize().unwrap_or_else(|_| current.clone());
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("mainstay"))
        .find(|program| program.canonicalize().is_ok_and(|found| found == resolved));
    let path = in_path.unwrap_or(current).into_os_string();
    path.into_string()
        .map_err(|path| anyhow!("the path of this program is not UTF-8: {}", path.display()))
}

fn import(
    files: &[HostFile],
    arguments: &ImportArgs,
    common: &Common,
    machine: &ThisMachine,
    screen: &Screen,
) -> Result<ImportDone, CommandFailure> {
    let path = load::user_file(common)?;
    let mut config = ConfigFile::open(&path).map_err(CommandFailure::usage)?;
    let plan = ImportPlan::of(files, &config.text, &machine.folders.home).map_err(CommandFailure::usage)?;
    for file in files {
        screen.print(show::host(file, &plan, screen))?;
    }
    // What cannot be written is not announced, and the hosts' files are still the hosts'.
    let refused = match plan.is_empty() {
        true => None,
        false => config.check_writable().err(),
    };
    let mut done = ImportDone {
        is_due: !plan.is_empty() && refused.is_none(),
        is_failed: refused.is_some(),
    };
    match refused {
        None => screen.print(show::plan(&path, config.exists(), &plan, screen))?,
        Some(error) => screen.error(plain(&format!("{:#}", anyhow!(error)))),
    }
    let is_refused = done.is_failed;
    let cwd = arguments.cwd.as_deref().map(directory).transpose()?;
    let cwd = cwd.as_deref();
    let rewritten: Vec<(&HostFile, Rewritten)> = match arguments.rewrite {
        true => files.iter().map(|file| (file, file.rewritten(cwd))).collect(),
        false => Vec::new(),
    };
    let mut to_write = Vec::new();
    for (file, rewritten) in &rewritten {
        let is_due = !rewritten.changed.is_empty();
        if is_due && let Err(error) = file.snapshot().check_writable() {
            done.is_failed = true;
            screen.error(plain(&format!("{:#}", anyhow!(error))));
            continue;
        }
        screen.print(show::rewriting(file, rewritten, &machine.program, cwd, screen))?;
        if is_due {
            done.is_due = true;
            to_write.push((file, rewritten));
        }
    }
    if !to_write.is_empty() {
        screen.note(VARIABLES_HINT);
    }
    let (mut problems, mut only_here) = (Vec::new(), BTreeSet::new());
    if !is_refused {
        plan.apply(&mut config.text).map_err(CommandFailure::failed)?;
        problems = plan
            .problems(&config.text, |name| env::var(name).ok())
            .map_err(CommandFailure::failed)?;
        only_here = variables_only_here(&plan, &config.text)?;
        if arguments.yes && !plan.is_empty() {
            let written = config.write(None, None).map_err(CommandFailure::failed)?;
            show::written(&written.file, written.previous.as_deref(), screen);
        }
    }
    if arguments.yes {
        for (file, rewritten) in to_write {
            done.is_failed |= !write(file, &rewritten.text, Keep::Backup, screen);
        }
    }
    for mut problem in problems {
        if !arguments.yes {
            // The lines are those of a text that is in no file yet.
            (problem.file, problem.position) = (None, None);
            screen.warning(text!("in what would be written: {}", plain(&problem.to_string())));
        } else {
            screen.warning(plain(&problem.to_string()));
        }
    }
    let only_here: Vec<_> = only_here.iter().map(String::as_str).collect();
    warn_of_inherited(&only_here, screen);
    Ok(done)
}

/// The variables that the new servers need, and that this shell has and a daemon that a host starts does not.
fn variables_only_here(plan: &ImportPlan, config: &EditableText) -> Result<BTreeSet<String>, CommandFailure> {
    let in_daemon = |name: &str| {
        let is_passed_on = inherited_variables().any(|passed_on| passed_on == name);
        is_passed_on.then(|| env::var(name).ok()).flatten()
    };
    let problems = plan.problems(config, in_daemon).map_err(CommandFailure::failed)?;
    let unset = problems.into_iter().filter_map(|problem| problem.unset_variable);
    Ok(unset.filter(|name| env::var_os(name).is_some()).collect())
}

/// The absolute path of a directory that exists.
fn directory(path: &Path) -> Result<String, CommandFailure> {
    let usage = |why: String| CommandFailure::usage(anyhow!("--cwd {}: {why}", path.display()));
    let absolute = path
        .canonicalize()
        .map_err(|error| usage(format!("{error}; name a directory that exists")))?;
    if !absolute.is_dir() {
        return Err(usage("this is no directory".to_owned()));
    }
    let absolute = absolute.into_os_string().into_string();
    absolute.map_err(|_| usage("the path is not UTF-8".to_owned()))
}

/// Replaces a host's file; `false` if that failed, which is said.
fn write(file: &HostFile, text: &str, keep: Keep, screen: &Screen) -> bool {
    match file.snapshot().replace(text, keep) {
        Ok(kept) => {
            show::written(&file.place.path, kept.as_deref(), screen);
            true
        }
        Err(error) => {
            screen.error(plain(&format!("{:#}", anyhow!(error))));
            false
        }
    }
}

fn shown(path: &Path) -> Text {
    text!("{}", plain(&path.display().to_string()))
}
