//! The program that the keeper starts, made ready once so that a start allocates nothing.

use std::ffi::{CString, OsString, c_char};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{CWD, Mode, OFlags};

/// A program by its descriptor, with arguments and environment as `execve` wants them.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) file: OwnedFd,
    arguments: Strings,
    environment: Strings,
}

/// Strings, and a list of pointers to them that ends with a null pointer.
#[derive(Debug)]
struct Strings {
    _owned: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Program {
    /// This very program, with these arguments; the first one is its name. A file that is replaced
    /// later does not matter.
    pub(crate) fn own(arguments: Vec<OsString>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, c"/proc/self/exe", flags, Mode::empty())?;
        let environment = std::env::vars_os().map(|(name, value)| {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            pair
        });
        let environment = Strings::new(environment.collect())?;
        Ok(Self { file, arguments: Strings::new(arguments)?, environment })
    }

    pub(crate) fn arguments(&self) -> *const *const c_char {
        self.arguments.pointers.as_ptr()
    }

    pub(crate) fn environment(&self) -> *const *const c_char {
        self.environment.pointers.as_ptr()
    }
}

impl Strings {
    fn new(strings: Vec<OsString>) -> io::Result<Self> {
        let owned = strings
            .into_iter()
            .map(|string| CString::new(string.into_vec()))
            .collect::<Result<Vec<_>, _>>()?;
        let pointers =
            owned.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(Self { _owned: owned, pointers })
    }
}
