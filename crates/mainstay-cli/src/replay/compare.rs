//! Compares two answers by their JSON, and says where they differ.

use serde_json::Value;

/// How many differences of one answer are shown. A wholly different answer has thousands.
const DIFFERENCES_LIMIT: usize = 10;

/// One place where two answers differ.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    /// Where, as a JSON Pointer.
    pub(crate) place: String,
    /// What was recorded; `None` if there is only something now.
    pub(crate) recorded: Option<Value>,
    pub(crate) now: Option<Value>,
}

/// What is not compared: members of this name, or places.
#[derive(Debug, Default)]
pub(super) struct IgnoredPlaces(Vec<IgnoredPlace>);

#[derive(Debug)]
enum IgnoredPlace {
    /// A member of this name, wherever it stands.
    Member(String),
    /// A place as a JSON Pointer, `*` standing for any one member or element.
    Pointer(Vec<String>),
}

impl IgnoredPlaces {
    pub(super) fn new(given: &[String]) -> Self {
        let place = |text: &String| match text.strip_prefix('/') {
            Some(pointer) => IgnoredPlace::Pointer(pointer.split('/').map(unescaped).collect()),
            None => IgnoredPlace::Member(text.clone()),
        };
        Self(given.iter().map(place).collect())
    }

    fn hides(&self, path: &[String]) -> bool {
        self.0.iter().any(|ignored| match ignored {
            IgnoredPlace::Member(name) => path.last() == Some(name),
            IgnoredPlace::Pointer(wanted) => {
                wanted.len() == path.len()
                    && wanted
                        .iter()
                        .zip(path)
                        .all(|(wanted, found)| wanted == "*" || wanted == found)
            }
        })
    }
}

/// Where two answers differ: the first places, and how many there are in all.
pub(super) fn differences(
    recorded: &Value,
    now: &Value,
    ignored: &IgnoredPlaces,
) -> (Vec<Difference>, usize) {
    let mut comparison = Comparison {
        ignored,
        path: Vec::new(),
        found: Vec::new(),
        count: 0,
    };
    comparison.compare(Some(recorded), Some(now));
    (comparison.found, comparison.count)
}

struct Comparison<'a> {
    ignored: &'a IgnoredPlaces,
    path: Vec<String>,
    found: Vec<Difference>,
    count: usize,
}

impl Comparison<'_> {
    fn compare(&mut self, recorded: Option<&Value>, now: Option<&Value>) {
        if self.ignored.hides(&self.path) {
            return;
        }
        match (recorded, now) {
            (Some(Value::Object(recorded)), Some(Value::Object(now))) => {
                let added = now.keys().filter(|name| !recorded.contains_key(*name));
                for name in recorded.keys().chain(added) {
                    self.at(name.clone(), recorded.get(name), now.get(name));
                }
            }
            (Some(Value::Array(recorded)), Some(Value::Array(now))) => {
                for index in 0..recorded.len().max(now.len()) {
                    self.at(index.to_string(), recorded.get(index), now.get(index));
                }
            }
            (recorded, now) if same(recorded, now) => {}
            (recorded, now) => {
                self.count += 1;
                if self.found.len() < DIFFERENCES_LIMIT {
                    self.found.push(Difference {
                        place: pointer(&self.path),
                        recorded: recorded.cloned(),
                        now: now.cloned(),
                    });
                }
            }
        }
    }

    fn at(&mut self, name: String, recorded: Option<&Value>, now: Option<&Value>) {
        self.path.push(name);
        self.compare(recorded, now);
        self.path.pop();
    }
}

/// Whether two values are the same. `1` and `1.0` are: JSON has one kind of number.
fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    }
}

fn pointer(path: &[String]) -> String {
    path.iter()
        .map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")))
        .collect()
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(recorded: &Value, now: &Value, ignored: &[&str]) -> Vec<String> {
        let ignored: Vec<String> = ignored.iter().map(|&place| place.to_owned()).collect();
        let (found, _) = differences(recorded, now, &IgnoredPlaces::new(&ignored));
        found.into_iter().map(|difference| difference.place).collect()
    }

    #[test]
    fn the_order_of_members_and_the_form_of_numbers_do_not_matter() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":[1.0,"x"]}"#).expect("JSON");
        let other: Value = serde_json::from_str(r#"{"b":[1,"x"],"a":1.0}"#).expect("JSON");
        assert_eq!(places(&one, &other, &[]), [""; 0]);
    }

    #[test]
    fn each_difference_has_its_place() {
        let recorded = json!({ "content": [{ "type": "text", "text": "a" }, 2], "a/b": 1, "gone": null });
        let now = json!({ "content": [{ "type": "text", "text": "b" }], "a/b": "1", "new": {} });
        assert_eq!(
            places(&recorded, &now, &[]),
            ["/a~1b", "/content/0/text", "/content/1", "/gone", "/new"]
        );
        assert_eq!(places(&json!(null), &json!({}), &[]), [""]);
        assert_eq!(
            places(&json!([1]), &json!([1, 2]), &[]),
            ["/1"],
            "more than was recorded"
        );
    }

    #[test]
    fn members_and_places_can_be_left_out() {
        let recorded = json!({ "content": [{ "text": "a" }, { "text": "b" }], "at": 1, "deep": { "at": 1 } });
        let now = json!({ "content": [{ "text": "x" }, { "text": "y" }], "at": 2, "deep": { "at": 2 } });
        assert_eq!(places(&recorded, &now, &["at", "/content/*/text"]), [""; 0]);
        assert_eq!(
            places(&recorded, &now, &["/at", "/content/0/text"]),
            ["/content/1/text", "/deep/at"]
        );
    }

    #[test]
    fn a_wholly_different_answer_is_told_in_bounds() {
        let recorded: Vec<u32> = (0..5000).collect();
        let now: Vec<u32> = (1..5001).collect();
        let (found, count) = differences(&json!(recorded), &json!(now), &IgnoredPlaces::default());
        assert_eq!((found.len(), count), (DIFFERENCES_LIMIT, 5000));
    }
}
