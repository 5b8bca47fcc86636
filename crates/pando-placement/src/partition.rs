//! Hash bits and partitions (GIGA+ §3.2). Partition (i, r) holds a name if i is the r low bits of
//! its hash.
//!
//! ```text
//! hash    57 … 3 2 1 0            …0110, r = 2 → partition 2; when (2, 2) splits, bit 2 decides:
//! order   0 1 2 3 … 57 ordinal      0 → stays in (2, 3),  1 → moves to 2 + 2² = (6, 3)
//!         └ most significant
//! ```
//!
//! An order is the hash with its bits reversed. So the bits that select a partition come first, and
//! every partition is one contiguous range of orders. A split gives the upper half of the range
//! away.

use core::ops::Range;
use pando_types::{Order, PartitionIndex, Radix};

const ORDER_BITS: u32 = Order::HASH_BITS + Order::ORDINAL_BITS;

// A readdir position is an order plus a small constant, and must stay below 2⁶³. Orders have 58 + 4
// = 62 bits.
const _: () = assert!(ORDER_BITS < 63);
// The bits that select the deepest partition are bits of the order (24 ≤ 58). Its index fits in 32
// bits (24 < 32).
const _: () = assert!(Radix::MAX.0 as u32 <= Order::HASH_BITS);
const _: () = assert!((Radix::MAX.0 as u32) < u32::BITS);
const _: () = assert!(Order::END == 1 << ORDER_BITS);

/// The order of a name that hashes to `hash`, with ordinal 0. Bits from 58 up are ignored.
///
/// | hash | order |
/// |---|---|
/// | `0` | `0` |
/// | `1` | `1 << 61` |
/// | `0b0110` | `0b011 << 59` |
/// | `1 << 57` | `1 << 4` |
/// | `1 << 58` | `0` |
#[must_use]
pub const fn order_of_hash(hash: u64) -> Order {
    Order(hash.reverse_bits() >> (u64::BITS - Order::HASH_BITS) << Order::ORDINAL_BITS)
}

/// The 58 hash bits of an order. The ordinal, and bits from [`Order::END`] up, are ignored.
///
/// | order | hash |
/// |---|---|
/// | `0` | `0` |
/// | `1 << 61` | `1` |
/// | `0b011 << 59 \| 9` | `0b0110` |
/// | `1 << 4` | `1 << 57` |
#[must_use]
pub const fn hash_of_order(order: Order) -> u64 {
    (order.0 << (u64::BITS - ORDER_BITS)).reverse_bits() & ((1 << Order::HASH_BITS) - 1)
}

/// The partition of depth `r` (at most 24) that holds `hash`: its low `r` bits.
///
/// | hash | r | partition |
/// |---|---|---|
/// | `0b0110` | 0 | 0 |
/// | `0b0110` | 1 | 0 |
/// | `0b0110` | 2 | 2 |
/// | `0b0110` | 3 | 6 |
/// | `0b0110` | 4 | 6 |
#[must_use]
pub const fn partition_of(hash: u64, r: Radix) -> PartitionIndex {
    debug_assert!(r.0 <= Radix::MAX.0);
    PartitionIndex(hash as u32 & ((1 << r.0) - 1))
}

/// Whether a directory can have a partition `i` of depth `r`: `r` ≤ 24 and `i` < 2^`r`. Checks
/// values from outside.
///
/// | i | r | |
/// |---|---|---|
/// | 0 | 0 | yes |
/// | 1 | 0 | no |
/// | 6 | 3 | yes |
/// | 6 | 2 | no |
/// | 2²⁴ − 1 | 24 | yes |
/// | 0 | 25 | no |
#[must_use]
pub const fn is_partition(i: PartitionIndex, r: Radix) -> bool {
    r.0 <= Radix::MAX.0 && i.0 >> r.0 == 0
}

/// The orders (raw, with ordinals) of partition (`i`, `r`). Empty if no such partition can exist.
///
/// | i | r | orders |
/// |---|---|---|
/// | 0 | 0 | `0 .. 1 << 62` |
/// | 0 | 1 | `0 .. 1 << 61` |
/// | 1 | 1 | `1 << 61 .. 1 << 62` |
/// | 2 | 2 | `1 << 60 .. 2 << 60` |
/// | 6 | 3 | `3 << 59 .. 4 << 59` |
/// | 2 | 1 | empty |
#[must_use]
pub const fn range(i: PartitionIndex, r: Radix) -> Range<u64> {
    if !is_partition(i, r) {
        return 0..0;
    }
    let start = order_of_hash(i.0 as u64).0;
    start..start + (Order::END >> r.0)
}

/// The partition that takes the upper half of (`i`, `r`) when it splits: `i` + 2^`r`. Both then
/// have depth `r` + 1.
///
/// | i | r | child |
/// |---|---|---|
/// | 0 | 0 | 1 |
/// | 0 | 1 | 2 |
/// | 1 | 1 | 3 |
/// | 2 | 2 | 6 |
/// | 1 | 2 | 5 |
///
/// # Panics
///
/// If (`i`, `r`) is no partition or cannot split any more (`r` = 24).
#[must_use]
pub const fn child(i: PartitionIndex, r: Radix) -> PartitionIndex {
    assert!(is_partition(i, r) && r.0 < Radix::MAX.0);
    PartitionIndex(i.0 | 1 << r.0)
}

/// The partition that `i` was split from: `i` without its highest bit. `None` for partition 0,
/// which always existed.
///
/// | i | parent |
/// |---|---|
/// | 0 | |
/// | 1 | 0 |
/// | 2 | 0 |
/// | 3 | 1 |
/// | 5 | 1 |
/// | 6 | 2 |
/// | 2²³ + 6 | 6 |
#[must_use]
pub const fn parent(i: PartitionIndex) -> Option<PartitionIndex> {
    match i.0.checked_ilog2() {
        None => None,
        Some(bit) => Some(PartitionIndex(i.0 & !(1 << bit))),
    }
}

/// The depth with which `i` was born: one more than the depth at which its parent split. It is the
/// length of `i` in bits.
///
/// | i | depth |
/// |---|---|
/// | 0 | 0 |
/// | 1 | 1 |
/// | 2 | 2 |
/// | 3 | 2 |
/// | 5 | 3 |
/// | 6 | 3 |
/// | 2²⁴ − 1 | 24 |
#[must_use]
pub const fn birth_radix(i: PartitionIndex) -> Radix {
    Radix((u32::BITS - i.0.leading_zeros()) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn i(index: u32) -> PartitionIndex {
        PartitionIndex(index)
    }

    #[test]
    fn order_is_the_hash_reversed() {
        let cases = [
            (0, 0),
            (1, 1 << 61),
            (0b0110, 0b011 << 59),
            (1 << 57, 1 << 4),
            (1 << 58, 0),
            (u64::MAX, Order::END - 16),
        ];
        for (hash, order) in cases {
            assert_eq!(order_of_hash(hash), Order(order), "{hash:#b}");
        }
    }

    #[test]
    fn hash_comes_back_from_an_order_without_its_ordinal() {
        let cases = [
            (0, 0),
            (1 << 61, 1),
            (0b011 << 59 | 9, 0b0110),
            (1 << 4, 1 << 57),
            (0b1111, 0),
            (Order::END, 0),
            (u64::MAX, (1 << 58) - 1),
        ];
        for (order, hash) in cases {
            assert_eq!(hash_of_order(Order(order)), hash, "{order:#b}");
        }
    }

    /// Hash …0110 with r = 2 is partition 2. A split moves it to partition 6.
    #[test]
    fn low_bits_of_the_hash_select_the_partition() {
        for (r, partition) in [(0, 0), (1, 0), (2, 2), (3, 6), (4, 6), (24, 6)] {
            assert_eq!(partition_of(0b0110, Radix(r)), i(partition), "r = {r}");
        }
        assert_eq!(partition_of(u64::MAX, Radix(24)), i((1 << 24) - 1));
    }

    #[test]
    fn impossible_partitions_are_told() {
        let cases = [
            (0, 0, true),
            (1, 0, false),
            (6, 3, true),
            (6, 2, false),
            ((1 << 24) - 1, 24, true),
            (1 << 24, 24, false),
            (0, 25, false),
            (u32::MAX, 255, false),
        ];
        for (index, r, expected) in cases {
            assert_eq!(is_partition(i(index), Radix(r)), expected, "({index}, {r})");
        }
    }

    #[test]
    fn partitions_are_contiguous_ranges() {
        let cases = [
            (0, 0, 0..1 << 62),
            (0, 1, 0..1 << 61),
            (1, 1, 1 << 61..1 << 62),
            (2, 2, 1 << 60..2 << 60),
            (6, 3, 3 << 59..4 << 59),
            ((1 << 24) - 1, 24, (1 << 62) - (1 << 38)..1 << 62),
            (2, 1, 0..0),
            (0, 25, 0..0),
            (u32::MAX, 255, 0..0),
        ];
        for (index, r, expected) in cases {
            assert_eq!(range(i(index), Radix(r)), expected, "({index}, {r})");
        }
    }

    #[test]
    fn a_split_gives_the_upper_half_to_the_child() {
        for r in 0..Radix::MAX.0 {
            for index in [0, 1, 2, 5, 6, (1 << r) - 1].into_iter().filter(|n| n >> r == 0) {
                let (whole, deeper) = (range(i(index), Radix(r)), Radix(r + 1));
                let (lower, upper) =
                    (range(i(index), deeper), range(child(i(index), Radix(r)), deeper));
                assert_eq!(lower, whole.start..upper.start, "({index}, {r})");
                assert_eq!(upper.end, whole.end, "({index}, {r})");
                assert_eq!(upper.end - upper.start, lower.end - lower.start, "({index}, {r})");
            }
        }
    }

    /// GIGA+ §3.2, footnote 3: P1 at r = 2 splits into P1 and P5.
    #[test]
    fn child_is_index_plus_two_to_the_depth() {
        for (index, r, expected) in [(0, 0, 1), (0, 1, 2), (1, 1, 3), (2, 2, 6), (1, 2, 5)] {
            assert_eq!(child(i(index), Radix(r)), i(expected), "({index}, {r})");
        }
    }

    #[test]
    #[should_panic]
    fn the_deepest_partition_has_no_child() {
        let _ = child(i(0), Radix::MAX);
    }

    #[test]
    fn parent_is_the_index_without_its_highest_bit() {
        assert_eq!(parent(i(0)), None);
        for (index, expected) in [(1, 0), (2, 0), (3, 1), (5, 1), (6, 2), ((1 << 23) + 6, 6)] {
            assert_eq!(parent(i(index)), Some(i(expected)), "{index}");
        }
    }

    #[test]
    fn birth_depth_is_the_length_in_bits() {
        let cases = [(0, 0), (1, 1), (2, 2), (3, 2), (5, 3), (6, 3), ((1 << 24) - 1, 24)];
        for (index, expected) in cases {
            assert_eq!(birth_radix(i(index)), Radix(expected), "{index}");
        }
    }

    #[test]
    fn a_child_knows_its_parent_and_its_birth() {
        for r in 0..12 {
            for index in 0..1 << r {
                let born = child(i(index), Radix(r));
                assert_eq!(parent(born), Some(i(index)));
                assert_eq!(birth_radix(born), Radix(r + 1));
            }
        }
    }
}
