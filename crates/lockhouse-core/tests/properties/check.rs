//! Runs a sequence through a `decide`, and returns the rules that it breaks.

use lockhouse_core::{Command, Decision, Loaded, Outcome, Template, Timestamp};

use crate::broken::Broken;
use crate::commit::Commit;
use crate::model::Model;
use crate::promises;
use crate::rows::Rows;
use crate::sequences::Step;

/// The real `decide`, or a broken one.
pub(crate) type Decide = fn(Loaded, &[Command]) -> Decision;

/// Commits each step, and compares it with the model and with the promises. Stops at the first commit that breaks a rule,
/// and returns all rules that it breaks.
pub(crate) fn check(decide: Decide, steps: &[Step]) -> Result<(), Vec<Broken>> {
    let mut rows = Rows::default();
    let mut model = Model::default();
    for step in steps {
        let broken = commit(decide, &mut rows, &mut model, step);
        if !broken.is_empty() {
            return Err(broken);
        }
    }
    Ok(())
}

fn commit(decide: Decide, rows: &mut Rows, model: &mut Model, step: &Step) -> Vec<Broken> {
    let Step {
        now,
        templates,
        finishes,
        commands,
    } = step;
    if let Some(templates) = templates {
        rows.templates.clone_from(templates);
        model.set_templates(*now, templates);
    }
    for id in finishes {
        rows.finish(*now, id);
        model.finish(*now, id);
    }
    let before = rows.clone();
    let decision = decide(rows.load(*now, commands), commands);
    let (outcomes, changes) = model.run(*now, commands);
    let mut broken = Vec::new();
    if decision.outcomes != outcomes {
        let what = format!("{:#?}\nexpected {outcomes:#?}", decision.outcomes);
        broken.push(Broken {
            rule: "answers",
            what,
        });
    }
    if decision.changes != changes {
        let what = format!("{:#?}\nexpected {changes:#?}", decision.changes);
        broken.push(Broken {
            rule: "changes",
            what,
        });
    }
    if let Err(id) = rows.save(&decision.changes) {
        let what = format!("{id} was there and was granted again");
        broken.push(Broken { rule: "P5", what });
        return broken;
    }
    broken.extend(promises::broken_by(&Commit {
        now: *now,
        before: &before,
        commands,
        outcomes: &decision.outcomes,
        after: rows,
    }));
    broken
}

impl Rows {
    /// Replaces all templates, if they change.
    pub(crate) fn set_templates(&mut self, templates: &Option<Vec<Template>>) {
        if let Some(templates) = templates {
            self.templates.clone_from(templates);
        }
    }
}

/// Decides and commits `commands` in batches of `size`, all at `now`.
pub(crate) fn run_in_batches_of(
    size: usize,
    rows: &mut Rows,
    now: Timestamp,
    commands: &[Command],
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for batch in commands.chunks(size) {
        let decision = lockhouse_core::decide(rows.load(now, batch), batch);
        let saved = rows.save(&decision.changes);
        saved.expect("no id is granted twice");
        outcomes.extend(decision.outcomes);
    }
    outcomes
}
