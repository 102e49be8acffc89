//! How servers stand, for a person: every view counts and orders them in the same way.

use std::fmt;

use super::{DesiredState, ServerStatus, StateName};

/// How a server stands. The first is what a person should see first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Footing {
    /// Calls cannot use it, and a person may have to act.
    Down,
    /// It is being started, or tried again soon.
    Coming,
    /// Calls can use it: it is connected, or the next call starts it.
    Up,
    /// It is disabled.
    Off,
}

impl Footing {
    /// How this server stands. `ui/states.js` of the dashboard decides the same.
    pub fn of(server: &ServerStatus) -> Self {
        match server.state {
            StateName::Connected => Self::Up,
            StateName::Connecting | StateName::Reconnecting => Self::Coming,
            StateName::Disabled | StateName::Disabling => match server.desired {
                DesiredState::Enabled => Self::Coming,
                DesiredState::Disabled => Self::Off,
            },
            // One that rests is started by the next call.
            StateName::Disconnected if server.up => Self::Up,
            StateName::Disconnected | StateName::PermanentlyFailed | StateName::Unknown => Self::Down,
        }
    }

    /// Sorts servers by how they stand, what is wrong first, and then by name.
    pub fn sort(servers: &mut [ServerStatus]) {
        servers.sort_by(|one, other| {
            let by_footing = Self::of(one).cmp(&Self::of(other));
            by_footing.then_with(|| one.name.cmp(&other.name))
        });
    }
}

/// How many servers are up. Written as `4 of 8 servers up`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCount {
    /// Those that calls can use.
    pub up: usize,
    /// Those that are not disabled.
    pub wanted: usize,
}

impl ServerCount {
    /// Counts servers by how they stand.
    pub fn of(servers: impl IntoIterator<Item = Footing>) -> Self {
        let mut count = Self::default();
        for footing in servers {
            match footing {
                Footing::Up => {
                    count.up += 1;
                    count.wanted += 1;
                }
                Footing::Coming | Footing::Down => count.wanted += 1,
                Footing::Off => {}
            }
        }
        count
    }
}

impl fmt::Display for ServerCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.wanted == 1 { "server" } else { "servers" };
        write!(f, "{} of {} {noun} up", self.up, self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::{Footing, ServerCount};

    #[test]
    fn a_disabled_server_is_not_counted_and_one_that_is_coming_is_not_up() {
        let count = ServerCount::of([Footing::Up, Footing::Off, Footing::Coming, Footing::Down]);
        assert_eq!((count.up, count.wanted), (1, 3));
        assert_eq!(count.to_string(), "1 of 3 servers up");
        assert_eq!(ServerCount::of([Footing::Up]).to_string(), "1 of 1 server up");
    }

    #[test]
    fn what_is_wrong_comes_first() {
        let mut all = [Footing::Off, Footing::Up, Footing::Coming, Footing::Down];
        all.sort_unstable();
        assert_eq!(all, [Footing::Down, Footing::Coming, Footing::Up, Footing::Off]);
    }
}
