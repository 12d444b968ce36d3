//! Files that a subcommand writes at its end.

use std::{fs, io, io::Write as _, path::Path};

/// A file that is named by an option.
pub(crate) struct Output<'a> {
    name: &'static str,
    path: &'a Path,
    file: fs::File,
}

impl<'a> Output<'a> {
    /// Creates the file before the work, so that a wrong path ends the command at once, and so that
    /// nothing of an earlier command remains. `name` is the name of the content.
    pub(crate) fn open(name: &'static str, path: Option<&'a Path>) -> io::Result<Option<Self>> {
        let Some(path) = path else {
            return Ok(None);
        };
        match fs::File::create(path) {
            Ok(file) => Ok(Some(Self { name, path, file })),
            Err(error) => {
                let text = format!("{}: {error}", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }

    /// Writes the content, or leaves the file empty for this reason. Returns a line about it. Fails
    /// if the content could not be written.
    pub(crate) fn write(mut self, content: Result<&[u8], &str>) -> io::Result<String> {
        let (name, path) = (self.name, self.path.display());
        match content.map(|bytes| self.file.write_all(bytes)) {
            Ok(Ok(())) => Ok(format!("{name}: {path}\n")),
            Ok(Err(error)) => {
                let text = format!("there is no {name}: {path}: {error}");
                Err(io::Error::new(error.kind(), text))
            }
            Err(reason) => Ok(format!("there is no {name}: {reason}\n")),
        }
    }
}
