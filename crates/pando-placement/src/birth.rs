//! Predictable directory ids: a keyed hash of the birth triple (InfiniFS §3.3.1).
//!
//! ```text
//!   0             16          20                    at most 275
//!   │ parent id   │ version   │ name, no terminator │
//!                   big-endian
//! ```
//!
//! The parts of fixed length come first, so that no two triples have one input. The paper's rename
//! list and back-pointer are not needed. The content record under an id tells whether the id is
//! taken, and mkdir takes the first free id of [`Secrets::births`]. Collisions are resolved that
//! way, too, even one with the root's id.

use pando_types::{DirId, Name};

use crate::Secrets;

const ID_LEN: usize = size_of::<DirId>();
const NAME_START: usize = ID_LEN + size_of::<u32>();
const TRIPLE_LEN_MAX: usize = NAME_START + Name::MAX_LEN;

impl Secrets {
    /// The id of the directory born as `name` in `parent`: the first 128 bits of keyed BLAKE3 over
    /// the triple. `version` counts siblings that were born there under that name and now live
    /// elsewhere. It is nearly always 0, which is what clients predict (InfiniFS §3.3.2).
    #[must_use]
    pub fn dir_id(&self, parent: DirId, name: &Name, version: u32) -> DirId {
        let name = name.as_bytes();
        let len = NAME_START + name.len();
        let mut triple = [0; TRIPLE_LEN_MAX];
        triple[..ID_LEN].copy_from_slice(&parent.0);
        triple[ID_LEN..NAME_START].copy_from_slice(&version.to_be_bytes());
        triple[NAME_START..len].copy_from_slice(name);

        let hash = blake3::keyed_hash(&self.dir, &triple[..len]);
        let mut id = [0; ID_LEN];
        id.copy_from_slice(&hash.as_bytes()[..ID_LEN]);
        DirId(id)
    }

    /// Ids with which `name` may be born in `parent`, in the order in which mkdir tries them.
    pub fn births(&self, parent: DirId, name: &Name) -> impl Iterator<Item = (u32, DirId)> {
        (0..=u32::MAX).map(move |version| (version, self.dir_id(parent, name, version)))
    }
}
