//! Finds the key that a command uses.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use pando_keys::{Bundle, KeyError, KeyRole, KeysFolder, validity_of};
use pando_net::Keys;
use pando_server::{Folder, Superblock};
use pando_wire::Address;

use crate::console::output::say;
use crate::console::text::several;
use crate::failure::Failure;
use crate::volume::named::Named;

/// The environment variable that names a key's file.
const VARIABLE: &str = "PANDO_KEY";

/// Places to look for keys.
struct Places {
    /// The file that [`VARIABLE`] names.
    variable: Option<PathBuf>,
    /// Folders with files `*.pem`. The first folder that has a key for the volume counts.
    folders: Vec<PathBuf>,
}

impl Places {
    fn here() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
        let folders = config.into_iter().chain([PathBuf::from("/etc")]);
        let folders = folders.map(|folder| folder.join("pando")).collect();
        Self { variable: set(VARIABLE), folders }
    }
}

/// Finds the key for a volume. `None`: there is none; over Unix sockets none is needed.
///
/// The first of these counts:
/// 1. the file that the user named,
/// 2. the file that `$PANDO_KEY` names,
/// 3. the owner's key in the volume's folder,
/// 4. a key for this volume, or with one of its addresses, in `~/.config/pando`, then in
///    `/etc/pando`.
pub fn find(named: &Named, file: Option<&PathBuf>) -> Result<Option<Keys>, Failure> {
    let Some((path, bundle)) = choose(named, file, &Places::here())? else { return Ok(None) };
    tell_end(&path, &bundle)?;
    let wrong = |error| Failure::plain(format!("{}: {error}", path.display()));
    Keys::new(&bundle).map(Some).map_err(wrong)
}

/// The key of a server: the named file, or else the volume's own key. The volume's folder of keys
/// says which certificates the server accepts. If that folder is not the owner's, the named key
/// brings the authority along.
pub fn of_server(
    folder: &Folder,
    superblock: &Superblock,
    file: Option<&PathBuf>,
) -> Result<Option<Keys>, Failure> {
    let keys = folder.keys();
    let own = keys.join(format!("{}.pem", KeyRole::Server));
    let path = match file {
        Some(path) => path,
        None if own.exists() => &own,
        None => return Ok(None),
    };
    let bundle = Bundle::read(path).map_err(Failure::plain)?;
    check_volume(path, &bundle, superblock.id())?;
    tell_end(path, &bundle)?;
    if file.is_some() && !KeysFolder::is_owners(&keys) {
        KeysFolder::adopt(&keys, &bundle).map_err(Failure::plain)?;
    }
    let wrong = |error| Failure::plain(format!("{}: {error}", path.display()));
    Keys::of_folder(&bundle, &keys).map(Some).map_err(wrong)
}

fn choose(
    named: &Named,
    file: Option<&PathBuf>,
    places: &Places,
) -> Result<Option<(PathBuf, Bundle)>, Failure> {
    if let Some(path) = file.or(places.variable.as_ref()) {
        let bundle = Bundle::read(path).map_err(|error| match file {
            Some(_) => Failure::plain(error),
            None => Failure::plain(format!("the key that ${VARIABLE} names: {error}")),
        })?;
        if let Named::Folder(_, superblock) = named {
            check_volume(path, &bundle, superblock.id())?;
        }
        return Ok(Some((path.clone(), bundle)));
    }
    match named {
        Named::Folder(folder, superblock) => {
            let own = folder.keys().join(format!("{}.pem", KeyRole::Admin));
            if let Some(bundle) = read(&own, Bundle::read) {
                return Ok(Some((own, bundle)));
            }
            look(places, &named.shown(), |bundle| bundle.identity.volume == superblock.id())
        }
        Named::Servers(servers) => {
            let is_tcp = |address: &&Address| matches!(address, Address::Tcp(..));
            let shown: Vec<_> = servers.iter().filter(is_tcp).map(Address::to_string).collect();
            let serves = |address: &String| shown.contains(address);
            look(places, &named.shown(), |bundle| bundle.addresses.iter().any(serves))
        }
    }
}

/// The one key that fits, from the first folder that has any. Several in one folder are an error.
fn look(
    places: &Places,
    shown: &str,
    fits: impl Fn(&Bundle) -> bool,
) -> Result<Option<(PathBuf, Bundle)>, Failure> {
    for folder in &places.folders {
        let mut found: Vec<_> = files(folder)
            .into_iter()
            .filter_map(|path| read(&path, Bundle::read_found).map(|bundle| (path, bundle)))
            .filter(|(_, bundle)| fits(bundle))
            .collect();
        if found.len() > 1 {
            let names: Vec<_> = found.iter().map(|(path, _)| path.display().to_string()).collect();
            return Err(Failure::plain(format!(
                "there are several keys for {shown}: name one of them with --key: {}",
                names.join(", ")
            )));
        }
        if let Some(found) = found.pop() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Files `*.pem` of a folder, in order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "pem")).collect();
    paths.sort();
    paths
}

/// Reads a key that the user did not name. A file that is missing or that this user may not read is
/// skipped silently. Another error is printed, since it may explain a later failure.
fn read(path: &Path, how: impl Fn(&Path) -> Result<Bundle, KeyError>) -> Option<Bundle> {
    match how(path) {
        Ok(bundle) => Some(bundle),
        Err(KeyError::Io { error, .. })
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            None
        }
        Err(error) => {
            say!("a key is not used: {error}");
            None
        }
    }
}

/// Warns on standard error if the key has ended or ends soon.
fn tell_end(path: &Path, bundle: &Bundle) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if let Some(told) = end_of(path, bundle, now).map_err(Failure::plain)? {
        say!("{told}");
    }
    Ok(())
}

/// What to tell the user of a key's end at the Unix time `now`, in seconds. There is something to
/// tell once the key has ended or less than a tenth of its validity is left.
fn end_of(path: &Path, bundle: &Bundle, now: i64) -> Result<Option<String>, KeyError> {
    let (from, to) = validity_of(&bundle.certificate)?;
    let renew = format!("`pando auth renew {}`, beside the volume's folder", bundle.identity.name);
    let shown = path.display();
    Ok(match to - now {
        ..=0 => Some(format!("the key in {shown} has expired: {renew}, makes another")),
        left if left < (to - from) / 10 => {
            let left = several((left / 86_400).unsigned_abs(), "day", "days");
            Some(format!("the key in {shown} expires in {left}: {renew}, makes another"))
        }
        _ => None,
    })
}

fn check_volume(path: &Path, bundle: &Bundle, wanted: [u8; 16]) -> Result<(), Failure> {
    let found = bundle.identity.volume;
    if found == wanted {
        return Ok(());
    }
    let [found, wanted] = [found, wanted].map(|id| pando_wire::uuid(&id));
    Err(Failure::plain(format!(
        "{} is a key of volume {found}, and this is {wanted}",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pando_keys::{Authority, Wanted};

    use super::*;

    struct Machine {
        temp: tempfile::TempDir,
        folder: Folder,
        superblock: Superblock,
        places: Places,
    }

    impl Machine {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            let folder = Folder::new(&temp.path().join("volume")).unwrap();
            let superblock = crate::volume::format::format(&folder, 1).unwrap();
            let folders = ["config", "etc"].map(|name| temp.path().join(name)).to_vec();
            folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
            Self { temp, folder, superblock, places: Places { variable: None, folders } }
        }

        /// Writes a key of this volume, or of the volume that is given.
        fn put(&self, path: &str, volume: Option<[u8; 16]>, address: &str) -> PathBuf {
            let volume = volume.unwrap_or_else(|| self.superblock.id());
            let wanted = Wanted {
                role: KeyRole::Client,
                name: "ada".to_owned(),
                read_only: false,
                squash: None,
                days: 1,
                addresses: vec![address.to_owned()],
            };
            let path = self.temp.path().join(path);
            Authority::create(volume).unwrap().issue(&wanted).unwrap().write(&path).unwrap();
            path
        }

        fn chosen(&self, target: &str, file: Option<&PathBuf>) -> Result<Option<PathBuf>, Failure> {
            let named = Named::parse(target)?;
            Ok(choose(&named, file, &self.places)?.map(|(path, _)| path))
        }

        fn shown(&self) -> String {
            self.folder.path().display().to_string()
        }
    }

    #[test]
    fn a_key_that_was_named_goes_before_all_others() {
        let mut machine = Machine::new();
        let (one, two) = (machine.put("one", None, "h:1"), machine.put("two.pem", None, "h:1"));
        let config = machine.put("config/x.pem", None, "h:1");
        for target in [&machine.shown(), "h:1"] {
            assert_eq!(machine.chosen(target, Some(&one)).unwrap(), Some(one.clone()));
        }
        assert_eq!(machine.chosen("h:1", None).unwrap(), Some(config));
        machine.places.variable = Some(two.clone());
        for target in [&machine.shown(), "h:1"] {
            assert_eq!(machine.chosen(target, None).unwrap(), Some(two.clone()));
            assert_eq!(machine.chosen(target, Some(&one)).unwrap(), Some(one.clone()));
        }
        fs::set_permissions(&two, fs::Permissions::from_mode(0o644)).unwrap();
        let failure = machine.chosen("h:1", None).unwrap_err();
        assert!(failure.message.contains("$PANDO_KEY") && failure.message.contains("chmod 600"));
        let missing = machine.temp.path().join("missing.pem");
        let failure = machine.chosen("h:1", Some(&missing)).unwrap_err();
        assert!(failure.message.contains("missing.pem"), "{failure:?}");
    }

    #[test]
    fn the_owner_of_a_folder_has_a_key_in_it() {
        let machine = Machine::new();
        let config = machine.put("config/x.pem", None, "h:1");
        let own = machine.folder.keys().join("admin.pem");
        assert_eq!(machine.chosen(&machine.shown(), None).unwrap(), Some(own.clone()));
        fs::remove_file(own).unwrap();
        assert_eq!(machine.chosen(&machine.shown(), None).unwrap(), Some(config));
    }

    #[test]
    fn a_key_is_found_by_its_volume_or_its_addresses() {
        let machine = Machine::new();
        fs::remove_dir_all(machine.folder.keys()).unwrap();
        machine.put("config/other.pem", Some([9; 16]), "h:2");
        machine.put("config/not-a-key.txt", None, "h:1");
        assert_eq!(machine.chosen(&machine.shown(), None).unwrap(), None);
        let etc = machine.put("etc/a.pem", None, "h:1");
        // Readable by all, so it is skipped with a warning.
        let open = machine.put("config/b.pem", None, "h:1");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o604)).unwrap();
        // Skipped, too: a file of another user, and one that a group may read though root owns it.
        let strange = machine.put("config/c.pem", None, "h:1");
        std::os::unix::fs::chown(&strange, Some(65_534), None).unwrap();
        let of_group = machine.put("config/d.pem", None, "h:1");
        fs::set_permissions(&of_group, fs::Permissions::from_mode(0o640)).unwrap();
        for target in [machine.shown().as_str(), "h:1", "elsewhere:5,h:1"] {
            assert_eq!(machine.chosen(target, None).unwrap(), Some(etc.clone()), "{target}");
        }
        for target in ["h:3", "unix:/run/x"] {
            assert_eq!(machine.chosen(target, None).unwrap(), None, "{target}");
        }
        // The user's folder goes before the machine's.
        let config = machine.put("config/a.pem", None, "h:1");
        assert_eq!(machine.chosen("h:1", None).unwrap(), Some(config));
    }

    #[test]
    fn of_several_keys_none_is_guessed() {
        let machine = Machine::new();
        fs::remove_dir_all(machine.folder.keys()).unwrap();
        let paths = ["config/a.pem", "config/b.pem"].map(|path| machine.put(path, None, "h:1"));
        for target in [machine.shown().as_str(), "h:1"] {
            let failure = machine.chosen(target, None).unwrap_err();
            for path in &paths {
                assert!(failure.message.contains(path.to_str().unwrap()), "{failure:?}");
            }
            assert!(failure.message.contains("--key"), "{failure:?}");
        }
    }

    #[test]
    fn a_keys_end_is_told_while_there_is_time() {
        let machine = Machine::new();
        let path = machine.put("ada.pem", None, "h:1");
        let bundle = Bundle::read(&path).unwrap();
        let (_, to) = validity_of(&bundle.certificate).unwrap();
        let at = |now| end_of(&path, &bundle, now).unwrap();
        assert_eq!(at(to - 86_400), None);
        assert_eq!(at(to - 10_000), None);
        for (now, said) in
            [(to - 1_000, "expires in 0 days"), (to, "has expired"), (to + 9, "has expired")]
        {
            let told = at(now).unwrap();
            assert!(told.contains(said) && told.contains("pando auth renew ada"), "{told}");
        }
    }

    #[test]
    fn a_key_of_another_volume_is_refused_where_the_volume_is_known() {
        let machine = Machine::new();
        let other = machine.put("other.pem", Some([9; 16]), "h:1");
        let failure = machine.chosen(&machine.shown(), Some(&other)).unwrap_err();
        assert!(failure.message.contains("09090909-0909-0909-0909-090909090909"), "{failure:?}");
        assert_eq!(machine.chosen("h:1", Some(&other)).unwrap(), Some(other));
    }
}
