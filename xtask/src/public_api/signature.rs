//! Types and signatures from rustdoc's JSON, as they are written in Rust; of a path its last name.

use serde_json::Value;

/// The generics, arguments and result of a function.
pub(super) fn signature(function: &Value) -> String {
    let header = &function["header"];
    let marks = [
        ("is_const", " const"),
        ("is_async", " async"),
        ("is_unsafe", " unsafe"),
    ];
    let marks = marks.iter().filter(|(key, _)| header[*key] == true);
    let marks = marks.map(|(_, mark)| *mark).collect::<String>();
    let inputs = function["sig"]["inputs"].as_array().into_iter().flatten();
    let inputs = inputs.map(|input| match (text(&input[0]), ty(&input[1])) {
        ("self", of) if of == "Self" => "self".to_owned(),
        ("self", of) if of == "&Self" => "&self".to_owned(),
        ("self", of) if of == "&mut Self" => "&mut self".to_owned(),
        (name, of) => format!("{name}: {of}"),
    });
    let inputs = inputs.collect::<Vec<_>>().join(", ");
    let output = match &function["sig"]["output"] {
        Value::Null => String::new(),
        output => format!(" -> {}", ty(output)),
    };
    format!("{}({inputs}){output}{marks}", generics(&function["generics"]))
}

/// `<T: Bound, 'a> where …`, or nothing.
pub(super) fn generics(generics: &Value) -> String {
    let parameters = generics["params"].as_array().into_iter().flatten();
    let parameters = parameters.filter(|parameter| parameter["kind"]["type"]["is_synthetic"] != true);
    let parameters = parameters.map(|parameter| {
        let (name, kind) = (text(&parameter["name"]), &parameter["kind"]);
        if let Some(constant) = kind.get("const") {
            format!("const {name}: {}", ty(&constant["type"]))
        } else {
            format!("{name}{}", bounds(&kind["type"]["bounds"]))
        }
    });
    let parameters = parameters.collect::<Vec<_>>();
    let conditions = generics["where_predicates"].as_array().into_iter().flatten();
    let conditions = conditions.filter_map(|condition| {
        let condition = condition.get("bound_predicate")?;
        Some(format!(
            "{}{}",
            ty(&condition["type"]),
            bounds(&condition["bounds"])
        ))
    });
    let conditions = conditions.collect::<Vec<_>>();
    let mut text = String::new();
    if !parameters.is_empty() {
        text += &format!("<{}>", parameters.join(", "));
    }
    if !conditions.is_empty() {
        text += &format!(" where {}", conditions.join(", "));
    }
    text
}

/// `: A + B`, or nothing.
pub(super) fn bounds(bounds: &Value) -> String {
    match joined(bounds, " + ", bound) {
        none if none.is_empty() => none,
        bounds => format!(": {bounds}"),
    }
}

fn bound(bound: &Value) -> String {
    if let Some(lifetime) = bound.get("outlives") {
        return text(lifetime).to_owned();
    }
    let of_trait = &bound["trait_bound"];
    let maybe = if of_trait["modifier"] == "maybe" { "?" } else { "" };
    format!("{maybe}{}", path(&of_trait["trait"]))
}

/// The last name of a path, with its arguments.
pub(super) fn path(path: &Value) -> String {
    let name = text(&path["path"]);
    let name = name.rsplit("::").next().unwrap_or(name);
    format!("{name}{}", arguments(&path["args"]))
}

fn arguments(arguments: &Value) -> String {
    if let Some(angled) = arguments.get("angle_bracketed") {
        let constraints = joined(&angled["constraints"], ", ", |constraint| {
            let of = &constraint["binding"];
            let name = text(&constraint["name"]);
            match of.get("equality") {
                Some(term) => format!("{name} = {}", ty(&term["type"])),
                None => format!("{name}{}", bounds(&of["constraint"])),
            }
        });
        let all = [joined(&angled["args"], ", ", argument), constraints];
        let all = all
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>();
        return if all.is_empty() {
            String::new()
        } else {
            format!("<{}>", all.join(", "))
        };
    }
    if let Some(called) = arguments.get("parenthesized") {
        let output = match &called["output"] {
            Value::Null => String::new(),
            output => format!(" -> {}", ty(output)),
        };
        return format!("({}){output}", joined(&called["inputs"], ", ", ty));
    }
    String::new()
}

fn argument(argument: &Value) -> String {
    if let Some(lifetime) = argument.get("lifetime") {
        text(lifetime).to_owned()
    } else if let Some(of) = argument.get("type") {
        ty(of)
    } else {
        text(&argument["const"]["expr"]).to_owned()
    }
}

/// A type as it is written.
pub(super) fn ty(of: &Value) -> String {
    let Some((kind, inner)) = of.as_object().and_then(|of| of.iter().next()) else {
        return "_".to_owned();
    };
    match kind.as_str() {
        "resolved_path" => path(inner),
        "generic" | "primitive" => text(inner).to_owned(),
        "tuple" => format!("({})", joined(inner, ", ", ty)),
        "slice" => format!("[{}]", ty(inner)),
        "array" => format!("[{}; {}]", ty(&inner["type"]), text(&inner["len"])),
        "impl_trait" => format!("impl {}", joined(inner, " + ", bound)),
        "dyn_trait" => {
            let traits = joined(&inner["traits"], " + ", |of| path(&of["trait"]));
            let lifetime = inner["lifetime"]
                .as_str()
                .map(|lifetime| format!(" + {lifetime}"));
            format!("dyn {traits}{}", lifetime.unwrap_or_default())
        }
        "borrowed_ref" => {
            let lifetime = inner["lifetime"].as_str().map(|lifetime| format!("{lifetime} "));
            let mutable = if inner["is_mutable"] == true { "mut " } else { "" };
            format!("&{}{mutable}{}", lifetime.unwrap_or_default(), ty(&inner["type"]))
        }
        "raw_pointer" => {
            let mutable = if inner["is_mutable"] == true {
                "mut"
            } else {
                "const"
            };
            format!("*{mutable} {}", ty(&inner["type"]))
        }
        "qualified_path" => format!("{}::{}", ty(&inner["self_type"]), text(&inner["name"])),
        "function_pointer" => format!("fn{}", signature(inner)),
        other => other.to_owned(),
    }
}

fn joined(list: &Value, separator: &str, one: impl Fn(&Value) -> String) -> String {
    let list = list.as_array().into_iter().flatten();
    list.map(one).collect::<Vec<_>>().join(separator)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ty;

    #[test]
    fn types_are_written_as_in_rust() {
        let string = json!({ "resolved_path": { "path": "std::string::String", "args": null } });
        let list = json!({ "angle_bracketed": { "args": [{ "type": string }], "constraints": [] } });
        let option = json!({ "resolved_path": { "path": "Option", "args": list } });
        let reference = json!({ "borrowed_ref": { "lifetime": "'a", "is_mutable": true, "type": option } });
        assert_eq!(ty(&reference), "&'a mut Option<String>");
        assert_eq!(ty(&json!({ "tuple": [] })), "()");
        let called = json!({ "parenthesized": { "inputs": [{ "primitive": "u8" }], "output": null } });
        let closure =
            json!({ "impl_trait": [{ "trait_bound": { "trait": { "path": "Fn", "args": called } } }] });
        assert_eq!(ty(&closure), "impl Fn(u8)");
    }
}
