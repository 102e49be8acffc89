//! The wire format of D-Bus, as far as calls to a Secret Service need it. Little-endian, values aligned to their size.

/// The longest message that is read. A key and its item have a few hundred bytes.
pub(super) const MESSAGE_LIMIT: usize = 256 * 1024;

/// The fixed part of a message, before its fields.
pub(super) const HEAD_LENGTH: usize = 16;

const LITTLE_ENDIAN: u8 = b'l';
const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
const PROTOCOL: u8 = 1;

const FIELD_PATH: u8 = 1;
const FIELD_INTERFACE: u8 = 2;
const FIELD_MEMBER: u8 = 3;
const FIELD_ERROR_NAME: u8 = 4;
const FIELD_REPLY_SERIAL: u8 = 5;
const FIELD_DESTINATION: u8 = 6;
const FIELD_SIGNATURE: u8 = 8;

/// Bytes that are not the message that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A call of a method.
pub(super) struct MethodCall<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
    /// The types of the arguments.
    pub(super) signature: &'a str,
    pub(super) body: WireWriter,
}

impl MethodCall<'_> {
    /// The message.
    pub(super) fn bytes(&self, serial: u32) -> Vec<u8> {
        let mut message = WireWriter::default();
        message.bytes.extend([LITTLE_ENDIAN, METHOD_CALL, 0, PROTOCOL]);
        message.u32(length(self.body.bytes.len()));
        message.u32(serial);
        message.array(8, |fields| {
            fields.field(FIELD_PATH, "o", self.path);
            fields.field(FIELD_INTERFACE, "s", self.interface);
            fields.field(FIELD_MEMBER, "s", self.member);
            fields.field(FIELD_DESTINATION, "s", self.destination);
            if !self.signature.is_empty() {
                fields.align(8);
                fields.bytes.push(FIELD_SIGNATURE);
                fields.signature("g");
                fields.signature(self.signature);
            }
        });
        message.align(8);
        message.bytes.extend(&self.body.bytes);
        message.bytes
    }
}

/// Appends values.
#[derive(Default)]
pub(super) struct WireWriter {
    bytes: Vec<u8>,
}

impl WireWriter {
    pub(super) fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.align(4);
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// A string or the path of an object.
    pub(super) fn text(&mut self, value: &str) {
        self.u32(length(value.len()));
        self.bytes.extend(value.as_bytes());
        self.bytes.push(0);
    }

    pub(super) fn byte_array(&mut self, value: &[u8]) {
        self.u32(length(value.len()));
        self.bytes.extend(value);
    }

    /// A signature, which is also how a variant begins.
    pub(super) fn signature(&mut self, value: &str) {
        self.bytes.push(u8::try_from(value.len()).unwrap_or(u8::MAX));
        self.bytes.extend(value.as_bytes());
        self.bytes.push(0);
    }

    /// An array whose elements are aligned so. Its length counts neither itself nor the padding before the first element.
    pub(super) fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Self)) {
        self.u32(0);
        let at = self.bytes.len() - 4;
        self.align(alignment);
        let start = self.bytes.len();
        elements(self);
        let written = length(self.bytes.len() - start);
        self.bytes[at..at + 4].copy_from_slice(&written.to_le_bytes());
    }

    /// A dictionary from strings to strings.
    pub(super) fn attributes(&mut self, attributes: &[(&str, &str)]) {
        self.array(8, |entries| {
            for (name, value) in attributes {
                entries.align(8);
                entries.text(name);
                entries.text(value);
            }
        });
    }

    fn field(&mut self, field: u8, signature: &str, value: &str) {
        self.align(8);
        self.bytes.push(field);
        self.signature(signature);
        self.text(value);
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// An answer to a call.
#[derive(Debug)]
pub(super) struct Reply {
    /// The serial of the call.
    pub(super) of: u32,
    /// The name of the error, if the call failed.
    pub(super) error: Option<String>,
    signature: String,
    body: Vec<u8>,
}

impl Reply {
    /// The arguments, if they have these types.
    pub(super) fn arguments(&self, signature: &str) -> Result<WireReader<'_>, Malformed> {
        if self.signature == signature {
            Ok(WireReader::new(&self.body))
        } else {
            Err(Malformed)
        }
    }

    /// What an error says to a person.
    pub(super) fn said(&self) -> Option<String> {
        let has_text = self.signature.starts_with('s');
        let text = has_text.then(|| WireReader::new(&self.body).text().ok());
        text.flatten().map(str::to_owned)
    }
}

/// How long the message with this head is, its head included.
pub(super) fn message_length(head: &[u8; HEAD_LENGTH]) -> Result<usize, Malformed> {
    if head[0] != LITTLE_ENDIAN || head[3] != PROTOCOL {
        return Err(Malformed);
    }
    let number =
        |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let (body, fields) = (number(4), number(12));
    if body > MESSAGE_LIMIT || fields > MESSAGE_LIMIT {
        return Err(Malformed);
    }
    Ok((HEAD_LENGTH + fields).next_multiple_of(8) + body)
}

/// The answer in a whole message; `None` if it is a call or a signal.
pub(super) fn reply(message: &[u8]) -> Result<Option<Reply>, Malformed> {
    let mut reader = WireReader::new(message);
    let (_order, kind) = (reader.byte()?, reader.byte()?);
    if kind != METHOD_RETURN && kind != ERROR {
        return Ok(None);
    }
    let (_flags, _protocol, body, _serial) = (reader.byte()?, reader.byte()?, reader.u32()?, reader.u32()?);
    let fields = reader.u32()? as usize;
    let end = reader.at.checked_add(fields).ok_or(Malformed)?;
    let (mut of, mut error, mut signature) = (None, None, String::new());
    while reader.at < end {
        reader.align(8)?;
        let field = reader.byte()?;
        match (field, reader.signature()?) {
            (FIELD_REPLY_SERIAL, "u") => of = Some(reader.u32()?),
            (FIELD_ERROR_NAME, "s") => error = Some(reader.text()?.to_owned()),
            (FIELD_SIGNATURE, "g") => reader.signature()?.clone_into(&mut signature),
            (_, "s" | "o") => drop(reader.text()?),
            (_, "g") => drop(reader.signature()?),
            (_, "u") => drop(reader.u32()?),
            (_, _) => return Err(Malformed),
        }
    }
    reader.align(8)?;
    let body = reader.take(body as usize)?.to_vec();
    let of = of.ok_or(Malformed)?;
    if kind == ERROR && error.is_none() {
        return Err(Malformed);
    }
    let error = error.filter(|_| kind == ERROR);
    Ok(Some(Reply {
        of,
        error,
        signature,
        body,
    }))
}

/// Reads values one after the other.
#[derive(Debug)]
pub(super) struct WireReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> WireReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn align(&mut self, to: usize) -> Result<(), Malformed> {
        let padding = self.at.next_multiple_of(to) - self.at;
        self.take(padding).map(drop)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(count).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        let bytes = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        Ok(self.u32()? != 0)
    }

    /// A string or the path of an object.
    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u32()? as usize;
        self.terminated(length)
    }

    pub(super) fn byte_array(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    pub(super) fn signature(&mut self) -> Result<&'a str, Malformed> {
        let length = self.byte()?.into();
        self.terminated(length)
    }

    /// An array of strings or paths.
    pub(super) fn texts(&mut self) -> Result<Vec<&'a str>, Malformed> {
        let length = self.u32()? as usize;
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let mut texts = Vec::new();
        while self.at < end {
            texts.push(self.text()?);
        }
        Ok(texts)
    }

    fn terminated(&mut self, length: usize) -> Result<&'a str, Malformed> {
        let text = self.take(length)?;
        if self.byte()? != 0 {
            return Err(Malformed);
        }
        std::str::from_utf8(text).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to call 7 as a bus sends it.
    fn answer(kind: u8, signature: &str, body: &WireWriter) -> Vec<u8> {
        let mut message = WireWriter::default();
        message.bytes.extend([LITTLE_ENDIAN, kind, 0, PROTOCOL]);
        message.u32(length(body.bytes.len()));
        message.u32(1);
        message.array(8, |fields| {
            fields.align(8);
            fields.bytes.push(FIELD_REPLY_SERIAL);
            fields.signature("u");
            fields.u32(7);
            fields.field(FIELD_ERROR_NAME, "s", "org.example.Error");
            fields.align(8);
            fields.bytes.push(FIELD_SIGNATURE);
            fields.signature("g");
            fields.signature(signature);
        });
        message.align(8);
        message.bytes.extend(&body.bytes);
        message.bytes
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let mut body = WireWriter::default();
        body.array(4, |paths| {
            paths.text("/one");
            paths.text("/two");
        });
        body.array(4, |_| {});
        let bytes = answer(METHOD_RETURN, "aoao", &body);
        let head: [u8; HEAD_LENGTH] = bytes[..HEAD_LENGTH].try_into().unwrap();
        assert_eq!(message_length(&head), Ok(bytes.len()));
        let reply = reply(&bytes).unwrap().expect("an answer");
        assert_eq!((reply.of, reply.error.as_deref()), (7, None));
        let mut arguments = reply.arguments("aoao").unwrap();
        assert_eq!(arguments.texts().unwrap(), ["/one", "/two"]);
        assert_eq!(arguments.texts().unwrap(), [""; 0]);
        assert!(reply.arguments("s").is_err(), "other types");
    }

    #[test]
    fn an_error_has_its_name_and_its_text() {
        let mut body = WireWriter::default();
        body.text("it is locked");
        let reply = reply(&answer(ERROR, "s", &body)).unwrap().expect("an answer");
        assert_eq!(reply.error.as_deref(), Some("org.example.Error"));
        assert_eq!(reply.said().as_deref(), Some("it is locked"));
    }

    #[test]
    fn changed_and_cut_messages_are_errors_and_never_panics() {
        let mut body = WireWriter::default();
        body.array(4, |paths| paths.text("/one"));
        let whole = answer(METHOD_RETURN, "ao", &body);
        for cut in 0..whole.len() {
            assert!(!matches!(reply(&whole[..cut]), Ok(Some(_))), "cut at {cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                if let Ok(Some(reply)) = reply(&changed) {
                    let _ = reply
                        .arguments("ao")
                        .and_then(|mut arguments| arguments.texts().map(drop));
                    let _ = reply.said();
                }
            }
        }
        let mut huge: [u8; HEAD_LENGTH] = whole[..HEAD_LENGTH].try_into().unwrap();
        huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(message_length(&huge), Err(Malformed));
    }
}
