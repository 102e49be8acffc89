//! The files of the dashboard, inside the program.

/// One file.
pub(super) struct Asset {
    name: &'static str,
    pub(super) content_type: &'static str,
    pub(super) bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal: $content_type:expr),* $(,)?) => {
        &[$(Asset { name: $name, content_type: $content_type, bytes: include_bytes!(concat!("../../ui/", $name)) }),*]
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

static ASSETS: &[Asset] = assets! {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": SCRIPT,
    "calls.js": SCRIPT,
    "changes.js": SCRIPT,
    "dom.js": SCRIPT,
    "errors.js": SCRIPT,
    "events.js": SCRIPT,
    "form.js": SCRIPT,
    "format.js": SCRIPT,
    "lifecycle.js": SCRIPT,
    "login.js": SCRIPT,
    "recorder.js": SCRIPT,
    "server.js": SCRIPT,
    "servers.js": SCRIPT,
    "session.js": SCRIPT,
    "sessions.js": SCRIPT,
    "states.js": SCRIPT,
    "store.js": SCRIPT,
    "strip.js": SCRIPT,
    "tool.js": SCRIPT,
};

/// The file of this name.
pub(super) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_directory_is_in_the_program_and_every_import_is_a_file() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/ui");
        for entry in std::fs::read_dir(directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(find(&name).is_some(), "{name} is not served");
        }
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for import in text.split(" from \"./").skip(1) {
                let name = import.split('"').next().unwrap();
                assert!(find(name).is_some(), "{} imports {name}", asset.name);
            }
            assert!(
                !text.contains("innerHTML"),
                "{} makes markup from text",
                asset.name
            );
        }
    }
}
