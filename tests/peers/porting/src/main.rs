//! Programs that were written for the official driver. The feature `official` or `ours` chooses the
//! driver.

mod documentation;
mod driver;
mod importer;
mod queue;
mod service;
mod synchronous;

use std::process::ExitCode;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs the program of this name with the connection string.
fn run(program: &str, uri: &str) -> Result<(), Failure> {
    if program == "synchronous" {
        return Ok(synchronous::run(uri)?);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    match program {
        "documentation" => Ok(runtime.block_on(documentation::run(uri))?),
        "service" => runtime.block_on(service::run(uri)),
        "queue" => Ok(runtime.block_on(queue::run(uri))?),
        "importer" => Ok(runtime.block_on(importer::run(uri))?),
        _ => Err(format!("there is no program {program}").into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, uri] = arguments.as_slice() else {
        eprintln!("usage: porting-peer PROGRAM URI");
        return ExitCode::FAILURE;
    };
    match run(program, uri) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{program} failed: {error}");
            ExitCode::FAILURE
        }
    }
}
