//! Arguments of `pando auth` and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pando_keys::{DAYS, KeyRole, Squash};
use pando_wire::Address;

use crate::console::number::number;

/// Issue, renew and revoke keys with which clients and servers connect over TCP
///
/// Each volume has its own certificate authority, in FOLDER/keys. It issues one file for each
/// client or server: a key with its certificate, the authority's certificate, and addresses of
/// servers. Whoever has the file may do what it allows, so send it only over secure channels. Unix
/// sockets need no key, since the kernel names the process that connects.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando auth add ada --volume ~/volume > ada.pem      a key for Ada's machine
  pando mount 10.0.0.1:7400 ~/tree --key ada.pem      what she does with it, there
  pando auth list --volume ~/volume
  pando auth revoke ada --volume ~/volume")]
pub struct AuthArgs {
    #[command(subcommand)]
    pub command: AuthCommand,
}

#[derive(Subcommand, Debug)]
pub enum AuthCommand {
    /// Make FOLDER/keys for a volume without one; `pando format` does this for a new volume
    ///
    /// The folder then holds the authority's certificate (ca.crt) and key (ca.key), a key for
    /// servers (server.pem), and one for the volume's owner (admin.pem). Only commands that issue
    /// certificates need ca.key, so it may be kept elsewhere.
    #[command(after_help = "Example:\n  pando auth init ~/volume")]
    Init(InitArgs),
    /// Issue a key, and write it to standard output
    #[command(after_help = "\
Examples:
  pando auth add ada > ada.pem                                  in the volume's folder
  pando auth add guest --ro --squash all:65534:65534 > guest.pem
  pando auth add build --squash root --days 30 > build.pem      root there is nobody here
  pando auth add host2 --role server > host2.pem                for a server with a folder of its own
  pando auth add ada | ssh ada@there 'umask 077; cat > .config/pando/volume.pem'")]
    Add(AddArgs),
    /// Show the certificates that were issued
    List(ListArgs),
    /// Revoke certificates: their connections are cut, and new ones refused
    ///
    /// Servers tell each other and all mounts. A mount disconnects from a server whose key was
    /// revoked. A new mount cannot know of a revocation if it reaches only the revoked server.
    #[command(
        after_help = "Examples:\n  pando auth revoke ada\n  pando auth revoke 5b0c1f…  one of ada's certificates"
    )]
    Revoke(RevokeArgs),
    /// Issue another certificate for the same name, and write it to standard output
    ///
    /// Name, role and options stay, and sessions go on. The old certificate stays valid until it
    /// expires or is revoked by its serial number. The volume's own keys (server, admin) are
    /// renewed in their files.
    #[command(
        after_help = "Examples:\n  pando auth renew ada > ada.pem\n  pando auth renew server"
    )]
    Renew(RenewArgs),
    /// Replace the authority: first both are valid, then only the new one
    ///
    /// Old certificates stay valid. New ones are valid everywhere at once, also at servers that do
    /// not know the new authority yet. Renew each key and send it to its holder, then end the old
    /// authority with --finish. Keys that name both authorities need not be renewed again.
    #[command(after_help = "\
Examples:
  pando auth rotate
  pando auth renew ada > ada.pem      and so each
  pando auth rotate --finish")]
    Rotate(RotateArgs),
}

impl AuthCommand {
    pub const fn as_json(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            _ => false,
        }
    }
}

#[derive(Args, Debug)]
pub struct InitArgs {
    /// Folder of the volume
    pub folder: PathBuf,
}

/// Which volume.
#[derive(Args, Debug)]
pub struct VolumeArgs {
    /// Folder of the volume
    #[arg(long = "volume", value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
}

/// Where its authority's key is.
#[derive(Args, Debug)]
pub struct AuthorityArgs {
    /// File with the authority's key [default: FOLDER/keys/ca.key]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct AddArgs {
    /// Name of the key: 1 to 64 characters of A-Z a-z 0-9 . _ -
    pub name: String,
    /// client: mount the volume. admin: whatever the volume's owner may do. server: serve shards
    #[arg(long, value_name = "client|admin|server", default_value = "client", value_parser = parse::<KeyRole>)]
    pub role: KeyRole,
    /// Allow no changes
    #[arg(long)]
    pub ro: bool,
    /// Replace users and groups: of root only, or of all. `root` alone: 65534:65534
    #[arg(long, value_name = "root[:UID:GID]|all:UID:GID", value_parser = parse_squash)]
    pub squash: Option<Squash>,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = number::<u16>(1..=3650))]
    pub days: u16,
    /// Address of a server that the file names; may be given several times [default: the present
    /// ones]
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<Address>,
    #[command(flatten)]
    pub authority: AuthorityArgs,
}

#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Show also certificates that were renewed, were revoked, or have expired
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// Name of a key, to revoke all its certificates; or the serial number of one certificate
    #[arg(value_name = "NAME|SERIAL")]
    pub what: String,
    #[command(flatten)]
    pub volume: VolumeArgs,
}

#[derive(Args, Debug)]
pub struct RenewArgs {
    /// Name of the key
    pub name: String,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Days for which the certificate is valid
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = number::<u16>(1..=3650))]
    pub days: u16,
    /// Address of a server that the file names; may be given several times [default: as before]
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<Address>,
    #[command(flatten)]
    pub authority: AuthorityArgs,
}

#[derive(Args, Debug)]
pub struct RotateArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// End the old authority; refused while a key has only certificates of the old one
    #[arg(long, conflicts_with = "authority")]
    pub finish: bool,
    /// End it even so; such keys are refused from then on
    #[arg(long, requires = "finish")]
    pub force: bool,
    /// File with the old authority's key, which the new key replaces [default: FOLDER/keys/ca.key]
    #[arg(id = "authority", long = "ca", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

fn parse<T: std::str::FromStr<Err = pando_keys::KeyError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: pando_keys::KeyError| error.to_string())
}

fn parse_squash(text: &str) -> Result<Squash, String> {
    match text {
        "root" => Ok(Squash::Root { uid: Squash::NOBODY, gid: Squash::NOBODY }),
        _ => parse(text),
    }
}
