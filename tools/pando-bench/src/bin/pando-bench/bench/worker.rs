//! `pando-bench worker`: one client's part of a run by processes.

use std::process::ExitCode;

use crate::output::failure::Failure;

pub fn serve() -> Result<ExitCode, Failure> {
    pando_bench::mount::serve_process()
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| Failure::plain(format!("worker: {error}")))
}
