//! `lockhouse verify`.

use clap::Args;
use lockhouse::{Finding, SemaphoreName};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global::Global;

/// Recount all permits, and report wrong counters
///
/// Compares the rows with the promises P1, P2, P3, P7 and P10, in one consistent read. Prints one line for each
/// finding, and exits with 1 if there is one. It needs the store's URL, not a server's.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 nothing is wrong, or --repair corrected it; 1 something is wrong; 64 usage, 69 store
unavailable.

Examples:
  lockhouse verify
  lockhouse verify --repair
  lockhouse verify -o json | jq -r '.findings[].text'")]
pub(crate) struct Verify {
    /// Correct the wrong counters, print their old values, and recount
    #[arg(long)]
    repair: bool,
}

/// A semaphore's counters before the repair.
struct Mended {
    name: SemaphoreName,
    in_use: u32,
    fence: u64,
}

impl Verify {
    pub(super) async fn perform(self, global: &Global) -> Result<Exit, Failure> {
        let lockhouse = global.target()?.connect_to_read(global.output).await?;
        let findings = lockhouse.verify().await?;
        if !self.repair {
            global
                .output
                .print(|| json!({"findings": json(&findings)}), || said(&findings))?;
            return Ok(exit(&findings));
        }
        let mended: Vec<_> = lockhouse
            .repair(&findings)
            .await?
            .into_iter()
            .map(|was| Mended {
                name: was.name,
                in_use: was.in_use,
                fence: was.fence,
            })
            .collect();
        let left = lockhouse.verify().await?;
        global.output.print(
            || {
                let mended: Vec<_> = mended.iter().map(Mended::json).collect();
                json!({"findings": json(&findings), "mended": mended, "left": json(&left)})
            },
            || {
                let found = findings.iter().map(Finding::to_string);
                let lines = found.chain(mended.iter().map(Mended::said));
                lines.chain([said(&left)]).collect::<Vec<_>>().join("\n")
            },
        )?;
        Ok(exit(&left))
    }
}

impl Mended {
    fn said(&self) -> String {
        let Self {
            name,
            in_use,
            fence,
        } = self;
        format!("corrected \"{name}\": it had in_use {in_use} and fence {fence}")
    }

    fn json(&self) -> Value {
        json!({"semaphore": self.name.as_str(), "in_use": self.in_use, "fence": self.fence})
    }
}

fn said(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing is wrong".into();
    }
    let lines: Vec<_> = findings
        .iter()
        .map(|finding| format!("{finding}"))
        .collect();
    lines.join("\n")
}

fn json(findings: &[Finding]) -> Vec<Value> {
    let json = |finding: &Finding| {
        json!({
            "promise": finding.promise,
            "semaphore": finding.semaphore.as_ref().map(SemaphoreName::as_str),
            "text": finding.text,
            "can_be_repaired": finding.can_be_repaired,
        })
    };
    findings.iter().map(json).collect()
}

fn exit(findings: &[Finding]) -> Exit {
    if findings.is_empty() {
        Exit::OK
    } else {
        Exit::REFUSED
    }
}
