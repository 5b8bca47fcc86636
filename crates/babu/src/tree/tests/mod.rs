mod model;

use super::*;
use crate::tree::record::Found;

#[test]
fn a_tree_with_nothing_below_forgets_what_is_deleted() {
    let mut tree = Tree::default();
    let empty = tree.bytes();
    for round in 0..3u8 {
        for directory in 0..50u8 {
            for file in 0..=20u8 {
                tree.put(&[&[directory; 16][..], &[file]].concat(), &[round]);
            }
        }
        assert_eq!(tree.seek(&[], None).count(), 50 * 21);
        for file in 0..=20u8 {
            tree.delete(&[&[7; 16][..], &[file]].concat(), false);
        }
        assert_eq!(tree.seek(&[], None).count(), 49 * 21);
        tree.delete_range(&[], &[255], false);
        assert!(tree.is_empty());
        assert_eq!(tree.prefixes.places(), 50, "places of branches are used again");
    }
    assert_eq!(tree.bytes(), empty);
}

#[test]
fn a_frozen_tree_says_the_same_once_its_filter_is_one_part() {
    let key = |number: u32| {
        let mut key = [number as u8 % 50; 20];
        key[16..].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
        key
    };
    let mut tree = Tree::default();
    for number in 0..20_000 {
        tree.put(&key(number), &number.to_be_bytes());
    }
    (0..20_000).step_by(3).for_each(|number| tree.delete(&key(number), true));
    (0..20_000).step_by(5).for_each(|number| tree.delete(&key(number), false));
    tree.delete_range(&[7], &[9], true);
    tree.put(&key(8), b"newer than the range");
    let next = tree.freeze();
    assert!(next.is_empty());
    let says = |tree: &Tree| -> Vec<Option<Vec<u8>>> {
        let found = |number| match tree.look(&key(number), &mut None) {
            Some(Found::Value(value)) => Some(value.to_vec()),
            Some(Found::Deleted) => Some(b"deleted".to_vec()),
            None => None,
        };
        (0..40_000).map(found).collect()
    };
    let before = says(&tree);
    let bytes = tree.bytes();
    tree.unite_filter();
    assert!(tree.bytes() > bytes, "a part of its own");
    assert_eq!(says(&tree), before);
    assert_eq!(before[1].as_deref(), Some(&1u32.to_be_bytes()[..]));
    assert_eq!(before[3].as_deref(), Some(&b"deleted"[..]));
    assert_eq!((&before[5], &before[20_001]), (&None, &None));
    assert_eq!(before[7].as_deref(), Some(&b"deleted"[..]), "by the range");
}

#[test]
fn a_tree_with_layers_below_remembers_what_is_deleted() {
    let mut tree = Tree::default();
    tree.delete(b"a", true);
    tree.put(b"b", b"1");
    tree.delete_range(b"b", b"d", true);
    tree.put(b"c", b"2");
    assert_eq!(tree.get(b"a"), Some(Found::Deleted));
    assert_eq!(tree.get(b"b"), Some(Found::Deleted));
    assert_eq!(tree.get(b"c"), Some(Found::Value(b"2")), "newer than the range");
    assert_eq!(tree.get(b"d"), None);
    assert_eq!(tree.seek(b"", None).count(), 2, "the range is not entries");
}
