//! The one task that owns a live configuration.

use std::sync::Arc;
use std::time::Duration;

use mainstay::Configuration;
use mainstay::config::ConfigError;
use mainstay::fleet::Changes;
use mainstay_gateway::Gateway;
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::reading::{FileReader, StillReading};
use super::reload::{InForce, ReloadError, Reloaded};
use super::start::{FileHealth, LiveEvent, LiveReport, LiveStart, ReloadTrigger};
use super::switches::{SwitchError, Switched, Switches};
use super::watch::{Noticed, WatchError};

/// How long a file that changed and cannot be used is given, in case it is written in pieces.
const REFUSAL_GRACE: Duration = Duration::from_secs(1);

/// What is asked of the task.
pub(super) enum LiveRequest {
    Start(oneshot::Sender<()>),
    Reload(oneshot::Sender<Result<Reloaded, ReloadError>>),
    Switch {
        server: String,
        enabled: bool,
        reply: oneshot::Sender<Result<Switched, SwitchError>>,
    },
}

/// Owns what is in force, and applies what takes its place.
pub(super) struct LiveTask {
    file: Option<FileReader>,
    noticed: Arc<Noticed>,
    /// Whether what is in force was read from the file; otherwise other servers stand in for a file that never was there.
    was_read: bool,
    /// Whether the gateway has no server yet, because none was wanted.
    is_dormant: bool,
    /// Whether a file that is first there ends that.
    wakes_with_file: bool,
    in_force: InForce,
    switches: Switches,
    gateway: Gateway,
    report: LiveReport,
    /// What handles see of the file.
    health: watch::Sender<FileHealth>,
    /// Why changes are not noticed, if they are not: reported when it changes.
    not_watched: Option<WatchError>,
    /// What a changed file was last refused for: a second event of the same file is no news.
    refused_for: Option<String>,
    /// When a changed file that could not be used is read once more.
    second_look: Option<Instant>,
}

impl LiveTask {
    pub(super) fn new(
        start: LiveStart,
        gateway: Gateway,
        health: watch::Sender<FileHealth>,
        report: LiveReport,
    ) -> Self {
        let noticed = Arc::new(Noticed::default());
        Self {
            file: start
                .file
                .map(|file| FileReader::new(file, start.environment, noticed.clone())),
            noticed,
            was_read: start.was_read,
            is_dormant: start.is_dormant,
            wakes_with_file: start.wakes_with_file,
            in_force: start.in_force,
            switches: start.switches,
            gateway,
            report,
            health,
            not_watched: None,
            refused_for: None,
            second_look: None,
        }
    }

    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<LiveRequest>, mut hangup: Option<Signal>) {
        // The file may have changed since it was read for the start; and its first read here begins to watch it.
        if self.file.is_some() {
            self.file_changed(true).await;
        }
        loop {
            tokio::select! {
                request = requests.recv() => match request {
                    None => return,
                    Some(LiveRequest::Start(reply)) => {
                        self.start().await;
                        let _ = reply.send(());
                    }
                    Some(LiveRequest::Reload(reply)) => {
                        let _ = reply.send(self.reload(ReloadTrigger::Request).await);
                    }
                    Some(LiveRequest::Switch { server, enabled, reply }) => {
                        let _ = reply.send(self.switch(server, enabled).await);
                    }
                },
                () = hung_up(&mut hangup) => {
                    let _reported = self.reload(ReloadTrigger::Hangup).await;
                }
                () = self.noticed.settled() => self.file_changed(true).await,
                () = at(self.second_look) => self.file_changed(false).await,
            }
        }
    }

    /// Adds the servers, if that was not done yet.
    async fn start(&mut self) {
        if self.is_dormant {
            self.is_dormant = false;
            let servers = self.switches.applied_to(&self.in_force.all_servers());
            let _all_are_added = self.gateway.apply(servers).await;
        }
    }

    /// Reads the file and applies it, because someone asked for that.
    async fn reload(&mut self, trigger: ReloadTrigger) -> Result<Reloaded, ReloadError> {
        self.second_look = None;
        let result = match self.read().await {
            Ok(configuration) => {
                // If no server was wanted before, all of them are added now, and reported so.
                self.is_dormant = false;
                Ok(self.apply(configuration).await)
            }
            Err(error) => {
                self.start().await;
                Err(error)
            }
        };
        match &result {
            Ok(reloaded) => (self.report)(LiveEvent::Reloaded(trigger, reloaded)),
            Err(error) => {
                self.refuse(error.to_string());
                (self.report)(LiveEvent::Refused(trigger, error));
            }
        }
        result
    }

    /// The file may have changed. If it cannot be used, it may be half written: that is reported only after a second look.
    async fn file_changed(&mut self, is_first_look: bool) {
        self.second_look = None;
        match self.read().await {
            Ok(configuration)
                if self.was_read && self.in_force.is(&configuration) && self.refused_for.is_none() =>
            {
                self.accept();
            }
            // One that was refused before and is fixed is applied, even if it changes nothing: so those who saw the refusal see its
            // end.
            Ok(configuration) => {
                self.is_dormant &= !self.wakes_with_file;
                let reloaded = self.apply(configuration).await;
                if !self.is_dormant {
                    (self.report)(LiveEvent::Reloaded(ReloadTrigger::FileChanged, &reloaded));
                }
            }
            // It is not there yet.
            Err(ReloadError::Unusable(ConfigError::Missing { .. })) if !self.was_read => {}
            Err(_) if is_first_look => self.second_look = Some(Instant::now() + REFUSAL_GRACE),
            Err(error) => {
                let said = error.to_string();
                if self.refused_for.as_ref() != Some(&said) {
                    (self.report)(LiveEvent::Refused(ReloadTrigger::FileChanged, &error));
                    self.refuse(said);
                }
            }
        }
    }

    /// A configuration that may take the place of the one in force.
    async fn read(&mut self) -> Result<Configuration, ReloadError> {
        let reader = self.file.as_mut().ok_or(ReloadError::NoFile)?;
        let read = reader
            .read()
            .await
            .map_err(|StillReading| ReloadError::TimedOut {
                file: reader.file().to_owned(),
            })?;
        let not_watched = read.watched.err();
        if let (Some(error), true) = (&not_watched, not_watched != self.not_watched) {
            (self.report)(LiveEvent::NotWatched(error));
        }
        self.not_watched = not_watched;
        let configuration = read.configuration.map_err(ReloadError::Unusable)?;
        if !self.health.borrow().is_unusable {
            self.in_force.check(&configuration)?;
        }
        Ok(configuration)
    }

    fn refuse(&mut self, why: String) {
        self.health
            .send_modify(|health| health.problem = Some(why.as_str().into()));
        self.refused_for = Some(why);
    }

    fn accept(&mut self) {
        self.health.send_replace(FileHealth {
            refused: Arc::new(self.in_force.refused.clone()),
            ..FileHealth::default()
        });
        self.refused_for = None;
    }

    async fn apply(&mut self, configuration: Configuration) -> Reloaded {
        if self.switches.forget_needless(&configuration) {
            // It is needless on the disk too, and is forgotten there when the next switch is kept.
            let _ = self.save().await;
        }
        let problems = self.in_force.new_problems(&configuration);
        let file = configuration.source.clone();
        let before = std::mem::replace(&mut self.in_force, configuration.into());
        let servers = self.switches.applied_to(&self.in_force.all_servers());
        let mut changes = match self.is_dormant {
            true => Changes::default(),
            false => self.gateway.apply(servers).await,
        };
        // An error that has only moved to another line changes nothing for a person.
        let is_unusable = |name: &mut String| {
            before.refused.contains(name.as_str()) && self.in_force.refused.contains(name.as_str())
        };
        let still_unusable = changes.replaced.extract_if(.., is_unusable);
        changes.unchanged.extend(still_unusable);
        let touched = [&changes.added, &changes.replaced, &changes.adjusted]
            .into_iter()
            .flatten();
        let still_disabled = touched
            .filter(|name| self.switches.disables(name))
            .cloned()
            .collect();
        let reloaded = Reloaded {
            file,
            still_disabled,
            problems,
            changes,
        };
        self.was_read = true;
        self.accept();
        reloaded
    }

    async fn switch(&mut self, server: String, enabled: bool) -> Result<Switched, SwitchError> {
        self.start().await;
        let servers = self.in_force.all_servers();
        let Some(config) = servers.iter().find(|config| config.name() == server) else {
            return Err(SwitchError::Unknown(server));
        };
        self.switches.set(config, enabled);
        // The fleet is given what is wanted as a configuration, so that the next reload finds nothing to change.
        let wanted = self.switches.applied_to(&servers);
        let _changes = self.gateway.apply(wanted).await;
        let Some(handle) = self.gateway.fleet().server(&server) else {
            return Err(SwitchError::Ending);
        };
        // It may have been switched past this task: the latest wish wins.
        let taken = match enabled {
            true => handle.enable().await,
            false => handle.disable().await,
        };
        taken.map_err(SwitchError::NotTaken)?;
        let not_kept = self.save().await.err();
        Ok(Switched {
            server,
            enabled,
            not_kept,
        })
    }

    async fn save(&self) -> Result<(), String> {
        let to_save = self.switches.to_save()?;
        let saved = spawn_blocking(move || to_save.save()).await;
        saved.unwrap_or_else(|_| Err("writing it failed".to_owned()))
    }
}

async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(signal) => match signal.recv().await {
            Some(()) => {}
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
