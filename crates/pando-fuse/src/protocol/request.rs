//! Parses a request of the kernel from bytes. Malformed bytes cause an error and nothing else.

use zerocopy::FromBytes;

use crate::protocol::abi::{self, opcode};
use crate::protocol::body::Body;
use crate::protocol::operation::Operation;

/// A request, parsed as far as that needs no knowledge of the file system.
#[derive(Debug)]
pub struct Request<'a> {
    /// Number of the request.
    pub unique: u64,
    /// Opcode of the request, one of [`opcode`].
    pub opcode: u32,
    /// Node that the request is about. For operations on names this is the directory.
    pub node: u64,
    /// The user, group and thread that the request runs for.
    pub caller: Caller,
    /// The operation and its arguments.
    pub operation: Operation<'a>,
}

/// The user, group and thread that a request runs for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// User id for file systems (fsuid).
    pub uid: u32,
    /// Group id for file systems (fsgid).
    pub gid: u32,
    /// Number of the thread; 0 if the kernel cannot tell it.
    pub pid: u32,
    /// Number of the request, valid until it is answered.
    pub request: u64,
}

/// Bytes that do not parse as a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Number that an error reply goes to. `None` if the number is missing, or no reply is wanted.
    pub unique: Option<u64>,
}

impl<'a> Request<'a> {
    /// Parses one request.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) =
            abi::InHeader::read_from_prefix(bytes).map_err(|_| Malformed { unique: None })?;
        let wants_answer = !matches!(
            header.opcode,
            opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::NOTIFY_REPLY
        );
        let malformed = Malformed { unique: wants_answer.then_some(header.unique) };
        if header.len as usize != bytes.len() {
            return Err(malformed);
        }
        let extensions = usize::from(header.total_extlen) * 8;
        let body = body.len().checked_sub(extensions).map(|len| &body[..len]).ok_or(malformed)?;
        Ok(Self {
            unique: header.unique,
            opcode: header.opcode,
            node: header.nodeid,
            caller: Caller {
                uid: header.uid,
                gid: header.gid,
                pid: header.pid,
                request: header.unique,
            },
            operation: Body::new(body).operation(header.opcode).ok_or(malformed)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let len = (size_of::<abi::InHeader>() + body.len()) as u32;
        let header =
            abi::InHeader { len, opcode: code, unique: 6, nodeid: 1, ..Default::default() };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn requests_are_understood() {
        let bytes = request(opcode::LOOKUP, b"name\0");
        let parsed = Request::parse(&bytes).unwrap();
        assert!(matches!(parsed.operation, Operation::Lookup { name: b"name" }));
        assert_eq!((parsed.unique, parsed.node), (6, 1));
        let head = abi::WriteIn { offset: 9, size: 3, ..Default::default() };
        let bytes = request(opcode::WRITE, &[head.as_bytes(), b"abc"].concat());
        let parsed = Request::parse(&bytes).unwrap().operation;
        assert!(matches!(parsed, Operation::Write { offset: 9, data: b"abc", .. }));
        let forgets = [abi::ForgetOne { nodeid: 5, nlookup: 2 }; 3];
        let head = abi::BatchForgetIn { count: 3, dummy: 0 };
        let bytes = request(opcode::BATCH_FORGET, &[head.as_bytes(), forgets.as_bytes()].concat());
        let Operation::BatchForget(list) = Request::parse(&bytes).unwrap().operation else {
            panic!("a batch")
        };
        assert_eq!(list.collect::<Vec<_>>(), [(5, 2); 3]);
        let bytes = request(1000, b"whatever");
        assert!(matches!(
            Request::parse(&bytes).unwrap().operation,
            Operation::Other { opcode: 1000 }
        ));
    }

    #[test]
    fn what_is_cut_short_is_refused_with_its_number() {
        let head = abi::SetxattrIn { size: 5, flags: 0 };
        let whole = request(opcode::SETXATTR, &[head.as_bytes(), b"user.a\0value"].concat());
        assert!(Request::parse(&whole).is_ok());
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            let unique = (len >= size_of::<abi::InHeader>()).then_some(6);
            assert_eq!(Request::parse(&cut).unwrap_err(), Malformed { unique });
            if unique.is_some() {
                cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                assert_eq!(Request::parse(&cut).unwrap_err(), Malformed { unique });
            }
        }
        let nothing = Malformed { unique: None };
        assert_eq!(Request::parse(&request(opcode::FORGET, b"")).unwrap_err(), nothing);
        let many = abi::BatchForgetIn { count: u32::MAX, dummy: 0 };
        let bytes = request(opcode::BATCH_FORGET, many.as_bytes());
        assert_eq!(Request::parse(&bytes).unwrap_err(), nothing);
    }
}
