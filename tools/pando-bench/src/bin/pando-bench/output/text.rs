//! Formats numbers and tables for people.

/// Formats 1234567 as `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats bytes in the largest unit that leaves a whole part.
pub fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (n.max(1).ilog2() / 10) as usize;
    if power == 0 {
        return format!("{n} B");
    }
    let scaled = n / (1 << (10 * (power - 1)));
    format!("{}.{} {}", scaled / 1024, scaled % 1024 * 10 / 1024, units[power])
}

/// Formats rows as right-aligned columns, two spaces apart. The first row is the heading.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "long"], ["100", "b"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "  a  long\n100     b\n");
    }
}
