//! What the rooms of the store share: keys, positions, errors, the encoding of fields, options.

pub mod codec;
pub mod definition;
pub mod error;
pub mod filter;
pub mod ids;
pub mod key;
pub mod mix;
pub mod options;
pub mod prefetch;
pub mod ranges;
pub mod select;
