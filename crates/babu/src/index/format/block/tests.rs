use super::*;

const OFFSET: u64 = 32;

fn seal() -> Seal {
    Seal::of_file(*b"testtest", 1, 1)
}

type Entries = std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Entries with keys of a tiny alphabet. So keys share prefixes, and often one key is the beginning
/// of another.
fn entries(seed: u64, count: usize) -> Entries {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut entries = Entries::new();
    for _ in 0..count {
        let len = random.usize(..7);
        let key = (0..len).map(|_| random.choice([0, 1, 255]).unwrap()).collect();
        let value = vec![random.u8(..); random.choice([0, 1, 20]).unwrap()];
        entries.insert(key, (random.u8(..4) > 0).then_some(value));
    }
    entries
}

fn stored(entries: &Entries) -> Vec<u8> {
    let mut builder = BlockBuilder::new();
    for (key, value) in entries {
        builder.push(key, value.as_deref());
    }
    let mut out = Vec::new();
    let len = builder.finish(seal(), OFFSET, &mut out);
    assert_eq!(len as usize, out.len());
    assert!(builder.is_empty());
    out
}

fn parse(bytes: &[u8]) -> Result<Block, &'static str> {
    Block::parse(bytes.to_vec(), seal(), OFFSET)
}

fn contents(block: &Block, from: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut cursor = BlockCursor::default();
    cursor.seek(block, from);
    let mut found = Vec::new();
    while cursor.advance(block) {
        let value = cursor.value().map(|range| block.bytes(range).to_vec());
        found.push((cursor.key().to_vec(), value));
    }
    found
}

#[test]
fn lookups_and_seeks_agree_with_a_sorted_map() {
    for seed in 0..300 {
        let all = entries(seed * 77 + 1, 1 + seed as usize % 90);
        let block = parse(&stored(&all)).unwrap();
        assert_eq!(block.count(), all.len());
        for probe in entries(seed * 31 + 7, 60).into_keys().chain(all.keys().cloned()) {
            let found = block.get(&probe).map(|found| match found {
                BlockFound::Value(range) => Some(block.bytes(range).to_vec()),
                BlockFound::Tombstone => None,
            });
            assert_eq!(found.as_ref(), all.get(&probe), "{probe:?}");
            let expected: Vec<_> =
                all.range(probe.clone()..).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(contents(&block, &probe), expected, "{probe:?}");
            let mut cursor = BlockCursor::default();
            cursor.enter(&block);
            cursor.stop_before(&block, &probe);
            let mut keys = Vec::new();
            while cursor.advance(&block) {
                keys.push(cursor.key().to_vec());
            }
            assert!(keys.iter().eq(all.range(..probe.clone()).map(|(key, _)| key)), "{probe:?}");
        }
    }
}

#[test]
fn keys_of_all_lengths_are_put_together_and_found() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..50 {
        let mut all = Entries::new();
        let mut key = Vec::new();
        for _ in 0..60 {
            key.truncate(random.usize(..=key.len()));
            let fill = random.u8(..3);
            key.resize(key.len() + random.choice([0, 1, 8, 31, 32, 33, 300]).unwrap(), fill);
            all.insert(key.clone(), Some(vec![fill; random.usize(..40)]));
        }
        let block = parse(&stored(&all)).unwrap();
        let expected: Vec<_> = all.clone().into_iter().collect();
        assert_eq!(contents(&block, b""), expected);
        for (position, (key, value)) in expected.iter().enumerate() {
            assert_eq!(contents(&block, key), expected[position..]);
            let Some(BlockFound::Value(range)) = block.get(key) else { panic!("{key:?}") };
            assert_eq!(Some(block.bytes(range)), value.as_deref());
            let absent = [key, &[0; 9][..]].concat();
            assert_eq!(block.get(&absent).is_some(), all.contains_key(&absent));
        }
    }
}

#[test]
fn a_block_that_compresses_badly_is_stored_raw_and_one_that_compresses_well_is_not() {
    let mut random = fastrand::Rng::with_seed(5);
    let noise: Vec<u8> = (0..400).map(|_| random.u8(..)).collect();
    let bytes = stored(&Entries::from([(b"key".to_vec(), Some(noise))]));
    assert_eq!(bytes[4], RAW);
    parse(&bytes).unwrap();
    let bytes = stored(&Entries::from([(b"key".to_vec(), Some(vec![7; 4000]))]));
    assert_eq!(bytes[4], LZ4);
    assert!(bytes.len() < 100);
    assert_eq!(contents(&parse(&bytes).unwrap(), b"")[0].1, Some(vec![7; 4000]));
}

#[test]
fn no_flipped_bit_or_cut_is_accepted() {
    let bytes = stored(&entries(3, 40));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
    for cut in 0..bytes.len() {
        assert!(parse(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(Block::parse(bytes, seal(), OFFSET + 1).is_err(), "in another place");
}

/// Gives changed bytes a right checksum, so that later checks are tested.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = seal().at(OFFSET).over(&bytes[4..]).value();
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn entries_that_make_no_sense_are_refused_even_with_a_right_checksum() {
    let (mut accepted, mut refused) = (0, 0);
    crate::fuzz::rounds(40_000, |round, random| {
        let mut bytes = stored(&entries(round % 50, 40));
        if round % 2 == 0 {
            // Make it raw, so that changes hit entries and not compressed bytes.
            let raw = Block::parse(bytes, seal(), OFFSET).unwrap().raw;
            bytes = vec![0; 8];
            bytes.extend_from_slice(&(raw.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&raw);
        }
        for _ in 0..1 + round % 3 {
            let at = 4 + random.usize(..bytes.len() - 4);
            bytes[at] = random.u8(..);
        }
        match parse(&sealed(bytes)) {
            Err(_) => refused += 1,
            Ok(block) => {
                accepted += 1;
                let found = contents(&block, b"");
                assert_eq!(found.len(), block.count());
                assert!(found.is_sorted_by(|a, b| a.0 < b.0));
                for (key, _) in &found {
                    assert!(block.get(key).is_some());
                }
            }
        }
    });
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

#[test]
fn random_bytes_are_refused_without_panic() {
    crate::fuzz::rounds(20_000, |round, random| {
        let mut bytes: Vec<u8> = (0..12 + round % 60).map(|_| random.u8(..)).collect();
        bytes[4] %= 3;
        bytes[8] = (bytes.len() - 12) as u8;
        bytes[9..12].fill(0);
        let _ = parse(&sealed(bytes));
    });
}
