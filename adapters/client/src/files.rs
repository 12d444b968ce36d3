//! Reads files that options and the environment name, up to a limit.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Reads a file of at most `most` bytes. A longer one, such as a device without an end, is an error
/// and is not read to its end.
pub(crate) fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(limit.saturating_add(1));
    let count = file.read_to_end(&mut bytes)?;
    match count > most {
        true => Err(io::Error::other(format!("it is longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads a text file of at most `most` bytes.
pub(crate) fn read_text(path: &Path, most: usize) -> io::Result<String> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not a text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_without_an_end_is_read_up_to_the_limit() {
        for most in [0, 10, 1 << 20] {
            let error = read(Path::new("/dev/zero"), most).expect_err("it has no end");
            assert_eq!(error.to_string(), format!("it is longer than {most} bytes"));
        }
        let empty = read(Path::new("/dev/null"), 0);
        assert!(empty.expect("it can be read").is_empty());
    }
}
