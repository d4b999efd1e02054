//! Every command line of this program in the documents is one that it understands.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use nodewarden_testing::documents::{self, Document, Found};

use super::{Cli, arguments};

fn documents() -> Vec<Document> {
    documents::read(&documents::repository()).unwrap()
}

/// Whether the words are a command line of this program.
fn is_own(words: &[String]) -> bool {
    words.first().is_some_and(|first| first == "nodewarden" || first == "target/debug/nodewarden")
}

fn parse(words: &[String]) -> Result<(), clap::Error> {
    Cli::try_parse_from(arguments::arguments(words.iter().map(OsString::from))).map(|_| ())
}

fn failed(found: &Found, error: &clap::Error) -> String {
    format!("{}: {}\n{error}", found.place, found.text)
}

#[test]
fn commands_in_blocks_are_complete() {
    let mut problems = Vec::new();
    let mut read = 0;
    for found in documents().iter().flat_map(Document::shell_lines) {
        let words = documents::words(&found.text);
        if is_own(&words) {
            read += 1;
            problems.extend(parse(&words).err().map(|error| failed(&found, &error)));
        }
    }
    println!("{read} commands in blocks");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(read >= 60, "only {read} commands were found");
}

/// Within a sentence arguments may be missing, and in capitals stand for something.
#[test]
fn commands_in_sentences_exist() {
    let mut problems = Vec::new();
    let mut read = 0;
    for found in documents().iter().flat_map(Document::inline_code) {
        let words = documents::usage_words(&found.text);
        if !is_own(&words) || words.len() < 2 {
            continue;
        }
        read += 1;
        let Err(error) = parse(&words) else { continue };
        let stands_for = |word: &String| word.chars().any(|c| c.is_ascii_uppercase());
        let tolerated = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => true,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => words.iter().any(stands_for),
            _ => false,
        };
        if !tolerated {
            problems.push(failed(&found, &error));
        }
    }
    println!("{read} commands in sentences");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(read >= 60, "only {read} commands were found");
}
