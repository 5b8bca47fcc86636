//! Memories that no writer leaves.

use pando_kept::{Memory, Nodes, Refused};

use crate::log::{Log, any_node, identity, model};

/// Length of the header, words. The first chunk has nodes.
const HEADER: usize = 8192;

fn written(seed: u64, count: u64) -> Log {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut nodes = Nodes::create(Log::new(), identity(0)).unwrap();
    for ino in 2..2 + count {
        nodes.put(None, &any_node(&mut random, ino)).unwrap();
    }
    nodes.memory().clone()
}

#[test]
fn any_words_are_read_without_a_panic_and_what_was_read_can_be_written() {
    let mut random = fastrand::Rng::with_seed(1);
    let (mut damaged, mut refused) = (0, 0);
    for seed in 0..600 {
        let mut memory = written(seed, 40);
        for _ in 0..random.usize(1..30) {
            let at = match random.bool() {
                true => random.usize(HEADER..memory.len()),
                false => random.usize(6..memory.len()),
            };
            // Small numbers are more likely to be taken for something.
            memory.words[at] = random.u64(..) >> random.u32(0..64) | random.u64(0..3) << 32;
        }
        let Ok((mut nodes, found)) = Nodes::adopt(memory, identity(1)) else {
            refused += 1;
            continue;
        };
        damaged += found.damaged;
        for (at, node) in &found.nodes {
            nodes.put(Some(*at), node).unwrap();
        }
        let state = model(&found);
        let (_, again) = Nodes::adopt(nodes.memory().clone(), identity(2)).unwrap();
        assert_eq!((model(&again), again.damaged), (state, 0));
    }
    assert!(damaged > 0 && refused > 0, "{damaged} records, {refused} memories");
}

#[test]
fn a_text_of_another_node_is_not_taken() {
    text_is_compared();
}

pub fn text_is_compared() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut nodes = Nodes::create(Log::new(), identity(0)).unwrap();
    for ino in [2, 3] {
        let mut node = any_node(&mut random, ino);
        node.name = vec![b'a' + ino as u8; 100];
        nodes.put(None, &node).unwrap();
    }
    let mut memory = nodes.memory().clone();
    // The words that name texts, of the first two records.
    memory.words[HEADER + 8] = memory.words[HEADER + 16 + 8];
    let (_, found) = Nodes::adopt(memory, identity(1)).unwrap();
    let inos: Vec<_> = found.nodes.iter().map(|(_, node)| node.ino).collect();
    assert_eq!((inos, found.damaged), (vec![3], 1), "a node has the name of another one");
}

#[test]
fn a_memory_that_is_not_this_mounts_is_refused() {
    let memory = written(0, 3);
    let judge = |at: usize, word: u64, generation: u64| {
        let mut memory = memory.clone();
        memory.words[at] = word;
        Nodes::adopt(memory, identity(generation)).map(drop).unwrap_err()
    };
    assert!(matches!(judge(0, 7, 1), Refused::NotOne));
    assert!(matches!(judge(1, 9 << 32 | 4, 1), Refused::Format(format) if format == 9 << 32 | 4));
    assert!(matches!(judge(4, 5, 1), Refused::Volume(_)));
    assert!(matches!(judge(3, 2, 2), Refused::Generation(2)));
    assert!(matches!(judge(2, 2, 1), Refused::Unkept));
    assert!(matches!(judge(2, 3, 1), Refused::Damaged(_)));
    // Chunks: of no area; behind the last one; beyond the end.
    assert!(matches!(judge(1024, 9, 1), Refused::Damaged(_)));
    assert!(matches!(judge(1030, 1, 1), Refused::Damaged(_)));
    let mut short = memory.clone();
    short.words.truncate(HEADER + 1);
    assert!(matches!(Nodes::adopt(short, identity(1)), Err(Refused::Damaged(_))));
    assert!(matches!(Nodes::adopt(Log::new(), identity(1)), Err(Refused::NotOne)));
    // A minor number adds to what is spare.
    let mut minor = memory;
    minor.words[1] |= 7;
    assert!(Nodes::adopt(minor, identity(1)).is_ok());
}

#[test]
fn a_mount_whose_records_have_no_room_is_not_kept() {
    let mut random = fastrand::Rng::with_seed(5);
    let log = Log { limit: HEADER + Log::CHUNK, ..Log::new() };
    let mut nodes = Nodes::create(log, identity(0)).unwrap();
    let mut put = |nodes: &mut Nodes<Log>, ino| {
        let mut node = any_node(&mut random, ino);
        (node.mode, node.rest) = (0o100_600, Vec::new());
        node.name.truncate(40);
        nodes.put(None, &node).is_ok()
    };
    for ino in 1..=32 {
        assert!(put(&mut nodes, ino) && nodes.is_kept(), "{ino}");
    }
    assert!(!put(&mut nodes, 33) && !nodes.is_kept());
    let left = nodes.memory().clone();
    assert!(matches!(Nodes::adopt(left, identity(1)), Err(Refused::Unkept)));
}
