//! Which parts of a level are written again when news come to it. This module only decides.
//!
//! ```text
//! level     ──gap──│file 0│──gap──│file 1│──gap──│file 2│──gap──│file 3│──gap──
//! news                ▲ ▲     ▲       ▲                                  ▲
//! groups           └────────────────────┘                             └───────┘
//! ```
//!
//! If news fall into a file's span, the file is written again. News in a gap make a new file. They
//! join a file beside the gap if that is rewritten anyway, or is small. A group is a stretch of
//! such files and gaps without a break. Nothing outside of groups is touched.

use std::ops::Range;

/// A stretch of a level that is written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Positions of the old files in the stretch.
    pub(crate) files: Range<usize>,
    /// True if the stretch begins at the end of the file before, or at the first of all keys. False
    /// if it begins with its first file.
    pub(crate) has_gap_before: bool,
    /// True if the stretch ends at the beginning of the next file, or after the last of all keys.
    /// False if it ends with its last file.
    pub(crate) has_gap_after: bool,
}

/// Groups in a level of `count` files. `gap_news(n)` tells whether there are news in the gap before
/// file n; n = `count` is the gap after all files.
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
    // A small file joins a gap or file beside it that is written, and then small files beside that
    // join.
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
        // A gap without news between two files that are written is written with them.
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

    /// Plans a line of gaps and files: `.` is a gap, `o` a file, `s` a small file. A capital letter
    /// or `!` has news.
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
