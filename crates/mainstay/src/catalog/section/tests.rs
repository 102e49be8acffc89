use std::sync::Arc;

use super::ServerSection;
use crate::catalog::Kind;
use crate::catalog::fixtures::{ODD_TOOL, catalog, prompt, raw, resource, template, tool};
use crate::config::ToolView;

/// Hides `hidden`, and shows `odd` as `even` with another description.
fn changed() -> ToolView {
    let view = ToolView::default().exclude("hidden").rename("odd", "even");
    view.describe_as("odd", "in \"other\" words")
}

fn section(items: &[(Kind, crate::wire::RawJson)], view: &ToolView) -> ServerSection {
    ServerSection::new(&Arc::from("srv"), &catalog("srv", items), view)
}

#[test]
fn a_tool_is_published_under_its_public_name_with_every_other_byte_as_sent() {
    let section = section(&[(Kind::Tool, raw(ODD_TOOL))], &ToolView::default());
    let tool = &section.tools.offers[0];
    assert_eq!(
        (tool.name(), tool.server(), tool.original()),
        ("srv__odd", "srv", "odd")
    );
    assert_eq!(tool.raw().as_str(), ODD_TOOL);
    assert_eq!(
        tool.published().as_str(),
        ODD_TOOL.replace(r#""odd""#, r#""srv__odd""#)
    );
}

#[test]
fn a_view_hides_renames_and_describes_but_the_original_stays() {
    let section = section(
        &[tool("hidden"), (Kind::Tool, raw(ODD_TOOL)), tool("plain")],
        &changed(),
    );
    let names: Vec<_> = section
        .tools
        .offers
        .iter()
        .map(|tool| (tool.name(), tool.original()))
        .collect();
    assert_eq!(names, [("srv__even", "odd"), ("srv__plain", "plain")]);
    let text = section.tools.offers[0].published().as_str();
    assert!(
        text.contains(r#""description":"in \"other\" words","_meta""#),
        "{text}"
    );
    assert_eq!(section.tools.offers[0].raw().as_str(), ODD_TOOL);
}

#[test]
fn prompts_are_renamed_and_resources_keep_their_uris() {
    let section = section(
        &[prompt("p"), resource("file:///a"), template("file:///{x}")],
        &changed(),
    );
    assert_eq!(
        section.prompts.offers[0].published().as_str(),
        r#"{"name":"srv__p"}"#
    );
    assert_eq!(section.resources.offers[0].name(), "file:///a");
    assert_eq!(
        section.resources.offers[0].published(),
        section.resources.offers[0].raw()
    );
    assert_eq!(section.templates.offers[0].name(), "file:///{x}");
}

#[test]
fn every_kind_has_a_typed_view_under_its_public_name() {
    let hinted = raw(r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#);
    let items = [
        (Kind::Tool, hinted),
        prompt("p"),
        resource("a:b"),
        template("a:{b}"),
    ];
    let section = section(&items, &ToolView::default());
    let tool = section.tools.offers[0].typed().unwrap();
    assert_eq!(tool.name, "srv__t");
    assert_eq!(tool.annotations.unwrap().read_only_hint, Some(true));
    assert!(section.tools.offers[0].hints().read_only);
    assert_eq!(section.prompts.offers[0].typed().unwrap().name, "srv__p");
    assert_eq!(section.resources.offers[0].typed().unwrap().uri, "a:b");
    assert_eq!(section.templates.offers[0].typed().unwrap().uri_template, "a:{b}");
}

#[test]
fn an_item_the_typed_view_does_not_understand_is_still_published() {
    let odd = raw(r#"{"name":"t","inputSchema":{},"description":{"of":"the future"}}"#);
    let section = section(&[(Kind::Tool, odd)], &ToolView::default());
    assert!(section.tools.offers[0].typed().is_err());
    assert!(
        section.tools.offers[0]
            .published()
            .as_str()
            .contains("the future")
    );
}
