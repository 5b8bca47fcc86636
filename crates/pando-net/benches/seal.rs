//! Measures the sealing of a batch of messages and its opening, without a socket. Prints JSON,
//! nanoseconds a batch.
//!
//! `cargo bench -p pando-net --features fuzzing --bench seal`

use std::hint::black_box;
use std::time::Instant;

use pando_net::tls::measuring::Direction;

/// Lengths of batches, bytes. A request or a reply has 50 to 250.
const LENGTHS: [usize; 5] = [64, 128, 256, 1024, 16_384];
const BATCHES: u32 = 20_000;
const ROUNDS: usize = 9;

fn main() {
    let mut direction = Direction::new();
    let rows: Vec<String> = LENGTHS.iter().map(|length| row(&mut direction, *length)).collect();
    println!("[{}]", rows.join(", "));
}

fn row(direction: &mut Direction, length: usize) -> String {
    let batch = vec![0x5A; length];
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| round(direction, &batch)).collect();
    times.sort_by(f64::total_cmp);
    format!(
        r#"{{"bytes": {length}, "ns_median": {:.0}, "ns_least": {:.0}}}"#,
        times[ROUNDS / 2],
        times[0]
    )
}

fn round(direction: &mut Direction, batch: &[u8]) -> f64 {
    let start = Instant::now();
    for _ in 0..BATCHES {
        black_box(direction.carry(black_box(batch)));
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCHES)
}
