//! `pando man`: a page of the manual for each command, from the definition of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::failure::Failure;

#[derive(Args, Debug)]
pub struct ManArgs {
    /// Folder for the pages; it is made if it is missing
    folder: PathBuf,
}

/// Writes pages of commands and their subcommands. A section of the manual stands with each
/// command: 1 for programs, 8 for helpers of the system.
pub fn run(args: &ManArgs, commands: Vec<(Command, u8)>) -> Result<ExitCode, Failure> {
    let shown = args.folder.display();
    let write = || {
        fs::create_dir_all(&args.folder)?;
        commands.into_iter().try_for_each(|(mut command, section)| {
            // `help` is no command that needs a page.
            command = command.disable_help_subcommand(true);
            command.build();
            write_pages(&command, section, &args.folder)
        })
    };
    write().map_err(|error| Failure::plain(format!("cannot write pages to {shown}: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(command: &Command, section: u8, folder: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_pages(inner, section, folder)?;
    }
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(folder.join(format!("{name}.{section}")), page(command, section)?)
}

fn page(command: &Command, section: u8) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .section(section.to_string())
        .source(concat!("Pando ", env!("CARGO_PKG_VERSION")))
        .manual("Pando");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    render_after(&after.map(ToString::to_string).unwrap_or_default(), &mut page)?;
    Ok(page)
}

/// Renders what stands below the options: headings, which end in a colon, and their lines, which
/// are kept as they are.
fn render_after(after: &str, page: &mut Vec<u8>) -> io::Result<()> {
    for line in after.lines() {
        match line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            Some(heading) => {
                let heading = escaped(&heading.to_uppercase());
                writeln!(page, ".fi\n.SH \"{heading}\"\n.nf")?;
            }
            None if line.is_empty() => {}
            None => writeln!(page, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?,
        }
    }
    if !after.is_empty() {
        writeln!(page, ".fi")?;
    }
    Ok(())
}

/// A line of text, of which roff takes nothing for a request or an escape.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_below_options_has_headings_and_keeps_its_lines() {
        let mut page = Vec::new();
        render_after("Exit codes:\n  0  done\n\nExamples:\n  a -b \\c\n  .d", &mut page).unwrap();
        let expected = ".fi\n.SH \"EXIT CODES\"\n.nf\n0  done\n.fi\n.SH \"EXAMPLES\"\n.nf\n\
                        a \\-b \\ec\n\\&.d\n.fi\n";
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }
}
