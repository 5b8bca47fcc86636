//! Extended attributes.
//!
//! 1. Access control lists do not exist yet, so their attributes are refused rather than stored
//!    without effect. So is `security.capability`: it would have to vanish at every write to its
//!    file.
//! 2. If `security.selinux` is not set, the answer is "not supported" rather than "no such
//!    attribute". `ls -l` asks each file for it, which would be half of all its requests. After
//!    this answer it asks once per file system. Where SELinux runs, the kernel answers for labels
//!    itself.

use pando_types::op::{XATTR_NAME_MAX, XATTR_VALUE_MAX, XattrMode};
use pando_types::{Credentials, Errno, Ino};

use crate::vfs::file_system::Vfs;

const SELINUX: &[u8] = b"security.selinux";
const CAPABILITY: &[u8] = b"security.capability";
const ACL_PREFIX: &[u8] = b"system.posix_acl_";
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

impl Vfs {
    /// Value of an extended attribute.
    pub async fn getxattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        if name == CAPABILITY {
            // The kernel asks for it before the first write to a file. No message is needed for the
            // answer.
            return Err(Errno::ENODATA);
        }
        check_name(name)?;
        match self.namespace.getxattr(credentials, ino, name).await {
            Err(Errno::ENODATA) if name == SELINUX => Err(Errno::EOPNOTSUPP),
            value => value,
        }
    }

    /// Names of all extended attributes, each ended by a NUL.
    pub async fn listxattr(&self, credentials: &Credentials, ino: Ino) -> Result<Vec<u8>, Errno> {
        let names = self.namespace.listxattr(credentials, ino).await?;
        Ok(names.iter().flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    /// Sets an extended attribute, with the flags of `setxattr(2)`.
    pub async fn setxattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<(), Errno> {
        check_name(name)?;
        if value.len() > XATTR_VALUE_MAX {
            return Err(Errno::ERANGE);
        }
        let mode = match flags {
            0 => XattrMode::Any,
            XATTR_CREATE => XattrMode::Create,
            XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::EINVAL),
        };
        self.namespace.setxattr(credentials, ino, name, value, mode).await
    }

    /// Removes an extended attribute.
    pub async fn removexattr(
        &self,
        credentials: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Result<(), Errno> {
        if name == CAPABILITY {
            return Err(Errno::ENODATA);
        }
        check_name(name)?;
        self.namespace.removexattr(credentials, ino, name).await
    }
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        _ if name.starts_with(ACL_PREFIX) || name == CAPABILITY => Err(Errno::EOPNOTSUPP),
        [] => Err(Errno::EINVAL),
        _ if name.len() > XATTR_NAME_MAX => Err(Errno::ERANGE),
        _ => Ok(()),
    }
}
