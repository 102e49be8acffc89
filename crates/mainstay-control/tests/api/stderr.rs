//! What a server writes to stderr, kept and followed.

use mainstay::ServerConfig;
use mainstay_control::{Control, Role};
use mainstay_testkit::fleet::LONG;
use tokio::time::timeout;

use crate::support::World;

#[tokio::test]
async fn the_lines_that_are_kept_come_first_and_new_ones_follow_once_each() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("lines");
    // It opens the pipe once, for both directions: with a new opening for each line, it could meet the end of the last writer.
    let script = format!(
        "echo first >&2; mkfifo '{0}'; exec 3<>'{0}'; while read -r line <&3; do printf '\\033[31m%s\\n' \"$line\" >&2; done",
        pipe.display()
    );
    let config = ServerConfig::stdio("noisy", "/bin/sh")
        .args(["-c", &script])
        .build();
    let world = World::with(Control::builder(Role::Serve), [config.expect("valid")]);
    let kept = async {
        loop {
            let page = world.client.stderr("noisy", 10).await.expect("a page");
            if !page.lines.is_empty() && pipe.exists() {
                return page;
            }
            tokio::task::yield_now().await;
        }
    };
    let page = timeout(LONG, kept).await.expect("a line");
    assert_eq!(page.lines[0].text, "first");
    let mut lines = world.client.follow_stderr("noisy", 10).await.expect("a stream");
    let mut next = async || {
        let next = timeout(LONG, lines.next()).await.expect("a line in time");
        next.expect("open")
            .expect("readable")
            .expect("nothing is missing")
            .text
    };
    assert_eq!(next().await, "first");
    for text in ["second", "third"] {
        let (path, line) = (pipe.clone(), format!("{text}\n"));
        let written = tokio::task::spawn_blocking(move || std::fs::write(path, line));
        timeout(LONG, written)
            .await
            .expect("read by the server")
            .expect("no panic")
            .expect("written");
        assert_eq!(next().await, text);
    }
    world.gateway.close(LONG).await;
}
