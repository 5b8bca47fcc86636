//! The result of a profile for people.

use crate::admin::protocol::{MountProfile, ProfileRow};
use crate::console::text::{count, several, table, time};

/// Rows by their time, the longest first.
pub fn sorted(mut rows: Vec<ProfileRow>) -> Vec<ProfileRow> {
    rows.sort_by(|a, b| {
        let key = |row: &ProfileRow| (row.nanos, row.count);
        key(b).cmp(&key(a)).then_with(|| (a.process, &a.operation).cmp(&(b.process, &b.operation)))
    });
    rows
}

/// A table of the first rows, and a line of all.
pub fn show(profile: &MountProfile, rows_max: usize) -> String {
    let (beyond, beyond_nanos) = profile.beyond;
    let total = |of: fn(&ProfileRow) -> u64| profile.rows.iter().map(of).sum::<u64>();
    let (requests, nanos) =
        (total(|row| row.count) + beyond, total(|row| row.nanos) + beyond_nanos);
    let took = profile.nanos as f64 / 1e9;
    let mut text = format!(
        "{} in {took:.1} s, {} of waiting\n",
        several(requests, "request", "requests"),
        time(nanos)
    );
    if profile.rows.is_empty() {
        return text;
    }
    let heading = ["user", "process", "command", "operation", "count", "time", "each", "share"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(profile.rows.iter().take(rows_max).map(|row| cells(row, nanos)));
    text.push_str(&table(&rows));
    let hidden = profile.rows.len().saturating_sub(rows_max);
    if hidden > 0 {
        let hidden = several(hidden as u64, "row more has", "rows more have");
        text.push_str(&format!("{hidden} less time: --rows shows more\n"));
    }
    if beyond > 0 {
        let beyond = several(beyond, "request", "requests");
        text.push_str(&format!("{beyond} of further processes found no room\n"));
    }
    text
}

fn cells(row: &ProfileRow, all_nanos: u64) -> Vec<String> {
    let command = match &row.command {
        // Any program chooses its own name, which may hold codes for the terminal.
        Some(command) => command.escape_debug().to_string(),
        None if row.process == 0 => "(kernel)".to_owned(),
        None => "?".to_owned(),
    };
    let share = row.nanos as f64 * 100.0 / all_nanos.max(1) as f64;
    vec![
        row.user.to_string(),
        row.process.to_string(),
        command,
        row.operation.clone(),
        count(row.count),
        time(row.nanos),
        time(row.nanos / row.count.max(1)),
        format!("{share:.1} %"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(process: u32, command: Option<&str>, nanos: u64) -> ProfileRow {
        let (command, operation) = (command.map(str::to_owned), "READ".to_owned());
        ProfileRow { user: 7, process, command, operation, count: 2, nanos }
    }

    #[test]
    fn the_longest_comes_first_and_no_name_reaches_the_terminal_as_it_is() {
        let rows = sorted(vec![
            row(3, Some("tar"), 1_000),
            row(4, Some("\u{1b}[2Jx"), 6_000),
            row(0, None, 3_000),
        ]);
        let profile = MountProfile { nanos: 2_000_000_000, rows, beyond: (1, 2_000) };
        let text = show(&profile, 2);
        assert!(text.starts_with("7 requests in 2.0 s, 12 µs of waiting\n"), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2Jx"), "{text}");
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word}: {text}"));
        assert!(at("50.0 %") < at("25.0 %") && at("(kernel)") > at("[2Jx"), "{text}");
        assert!(!text.contains("tar") && text.contains("1 row more has less time"), "{text}");
        assert!(text.contains("1 request of further processes found no room"), "{text}");
    }
}
