//! One daemon of a user that all hosts share.
//!
//! The [`daemon`] keeps the servers: those of its configuration, and one for each distinct server that bridges ask for. [`live`] follows the
//! configuration file. The bridges, and the protocol between them and the daemon, are in `mainstay-bridge`.

pub mod daemon;
pub mod live;

#[cfg(test)]
mod tests {
    /// Every request that a client sends, of both eras.
    const METHODS: [&str; 22] = [
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tasks/cancel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
        "",
        "other/method",
    ];

    #[test]
    fn the_bridge_and_the_library_repeat_the_same_requests() {
        for method in METHODS {
            assert_eq!(
                mainstay_bridge::only_reads(method),
                mainstay::gateway::only_reads(method),
                "{method}"
            );
        }
    }
}
