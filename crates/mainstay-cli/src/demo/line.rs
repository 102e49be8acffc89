//! Lines of bounded length.

use mainstay::transport::Limits;
use tokio::io::{self, AsyncBufRead, AsyncBufReadExt as _};

/// As much as Mainstay passes on to a server in one message. A longer line is answered without its id, which is not known, and so the client
/// cannot tell which of its calls failed.
pub(super) const MAX_LINE: usize = Limits::DEFAULT_MESSAGE;

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoLine {
    /// A line, now in the buffer, without its newline.
    Whole,
    /// A line longer than [`MAX_LINE`]; it was skipped.
    TooLong,
    /// The end of the input. A last line without newline counts as a line.
    End,
}

/// Reads the next line into `buffer`, whose old content is dropped.
///
/// # Cancel safety
/// Not safe: part of a line may be lost.
pub(super) async fn read(
    input: &mut (impl AsyncBufRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<DemoLine> {
    buffer.clear();
    let mut length = 0;
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() && length == 0 {
            return Ok(DemoLine::End);
        }
        let newline = chunk.iter().position(|&byte| byte == b'\n');
        let part = &chunk[..newline.unwrap_or(chunk.len())];
        length += part.len();
        if length <= MAX_LINE {
            buffer.extend_from_slice(part);
        }
        let ended = newline.is_some() || chunk.is_empty();
        let used = part.len() + usize::from(newline.is_some());
        input.consume(used);
        if ended {
            return Ok(if length <= MAX_LINE {
                DemoLine::Whole
            } else {
                DemoLine::TooLong
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<(DemoLine, usize)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut input = io::BufReader::new(input);
        let mut buffer = Vec::new();
        let mut lines = Vec::new();
        runtime.block_on(async {
            loop {
                match read(&mut input, &mut buffer).await.unwrap() {
                    DemoLine::End => return lines,
                    line @ (DemoLine::Whole | DemoLine::TooLong) => lines.push((line, buffer.len())),
                }
            }
        })
    }

    #[test]
    fn lines_end_with_a_newline_or_with_the_input() {
        assert_eq!(
            all(b"one\n\nthree"),
            [(DemoLine::Whole, 3), (DemoLine::Whole, 0), (DemoLine::Whole, 5)]
        );
        assert_eq!(all(b""), []);
    }

    #[test]
    fn a_line_past_the_bound_is_skipped_and_the_next_is_read() {
        let mut input = vec![b'x'; MAX_LINE + 1];
        input.extend_from_slice(b"\nnext\n");
        let lines = all(&input);
        assert_eq!(lines[0].0, DemoLine::TooLong);
        assert_eq!(lines[1], (DemoLine::Whole, 4));
    }
}
