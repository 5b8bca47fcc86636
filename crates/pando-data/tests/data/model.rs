//! Random operations on a file, compared with an array of bytes, while other clients and threads
//! interfere.

use crate::common::model::{self, run};

#[test]
fn a_file_is_the_array_of_its_bytes() {
    for seed in 0..15 {
        run(seed, 0);
    }
}

#[test]
fn it_stays_so_while_others_change_its_version_and_form() {
    for seed in 100..115 {
        run(seed, 2 + seed % 3);
    }
}

#[test]
fn what_another_mount_wrote_is_read_once_it_was_heard_of() {
    model::what_another_mount_wrote_is_read();
}
