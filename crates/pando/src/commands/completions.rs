//! `pando completions`: a script that completes the command line in a shell.

use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::{Shell, generate};

use crate::console::output;
use crate::failure::Failure;

/// Print the script that completes this program's command line in a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pando completions bash > /usr/share/bash-completion/completions/pando
  pando completions zsh > /usr/share/zsh/vendor-completions/_pando
  pando completions fish > ~/.config/fish/completions/pando.fish")]
pub struct CompletionsArgs {
    /// Shell that runs the script
    #[arg(value_enum)]
    shell: ShellArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
}

/// `command` is the whole command line.
pub fn run(args: &CompletionsArgs, command: &Command) -> Result<ExitCode, Failure> {
    let mut command = without_hidden(command);
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, "pando", &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end());
    Ok(ExitCode::SUCCESS)
}

/// The command line without what help does not show. `clap_complete` would offer that, too.
fn without_hidden(command: &Command) -> Command {
    // A name has to live as long as the process, which ends soon.
    let name: &'static str = Box::leak(command.get_name().to_owned().into_boxed_str());
    let mut shown = Command::new(name);
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if command.get_version().is_some() {
        shown = shown.version(env!("CARGO_PKG_VERSION"));
    }
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.args(arguments).subcommands(inner.map(without_hidden))
}
