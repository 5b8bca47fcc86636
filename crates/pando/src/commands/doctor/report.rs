//! The report: sections, each of which is made within a time limit, or says why it is missing.

use std::time::Duration;

use crate::admin::locate::in_time;

/// Time in which a section is made. All questions to processes end earlier by themselves.
const SECTION_WITHIN: Duration = Duration::from_secs(20);

/// The marks around a private key in a file of PEM.
const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// A report as far as it is made.
pub struct Report {
    text: String,
    /// What could not be got, each with the reason.
    pub missing: Vec<String>,
    within: Duration,
}

impl Report {
    pub fn new() -> Self {
        Self { text: String::new(), missing: Vec::new(), within: SECTION_WITHIN }
    }

    /// Adds a section. `make` may hang: the section is missing then.
    pub fn add(
        &mut self,
        title: &str,
        make: impl FnOnce() -> Result<String, String> + Send + 'static,
    ) {
        let made = in_time(self.within, make)
            .unwrap_or_else(|| Err(format!("not done within {} s", self.within.as_secs())));
        let body = match made {
            Ok(body) => body,
            Err(why) => {
                self.missing.push(format!("{title}: {why}"));
                format!("MISSING: {why}")
            }
        };
        let body = without_pem(&body);
        self.text.push_str(&format!("== {title} ==\n{}\n\n", body.trim_end()));
    }

    /// The whole text, which ends with what is missing.
    pub fn finish(&self) -> String {
        let missing = match self.missing.as_slice() {
            [] => "nothing\n".to_owned(),
            missing => missing.iter().map(|line| format!("{line}\n")).collect(),
        };
        format!("{}== could not be got ==\n{}", self.text, without_pem(&missing))
    }
}

/// A text without blocks of PEM. No section has one on purpose. A log could, if a program was given
/// a key in place of a name.
fn without_pem(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.lines() {
        if line.contains(BEGIN) {
            kept.push_str("(a block of PEM was left out)\n");
            is_inside = true;
        } else if !is_inside {
            kept.push_str(line);
            kept.push('\n');
        }
        is_inside &= !line.contains(END);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_section_that_hangs_is_named_and_the_others_are_there() {
        let mut report = Report { within: Duration::from_millis(50), ..Report::new() };
        let (_hold, held) = channel::<()>();
        report.add("slow", move || held.recv().map(|()| String::new()).map_err(|e| e.to_string()));
        report.within = SECTION_WITHIN;
        report.add("good", || Ok("fine".to_owned()));
        report.add("bad", || Err("refused".to_owned()));
        let text = report.finish();
        assert!(text.contains("== slow ==\nMISSING: not done within 0 s\n"), "{text}");
        assert!(text.contains("== good ==\nfine\n"), "{text}");
        let end = "== could not be got ==\nslow: not done within 0 s\nbad: refused\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn keys_in_a_log_are_left_out() {
        let key = "a\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\nb";
        let mut report = Report::new();
        report.add("log", || Ok(key.to_owned()));
        report.add("cut", || Ok("-----BEGIN PRIVATE KEY-----\nc2VjcmV0".to_owned()));
        report.add("one line", || Err(key.replace('\n', " ")));
        let text = report.finish();
        assert!(!text.contains("c2VjcmV0"), "{text}");
        assert!(text.contains("a\n(a block of PEM was left out)\nb\n"), "{text}");
    }
}
