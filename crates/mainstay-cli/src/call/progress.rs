//! The progress of a call, on a terminal.

use mainstay::{CallOptions, RawJson};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::output::{Live, Screen, Text, plain, text};

/// Progress that waits to be drawn. What a slow terminal misses is out of date anyway.
const QUEUED: usize = 16;

/// The task that draws, where there is one.
pub(super) struct CallProgress(Option<JoinHandle<()>>);

impl CallProgress {
    /// Waits until the last of it is drawn and cleared. The call must have ended.
    pub(super) async fn ended(self) {
        if let Some(task) = self.0 {
            let _ = task.await;
        }
    }
}

/// Options that show progress on a terminal. A progress token makes servers do more work.
pub(super) fn shown(screen: &Screen, options: CallOptions) -> (CallProgress, CallOptions) {
    if !screen.is_live() {
        return (CallProgress(None), options);
    }
    let (sender, mut steps) = mpsc::channel::<RawJson>(QUEUED);
    let paint = screen.err;
    let task = tokio::spawn(async move {
        let mut live = Live::default();
        while let Some(step) = steps.recv().await {
            if let Ok(step) = step.parse::<ProgressStep>() {
                live.draw(&[paint.dim(step.words())]);
            }
        }
    });
    (CallProgress(Some(task)), options.progress(sender))
}

#[derive(Deserialize)]
struct ProgressStep {
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl ProgressStep {
    fn words(&self) -> Text {
        let done = match self.total {
            Some(total) if total > 0.0 => {
                text!("{:.0} %", (self.progress / total * 100.0).clamp(0.0, 100.0))
            }
            Some(_) | None => text!("{}", self.progress),
        };
        match &self.message {
            Some(message) => text!("… {}  {}", done, plain(message)),
            None => text!("… {}", done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProgressStep;

    #[test]
    fn progress_is_a_share_where_the_whole_is_known() {
        let words = |json: &str| {
            serde_json::from_str::<ProgressStep>(json)
                .unwrap()
                .words()
                .as_str()
                .to_owned()
        };
        assert_eq!(
            words(r#"{"progress": 1, "total": 4, "message": "a\nb"}"#),
            "… 25 %  a b"
        );
        assert_eq!(words(r#"{"progress": 7}"#), "… 7");
        assert_eq!(words(r#"{"progress": 7, "total": 0}"#), "… 7");
    }
}
