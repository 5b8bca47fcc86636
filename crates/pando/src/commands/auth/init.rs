//! `pando auth init`: makes the keys of a volume that has none.

use pando_keys::KeysFolder;
use pando_server::Folder;

use super::args::InitArgs;
use crate::console::output;
use crate::failure::Failure;

pub fn run(args: &InitArgs) -> Result<(), Failure> {
    let folder = Folder::new(&args.folder)?;
    let superblock = folder.read()?;
    let keys = KeysFolder::create(&folder.keys(), superblock.id()).map_err(Failure::plain)?;
    output::line(&format!(
        "made {}; `pando auth add NAME --volume {} > NAME.pem` issues a key",
        keys.path().display(),
        folder.path().display()
    ));
    Ok(())
}
