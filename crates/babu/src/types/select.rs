//! The keys that a partial snapshot contains (BabuDB §II.C: "by means of key patterns or
//! prefixes").

use crate::types::codec::{Fields, put_sized, put_varint};
use crate::types::key::prefix_end;

/// A set of keys: those that match any of its patterns. Without patterns it has all keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    patterns: Vec<Pattern>,
}

/// A pattern that matches whole keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// This many arbitrary bytes.
    Any(u16),
    /// Any number of arbitrary bytes, or none.
    Rest,
}

impl Pattern {
    /// The pattern of keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Pattern {
        Pattern(vec![Part::Bytes(prefix.to_vec()), Part::Rest])
    }

    /// The pattern of keys that consist of these parts in order.
    pub fn parts(parts: impl IntoIterator<Item = Part>) -> Pattern {
        Pattern(parts.into_iter().collect())
    }

    /// True if the pattern matches a key.
    pub fn has(&self, key: &[u8]) -> bool {
        matches(&self.0, key)
    }

    /// Bytes with which all matching keys begin.
    fn fixed(&self) -> &[u8] {
        match self.0.first() {
            Some(Part::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }
}

/// Tries only the last `Rest` again on a mismatch. Parts before it already match at their earliest
/// place.
fn matches(parts: &[Part], key: &[u8]) -> bool {
    let (mut part, mut at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match parts.get(part) {
            None if at == key.len() => return true,
            None => None,
            Some(Part::Bytes(bytes)) => key[at..].starts_with(bytes).then_some(bytes.len()),
            Some(Part::Any(count)) => {
                (key.len() - at >= usize::from(*count)).then_some(usize::from(*count))
            }
            Some(Part::Rest) => {
                retry = Some((part + 1, at));
                Some(0)
            }
        };
        match (step, &mut retry) {
            (Some(bytes), _) => {
                part += 1;
                at += bytes;
            }
            (None, Some((behind, from))) if *from < key.len() => {
                *from += 1;
                (part, at) = (*behind, *from);
            }
            (None, _) => return false,
        }
    }
}

impl Selection {
    /// The set of all keys.
    pub fn all() -> Selection {
        Selection::default()
    }

    /// The set of keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Selection {
        Selection::of([Pattern::prefix(prefix)])
    }

    /// The set of keys that match any of these patterns.
    pub fn of(patterns: impl IntoIterator<Item = Pattern>) -> Selection {
        Selection { patterns: patterns.into_iter().collect() }
    }

    /// True if the set has every key.
    pub fn is_all(&self) -> bool {
        self.patterns.is_empty()
    }

    /// True if the set has this key.
    pub fn has(&self, key: &[u8]) -> bool {
        self.is_all() || self.patterns.iter().any(|pattern| pattern.has(key))
    }

    /// Disjoint, ascending ranges of keys. No key outside of them is selected.
    pub(crate) fn stretches(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut prefixes: Vec<&[u8]> = self.patterns.iter().map(Pattern::fixed).collect();
        if self.is_all() {
            prefixes.push(&[]);
        }
        prefixes.sort_unstable();
        let mut kept: Vec<&[u8]> = Vec::new();
        for prefix in prefixes {
            if kept.last().is_none_or(|last| !prefix.starts_with(last)) {
                kept.push(prefix);
            }
        }
        kept.into_iter().map(|prefix| (prefix.to_vec(), prefix_end(prefix))).collect()
    }

    /// Encodes varint number of patterns; per pattern varint number of parts; per part 0 ‖ sized
    /// bytes, 1 ‖ varint count, or 2.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.patterns.len() as u64);
        for Pattern(parts) in &self.patterns {
            put_varint(out, parts.len() as u64);
            for part in parts {
                match part {
                    Part::Bytes(bytes) => {
                        out.push(0);
                        put_sized(out, bytes);
                    }
                    Part::Any(count) => {
                        out.push(1);
                        put_varint(out, u64::from(*count));
                    }
                    Part::Rest => out.push(2),
                }
            }
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<Selection> {
        let mut patterns = Vec::new();
        for _ in 0..fields.varint()? {
            let mut parts = Vec::new();
            for _ in 0..fields.varint()? {
                parts.push(match fields.u8()? {
                    0 => Part::Bytes(fields.sized()?.to_vec()),
                    1 => Part::Any(u16::try_from(fields.varint()?).ok()?),
                    2 => Part::Rest,
                    _ => return None,
                });
            }
            patterns.push(Pattern(parts));
        }
        Some(Selection { patterns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Part {
        Part::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn patterns_match_whole_keys() {
        let pattern = Pattern::parts([bytes("a"), Part::Any(2), bytes("x"), Part::Rest]);
        for (key, expected) in
            [("a12x", true), ("a12xyz", true), ("a1x", false), ("b12x", false), ("a12", false)]
        {
            assert_eq!(pattern.has(key.as_bytes()), expected, "{key}");
        }
        let pattern = Pattern::parts([Part::Rest, bytes("ab"), Part::Rest, bytes("b")]);
        for (key, expected) in
            [("abb", true), ("ab", false), ("xxababcb", true), ("abc", false), ("aabb", true)]
        {
            assert_eq!(pattern.has(key.as_bytes()), expected, "{key}");
        }
        assert!(Pattern::parts([]).has(b"") && !Pattern::parts([]).has(b"a"));
        assert!(Pattern::prefix(b"ab").has(b"ab") && !Pattern::prefix(b"ab").has(b"a"));
    }

    #[test]
    fn matching_agrees_with_trying_everything() {
        fn slow(parts: &[Part], key: &[u8]) -> bool {
            match parts.split_first() {
                None => key.is_empty(),
                Some((Part::Bytes(bytes), rest)) => {
                    key.strip_prefix(&bytes[..]).is_some_and(|key| slow(rest, key))
                }
                Some((Part::Any(count), rest)) => {
                    key.get(usize::from(*count)..).is_some_and(|key| slow(rest, key))
                }
                Some((Part::Rest, rest)) => (0..=key.len()).any(|at| slow(rest, &key[at..])),
            }
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let parts: Vec<_> = (0..random.u8(..5))
                .map(|_| match random.u8(..4) {
                    0 => Part::Any(random.u16(..3)),
                    1 => Part::Rest,
                    _ => Part::Bytes((0..random.u8(..3)).map(|_| b'a' + random.u8(..2)).collect()),
                })
                .collect();
            let key: Vec<u8> = (0..random.u8(..8)).map(|_| b'a' + random.u8(..2)).collect();
            assert_eq!(matches(&parts, &key), slow(&parts, &key), "{parts:?} {key:?}");
            let selection = Selection::of([Pattern(parts)]);
            if selection.has(&key) {
                let within = |(from, to): (Vec<u8>, Option<Vec<u8>>)| {
                    from <= key && to.is_none_or(|to| key < to)
                };
                assert_eq!(
                    selection.stretches().into_iter().filter(|s| within(s.clone())).count(),
                    1
                );
            }
            let mut out = Vec::new();
            selection.encode(&mut out);
            assert_eq!(Selection::decode(&mut Fields(&out)), Some(selection));
            let cut = random.usize(..out.len());
            assert_eq!(Selection::decode(&mut Fields(&out[..cut])), None);
        }
    }

    #[test]
    fn stretches_are_disjoint() {
        let selection = Selection::of([b"ab", &b"a"[..], b"b", b"ac"].map(Pattern::prefix));
        let expected = [(b"a".to_vec(), Some(b"b".to_vec())), (b"b".to_vec(), Some(b"c".to_vec()))];
        assert_eq!(selection.stretches(), expected);
        assert_eq!(Selection::all().stretches(), [(vec![], None)]);
    }
}
