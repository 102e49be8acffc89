//! What the keeper waits for while a server cannot be used: a reachable address, another credential.

use mainstay_lifecycle::{DisconnectReason, State};
use tokio::time::Instant;

use super::Keeper;
use super::inbox::{KeeperMessage, Report, ServerCommand};
use super::tasks::TaskKind;
use crate::config::Target;
use crate::transport::http::Endpoint;

impl Keeper {
    /// Tries the address of an unreachable server as long as the machine waits for it. The longer the server has been
    /// unreachable, the less often.
    pub(super) fn watch_reachability(&mut self) {
        let unreachable = self.machine.unreachable();
        if self.watched_unreachable == unreachable {
            return;
        }
        self.watched_unreachable = unreachable;
        self.tasks.abort(TaskKind::ReachabilityWatch);
        let Some(generation) = unreachable else {
            return;
        };
        let since = *self.unreachable_since.get_or_insert_with(Instant::now);
        let settings = self.slot.settings.load();
        let probe = match settings.target() {
            // The dial reports an endpoint that cannot be made.
            Target::Http(target) => settings.endpoint(target).ok().and_then(Endpoint::port_probe),
            Target::Stdio(_) | Target::Custom(_) | Target::Unusable(_) => None,
        };
        // Without an address to try, the machine's pause ends by itself.
        if let Some(probe) = probe {
            self.tasks
                .spawn(TaskKind::ReachabilityWatch, Some(generation), async move {
                    probe.wait_until_reachable(since).await;
                    Some(KeeperMessage::Report(Report::Reachable(generation)))
                });
        }
    }

    /// Waits for another credential while the server asks for a login.
    pub(super) fn watch_login(&mut self) {
        self.tasks.abort(TaskKind::LoginWatch);
        match self.machine.state() {
            State::Disconnected(DisconnectReason::AuthRequired) => {}
            State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::Lost(_) | DisconnectReason::BudgetSpent(..),
            )
            | State::Disabled
            | State::Connecting { .. }
            | State::Connected(_)
            | State::Disabling
            | State::PermanentlyFailed => return,
        }
        let settings = self.slot.settings.load();
        let Target::Http(target) = settings.target() else {
            return;
        };
        // The credentials that the refused request used.
        let credentials = settings.endpoint(target).ok().and_then(Endpoint::credentials);
        if let Some(credentials) = credentials {
            self.tasks.spawn(TaskKind::LoginWatch, None, async move {
                credentials.changed().await;
                Some(KeeperMessage::Command(ServerCommand::Login))
            });
        }
    }
}
