//! The fuzzer: libFuzzer with the target that `PANDO_FUZZ` names. There is one program for all
//! targets, so that it is linked once. `seeds` is no target: it writes the inputs with which
//! fuzzing begins.
#![no_main]

use std::sync::OnceLock;

use pando_fuzz::{TARGETS, Target, seeds};

static TARGET: OnceLock<Target> = OnceLock::new();

fn begin() {
    let name = std::env::var("PANDO_FUZZ").unwrap_or_default();
    if name == "seeds" {
        seeds::write().expect("the corpus can be written");
        std::process::exit(0);
    }
    let found = TARGETS.into_iter().find(|(target, _)| *target == name);
    TARGET.get_or_init(|| {
        let names = TARGETS.map(|(name, _)| name).join(", ");
        found.unwrap_or_else(|| panic!("PANDO_FUZZ is `{name}`; targets are {names}"))
    });
}

libfuzzer_sys::fuzz_target!(init: begin(), |bytes: &[u8]| {
    if let Some((_, run)) = TARGET.get() {
        run(bytes);
    }
});
