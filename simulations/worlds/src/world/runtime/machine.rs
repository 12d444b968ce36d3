//! The environment variables and the files of the simulated machine, from which clients take
//! credentials, and the wall clocks of the clients.

use super::SimRuntime;
use crate::world::clock_jump::ClientClocks;
use std::{collections::BTreeMap, io, path::Path};

/// The variables and files, which are none at first, and the wall clocks.
#[derive(Debug, Default)]
pub(super) struct Machine {
    variables: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    pub(super) clocks: ClientClocks,
}

impl SimRuntime {
    /// Sets an environment variable for all clients of the world, or removes it.
    pub fn set_variable(&self, name: &str, value: Option<&str>) {
        let variables = &mut self.shared.lock().machine.variables;
        match value {
            Some(value) => variables.insert(name.to_owned(), value.to_owned()),
            None => variables.remove(name),
        };
    }

    /// Writes a text file for all clients of the world, or removes it.
    pub fn set_file(&self, path: &str, content: Option<&str>) {
        let files = &mut self.shared.lock().machine.files;
        match content {
            Some(content) => files.insert(path.to_owned(), content.to_owned()),
            None => files.remove(path),
        };
    }

    pub(super) fn find_variable(&self, name: &str) -> Option<String> {
        self.shared.lock().machine.variables.get(name).cloned()
    }

    pub(super) fn find_file(&self, path: &Path, most: usize) -> io::Result<String> {
        let state = self.shared.lock();
        let content = path.to_str().and_then(|path| state.machine.files.get(path));
        match content {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(content) if content.len() > most => {
                Err(io::Error::other(format!("it is longer than {most} bytes")))
            }
            Some(content) => Ok(content.clone()),
        }
    }
}
