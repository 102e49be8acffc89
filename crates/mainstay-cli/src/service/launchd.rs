//! The property list of launchd: the daemon runs from the login on. Clients that find none start one themselves.

use std::path::Path;

use super::place::ServicePlace;
use super::plan::{ServicePlan, command, home};
use super::written_file::{CommentStyle, WrittenFile};

const LABEL: &str = "io.github.mainstay-mcp.mainstay";

pub(super) fn plan(place: &ServicePlace) -> anyhow::Result<ServicePlan> {
    let home = home()?;
    let file = home.join(format!("Library/LaunchAgents/{LABEL}.plist"));
    let domain = format!("gui/{}", rustix::process::geteuid().as_raw());
    let service = format!("{domain}/{LABEL}");
    let shown = file.display().to_string();
    let text = property_list(place, &home);
    Ok(ServicePlan {
        files: vec![WrittenFile::new(file, &text, CommentStyle::Xml)],
        install: vec![
            command(&[&place.program, "daemon", "stop"]),
            command(&["launchctl", "bootstrap", &domain, &shown]),
        ],
        uninstall: vec![command(&["launchctl", "bootout", &service])],
        forget: Vec::new(),
        status: vec![command(&["launchctl", "print", &service])],
    })
}

fn property_list(place: &ServicePlace, home: &Path) -> String {
    let words = std::iter::once(place.program.clone()).chain(place.arguments(&["--at-login"]));
    let words: String = words
        .map(|word| format!("    <string>{}</string>\n", escaped(&word)))
        .collect();
    let path = match &place.path {
        Some(path) => format!(
            "  <!-- The PATH of the shell that installed the service. That of launchd is short, and lacks npx and uvx. -->\n  \
             <key>EnvironmentVariables</key>\n  <dict>\n    <key>PATH</key>\n    <string>{}</string>\n  </dict>\n",
            escaped(path)
        ),
        None => String::new(),
    };
    let log = escaped(&home.join("Library/Logs/mainstay.log").display().to_string());
    format!(
        "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
{path}  <key>RunAtLoad</key>
  <true/>
  <!-- Started again after a crash; not after an orderly end. -->
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <!-- The daemon stops its servers by itself; what is left after this time is killed. -->
  <key>ExitTimeOut</key>
  <integer>30</integer>
  <!-- The daemon raises its own limit for many servers. -->
  <key>SoftResourceLimits</key>
  <dict>
    <key>NumberOfFiles</key>
    <integer>1024</integer>
  </dict>
  <!-- A core dump would hold the tokens of servers. -->
  <key>HardResourceLimits</key>
  <dict>
    <key>Core</key>
    <integer>0</integer>
  </dict>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
