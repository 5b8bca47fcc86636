//! `pando store dump`: prints all keys and values.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use serde_json::json;

use super::open::stores;
use crate::commands::store::args::DumpArgs;
use crate::failure::Failure;

pub fn run(args: &DumpArgs) -> Result<ExitCode, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    for store in stores(&args.folder)? {
        let inspection = store.inspect()?;
        let view = match &args.snapshot {
            None => inspection.view(),
            Some(name) => store.snapshot(&inspection, name)?,
        };
        for (index, name) in inspection.indices() {
            for entry in view.scan_in(index, b"", None) {
                let (key, value) = entry.map_err(|error| store.refused(&error))?;
                let written = match args.json {
                    true => {
                        let (key, value) = (hex(&key), hex(&value));
                        let folder = &store.path;
                        let line =
                            json!({ "folder": folder, "index": name, "key": key, "value": value });
                        writeln!(out, "{line}")
                    }
                    false => writeln!(out, "{}\t{}", key.escape_ascii(), value.escape_ascii()),
                };
                // A reader that closes the pipe early is no failure.
                if written.is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }
    let _ = out.flush();
    Ok(ExitCode::SUCCESS)
}

fn hex(bytes: &[u8]) -> String {
    pando_server::superblock::hex(bytes)
}
