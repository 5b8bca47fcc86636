//! Malformed frames: they end their own connection, and no other.

use pando_types::ShardIndex;
use pando_types::op::{Op, RequestId};
use pando_wire::{Ask, Message, Stream, encode};

use crate::{Client, Served, Volume, request, run};

/// One whole, good frame.
fn good() -> Vec<u8> {
    let request = request(RequestId::default(), Op::StatFs(ShardIndex(0)));
    let mut bytes = Vec::new();
    encode(&mut bytes, Stream(5), &Message::Request(request));
    bytes
}

/// Sends raw bytes on a connection of their own. The server closes that connection, and `witness`
/// goes on.
async fn is_closed_for(served: &Served, witness: &mut Client, bytes: &[u8]) {
    let mut hostile = served.client(&served.tcp()).await;
    hostile.out.append(|out| out.extend_from_slice(bytes));
    hostile.out.flush();
    assert!(hostile.reply().await.is_none(), "{bytes:02x?}");
    assert!(witness.works().await);
}

#[test]
fn a_damaged_frame_ends_its_own_connection_and_no_other() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut witness = served.client(&served.tcp()).await;
        let good = good();
        // Bytes outside of the length field, which the next tests change.
        for position in [4, 8, 9, 10, 12, 20, good.len() - 1] {
            let mut bad = good.clone();
            bad[position] ^= 0x40;
            is_closed_for(&served, &mut witness, &bad).await;
        }
    });
}

#[test]
fn a_length_is_not_believed() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut witness = served.client(&served.unix()).await;
        for length in [0_u32, 15, (1 << 20) + 1, 1 << 24, u32::MAX] {
            let mut bad = good();
            bad[..4].copy_from_slice(&length.to_le_bytes());
            is_closed_for(&served, &mut witness, &bad).await;
        }
    });
}

#[test]
fn a_frame_that_is_cut_short_hurts_no_other_connection() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut witness = served.client(&served.unix()).await;
        for length in 0..good().len() {
            let cut = served.client(&served.unix()).await;
            cut.out.append(|out| out.extend_from_slice(&good()[..length]));
            cut.out.flush();
            cut.out.close();
        }
        assert!(witness.works().await);
        crate::until(|| served.server.connections() == 1).await;
    });
}

#[test]
fn a_frame_in_pieces_is_whole_in_the_end() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut client = served.client(&served.tcp()).await;
        for byte in good() {
            client.out.append(|out| out.push(byte));
            client.out.flush();
            tokio::task::yield_now().await;
        }
        assert_eq!(client.reply().await.unwrap().0, 5);
    });
}

#[test]
fn what_only_others_may_say_ends_the_connection() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut witness = served.client(&served.tcp()).await;
        let mut bytes = Vec::new();
        encode(&mut bytes, Stream(1), &Message::Ask(Ask::Stop));
        is_closed_for(&served, &mut witness, &bytes).await;
    });
}

#[test]
fn noise_ends_connections_and_nothing_else() {
    let volume = Volume::new(1);
    let served = volume.serve(&[0], volume.options(0));
    run(async {
        let mut witness = served.client(&served.unix()).await;
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let noise = served.client(&served.unix()).await;
            // Every second input begins with a good frame.
            let mut bytes = if random.bool() { good() } else { Vec::new() };
            bytes.extend((0..random.usize(..300)).map(|_| random.u8(..)));
            if let Some(byte) = random.choice(&mut bytes) {
                *byte = random.u8(..);
            }
            noise.out.append(|out| out.extend_from_slice(&bytes));
            noise.out.flush();
            noise.out.close();
        }
        assert!(witness.works().await);
    });
}
