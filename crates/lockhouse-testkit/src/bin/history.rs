//! Checks the answers that clients of any language got against the promises, and against the rows that are left.
//!
//! `history FOLDER URL`
//!
//! FOLDER has the files with the clients' notes. URL is the URL of their store, which no client may use any more. Prints a
//! line for each broken promise, and a last line that says how much it checked. Exits with 1 if a promise was broken.

use std::path::PathBuf;
use std::process::ExitCode;

use lockhouse_testkit::history::check;
use lockhouse_testkit::{rows, torture};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, url] = &arguments[..] else {
        panic!("history FOLDER URL");
    };
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    let operations: Vec<_> = files
        .iter()
        .flat_map(|file| torture::read_notes(file))
        .collect();
    let mut rows = rows::read(url).await;
    // Leave out permits that servers hold for themselves, such as that of the upkeep.
    rows.semaphores.retain(|row| !is_reserved(&row.name));
    rows.permits.retain(|row| !is_reserved(&row.semaphore));
    let broken = check(&operations, Some(&rows));
    for violation in &broken {
        println!("{violation}");
    }
    println!(
        "{} calls in {} files, and {} permits in the rows; {} breaches",
        operations.len(),
        files.len(),
        rows.permits.len(),
        broken.len()
    );
    ExitCode::from(u8::from(!broken.is_empty()))
}

fn is_reserved(name: &str) -> bool {
    name.starts_with("lockhouse:")
}
