//! Throws mutated and random bytes at a decoder: it must refuse or accept, never panic. More rounds with `PANDO_LONG`.

/// Calls `decode` with variations of `sample`: bytes changed, inserted, removed, cut, and pure noise.
pub(crate) fn mutations(sample: &[u8], mut decode: impl FnMut(&[u8])) {
    let rounds = if std::env::var_os("PANDO_LONG").is_some() { 2_000_000 } else { 30_000 };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below.max(1)
    };
    for round in 0..rounds {
        let mut bytes = sample.to_vec();
        if round % 16 == 0 {
            bytes = (0..random(sample.len() * 2)).map(|_| random(256) as u8).collect();
        }
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            // Small numbers, the largest, and single bits are what decoders stumble over.
            let byte = match random(4) {
                0 => random(4) as u8,
                1 => 0xff - random(2) as u8,
                2 => bytes.get(at).copied().unwrap_or_default() ^ 1 << random(8),
                _ => random(256) as u8,
            };
            match random(8) {
                0 => bytes.insert(at, byte),
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => {
                    if let Some(old) = bytes.get_mut(at) {
                        *old = byte;
                    }
                }
            }
        }
        decode(&bytes);
    }
}
