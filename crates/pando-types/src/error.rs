//! Errnos that Pando returns, with their numbers on Linux, names and texts.

use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// An errno as Linux numbers it on x86-64 and arm64.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(i32)]
        pub enum Errno {
            $(#[doc = $text] $name = $number,)*
        }

        impl Errno {
            /// The number, positive.
            #[must_use]
            pub const fn number(self) -> i32 {
                self as i32
            }

            /// Its symbol, as in `errno.h`.
            #[must_use]
            pub const fn symbol(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it means, in words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    EBADF = 9, "bad file descriptor";
    EAGAIN = 11, "try again";
    EACCES = 13, "permission denied";
    EBUSY = 16, "busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "not within one file system";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    ERANGE = 34, "result too large";
    ENAMETOOLONG = 36, "name too long";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many levels of symbolic links";
    ENODATA = 61, "no such attribute";
    EOVERFLOW = 75, "value too large";
    EOPNOTSUPP = 95, "not supported";
    ETIMEDOUT = 110, "timed out";
    ESTALE = 116, "stale handle";
    // New errnos come last: records store an errno as its index in this list.
    ENOLCK = 37, "no locks available";
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.symbol())
    }
}

impl core::error::Error for Errno {}
