//! Requests as the kernel sends them. Their length field is corrected, unless the first byte is
//! odd.

use crate::protocol::operation::Operation;
use crate::protocol::request::Request;

pub fn run(input: &[u8]) {
    let Some((&how, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if let (0, Some(length)) = (how & 1, bytes.len().try_into().ok())
        && let Some(field) = bytes.first_chunk_mut::<4>()
    {
        *field = u32::to_ne_bytes(length);
    }
    let Ok(request) = Request::parse(&bytes) else { return };
    let name_is_right = |name: &[u8]| assert!(!name.contains(&0), "a name has no NUL");
    match request.operation {
        Operation::BatchForget(forgets) => assert!(forgets.count() * 16 <= bytes.len()),
        Operation::Symlink { name, target } => [name, target].into_iter().for_each(name_is_right),
        Operation::Rename { name, new_name, .. } => {
            [name, new_name].into_iter().for_each(name_is_right);
        }
        Operation::Lookup { name }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. }
        | Operation::Getxattr { name, .. }
        | Operation::Setxattr { name, .. }
        | Operation::Removexattr { name } => name_is_right(name),
        _ => {}
    }
}
