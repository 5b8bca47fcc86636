//! Arguments of `pando auth` and their help.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pando_keys::{DAYS, KeyRole, Squash};
use pando_wire::Address;

use crate::console::number::number;

/// Who may come to a volume over TCP: keys and certificates
///
/// Each volume has an authority of its own, in FOLDER/keys. It issues one file to each who may
/// come: a key with its certificate, the authority's own, and addresses of servers. Whoever has the
/// file has what it allows, so it travels on safe ways only. Unix sockets need no key: there the
/// system says who comes.
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
    /// Make FOLDER/keys for a volume that has none; `pando format` does this for a new one
    ///
    /// There are then the authority's certificate (ca.crt) and key (ca.key), a key for servers
    /// (server.pem) and one for the volume's owner (admin.pem). Only what issues certificates needs
    /// ca.key: it may be kept elsewhere.
    #[command(after_help = "Example:\n  pando auth init ~/volume")]
    Init(InitArgs),
    /// Issue a key, to standard output
    #[command(after_help = "\
Examples:
  pando auth add ada > ada.pem                                  in the volume's folder
  pando auth add guest --ro --squash all:65534:65534 > guest.pem
  pando auth add build --squash root --days 30 > build.pem      root there is nobody here
  pando auth add host2 --role server > host2.pem                for a server with a folder of its own
  pando auth add ada | ssh ada@there 'umask 077; cat > .config/pando/volume.pem'")]
    Add(AddArgs),
    /// Show what was issued
    List(ListArgs),
    /// End what was issued: its connections are cut, and nobody comes with it any more
    ///
    /// Servers tell each other, and tell all mounts: these leave a server whose key was revoked. A
    /// mount that begins while only such a server answers has not heard of it yet.
    #[command(
        after_help = "Examples:\n  pando auth revoke ada\n  pando auth revoke 5b0c1f…  one of ada's certificates"
    )]
    Revoke(RevokeArgs),
    /// Issue another certificate to the same holder, to standard output
    ///
    /// Name, role and options stay, and sessions go on with it. The old certificate counts until it
    /// ends or is revoked by its serial number. The volume's own keys (server, admin) are renewed
    /// in their files.
    #[command(
        after_help = "Examples:\n  pando auth renew ada > ada.pem\n  pando auth renew server"
    )]
    Renew(RenewArgs),
    /// Change the authority: first both count, then the new one alone
    ///
    /// What was issued goes on to count, and new certificates count everywhere, also where the new
    /// authority is not known yet. Renew each key, give it to its holder, then end the old
    /// authority with --finish. Keys that name both need not be renewed again: servers tell their
    /// holders that the old one has ended.
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
    /// Where the volume is kept
    pub folder: PathBuf,
}

/// Which volume.
#[derive(Args, Debug)]
pub struct VolumeArgs {
    /// Where the volume is kept
    #[arg(long = "volume", value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
}

/// Where its authority's key is.
#[derive(Args, Debug)]
pub struct AuthorityArgs {
    /// The authority's key, if it is not in FOLDER/keys/ca.key
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct AddArgs {
    /// What it is called: 1 to 64 of A-Z a-z 0-9 . _ -
    pub name: String,
    /// client: mounts. admin: may do all that the volume's owner may. server: serves shards
    #[arg(long, value_name = "client|admin|server", default_value = "client", value_parser = parse::<KeyRole>)]
    pub role: KeyRole,
    /// Its holder may change nothing
    #[arg(long)]
    pub ro: bool,
    /// As whom its holder acts: root and group 0 only, or everybody [root alone: 65534:65534]
    #[arg(long, value_name = "root[:UID:GID]|all:UID:GID", value_parser = parse_squash)]
    pub squash: Option<Squash>,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// How long it counts
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = number::<u16>(1..=3650))]
    pub days: u16,
    /// Where its holder finds servers; may be given more than once [default: where they are now]
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<Address>,
    #[command(flatten)]
    pub authority: AuthorityArgs,
}

#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// Also what ended long ago: what was renewed, revoked or is too old
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// A name: all its certificates. A serial number: that one
    #[arg(value_name = "NAME|SERIAL")]
    pub what: String,
    #[command(flatten)]
    pub volume: VolumeArgs,
}

#[derive(Args, Debug)]
pub struct RenewArgs {
    /// Whose
    pub name: String,
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// How long it counts
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = number::<u16>(1..=3650))]
    pub days: u16,
    /// Where its holder finds servers; may be given more than once [default: as before]
    #[arg(long = "address", value_name = "ADDRESS")]
    pub addresses: Vec<Address>,
    #[command(flatten)]
    pub authority: AuthorityArgs,
}

#[derive(Args, Debug)]
pub struct RotateArgs {
    #[command(flatten)]
    pub volume: VolumeArgs,
    /// End the old authority; refused while somebody has nothing but its certificates
    #[arg(long, conflicts_with = "authority")]
    pub finish: bool,
    /// End it although some have nothing else: they are cut off
    #[arg(long, requires = "finish")]
    pub force: bool,
    /// The old authority's key, if it is not in FOLDER/keys/ca.key; the new one's takes its place
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
