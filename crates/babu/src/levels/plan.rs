//! Which parts of a level are written again when news come to it. Decides only.
//!
//! ```text
//! level     ──gap──│file 0│──gap──│file 1│──gap──│file 2│──gap──│file 3│──gap──
//! news                ▲ ▲     ▲       ▲                                  ▲
//! groups           └────────────────────┘                             └───────┘
//! ```
//!
//! News in a file's span mean that it is written again; news in a gap make a new file, or join the
//! file beside it if that is written anyway or small. A group is such a stretch without a break;
//! what is outside of all groups is not touched.

use std::ops::Range;

/// A stretch of a level that is written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Positions of the old files in it.
    pub(crate) files: Range<usize>,
    /// True: it reaches to the file before, or to the first of all keys; false: it begins with its
    /// first file.
    pub(crate) has_gap_before: bool,
    /// The same for its end.
    pub(crate) has_gap_after: bool,
}

/// Groups in a level of `count` files. `gap_news(n)` tells of the gap before file n, and of that
/// behind all for n = count.
pub(crate) fn groups<E>(
    count: usize,
    mut gap_news: impl FnMut(usize) -> Result<bool, E>,
    mut file_news: impl FnMut(usize) -> Result<bool, E>,
    is_small: impl Fn(usize) -> bool,
) -> Result<Vec<Group>, E> {
    let mut gaps = Vec::with_capacity(count + 1);
    let mut files = Vec::with_capacity(count);
    for position in 0..count {
        gaps.push(gap_news(position)?);
        files.push(file_news(position)?);
    }
    gaps.push(gap_news(count)?);
    // Small files join whatever is written beside them, and so do small ones beside those.
    for position in 0..count {
        let is_beside = gaps[position] || (position > 0 && files[position - 1]);
        files[position] |= is_beside && is_small(position);
    }
    for position in (0..count).rev() {
        let is_beside = gaps[position + 1] || files.get(position + 1) == Some(&true);
        files[position] |= is_beside && is_small(position);
    }
    let mut groups = Vec::new();
    let mut open: Option<Group> = None;
    for position in 0..=count {
        // A gap without news between two files that are written is written along with them.
        let before = position > 0 && files[position - 1];
        let after = files.get(position) == Some(&true);
        if gaps[position] || (before && after) {
            match &mut open {
                Some(group) => group.has_gap_after = true,
                None => {
                    open = Some(Group {
                        files: position..position,
                        has_gap_before: true,
                        has_gap_after: true,
                    });
                }
            }
        } else {
            groups.extend(open.take());
        }
        if after {
            let group = open.get_or_insert(Group {
                files: position..position,
                has_gap_before: false,
                has_gap_after: false,
            });
            group.files.end = position + 1;
            group.has_gap_after = false;
        } else {
            groups.extend(open.take());
        }
    }
    groups.extend(open);
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of gaps and files: `.` a gap, `o` a file, `s` a small one; in capitals, or `!`, what
    /// has news.
    fn plan(line: &str) -> String {
        let line: Vec<char> = line.chars().collect();
        let count = line.len() / 2;
        let found = groups(
            count,
            |gap| Ok::<_, ()>(line[gap * 2] == '!'),
            |file| Ok(line[file * 2 + 1].is_uppercase()),
            |file| line[file * 2 + 1].eq_ignore_ascii_case(&'s'),
        );
        let mut shown = vec!['-'; line.len()];
        for (number, group) in found.unwrap().into_iter().enumerate() {
            let mark = char::from(b'a' + number as u8);
            let start = group.files.start * 2 + usize::from(!group.has_gap_before);
            let end = group.files.end * 2 + usize::from(group.has_gap_after);
            for cell in &mut shown[start..end] {
                assert_eq!(*cell, '-', "groups are disjoint");
                *cell = mark;
            }
        }
        shown.into_iter().collect()
    }

    #[test]
    fn only_stretches_with_news_are_written() {
        for (line, expected) in [
            (".", "-"),
            ("!", "a"),
            (".o.", "---"),
            (".O.", "-a-"),
            ("!o.", "a--"),
            (".o!", "--a"),
            ("!O!", "aaa"),
            (".O.o.O.", "-a---b-"),
            (".O.O.", "-aaa-"),
            (".O!O.", "-aaa-"),
            (".o!o!o.", "--a-b--"),
            (".O!o.", "-aa--"),
            (".o!O.", "--aa-"),
            ("!s.", "aa-"),
            (".s!", "-aa"),
            (".O.s.s.o.", "-aaaaa---"),
            (".o.s.s.O.", "---aaaaa-"),
            (".s.o.", "-----"),
            (".s.O.s.", "-aaaaa-"),
            (".o!s!o.", "--aaa--"),
        ] {
            assert_eq!(plan(line), expected, "{line}");
        }
    }

    #[test]
    fn an_error_is_passed_on() {
        assert_eq!(groups(1, |_| Err(7), |_| Ok(true), |_| false), Err(7));
    }
}
