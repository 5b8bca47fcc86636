//! Random operations on a tree, compared with a sorted map.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::tree::Tree;
use crate::tree::record::Found;

/// Makes keys that share prefixes, heads and long tails. Some are short, long, or empty, or differ
/// only by zeros at their end.
struct Keys {
    prefixes: usize,
    numbers: usize,
    /// If true, numbers are in the head, and heads mostly differ. Otherwise numbers are in the
    /// tail, after equal heads.
    is_spread: bool,
}

impl Keys {
    fn make(&self, random: &mut Rng) -> Vec<u8> {
        if random.usize(..20) == 0 {
            let lens = [0, 1, 2, 15, 16, 17, 23, 24, 25, 31, 48, 49, 254, 255, 256, 700];
            let len = random.choice(lens).unwrap();
            let mut key = vec![random.choice([0, 7, 255]).unwrap(); len];
            if let Some(last) = key.last_mut() {
                *last = random.choice([0, 1, 255]).unwrap();
            }
            return key;
        }
        let mut key = vec![random.usize(..self.prefixes) as u8; 16];
        let number = random.usize(..self.numbers) as u64;
        if self.is_spread {
            key.extend_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            key.resize(key.len() + random.usize(..2), 9);
        } else {
            key.extend_from_slice(&(number >> 9).to_be_bytes());
            key.extend_from_slice(&(number as u16).to_be_bytes());
            key.resize(key.len() + random.choice([0, 0, 1, 30, 300]).unwrap(), 0);
        }
        key
    }
}

/// A tree with nothing below it, and its expected content.
#[derive(Default)]
struct Pair {
    tree: Tree,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Pair {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.tree.put(&key, &value);
        self.model.insert(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.tree.delete(key, false);
        self.model.remove(key);
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.tree.delete_range(from, to, false);
        self.model.retain(|key, _| &key[..] < from || &key[..] >= to);
    }

    fn check_key(&self, key: &[u8]) {
        let expected = self.model.get(key).map(|value| Found::Value(value));
        assert_eq!(self.tree.get(key), expected, "{key:?}");
    }

    fn check_scan(&self, from: &[u8], to: Option<&[u8]>) {
        let mut cursor = self.tree.seek(from, to);
        for (key, value) in self.model.range(from.to_vec()..) {
            if to.is_some_and(|to| key[..] >= *to) {
                break;
            }
            assert_eq!(cursor.advance(), Some(Found::Value(value)), "{key:?} of {from:?}..{to:?}");
            assert_eq!(cursor.key(), key);
        }
        assert_eq!(cursor.advance(), None, "{from:?}..{to:?}");
        assert_eq!(cursor.advance(), None);
    }

    fn check_all(&self) {
        self.check_scan(&[], None);
        assert_eq!(self.tree.is_empty(), self.model.is_empty());
        self.tree.check();
    }
}

fn value(random: &mut Rng) -> Vec<u8> {
    let len = random.choice([0, 1, 8, 80, 80, 80, 200, 250, 260, 1000]).unwrap();
    vec![random.u8(..); len]
}

/// Runs phases in which puts, deletions or neither prevail. So branches go through all forms in
/// both directions.
fn run(seed: u64, keys: &Keys, operations: usize) {
    let mut random = Rng::with_seed(seed);
    let mut pair = Pair::default();
    let empty = pair.tree.bytes();
    for operation in 0..operations {
        let phase = operation * 5 / operations;
        let key = keys.make(&mut random);
        let puts = [90, 50, 20, 80, 5][phase];
        match random.usize(..100) {
            dice if dice < puts => {
                let value = value(&mut random);
                pair.put(key, value);
            }
            99 if random.usize(..operations / 100) < 10 => {
                let other = keys.make(&mut random);
                let (from, to) = if key < other { (key, other) } else { (other, key) };
                pair.delete_range(&from, &to);
            }
            dice if dice < 97 => {
                let other = pair.model.range(key.clone()..).next().map(|(key, _)| key.clone());
                pair.delete(&other.unwrap_or(key));
            }
            _ => {
                let to = keys.make(&mut random);
                pair.check_key(&key);
                let short = pair.model.len() < 200 || random.usize(..50) == 0;
                if short || key.get(..16) == to.get(..16) {
                    pair.check_scan(&key, Some(&to));
                }
            }
        }
        if random.usize(..operations) < 20 {
            pair.check_all();
        }
    }
    pair.check_all();
    let rest: Vec<_> = pair.model.keys().cloned().collect();
    rest.iter().for_each(|key| pair.check_key(key));
    rest.iter().for_each(|key| pair.delete(key));
    pair.check_all();
    assert_eq!(pair.tree.bytes(), empty);
}

#[test]
fn many_small_branches_hold_what_was_put() {
    for seed in 1..=10 {
        run(seed, &Keys { prefixes: 200, numbers: 60, is_spread: seed % 2 == 0 }, 5_000);
    }
}

#[test]
fn branches_of_leaves_hold_what_was_put() {
    for seed in 1..=10 {
        run(seed, &Keys { prefixes: 3, numbers: 1 << 12, is_spread: seed % 2 == 0 }, 10_000);
    }
}

#[test]
fn a_branch_of_rows_holds_what_was_put() {
    for seed in 1..=2 {
        run(seed, &Keys { prefixes: 1, numbers: 1 << 20, is_spread: seed % 2 == 0 }, 100_000);
    }
}

#[test]
fn ascending_and_descending_keys_fill_leaves() {
    for is_descending in [false, true] {
        let mut pair = Pair::default();
        for number in 0..20_000u64 {
            let number = if is_descending { u64::MAX - number } else { number };
            pair.put([&[1; 16][..], &number.to_be_bytes()].concat(), vec![7; 80]);
        }
        pair.check_all();
        let data = 20_000 * (24 + 80);
        assert!(pair.tree.bytes() < data * 3 / 2, "{}", pair.tree.bytes());
        pair.delete_range(&[1; 17], &[1; 18]);
        pair.check_all();
        // Whole leaves and rows go, and a part at each end stays.
        pair.delete_range(&[&[1; 16][..], &[0, 0]].concat(), &[2]);
        pair.check_all();
    }
}

#[test]
fn memory_of_entries_that_come_and_go_is_used_again() {
    let mut tree = Tree::default();
    let mut random = Rng::with_seed(1);
    let key = |number: usize| {
        let order = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [&[3; 16][..], &order.to_be_bytes()].concat()
    };
    (0..1000).for_each(|number| tree.put(&key(number), &[1; 80]));
    let before = tree.bytes();
    for round in 0..100_000 {
        let number = random.usize(..1000);
        match round % 3 {
            0 => tree.put(&key(number), &[2; 120][..random.usize(..120)]),
            1 => tree.delete(&key(number), false),
            _ => tree.put(&key(number), &[3; 80]),
        }
    }
    assert!(tree.bytes() < before * 2, "{before} became {}", tree.bytes());
}
