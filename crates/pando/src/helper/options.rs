//! Options of mount(8), and the flags of `pando mount` that they stand for.

use std::fmt;

use clap::Args;

use crate::commands::mount::MountArgs;

/// Flags that the helper sets itself, or that belong to a command on a terminal.
const OWN: [&str; 4] = ["detach", "background", "json", "help"];

/// Options that undo a flag. Of an option and its opposite the last one counts.
const OPPOSITES: [(&str, &str); 4] =
    [("rw", "ro"), ("nosuid", "suid"), ("nodev", "dev"), ("exec", "noexec")];

/// Other names of flags. mount(8) takes `suid` and `dev` for the rule and leaves them out, while a
/// mount of Pando has neither unless it is asked for.
const ALIASES: [(&str, &str); 2] = [("allow-suid", "suid"), ("allow-dev", "dev")];

/// Options that concern mount(8) or systemd, or that say how a mount is anyway.
const IGNORED: [&str; 10] = [
    "_netdev",
    "async",
    "auto",
    "defaults",
    "noatime",
    "noauto",
    "nodiratime",
    "nofail",
    "nouser",
    "silent",
];

/// Beginnings of options that are for other programs.
const COMMENTS: [&str; 4] = ["comment=", "uhelper=", "x-", "X-"];

/// Options that let other users mount, and the flags that these users may not have.
const OF_USERS: [(&str, &[&str]); 4] = [
    ("user", &["suid", "dev", "exec"]),
    ("users", &["suid", "dev", "exec"]),
    ("owner", &["suid", "dev"]),
    ("group", &["suid", "dev"]),
];

/// Why an option is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    Unknown {
        option: String,
        possible: Vec<String>,
    },
    /// It needs a value of this kind.
    NoValue {
        option: String,
        value: String,
    },
    /// It has a value, and takes none.
    Value {
        option: String,
    },
    Remount,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { option, possible } => write!(
                f,
                "there is no mount option `{option}` (`mount -s` ignores it). Possible are {}; \
                 and {}, user, owner, comment=, uhelper=, x-*, which change nothing or mount(8) alone",
                possible.join(", "),
                IGNORED.join(", ")
            ),
            Self::NoValue { option, value } => {
                write!(f, "the mount option `{option}` needs a value: write {option}={value}")
            }
            Self::Value { option } => {
                write!(f, "the mount option `{option}` takes no value: write {option} alone")
            }
            Self::Remount => f.write_str(
                "a mount of Pando cannot be remounted: unmount it, and mount it with other options",
            ),
        }
    }
}

/// A flag of `pando mount`, and what its value is called.
struct Flag {
    name: String,
    value: Option<String>,
}

/// All flags that a mount can have.
fn known() -> Vec<Flag> {
    let command = MountArgs::augment_args(clap::Command::new("mount"));
    let flag = |argument: &clap::Arg| {
        let name = argument.get_long().filter(|name| !OWN.contains(name))?.to_owned();
        let value = argument.get_value_names().and_then(|names| names.first());
        let value = value.filter(|_| argument.get_action().takes_values());
        Some(Flag { name, value: value.map(ToString::to_string) })
    };
    command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(flag).collect()
}

/// Flags with their values, in the order in which they were last chosen.
#[derive(Default)]
struct Chosen(Vec<(String, Option<String>)>);

impl Chosen {
    fn drop(&mut self, flag: &str) {
        self.0.retain(|(chosen, _)| chosen != flag);
    }

    fn take(&mut self, flag: &str, value: Option<&str>) {
        self.drop(flag);
        self.0.push((flag.to_owned(), value.map(str::to_owned)));
    }

    /// Takes a flag of `pando mount`.
    fn take_known(&mut self, flag: &Flag, value: Option<&str>) -> Result<(), Refused> {
        let option = flag.name.clone();
        match (&flag.value, value) {
            (Some(wanted), None) => Err(Refused::NoValue { option, value: wanted.clone() }),
            (None, Some(_)) => Err(Refused::Value { option }),
            _ => {
                self.take(&option, value);
                Ok(())
            }
        }
    }

    /// Drops what users who mount may not have. Later options may choose it again.
    fn restrict(&mut self, denied: &[&str]) {
        for flag in denied {
            match *flag {
                "exec" => self.take("noexec", None),
                flag => self.drop(flag),
            }
        }
    }

    fn flags(self) -> Vec<String> {
        let flag = |(name, value)| match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        };
        self.0.into_iter().map(flag).collect()
    }
}

/// The flags that these options stand for. If `is_sloppy`, unknown options are ignored.
pub fn flags(options: &str, is_sloppy: bool) -> Result<Vec<String>, Refused> {
    let known = known();
    let mut chosen = Chosen::default();
    for option in split(options) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option.as_str(), None),
        };
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, flag)| flag);
        if IGNORED.contains(&name) || COMMENTS.iter().any(|comment| option.starts_with(comment)) {
            continue;
        }
        if let Some((_, denied)) = OF_USERS.iter().find(|(user, _)| *user == name) {
            chosen.restrict(denied);
        } else if let Some((_, flag)) = OPPOSITES.iter().find(|(opposite, _)| *opposite == name) {
            chosen.drop(flag);
        } else if let Some(flag) = known.iter().find(|flag| flag.name == name) {
            chosen.take_known(flag, value)?;
        } else if name == "remount" {
            return Err(Refused::Remount);
        } else if !is_sloppy {
            return Err(unknown(name, &known));
        }
    }
    Ok(chosen.flags())
}

fn unknown(name: &str, known: &[Flag]) -> Refused {
    let flags = known.iter().map(|flag| match &flag.value {
        Some(value) => format!("{}={value}", flag.name),
        None => flag.name.clone(),
    });
    let others = ALIASES.iter().chain(&OPPOSITES).map(|(other, _)| (*other).to_owned());
    Refused::Unknown { option: name.to_owned(), possible: flags.chain(others).collect() }
}

/// Splits at commas outside double quotes, and drops the quotes.
fn split(options: &str) -> Vec<String> {
    let (mut all, mut is_quoted) = (vec![String::new()], false);
    for character in options.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(String::new()),
            _ => all.last_mut().expect("there is one from the start").push(character),
        }
    }
    all.retain(|option| !option.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(options: &str) -> Result<String, Refused> {
        flags(options, false).map(|flags| flags.join(" "))
    }

    #[test]
    fn options_are_flags_and_the_last_of_two_counts() {
        for (options, expected) in [
            ("", ""),
            ("rw,defaults,_netdev,nofail,noauto,auto,noatime", ""),
            (
                "x-systemd.automount,x-systemd.requires=/srv,comment=a,uhelper=fuse.pando,X-mount.mkdir",
                "",
            ),
            ("rw,key=/etc/pando/a.pem,ro", "--key=/etc/pando/a.pem --ro"),
            ("ro,rw", ""),
            ("suid,dev,nosuid", "--dev"),
            ("nosuid,allow-suid,allow-dev", "--suid --dev"),
            ("allow-suid,user", "--noexec"),
            ("timeout=5,timeout=never,sync-metadata", "--timeout=never --sync-metadata"),
            (
                "attr-timeout=1,threads=3,metrics=9400",
                "--attr-timeout=1 --threads=3 --metrics=9400",
            ),
            ("objects=\"/a,b\",ro", "--objects=/a,b --ro"),
            ("key=a=b", "--key=a=b"),
            // Users may not have these, unless root allows it after `user`.
            ("suid,dev,exec,user", "--noexec"),
            ("user=ada,exec,suid", "--suid"),
            ("owner,dev", "--dev"),
            ("dev,owner", ""),
            ("noexec,exec", ""),
            ("noexec,nosuid,nodev,user", "--noexec"),
        ] {
            assert_eq!(strict(options).as_deref(), Ok(expected), "{options}");
        }
    }

    #[test]
    fn an_unknown_option_is_named_with_all_that_are_possible() {
        let refused = strict("ro,kee=/a").unwrap_err().to_string();
        for word in
            ["`kee`", "key=FILE", "timeout=SECONDS|never", "sync-metadata", "ro", "nosuid", "-s"]
        {
            assert!(refused.contains(word), "no {word} in {refused}");
        }
        for own in OWN {
            let is_named = refused.split([' ', ',', ';']).any(|word| word == own);
            assert!(!is_named, "{own} in {refused}");
            assert!(matches!(strict(own), Err(Refused::Unknown { .. })), "{own}");
        }
        assert_eq!(flags("kee=/a,ro,x", true).unwrap(), ["--ro"]);
    }

    #[test]
    fn a_value_is_where_the_flag_has_one() {
        let refused = |options: &str| strict(options).unwrap_err().to_string();
        assert!(refused("key").contains("key=FILE"));
        assert!(refused("ro=1").contains("`ro` takes no value"));
        assert!(refused("remount,ro").contains("unmount it"));
    }
}
