//! Answers that are compressed without being asked to: every request says `Accept-Encoding: identity`, and some servers
//! and proxies compress all the same.
//!
//! What comes out is given in pieces of a bounded size, so the limits of a body and of an event hold for it as for any other.
//! Nothing that a server sends makes the memory grow beyond one piece, the window of the format, and one header.

use std::io;

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// The longest piece that is given at once.
const PIECE: usize = 32 * 1024;

/// The longest header of a gzip member. Names and comments are short, where there are any at all.
const HEADER_LIMIT: usize = 64 * 1024;

/// The checksum and the length at the end of a gzip member. TCP and TLS have checked the bytes already.
const TRAILER: usize = 8;

/// How the body of an answer is to be read.
pub(super) enum Coding {
    /// As it is.
    Plain,
    /// Decompressed.
    Compressed(Box<Decoder>),
    /// Not at all: it is compressed in a way that is not known here.
    Unknown(String),
}

impl Coding {
    /// What the head of an answer says of its body.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_ENCODING) else {
            return Self::Plain;
        };
        let name = String::from_utf8_lossy(value.as_bytes())
            .trim()
            .to_ascii_lowercase();
        match name.as_str() {
            "" | "identity" => Self::Plain,
            "gzip" | "x-gzip" => Self::Compressed(Box::new(Decoder::new(Format::Gzip))),
            "deflate" => Self::Compressed(Box::new(Decoder::new(Format::Deflate))),
            _other => Self::Unknown(name),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Gzip,
    /// With the wrapping of zlib, as the standard says, or without, as some servers send it.
    Deflate,
}

/// Takes compressed pieces, gives plain ones.
pub(super) struct Decoder {
    format: Format,
    state: DecodeState,
    /// What came and was not decompressed yet.
    input: Bytes,
}

enum DecodeState {
    /// The bytes that have come of what stands before the compressed ones.
    Header(Vec<u8>),
    Body(Box<InflateState>),
    /// So much of the end is still to come.
    Trailer(usize),
    /// What follows belongs to nothing.
    Over,
}

impl Decoder {
    fn new(format: Format) -> Self {
        Self {
            format,
            state: DecodeState::Header(Vec::new()),
            input: Bytes::new(),
        }
    }

    /// Takes the next piece. The one before it must have been given out whole.
    pub(super) fn push(&mut self, piece: Bytes) {
        self.input = piece;
    }

    /// The next plain piece; `None` when more has to come first.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match &mut self.state {
                DecodeState::Header(header) => {
                    let Some(byte) = self.input.first().copied() else {
                        return Ok(None);
                    };
                    self.input.advance(1);
                    header.push(byte);
                    if let Some((body, put_back)) = begun(self.format, header)? {
                        self.input = [&put_back, &self.input[..]].concat().into();
                        self.state = DecodeState::Body(body);
                    }
                }
                DecodeState::Body(body) => {
                    let mut piece = vec![0; PIECE];
                    let inflated = inflate(body, &self.input, &mut piece, MZFlush::None);
                    self.input.advance(inflated.bytes_consumed);
                    match inflated.status {
                        Ok(MZStatus::StreamEnd) => self.state = self.format.after_the_body(),
                        // Without any progress, more has to come first.
                        Ok(_) | Err(MZError::Buf) if inflated.bytes_written > 0 => {}
                        Ok(_) | Err(MZError::Buf) if self.input.is_empty() => return Ok(None),
                        Ok(_) if inflated.bytes_consumed > 0 => continue,
                        Ok(_) | Err(_) => return Err(corrupt()),
                    }
                    if inflated.bytes_written > 0 {
                        piece.truncate(inflated.bytes_written);
                        return Ok(Some(piece.into()));
                    }
                }
                DecodeState::Trailer(left) => {
                    let come = self.input.len().min(*left);
                    self.input.advance(come);
                    *left -= come;
                    if *left > 0 {
                        return Ok(None);
                    }
                    // A body may be several members, one after the other.
                    self.state = DecodeState::Header(Vec::new());
                }
                DecodeState::Over => {
                    self.input.clear();
                    return Ok(None);
                }
            }
        }
    }
}

impl Format {
    fn after_the_body(self) -> DecodeState {
        match self {
            Self::Gzip => DecodeState::Trailer(TRAILER),
            Self::Deflate => DecodeState::Over,
        }
    }
}

/// What decompresses the body, once its header has come, and what of the header belongs to the body.
fn begun(format: Format, header: &[u8]) -> io::Result<Option<(Box<InflateState>, Vec<u8>)>> {
    match format {
        Format::Gzip if header.len() > HEADER_LIMIT => Err(corrupt()),
        Format::Gzip => {
            let is_whole = gzip_header(header)?;
            Ok(is_whole.then(|| (InflateState::new_boxed(DataFormat::Raw), Vec::new())))
        }
        Format::Deflate => match header {
            [method, flags] => {
                let is_zlib = method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0;
                let format = if is_zlib {
                    DataFormat::Zlib
                } else {
                    DataFormat::Raw
                };
                Ok(Some((InflateState::new_boxed(format), header.to_vec())))
            }
            _shorter => Ok(None),
        },
    }
}

/// Whether the header of a gzip member is whole (RFC 1952, section 2.3).
fn gzip_header(header: &[u8]) -> io::Result<bool> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let magic = [0x1f, 0x8b, 8];
    if header.iter().zip(magic).any(|(byte, expected)| *byte != expected) {
        return Err(corrupt());
    }
    let Some((&[.., flags, _, _, _, _, _, _], mut rest)) = header.split_first_chunk::<10>() else {
        return Ok(false);
    };
    if flags & EXTRA != 0 {
        let Some((length, after)) = rest.split_first_chunk() else {
            return Ok(false);
        };
        let Some(after) = after.get(usize::from(u16::from_le_bytes(*length))..) else {
            return Ok(false);
        };
        rest = after;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let Some(end) = memchr::memchr(0, rest) else {
                return Ok(false);
            };
            rest = &rest[end + 1..];
        }
    }
    Ok(flags & HEADER_CRC == 0 || rest.len() >= 2)
}

fn corrupt() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the compressed answer is damaged")
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    use super::*;

    fn gzip(text: &[u8], flags: u8, fields: &[u8]) -> Vec<u8> {
        let head = [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
        // The checksum and the length are not looked at.
        [&head[..], fields, &compress_to_vec(text, 6), &[0; TRAILER]].concat()
    }

    fn decoder(coding: &str) -> Box<Decoder> {
        let headers = [(CONTENT_ENCODING, coding.parse().unwrap())];
        match Coding::of(&headers.into_iter().collect()) {
            Coding::Compressed(decoder) => decoder,
            Coding::Plain | Coding::Unknown(_) => panic!("{coding} is known"),
        }
    }

    fn decoded(coding: &str, pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        let mut decoder = decoder(coding);
        let mut plain = Vec::new();
        for piece in pieces {
            decoder.push(Bytes::copy_from_slice(piece));
            while let Some(piece) = decoder.next()? {
                assert!(!piece.is_empty() && piece.len() <= PIECE);
                plain.extend_from_slice(&piece);
            }
        }
        Ok(plain)
    }

    #[test]
    fn a_compressed_answer_is_the_same_however_it_is_cut() {
        let text = (0..20_000_u32)
            .flat_map(|n| (n % 251).to_le_bytes())
            .collect::<Vec<_>>();
        let twice = [gzip(&text, 0, b""), gzip(&text, 0, b"")].concat();
        let every_field = b"\x03\0abcname\0comment\0\xaa\xbb";
        for (coding, compressed, expected) in [
            ("gzip", gzip(&text, 0, b""), &text[..]),
            ("X-GZIP", gzip(&text, 2 | 4 | 8 | 16, every_field), &text),
            ("gzip", twice, &[&text[..], &text].concat()),
            ("gzip", gzip(b"", 0, b""), b""),
            ("deflate", compress_to_vec_zlib(&text, 6), &text),
            ("deflate", compress_to_vec(&text, 6), &text),
        ] {
            assert!(decoded(coding, &[&compressed]).unwrap() == expected, "{coding}");
            let bytes: Vec<_> = compressed.chunks(1).collect();
            assert!(decoded(coding, &bytes).unwrap() == expected, "{coding} by byte");
            let pieces: Vec<_> = compressed.chunks(701).collect();
            assert!(
                decoded(coding, &pieces).unwrap() == expected,
                "{coding} in pieces"
            );
        }
    }

    #[test]
    fn a_piece_is_given_as_soon_as_it_can_be_read() {
        use miniz_oxide::deflate::core::{
            CompressorOxide, TDEFLFlush, compress, create_comp_flags_from_zip_params,
        };
        let flags = create_comp_flags_from_zip_params(6, -15, 0);
        let mut compressor = CompressorOxide::new(flags);
        let mut decoder = decoder("gzip");
        decoder.push(Bytes::from_static(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]));
        assert_eq!(decoder.next().unwrap(), None);
        for event in ["data: one\n\n", "data: two\n\n"] {
            let mut compressed = [0; 100];
            let (_, _, length) = compress(
                &mut compressor,
                event.as_bytes(),
                &mut compressed,
                TDEFLFlush::Sync,
            );
            decoder.push(Bytes::copy_from_slice(&compressed[..length]));
            assert_eq!(decoder.next().unwrap().unwrap(), event);
            assert_eq!(decoder.next().unwrap(), None);
        }
    }

    #[test]
    fn a_small_answer_that_stands_for_a_huge_one_is_given_in_pieces() {
        let bomb = gzip(&vec![0; 64 << 20], 0, b"");
        assert!(bomb.len() < 128 << 10, "{}", bomb.len());
        let mut decoder = decoder("gzip");
        decoder.push(bomb.into());
        for _ in 0..100 {
            assert!(decoder.next().unwrap().unwrap().len() <= PIECE);
        }
    }

    #[test]
    fn damaged_answers_fail_and_nothing_panics() {
        let good = gzip(b"some text that is long enough", 0, b"");
        assert!(decoded("gzip", &[b"{\"jsonrpc\":\"2.0\"}"]).is_err());
        assert!(decoded("gzip", &[&[&good[..10], &[0xff; 100]].concat()]).is_err());
        let endless = [
            &[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 255][..],
            &vec![b'x'; HEADER_LIMIT],
        ]
        .concat();
        assert!(decoded("gzip", &[&endless]).is_err());
        for at in 0..good.len() {
            let _ = decoded("gzip", &[&good[..at]]);
            for damage in [0, 0x55, 0xff] {
                let mut damaged = good.clone();
                damaged[at] ^= damage;
                let _ = decoded("gzip", &[&damaged]);
                let _ = decoded("deflate", &[&damaged[at..]]);
            }
        }
    }

    #[test]
    fn a_coding_that_is_not_known_is_named() {
        for (said, expected) in [
            ("br", Some("br")),
            ("zstd", Some("zstd")),
            ("gzip, br", Some("gzip, br")),
            (" Identity ", None),
            ("", None),
        ] {
            let headers = [(CONTENT_ENCODING, said.parse().unwrap())];
            let named = match Coding::of(&headers.into_iter().collect()) {
                Coding::Unknown(name) => Some(name),
                Coding::Plain => None,
                Coding::Compressed(_) => panic!("{said}"),
            };
            assert_eq!(named.as_deref(), expected, "{said}");
        }
    }
}
