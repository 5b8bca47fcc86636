//! Shows progress on standard error, and watches for Ctrl-C.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pando_bench::Watch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::failure::Failure;
use super::text::count;

/// Interval of progress lines where no bar can be drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const STYLE: &str = "{prefix}{msg:8} {wide_bar} {human_pos}/{human_len}  {per_sec}";

/// Shows the progress of a run. The first signal ends the run in order, the second ends it at once.
pub struct Progress {
    interrupted: Arc<AtomicBool>,
    display: Display,
    state: Mutex<State>,
}

enum Display {
    Nothing,
    Lines,
    Bar(ProgressBar),
}

#[derive(Default)]
struct State {
    prefix: String,
    what: String,
    total: u64,
    line_at: Option<Instant>,
}

impl Progress {
    /// Draws a bar on a terminal, else prints lines. With `as_json` it prints no lines.
    pub fn new(as_json: bool) -> Result<Self, Failure> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 1, interrupted.clone())
                .and_then(|_| flag::register(signal, interrupted.clone()))
                .map_err(|error| Failure::plain(format!("cannot watch for signals: {error}")))?;
        }
        let display = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template(STYLE).expect("a valid template");
            Display::Bar(ProgressBar::hidden().with_style(style))
        } else if as_json {
            Display::Nothing
        } else {
            Display::Lines
        };
        Ok(Self { interrupted, display, state: Mutex::default() })
    }

    /// Names the part of the work that begins now.
    pub fn part(&self, name: &str) {
        self.state().prefix = format!("{name}: ");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Progress {
    fn begin(&self, what: &str, total: u64) {
        let mut state = self.state();
        what.clone_into(&mut state.what);
        state.total = total;
        state.line_at = Some(Instant::now() + LINE_INTERVAL);
        if let Display::Bar(bar) = &self.display {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
            bar.reset();
            bar.set_length(total);
            bar.set_prefix(state.prefix.clone());
            bar.set_message(state.what.clone());
        }
    }

    fn advance(&self, done: u64) {
        match &self.display {
            Display::Nothing => {}
            Display::Bar(bar) => bar.set_position(done),
            Display::Lines => {
                let mut state = self.state();
                let now = Instant::now();
                if state.line_at.is_some_and(|at| now >= at) {
                    state.line_at = Some(now + LINE_INTERVAL);
                    let State { prefix, what, total, .. } = &*state;
                    eprintln!("  {prefix}{what}: {} of {}", count(done), count(*total));
                }
            }
        }
    }

    fn end(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
