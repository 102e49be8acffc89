use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::from_text(text).unwrap()
}

fn object(text: &str) -> Object {
    Object::parse(&raw(text)).unwrap()
}

/// Objects with odd spacing, spelling, order, duplicates and depth, from a fixed seed.
struct Generator(u64);

impl Generator {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn space(&mut self) -> &'static str {
        self.pick(&["", "", " ", "\n", "\t ", "\r\n  "])
    }

    fn value(&mut self, depth: u32) -> String {
        match self.below(if depth == 0 { 2 } else { 4 }) {
            0 => self
                .pick(&["1", "-0.50e+3", "true", "null", "12345678901234567890123"])
                .into(),
            1 => self
                .pick(&[r#""""#, r#"",}{""#, r#""\"\\""#, "\"é\u{2028}\"", r#""\u0041""#])
                .into(),
            2 => self.object(depth - 1),
            _ => {
                let items: Vec<_> = (0..self.below(4)).map(|_| self.value(depth - 1)).collect();
                format!("[{}{}]", self.space(), items.join(","))
            }
        }
    }

    fn object(&mut self, depth: u32) -> String {
        let members: Vec<_> = (0..self.below(6))
            .map(|_| {
                let key = self.pick(&["a", "b", "_meta", r"\u0061", r#"\""#, "é", "x,y}", ""]);
                let spaces = [self.space(), self.space(), self.space(), self.space()];
                let value = self.value(depth);
                format!(
                    "{}\"{key}\"{}:{}{value}{}",
                    spaces[0], spaces[1], spaces[2], spaces[3]
                )
            })
            .collect();
        if members.is_empty() {
            return format!("{{{}}}", self.space());
        }
        format!("{{{}}}", members.join(","))
    }
}

#[test]
fn reading_and_writing_back_changes_no_byte() {
    let mut generator = Generator(0x9E37_79B9_7F4A_7C15);
    for _ in 0..5_000 {
        let text = generator.object(3);
        assert_eq!(object(&text).to_raw().as_str(), text);
    }
}

#[test]
fn an_edit_and_its_undoing_change_no_byte() {
    let mut generator = Generator(42);
    for _ in 0..5_000 {
        let text = generator.object(2);
        let mut edited = object(&text);
        edited.set("not there yet", raw("1"));
        assert_eq!(edited.remove("not there yet").unwrap().as_str(), "1");
        assert_eq!(edited.to_raw().as_str(), text);
    }
}

#[test]
fn an_edit_means_the_same_to_a_full_parser() {
    let mut generator = Generator(7);
    for _ in 0..5_000 {
        let text = generator.object(2);
        let mut expected: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let mut edited = object(&text);
        let name = generator.pick(&["a", "b", "\"", "é", "", "new"]);
        if generator.below(2) == 0 {
            edited.set(name, raw("[0]"));
            expected.insert(name.into(), serde_json::json!([0]));
        } else {
            let removed = edited.remove(name).map(|value| value.parse().unwrap());
            assert_eq!(removed, expected.remove(name));
        }
        assert_eq!(
            edited.to_raw().parse::<serde_json::Map<_, _>>().unwrap(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn a_replaced_member_keeps_its_place_and_its_neighbours_their_bytes() {
    let mut edited = object("{ \"a\" : 1.0 ,\"name\":\"old\", \"z\":[ 1 ] }");
    edited.set("name", raw("\"new\""));
    assert_eq!(
        edited.to_raw().as_str(),
        "{ \"a\" : 1.0 ,\"name\":\"new\", \"z\":[ 1 ] }"
    );
}

#[test]
fn what_is_no_object_is_not_read_as_one() {
    for text in ["[]", "1", "\"{}\"", "null"] {
        assert!(matches!(Object::read(&raw(text)), Ok(None)));
    }
}

#[test]
fn an_object_of_too_many_members_is_not_taken_apart() {
    let of = |members: usize| raw(&format!("{{{}}}", vec!["\"\":1"; members].join(",")));
    assert!(matches!(Object::read(&of(MAX_MEMBERS)), Ok(Some(_))));
    assert_eq!(Object::read(&of(MAX_MEMBERS + 1)).err(), Some(TooManyMembers));
    assert!(Object::parse(&of(MAX_MEMBERS + 1)).is_none());
    let [found] = Object::find(&of(MAX_MEMBERS + 1), [""]).expect("an object");
    assert_eq!(found.unwrap().as_str(), "1");
}

#[test]
fn what_is_looked_for_is_found_as_a_parse_finds_it() {
    let mut generator = Generator(11);
    for _ in 0..5_000 {
        let text = generator.object(2);
        let parsed = object(&text);
        let names = ["a", "b", "\"", "é", "", "new"];
        let found = Object::find(&raw(&text), names).expect("an object");
        for (name, found) in names.iter().zip(found) {
            assert_eq!(parsed.get(name), found.as_ref(), "{name:?} in {text}");
        }
    }
    assert!(Object::find(&raw("[1]"), ["a"]).is_none());
}

#[test]
fn meta_is_merged_key_by_key() {
    let params = raw(r#"{"name":"t","_meta":{"keep": 1e0,"progressToken":"theirs"},"arguments":{"x":1.00}}"#);
    let merged = with_meta(
        Some(&params),
        &[("progressToken", raw("7")), ("io.x/new", raw("true"))],
    );
    assert_eq!(
        merged.unwrap().as_str(),
        r#"{"name":"t","_meta":{"keep": 1e0,"progressToken":7,"io.x/new":true},"arguments":{"x":1.00}}"#
    );
}

#[test]
fn meta_is_made_where_there_is_none() {
    let entries = [("k", raw("1"))];
    assert_eq!(
        with_meta(None, &entries).unwrap().as_str(),
        r#"{"_meta":{"k":1}}"#
    );
    assert_eq!(
        with_meta(Some(&raw(r#"{"_meta":null}"#)), &entries)
            .unwrap()
            .as_str(),
        r#"{"_meta":{"k":1}}"#
    );
    assert_eq!(with_meta(Some(&raw("[1]")), &entries).unwrap().as_str(), "[1]");
}

#[test]
fn a_member_that_must_be_there_once_is_refused_when_it_is_repeated() {
    let find =
        |text: &str| Object::find_once(text, ["name"]).map(|[name]| name.map(|name| name.get().to_owned()));
    assert!(find(r#"{"name":"a","n\u0061me":"b"}"#).is_err());
    assert_eq!(
        find(r#"{"x":1,"x":2,"n\u0061me":"a"}"#).unwrap().as_deref(),
        Some("\"a\"")
    );
    assert_eq!(find(r#"{"in":{"name":"a"}}"#).unwrap(), None);
    for text in ["[]", "null", "1", "\"name\""] {
        assert!(find(text).is_err(), "{text}");
    }
}

#[test]
fn members_are_added_at_the_end_of_an_object_that_certainly_has_none_of_them() {
    let members = [("a", raw("1")), ("b", raw("[2]"))];
    let extended = |text: &str| Object::extended(&raw(text), &members).map(|object| object.to_string());
    let extended = |text: &str| extended(text).unwrap_or_default();
    assert_eq!(extended("{}"), r#"{"a":1,"b":[2]}"#);
    assert_eq!(extended("{ }"), r#"{"a":1,"b":[2]}"#);
    assert_eq!(extended(r#"{"c": 3.0}"#), r#"{"c": 3.0,"a":1,"b":[2]}"#);
    for unknown in [r#"{"b":1}"#, r#"{"c":"b"}"#, r#"{"\u0062":1}"#, "[]", "1"] {
        assert_eq!(Object::extended(&raw(unknown), &members), None, "{unknown}");
    }
}

#[test]
fn a_name_is_ambiguous_if_two_members_have_it_or_one_in_another_case() {
    let ambiguous = |text: &str| {
        let raw = RawJson::from_text(text.to_owned()).unwrap();
        let names = ["name", "taskId"];
        let of_object = Object::parse(&raw).and_then(|object| object.ambiguous(&names).map(str::to_owned));
        let of_text = Object::ambiguous_in(&raw, &names).map(str::to_owned);
        assert_eq!(of_object, of_text, "{text}");
        of_text
    };
    for clear in [
        "{}",
        "[1]",
        r#"{"name":1,"taskId":2,"x":1,"x":2}"#,
        r#"{"name":{"Name":1,"name":1},"names":1,"a\"":2}"#,
        r#"{"n\u0061me":1}"#,
    ] {
        assert_eq!(ambiguous(clear), None, "{clear}");
    }
    for (text, name) in [
        (r#"{"name":1,"b":2,"name":1}"#, "name"),
        (r#"{"n\u0061me":1,"name":1}"#, "name"),
        (r#"{"Name":1}"#, "name"),
        (r#"{"taskId":1,"TASKID":1}"#, "taskId"),
        (r#"{"taskId":1,"\u0054askId":1}"#, "taskId"),
        ("{\"taskId\":1,\"ta\u{17f}\u{212a}Id\":1}", "taskId"),
    ] {
        assert_eq!(ambiguous(text).as_deref(), Some(name), "{text}");
    }
}
