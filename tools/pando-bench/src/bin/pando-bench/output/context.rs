//! What is stored with every figure.

use pando_bench::machine::Machine;
use serde_json::{Value, json};

/// The version, command line and machine, which are stored with every figure.
pub fn context() -> Value {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "command": words.collect::<Vec<_>>(),
        "machine": Machine::this(),
    })
}

/// Returns the object `to` with the fields of `more` added.
pub fn with(mut to: Value, more: Value) -> Value {
    if let (Value::Object(to), Value::Object(more)) = (&mut to, more) {
        to.extend(more);
    }
    to
}
