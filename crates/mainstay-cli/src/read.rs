//! `mainstay read`: one resource.

use mainstay::{Fleet, Reply};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{Common, ReadArgs};
use crate::ask::Asking;
use crate::call::shown_resource;
use crate::exit::Done;
use crate::load::servers;
use crate::output::Screen;
use crate::pick::{Picked, Sought};

pub(crate) fn run(read: &ReadArgs, common: &Common, screen: &Screen) -> Done {
    let mut setup = servers(&read.request.adhoc, common, screen)?;
    let picked = Picked::read(&mut setup, &read.words, Sought::Resource)?;
    let asking = Asking::new(&setup, screen, &read.request, Sought::Resource, &picked.name);
    asking.run(&setup, async |fleet| make(&asking, fleet, &picked.name).await)
}

async fn make(asking: &Asking<'_>, fleet: &Fleet, uri: &str) -> Done {
    let server = asking
        .locate(fleet, |catalog| catalog.owner(uri).map(str::to_owned))
        .await?;
    if let Err(error) = asking.connected(fleet, &server).await {
        return asking.failed(&server, &error).await;
    }
    let answered = server.read_resource(uri).options(asking.options()).await;
    asking.answered(&server, answered, text).await
}

/// The text of all contents, ending in a new line; what is no text is named. A result of an unknown shape is shown whole.
fn text(reply: &Reply) -> String {
    #[derive(Deserialize)]
    struct Result {
        contents: Vec<Value>,
    }
    let Ok(result) = reply.result.parse::<Result>() else {
        return format!("{}\n", reply.result);
    };
    let mut text = String::new();
    for content in &result.contents {
        match content.get("text").and_then(Value::as_str) {
            Some(words) => text.push_str(words),
            None => text.push_str(&shown_resource(content)),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
