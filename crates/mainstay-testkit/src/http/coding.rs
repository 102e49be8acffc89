//! Bodies that are compressed although the request did not ask for it.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params,
};
use serde::{Deserialize, Serialize};

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// As gzip.
    Gzip,
    /// As `deflate`, in the wrapping of zlib.
    Deflate,
    /// As `deflate`, without the wrapping that it should have.
    RawDeflate,
    /// Not at all, but it says that it is brotli.
    Brotli,
}

impl Compression {
    /// The content of `Content-Encoding`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate | Self::RawDeflate => "deflate",
            Self::Brotli => "br",
        }
    }
}

/// Compresses one body, piece by piece: each can be read as soon as it has come.
pub(super) struct Encoder {
    compression: Compression,
    compressor: Box<CompressorOxide>,
    begun: bool,
}

impl Encoder {
    pub(super) fn new(compression: Compression) -> Self {
        let window = match compression {
            Compression::Deflate => 15,
            Compression::Gzip | Compression::RawDeflate | Compression::Brotli => -15,
        };
        let flags = create_comp_flags_from_zip_params(6, window, 0);
        Self {
            compression,
            compressor: Box::new(CompressorOxide::new(flags)),
            begun: false,
        }
    }

    /// The whole body, compressed.
    pub(super) fn whole(mut self, body: &[u8]) -> Vec<u8> {
        self.encode(body, TDEFLFlush::Finish)
    }

    /// The next piece, compressed.
    pub(super) fn piece(&mut self, piece: &[u8]) -> Vec<u8> {
        self.encode(piece, TDEFLFlush::Sync)
    }

    fn encode(&mut self, plain: &[u8], flush: TDEFLFlush) -> Vec<u8> {
        if self.compression == Compression::Brotli {
            return plain.to_vec();
        }
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) && self.compression == Compression::Gzip {
            out.extend([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
        }
        compress_to_output(&mut self.compressor, plain, flush, |piece| {
            out.extend_from_slice(piece);
            true
        });
        if self.compression == Compression::Gzip && flush == TDEFLFlush::Finish {
            out.extend(crc32(plain).to_le_bytes());
            out.extend((plain.len() as u32).to_le_bytes());
        }
        out
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Encoder").field(&self.compression).finish()
    }
}

/// The checksum of gzip, bit by bit: no body of a test is long.
fn crc32(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    });
    !crc
}
